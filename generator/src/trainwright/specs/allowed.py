"""Settings that take more than a share of a node or cluster, which an environment has to allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.job import CONTAINERS
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.findings import diagnostics as dx
from trainwright.specs.merge import Layered

# Layers that may be written by people other than those who write environment.yaml.
_OF_JOBS = frozenset({"defaults", "base", "job"})
_HOST = ("hostNetwork", "hostIPC", "hostPID")
_PATCH = Pointer("/podPatch")
_TOKEN = "serviceAccountToken"  # noqa: S105 - the name of a field


def problems(spec: Layered, environment: Environment) -> Iterator[Finding]:
    """Yield each use of what the environment does not allow, at the line of the job or of a layer
    that it shares with other jobs. What environment.yaml itself sets is allowed.
    """
    for name, at in uses(spec.data):
        yield from refused(name, at, spec, environment)


def refused(name: str, at: Pointer, spec: Layered, environment: Environment) -> Iterator[Finding]:
    """A use of something by its name in `allow`, where the environment does not allow it."""
    if name not in environment.allow and spec.setter(at).label in _OF_JOBS:
        message = f"{at.dotted} is not allowed in {environment.name}"
        if name not in at.parts:
            message = f"{at.dotted}: {name} is not allowed in {environment.name}"
        remedy = f"Remove it, or add {name} to allow in environment.yaml."
        yield dx.NOT_ALLOWED.at(spec.key_origin(at), message, remedy=remedy, path=at)


def uses(data: Mapping[str, Data]) -> Iterator[tuple[str, Pointer]]:
    """Yield what a spec uses that has to be allowed, by its name in `allow`, and where."""
    for name in (*_HOST, "serviceAccountToken"):
        if data.get(name) is True:
            yield name, Pointer.of(name)
    holders = [Pointer()]
    for kind in CONTAINERS:
        holders += [Pointer.of(kind, name) for name in data.get(kind) or {}]
    for holder in holders:
        at = holder / "security" / "privileged"
        if lookup(data, at) is True:
            yield "privileged", at
    for name, volume in (data.get("volumes") or {}).items():
        if isinstance(volume, dict) and opens_the_api(volume):
            yield "serviceAccountToken", Pointer.of("volumes", name, "projected")
    if data.get(_PATCH.last):
        yield _PATCH.last, _PATCH
        yield from _uses_of_patch(data)


def opens_the_api(volume: Mapping[str, Data]) -> bool:
    """Whether a volume has a token for the API server; a token for others names its audience.

    https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#serviceaccount-token-volume-projection
    """
    sources = lookup(volume, Pointer("/projected/sources"))
    tokens = (
        source.get(_TOKEN)
        for source in sources or ()
        if isinstance(source, dict) and _TOKEN in source
    )
    return any(not isinstance(token, dict) or not token.get("audience") for token in tokens)


def _uses_of_patch(data: Mapping[str, Data]) -> Iterator[tuple[str, Pointer]]:
    """Yield what a pod patch uses that has to be allowed, by its name in `allow`, and where."""
    spec = _PATCH / "spec"
    fields = {
        **{name: name for name in _HOST},
        "automountServiceAccountToken": "serviceAccountToken",
    }
    for field, name in fields.items():
        if lookup(data, spec / field) is True:
            yield name, spec / field
    for kind in ("containers", "initContainers"):
        for index in range(len(lookup(data, spec / kind) or ())):
            at = spec / kind / index / "securityContext" / "privileged"
            if lookup(data, at) is True:
                yield "privileged", at
