"""The roles of a job as chart values: what is different in each from the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

from trainwright.datatypes.data import Data
from trainwright.datatypes.job import Job, Ready, Role
from trainwright.documents import yamlio
from trainwright.objects.pods.template import ROLE_LABEL
from trainwright.specs.merge import merge

_CHART = Path(__file__).parents[2] / "chart" / "values.yaml"
_PERIOD = 5  # the most seconds between two probes
# What the run has once, whatever its roles are.
_OF_THE_RUN = frozenset(
    "claims externalSecret createServiceAccount podMonitor networkPolicy podGroup target"
    " fullnameOverride commonLabels labels annotations".split()
)


def with_roles(
    decided: Mapping[str, Data], job: Job, build: Callable[[Job], Mapping[str, Data]]
) -> dict[str, Data]:
    """Return a job's values, with those of its roles and of the objects that the roles need."""
    whole = dict(decided)
    of_roles = {}
    made: tuple[_Named, _Named] = _made(decided)
    for role in job.groups:
        if role.role:
            values = _apart(role.role.name, build(role), made)
            files, secrets = _made(values)
            made = ({**made[0], **files}, {**made[1], **secrets})
            of_roles[role.role.name] = _difference(decided, values)
            whole = _with_supporting(whole, values)
    return {**whole, "roles": of_roles}


_Named: TypeAlias = Mapping[str, Mapping[str, Data]]


def _made(values: Mapping[str, Data]) -> tuple[_Named, _Named]:
    """Return what the run's ConfigMap and Secret hold for a group of pods, by key."""
    files = values.get("files", {}).values()
    kept = {file["key"]: {k: v for k, v in file.items() if k != "key"} for file in files}
    return kept, values.get("externalSecret", {})


def _apart(
    role: str, values: Mapping[str, Data], made: tuple[_Named, _Named]
) -> Mapping[str, Data]:
    """Return the values of a role, with keys of its own for clashing files and secrets.

    They clash if the job or another role has something else by the same key.
    """
    (own_files, own_secrets), (files, secrets) = _made(values), made
    named = dict(values)
    if keys := _renamed(own_files, files, f"{role}-"):
        written = values["files"].items()
        named["files"] = {
            path: {**file, "key": keys.get(file["key"], file["key"])} for path, file in written
        }
    # Those of secrets are variables.
    if keys := _renamed(own_secrets, secrets, f"{role.replace('-', '_')}_"):
        named["externalSecret"] = {
            keys.get(key, key): source for key, source in own_secrets.items()
        }
        named["secretEnv"] = {
            name: {**secret, "key": keys[name]} if name in keys else secret
            for name, secret in values["secretEnv"].items()
        }
    return named


def _renamed(mine: _Named, theirs: _Named, prefix: str) -> dict[str, str]:
    """Return a new key for each of `mine` under whose key `theirs` has something else."""
    taken = {**theirs, **{name: value for name, value in mine.items() if name not in theirs}}
    changed = {}
    for name, value in mine.items():
        free = name
        while taken.get(free, value) != value:
            free = prefix + free
        if free != name:
            changed[name] = free
            taken[free] = value
    return changed


def _with_supporting(whole: Mapping[str, Data], values: Mapping[str, Data]) -> dict[str, Data]:
    """Return the job's values with a role's claims and external secrets added, each name once."""
    merged = dict(whole)
    claims = {
        claim["name"]: claim for claim in (*values.get("claims", ()), *whole.get("claims", ()))
    }
    external = {**values.get("externalSecret", {}), **whole.get("externalSecret", {})}
    if claims:
        merged["claims"] = [claims[name] for name in sorted(claims)]
    if external:
        merged["externalSecret"] = dict(sorted(external.items()))
    return merged


def _difference(job: Mapping[str, Data], role: Mapping[str, Data]) -> dict[str, Data]:
    """Return the values in which a role differs from its job, whole, as the chart merges none."""
    usual = _defaults()
    return {
        key: mine
        for key in sorted({*job, *role} - _OF_THE_RUN)
        if (mine := merge(usual[key], role.get(key, usual[key])))
        != merge(usual[key], job.get(key, usual[key]))
    }


@cache
def _defaults() -> Mapping[str, Data]:
    """Return the chart's own values."""
    defaults: Mapping[str, Data] = yamlio.load_rendered(_CHART.read_text(encoding="utf-8"))[0]
    return defaults


def probed(role: Role) -> dict[str, Data]:
    """Return the port of a role's pod, and the probes that tell the kubelet when it serves."""
    pod_values: dict[str, Data] = {"podLabels": {ROLE_LABEL: role.name}}
    if role.port is not None:
        pod_values["ports"] = [{"name": "serving", "containerPort": role.port, "protocol": "TCP"}]
    probe = _probe(role)
    if probe is None:
        return pod_values
    within = (role.ready or Ready()).within
    period = next(n for n in range(_PERIOD, 0, -1) if within % n == 0)
    started = {**probe, "periodSeconds": period, "failureThreshold": within // period}
    return {
        **pod_values,
        "readinessProbe": {**probe, "periodSeconds": _PERIOD},
        "startupProbe": started,
    }


def _probe(role: Role) -> dict[str, Data] | None:
    ready = role.ready or Ready()
    if ready.command:
        return {"exec": {"command": list(ready.command)}}
    if role.port is None:
        return None
    if ready.path:
        return {"httpGet": {"path": ready.path, "port": role.port}}
    return {"tcpSocket": {"port": role.port}}
