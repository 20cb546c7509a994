"""What a run's rendered files start in a cluster, regardless of its spec."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields

from trainwright.datatypes.data import Data, mapping, mappings, sequence
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.findings.credentials import redact
from trainwright.kinds import TARGETS
from trainwright.kinds.target import Target
from trainwright.plan.model import PlannedRun
from trainwright.plan.training import documents
from trainwright.reports.comment import by_turns
from trainwright.runs.record import VALUES_FILE

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_HOST = ("hostNetwork", "hostPID", "hostIPC")


@dataclass(frozen=True, slots=True)
class Running:
    """What reviewers look at in a run: everything its pods have, without duplicates, in order.

    `objects` are those other than the workload itself, as "Kind/name".
    """

    images: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    privileges: tuple[str, ...] = ()
    host_paths: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()

    def without(self, other: Running) -> Running:
        """Return what this has and `other` lacks."""
        return Running(
            *(_less(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )


NOTHING = Running()


def running(run: PlannedRun | None) -> Running:
    """Return what a run starts according to its files."""
    if run is None or not run.files:
        return NOTHING
    bodies = [
        body
        for name, text in sorted(run.files.items())
        if name != VALUES_FILE
        for body in documents(run, name, text)
    ]
    pods = [pod for body in bodies for pod in _pods(body)]
    containers = [
        container for key in _CONTAINERS for pod in pods for container in mappings(pod.get(key))
    ]
    return Running(
        images=_once(str(container["image"]) for container in containers if "image" in container),
        commands=_once(filter(None, map(_command, containers))),
        accounts=_once(
            str(pod[key])
            for pod in pods
            for key in ("serviceAccountName", "serviceAccount")
            if pod.get(key)
        ),
        privileges=_once(
            (
                *(key for pod in pods for key in _HOST if pod.get(key)),
                *(it for container in (*pods, *containers) for it in _privileges(container)),
            )
        ),
        host_paths=_once(
            str(mapping(volume.get("hostPath")).get("path"))
            for pod in pods
            for volume in mappings(pod.get("volumes"))
            if "hostPath" in volume
        ),
        objects=_once(_beside(bodies, TARGETS[run.target])),
    )


def _pods(data: Data) -> Iterator[Mapping[str, Data]]:
    """Everything that has the shape of a pod's spec."""
    if isinstance(data, Mapping):
        if isinstance(data.get("containers"), list):
            yield data
        for value in data.values():
            yield from _pods(value)
    elif isinstance(data, list):
        for item in data:
            yield from _pods(item)


def _command(container: Mapping[str, Data]) -> str:
    words = (*sequence(container.get("command")), *sequence(container.get("args")))
    # Words are redacted before they are quoted: a word's own quotes, escaped for the shell, would
    # hide a credential in it.
    return shlex.join(redact(str(word)) for word in words)


def _privileges(holder: Mapping[str, Data]) -> Iterator[str]:
    """Yield the privileges that the securityContext of a pod or a container grants."""
    context = mapping(holder.get("securityContext"))
    for key in ("privileged", "allowPrivilegeEscalation"):
        if context.get(key):
            yield key
    if context.get("runAsUser") == 0:
        yield "runs as root"
    for capability in sequence(mapping(context.get("capabilities")).get("add")):
        yield f"capability {capability}"


def _beside(documents: Iterable[Data], target: Target) -> Iterator[str]:
    seen = False
    for document in documents:
        body = mapping(document)
        if target.makes(Manifest(body=body)) and not seen:
            seen = True
            continue
        yield f"{body.get('kind')}/{mapping(body.get('metadata')).get('name')}"


def _once(values: Iterable[str]) -> tuple[str, ...]:
    """Drop duplicates and put one item of every sort first, so that no sort crowds out another."""
    return tuple(
        by_turns(dict.fromkeys(values), lambda value: re.split("[ /]", value, maxsplit=1)[0])
    )


def _less(values: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(value for value in values if value not in others)
