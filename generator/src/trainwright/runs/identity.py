"""The names of runs: each run has one object name, which never changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import is_dataclass
from typing import Any

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import ChartSource, Environment
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import Pointer, lookup, with_value
from trainwright.datatypes.same import digest_of_data
from trainwright.helm.values.canonical import canonical
from trainwright.kinds import TARGETS
from trainwright.kinds.target import POOL, Fact
from trainwright.objects.pods.flags import flag_arguments
from trainwright.runs.fields import UNNAMED, UNTOUCHED, with_operation

MAX_NAME = 63  # a DNS label, RFC 1035; pods and services are named after the object


def spec_hash(job: Job, environment: Environment, replaced: str = "") -> str:
    """Return the SHA-256, in hex, of everything that decides what a run trains and where.

    That is the effective spec, and those facts of the environment that its kind renders. Order
    of keys, comments, explicit defaults and other spellings of the same argument or amount make no
    difference. Neither do facts that only annotate the object, or say where it is.

    `replaced` is the object of the run that this one replaces: a spec that goes back to what it was
    is another run, because the object of the earlier one may still be in the cluster.
    """
    decisive = _decisive(job, environment)
    canonical = _meaning(job, environment, decisive)
    canonical["environment"] = {k: v for k, v in decisive.items() if k != "pools"}
    if replaced:
        canonical["replaced"] = replaced
    return digest_of_data(canonical)


def object_name(job: Job, digest: str) -> str:
    """Return the name of the run's object: the job's name and eight digits of the spec's hash."""
    return f"{job.name}-{digest[:8]}"


def is_of(job: str, name: str) -> bool:
    """Whether an object of that name is a run of the job."""
    return name.rpartition("-")[0] == job


def meaning(job: Job, environment: Environment) -> dict[str, Data]:
    """Return what a job means, as plain data that is equal for two specs that train the same.

    Empty values are left out, so that a field added to the spec later leaves existing names alone.
    Operational fields are left out, except for the nodes that a queue leaves to its flavors.
    """
    return _meaning(job, environment, _decisive(job, environment))


def _meaning(job: Job, environment: Environment, placed: Mapping[str, Data]) -> dict[str, Data]:
    job = canonical(with_operation(job, UNTOUCHED))
    fields = _canonical(job, UNNAMED | {"pool", "flags", "flag_style", "files", "roles"})
    if job.files:  # the bytes, wherever they come from
        fields["files"] = {file.name: [file.digest, file.mode] for file in job.files}
    if job.flags:
        fields["flags"] = flag_arguments(job.flags, job.flag_style)
    if job.pool:  # what it stands for, not its name
        fields["pool"] = placed["pools"][job.pool.name]
    if "resources" in fields:
        fields["resources"] = _amounts(fields["resources"])
    for role in job.roles:
        assert role.role is not None
        served = {**meaning(role, environment), "serves": _plain(role.role)}
        fields.setdefault("roles", {})[role.role.name] = served
    return fields


def _amounts(resources: Mapping[str, Data]) -> dict[str, Data]:
    """Return resources as numbers, without memory and ephemeral-storage limits that equal the
    request, which they do by default.
    """
    amounts = {key: amount(item) for key, item in resources.items()}
    for name in ("memory", "ephemeral_storage"):
        if amounts.get(f"limit_{name}") == amounts.get(name):
            amounts.pop(f"limit_{name}", None)
    return amounts


def facts(job: Job, environment: Environment, without: Collection[Fact] = ()) -> dict[str, Data]:
    """Return what a run records of its environment, in the shape of environment.yaml.

    That is what its rendered bytes depend on, where its object is, and who applies it. Defaults
    are written out: a run must not depend on the defaults of a later version.
    """
    located = {"namespace": environment.namespace, "gitops": _gitops(environment)}
    return located | _decisive(job, environment, without)


def unrecorded_facts(
    recorded: Mapping[str, Data], job: Job, environment: Environment
) -> tuple[Fact, ...]:
    """Return the facts that a record lacks, though they have a value where its run began.

    The version that wrote the record did not know them.
    """
    return tuple(
        fact
        for fact in TARGETS[job.target].facts
        if any(
            fact.value(group, environment) and lookup(recorded, _path(fact, group)) is None
            for group in job.groups
        )
    )


def known_facts(recorded: Mapping[str, Data], job: Job) -> dict[str, Data]:
    """Return the recorded facts of a job without those that this version no longer knows."""
    kept = {key: recorded[key] for key in ("namespace", "gitops", "pools") if key in recorded}
    pools = {group.pool.name for group in job.groups if group.pool} & set(recorded.get("pools", {}))
    if pools:
        kept["pools"] = {name: {} for name in sorted(pools)}
    for fact in TARGETS[job.target].facts:
        for path in (_path(fact, group) for group in job.groups):
            value = lookup(recorded, path)
            if value is not None:
                kept = with_value(kept, path, value)
    return kept


def _decisive(
    job: Job, environment: Environment, without: Collection[Fact] = ()
) -> dict[str, Data]:
    """Return the facts of the environment that change what the job's target renders."""
    groups = job.groups
    pools: dict[str, Data] = {group.pool.name: {} for group in groups if group.pool}
    decisive: dict[str, Data] = {"pools": pools} if pools else {}
    for fact in TARGETS[job.target].facts:
        for group in () if fact in without else groups:
            if value := fact.value(group, environment):
                decisive = with_value(decisive, _path(fact, group), value)
    return decisive


def _path(fact: Fact, job: Job) -> Pointer:
    return Pointer.of(*(job.pool.name if key == POOL and job.pool else key for key in fact.path))


def _gitops(environment: Environment) -> dict[str, Data]:
    gitops = environment.gitops
    settings: dict[str, Data] = {"engine": gitops.engine, "prune": gitops.prune}
    if gitops.mode == "chart":  # the engine renders the run again at each sync, with this chart
        settings |= {"mode": "chart", "chart": _chart(gitops.chart_of_new_runs)}
    return settings


def _chart(chart: ChartSource) -> dict[str, Data]:
    """Return where a run gets its chart from, leaving out a branch, which pins nothing."""
    revision = chart.revision if chart.pinned else ""
    named = {"oci": chart.oci, "version": chart.version, "url": chart.url, "path": chart.path}
    return {key: value for key, value in {**named, "revision": revision}.items() if value}


def _canonical(value: Any, skip: frozenset[str]) -> dict[str, Data]:
    fields = {}
    for name in value.__dataclass_fields__:  # `fields()` is slow in this hot place
        if name not in skip:
            plain = _plain(getattr(value, name))
            if plain not in (None, "", [], {}):
                fields[name] = plain
    return fields


def _plain(value: object) -> Data:
    if value is None or isinstance(value, (str, int, float)):  # a union is slower
        return value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    assert is_dataclass(value)
    return _canonical(value, frozenset())


def amount(value: Data) -> Data:
    """Return a quantity as a number: 1000m CPUs are 1."""
    amount = quantity.read(value) if isinstance(value, str) else None
    return value if amount is None else f"{amount.normalize():f}"
