"""The canonical form of a job: defaults are left out, and of equivalent spellings one is used.

Two specs that differ in nothing else are the same run, with the same name and the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeVar

from trainwright.datatypes.data import Data
from trainwright.datatypes.job import Container, File, Job, Resources, ValueFrom, Variable
from trainwright.datatypes.volumes import Mount, Volume
from trainwright.objects.pods.command import UNASKED_CHECKS
from trainwright.objects.pods.launchers import LAUNCHERS, NUMBER, SWITCH, TEXT, Takes, Whole, plain

_LOGS = "FallbackToLogsOnError"  # of the chart, for the container that trains
_MODE = "0644"  # https://kubernetes.io/docs/concepts/configuration/configmap/
# Switches of volume sources that are off by default.
_OFF = {"configMap": "optional", "secret": "optional", "nfs": "readOnly"}
_OFF |= {"persistentVolumeClaim": "readOnly"}
_SIDECAR = {"restartPolicy": "Always"}

V = TypeVar("V")


def canonical(job: Job) -> Job:
    """Return the job in its canonical form; the same object if it is written like that."""
    return _with(
        job,
        {
            "launcher_options": _options(job),
            "preflight": _preflight(job.preflight),
            "resources": _resources(job.resources),
            "env": _variables(job.env),
            "volumes": _each(_volume, job.volumes),
            "files": _each(_file, job.files),
            **_containers(job),
            "working_dir": _unless(job.working_dir, job.code.mount_path if job.code else ""),
            "termination_message_policy": _unless(job.termination_message_policy, _LOGS),
            "roles": _each(canonical, job.roles),
        },
    )


def _unless(text: str, default: str) -> str:
    return "" if text == default else text


def _with(value: V, fields: Mapping[str, Any]) -> V:
    """Return a frozen value with the given fields; the same object if they are unchanged."""
    other = {name: new for name, new in fields.items() if new != getattr(value, name)}
    changed: V = replace(value, **other) if other else value  # type: ignore[type-var]
    return changed


def _each(read: Callable[[V], V], values: tuple[V, ...]) -> tuple[V, ...]:
    return tuple(map(read, values))


# --- the command -----------------------------------------------------------------------------


def _options(job: Job) -> dict[str, Data]:
    """Return options of the launcher by their names with dashes, without switches that are off."""
    kinds = LAUNCHERS[job.launcher].options
    named = {plain(name): value for name, value in job.launcher_options.items()}
    return {
        name: _option(kinds.get(name, TEXT), value)
        for name, value in named.items()
        if not (kinds.get(name) == SWITCH and value is False)
    }


def _option(takes: Takes, value: Data) -> Data:
    """Return an option's value as the type it takes, if that prints the same; else unchanged."""
    if isinstance(takes, Whole) or takes == NUMBER:
        number = _number(value) if isinstance(value, str) else value
        return number if str(number) == str(value) else value
    return value if isinstance(value, bool) else str(value)


def _number(text: str) -> int | float | None:
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return None


def _preflight(checks: Mapping[str, Data]) -> dict[str, Data]:
    """Return the preflight checks that are switched on or off contrary to their default."""
    return {
        name: wanted
        for name, wanted in checks.items()
        if wanted is not UNASKED_CHECKS.get(name, False)
    }


# --- the pod ---------------------------------------------------------------------------------


def _resources(declared: Resources) -> Resources:
    """Return resources whose `request_…` fields are set only if there is no limit."""
    memory = _halves(declared.memory, declared.request_memory, declared.limit_memory)
    disk = _halves(
        declared.ephemeral_storage,
        declared.request_ephemeral_storage,
        declared.limit_ephemeral_storage,
    )
    return _with(
        declared,
        {
            "cpu": declared.request_cpu or declared.cpu,
            "request_cpu": "",
            **dict(zip(("memory", "request_memory", "limit_memory"), memory, strict=True)),
            **dict(zip(_DISK, disk, strict=True)),
        },
    )


_DISK = ("ephemeral_storage", "request_ephemeral_storage", "limit_ephemeral_storage")


def _halves(both: str, request: str, limit: str) -> tuple[str, str, str]:
    """Return `both`, `request` and `limit`, with `both` in place of a request where possible."""
    most = limit or both
    if not request:
        return both, "", limit
    return (request, "", _unless(most, request)) if most else ("", request, "")


def _variables(written: Mapping[str, Variable]) -> dict[str, Variable]:
    return {name: _variable(value) for name, value in written.items()}


def _variable(value: Variable) -> Variable:
    amount = value.source.get("resourceFieldRef") if isinstance(value, ValueFrom) else None
    if amount is None or amount.get("divisor") != "1":
        return value
    return ValueFrom({"resourceFieldRef": {"resource": amount["resource"]}})


def _volume(volume: Volume) -> Volume:
    """Return a volume whose first mount is its own."""
    mounts = _each(_mount, volume.mounted)
    source = {kind: _source(kind, value) for kind, value in volume.source.items()}
    if not mounts:
        return _with(volume, {"source": source})
    first, *further = mounts
    return _with(
        volume,
        {
            "source": source,
            "mount_path": first.mount_path,
            "sub_path": first.sub_path,
            "sub_path_expr": first.sub_path_expr,
            "read_only": first.read_only,
            "mount_propagation": first.mount_propagation,
            "recursive_read_only": first.recursive_read_only,
            "mounts": tuple(further),
        },
    )


def _source(kind: str, value: Data) -> Data:
    off = _OFF.get(kind)
    if off is None or value.get(off) is not False:
        return value
    return {key: item for key, item in value.items() if key != off}


def _mount(mount: Mount) -> Mount:
    return _with(
        mount,
        {
            "mount_propagation": _unless(mount.mount_propagation, "None"),
            "recursive_read_only": _unless(mount.recursive_read_only, "Disabled"),
        },
    )


def _file(file: File) -> File:
    return _with(file, {"mode": _unless(file.mode, _MODE)})


def _containers(job: Job) -> dict[str, tuple[Container, ...]]:
    """Return init containers and sidecars; trailing init containers that go on are sidecars."""
    written = _each(_container, job.init_containers)
    last = tuple(takewhile(_goes_on, reversed(written)))[::-1]
    ending = written[: len(written) - len(last)]
    sidecars = (*last, *_each(_container, job.sidecars))
    return {"init_containers": ending, "sidecars": _each(_sidecar, sidecars)}


def _goes_on(container: Container) -> bool:
    return container.parts.items() >= _SIDECAR.items()


def _sidecar(container: Container) -> Container:
    parts = {key: value for key, value in container.parts.items() if key not in _SIDECAR}
    return _with(container, {"parts": parts})


def _container(container: Container) -> Container:
    mounts = {volume: _each(_mount, own) for volume, own in container.mounts.items()}
    return _with(container, {"env": _variables(container.env), "mounts": mounts})
