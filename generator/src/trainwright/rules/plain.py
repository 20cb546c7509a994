"""Plain pods: the common fields alone, each in a common form, and names that agree. Most are so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.documents.validation.schema import Schema
from trainwright.rule_model.subject import Subject

_SCHEMA = Path(__file__).with_suffix(".schema.json")
_PLAIN = Schema(json.loads(_SCHEMA.read_text("utf-8")), ())


def is_plain(subject: Subject) -> bool:
    """Whether the pods of an object, and its own metadata, are plain. Told in 8 µs, it saves each
    of many rules its own look at them.
    """
    pods = [template.body for template in subject.unlike]
    plain = _PLAIN.accepts({"metadata": subject.metadata, "pods": pods})
    return plain and all(_agree(pod["spec"]) for pod in pods)


def _agree(pod: Mapping[str, Data]) -> bool:
    """Whether a pod that the schema accepts mounts what volumes it has, none inside of another, and
    names nothing twice.
    """
    (container,) = pod["containers"]
    mounts, env = container.get("volumeMounts", ()), container.get("env", ())
    volumes = sorted(volume["name"] for volume in pod.get("volumes", ()))
    paths = sorted(f"{mount['mountPath']}/" for mount in mounts)
    return (
        volumes == sorted({mount["name"] for mount in mounts})
        and len({variable["name"] for variable in env}) == len(env)
        and not any(inner.startswith(outer) for outer, inner in pairwise(paths))
    )
