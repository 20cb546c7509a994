"""Refuses fields of rendered pods that an API server would drop, at the line that requests them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.kinds import TARGETS
from trainwright.kinds.capabilities import apart_from_code
from trainwright.kinds.pruned import Pruned, are_versioned, pruned
from trainwright.kinds.target import Unsupported
from trainwright.objects.pods import code
from trainwright.specs import authored

if TYPE_CHECKING:
    from trainwright.render.patched import Patched

_DROPPED = "the API server would drop it"
_REMEDY = "Remove it, or use another target."
# For some fields, what would be lost says more than the field's name.
_WORDS: Mapping[str, tuple[str, str]] = {
    "/initContainers/*/restartPolicy": (
        "have no sidecars: the API server would drop restartPolicy, and the training would wait "
        "for the container's end",
        _REMEDY,
    ),
    "/volumes/*/image": (
        f"have no volumes of images: {_DROPPED}",
        "Put the files into the image or a claim, or use another target.",
    ),
}


def refusals(
    manifests: Sequence[Manifest],
    job: Job,
    environment: Environment,
    spec: Mapping[str, Data],
    patched: Patched | None = None,
) -> Iterator[Unsupported]:
    """Yield everything that the definition of the target lacks, each field of the spec once."""
    version = environment.targets[job.target].version
    plain = {
        _place(m, dropped)
        for m in (patched.plain if patched else ())
        for dropped in pruned(m, version)
    }
    by_pointer: dict[Pointer, Unsupported] = {}
    for manifest in manifests:
        whose = f"the pods of a {TARGETS[job.target].kind}"
        if version and are_versioned(manifest):
            whose += f" of operator {version}"
        # A resource claim of the pod comes before its containers' references to it.
        for dropped in sorted(
            pruned(manifest, version), key=lambda dropped: len(dropped.field.parts)
        ):
            if patched and _place(manifest, dropped) not in plain:
                at = patched.at(manifest, dropped.pointer)
            else:
                at = _written(dropped, lookup(manifest.body, dropped.pod), job, spec)
            message, remedy = _words(dropped.field)
            by_pointer.setdefault(at, Unsupported(at, f"{whose} {message}", remedy))
    yield from apart_from_code(by_pointer.values(), job)


def _place(manifest: Manifest, dropped: Pruned) -> tuple[str, str, Pointer]:
    return manifest.kind, manifest.name, dropped.pointer


def _words(field: Pointer) -> tuple[str, str]:
    matches = (words for pattern, words in _WORDS.items() if field.matches(pattern))
    return next(matches, (f"do not have {_name(field)}: {_DROPPED}", _REMEDY))


def _name(field: Pointer) -> str:
    """Return Kubernetes' name of a field in a pod or container: lifecycle.preStop.sleep."""
    keys = [key for key in field.parts if not key.isdecimal()]
    return ".".join(keys[1:] if keys[0].endswith("ontainers") else keys)


def _written(
    dropped: Pruned, pod: Mapping[str, Data], job: Job, spec: Mapping[str, Data]
) -> Pointer:
    """Return the field of a job that a field of a rendered pod comes from, or its name."""
    holder, *rest = dropped.field.parts
    if not holder.endswith("ontainers"):
        return authored.of_pod(dropped.field, pod) or Pointer("/name")
    container, inside = pod[holder][int(rest[0])], Pointer.of(*rest[1:])
    if holder == "initContainers":
        return authored.of_init_container(container, inside, spec) or Pointer.of(
            holder, str(container.get("name"))
        )
    if inside.parts[0] == "volumeMounts":
        return _mount(lookup(container, Pointer.of(*inside.parts[:2])), job) / inside.last
    return authored.of_training(inside, container) or Pointer("/name")


def _mount(mount: Mapping[str, Data], job: Job) -> Pointer:
    """Return the pointer to what a job mounts in its container at a path."""
    places = chain.from_iterable(volume.places for volume in job.volumes)
    matches = (at for at, place in places if place.mount_path == mount["mountPath"])
    return next(matches, Pointer.of("volumes", code.NAME))
