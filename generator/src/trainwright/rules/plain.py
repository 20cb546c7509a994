"""Plain pods: the common fields alone, each in a common form, and names that agree. Most are so."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.documents.validation.schema import Schema
from trainwright.objects.pods.template import once
from trainwright.rule_model.subject import Subject

_SCHEMA = Path(__file__).with_suffix(".schema.json")
_PLAIN = Schema(json.loads(_SCHEMA.read_text("utf-8")), ())


@once
def is_plain(subject: Subject) -> bool:
    """Whether the pods of an object, and its own metadata, are plain. Told in 8 µs, it saves each
    of many rules its own look at them.
    """
    pods = [template.body for template in subject.unlike]
    plain = _PLAIN.accepts({"metadata": subject.metadata, "pods": pods})
    return plain and all(_agree(pod["spec"]) for pod in pods)


def _agree(pod: Mapping[str, Data]) -> bool:
    """Whether a pod that the schema accepts mounts what volumes it has, none inside of another,
    names nothing twice, and requests as many accelerators as its limits say.
    """
    (container,) = pod["containers"]
    mounts = container.get("volumeMounts", ())
    volumes = pod.get("volumes", ())
    paths = sorted(f"{mount['mountPath']}/" for mount in mounts)
    resources = container.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    return (
        _differ(volumes, "name")
        and {volume["name"] for volume in volumes} == {mount["name"] for mount in mounts}
        and not any(inner.startswith(outer) for outer, inner in pairwise(paths))
        and _differ(container.get("env", ()), "name")
        and _differ(container.get("ports", ()), "name")
        and _differ(container.get("ports", ()), "containerPort")
        and all(limits.get(name) == requests[name] for name in requests if "/" in name)
    )


def _differ(items: Collection[Mapping[str, Data]], key: str) -> bool:
    return len(items) < 2 or len({item[key] for item in items}) == len(items)
