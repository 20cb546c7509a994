"""Objects that no spec can express: several roles, and kinds of other operators.

Their job has what git needs to know about them: how many accelerators they hold, in which pool
and queue, and in which state. What they run is only in the object itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from trainwright.datatypes.data import Data, dig, integer, mapping, sequence, stated
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import lookup
from trainwright.importing.candidate import duration
from trainwright.importing.choice import refuse_unknown
from trainwright.importing.convert import Imported, job_name
from trainwright.importing.source import Source
from trainwright.importing.trial import ImportContext
from trainwright.kinds import ADOPTED, trains
from trainwright.kinds.adopted.pod_templates import of_any_kind
from trainwright.kinds.kind import Kind
from trainwright.kinds.reading import SourceObject
from trainwright.objects.bundle import Bundle
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.pods.image_reference import in_spec
from trainwright.objects.pods.template import PodTemplate

# What a job would otherwise have of its environment's defaults, and the object has not.
_INHERITED = ("maxDuration", "queue", "pool", "elastic")
_DEADLINES = (("runPolicy", "activeDeadlineSeconds"), ("activeDeadlineSeconds",))


def source(part: SourceObject, why: str) -> Source:
    """Return an object as a workload to adopt unchanged, with why no spec can express it."""
    return Source(kind=part.kind, name=part.name, target=ADOPTED.name, parts=(part,), unsaid=why)


def is_adoptable(part: SourceObject) -> bool:
    """Whether an object of a kind that specs lack trains: a server only if it has accelerators."""
    templates = tuple(of_any_kind(part, Bundle()))
    if trains(part) is None or not templates:
        return False
    is_server = part.group_kind.group == "apps"
    return not is_server or any(template.accelerators for template in templates)


def adopted(workload: Source, place: ImportContext, pool: str, name: str) -> Imported:
    """Return the job of such an object. Raise ImportingError for an unknown pool."""
    manifest, kind = workload.parts[0], trains(workload.parts[0])
    assert kind is not None
    called = job_name(name or workload.name)
    spec = {
        "apiVersion": "trainwright.io/v1alpha1",
        "kind": "JobSpec",
        "name": called,
        "target": ADOPTED.name,
        **_spec(manifest, kind, place.environment, pool),
    }
    left = {key: None for key in _INHERITED if place.inherited.get(key) and key not in spec}
    return Imported(
        source=replace(workload, name=called),
        file=JobFile(place.name, called),
        spec={**spec, **left},
        left=(),
        added=(),
        notes=(
            f"no spec says what it is: {workload.unsaid}",
            "it has no next run",
            *(() if spec.get("pool") else ("it is in no pool, whose capacity it could take",)),
        ),
        accounts=(),
    )


def _spec(manifest: Manifest, kind: Kind, environment: Environment, wanted: str) -> dict[str, Data]:
    """Return a spec with what it can tell of an object that no spec can express."""
    templates = tuple(of_any_kind(manifest, Bundle()))
    leading = max(templates, key=_accelerators)
    main = mapping(leading.main.body) if leading.main else {}
    pool = _pool(leading, environment, wanted)
    seconds = next(
        (limit for at in _DEADLINES if (limit := integer(dig(manifest.spec, *at)))), None
    )
    queue = manifest.labels.get(QUEUE_LABEL, "")
    suspended = kind.suspend and lookup(manifest.body, kind.suspend)
    fields = {
        "image": {"repository": "none", **in_spec(str(main.get("image", "")))},
        "entrypoint": _entrypoint(main),
        **_size(templates, counted=bool(pool)),
        "pool": pool,
        "queue": queue if environment.queueing == "kueue" else "",
        "maxDuration": duration(seconds),
        "state": "suspended" if suspended else "",
    }
    return stated(fields)


def _entrypoint(main: Mapping[str, Data]) -> dict[str, Data]:
    words = [str(word) for key in ("command", "args") for word in sequence(main.get(key))]
    return {"argv": words} if main.get("command") else {"image": True}


def _accelerators(template: PodTemplate) -> int:
    return template.replicas * sum(template.accelerators.values())


def _size(templates: tuple[PodTemplate, ...], *, counted: bool) -> dict[str, Data]:
    """Return the size as equal nodes that hold all accelerators; if uncounted, as all pods."""
    holding = [template for template in templates if _accelerators(template)]
    total = sum(map(_accelerators, holding))
    if not (total and counted):
        return {"nodes": max(1, sum(template.replicas for template in templates))}
    each = gcd(*(sum(template.accelerators.values()) for template in holding))
    return {"nodes": total // each, "resources": {"gpu": each}}


def _pool(template: PodTemplate, environment: Environment, wanted: str) -> str:
    """Return the named pool, or the first whose nodes the template requests, or "".

    Raise ImportingError for an unknown pool.
    """
    refuse_unknown(environment, wanted)
    selector = mapping(template.spec.get("nodeSelector"))
    fitting = (
        pool.name
        for pool in environment.pools.values()
        if pool.resource in (*template.accelerators, "")
        and bool(template.accelerators) == bool(pool.resource)
        and all(selector.get(key) == value for key, value in pool.node_selector.items())
    )
    return wanted or next(fitting, "")
