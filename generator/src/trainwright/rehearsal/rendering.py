"""Renders a job spec for a rehearsal: fewer nodes, no GPUs, otherwise the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.manifest import Manifest
from trainwright.files.tree import Folder
from trainwright.helm import engines
from trainwright.objects.pods.launching import launches, options, starts_ranks
from trainwright.objects.pods.template import Container
from trainwright.rehearsal import RehearsalError
from trainwright.render import objects
from trainwright.runs.decide import begun_name
from trainwright.runs.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What a rehearsal runs. `changes` are its differences from the job in git, in words.

    `size` is how many pods an elastic job is given; None for a job that has no choice.
    """

    job: Job
    object_name: str
    manifests: tuple[Manifest, ...]
    size: int | None
    changes: tuple[str, ...]


def render(
    root: Path,
    file: JobFile,
    *,
    nodes: int | None,
    nodes_of_roles: Mapping[str, int],
    procs: int | None,
) -> Rendering:
    """Render a job without errors under the name that it has in git. Raise RehearsalError.

    Node and process counts are changed in the spec, never in the result, so that everything
    derived from them is consistent.
    """
    resolved = Workspace(Folder(root)).job(file)
    sources, decision = resolved.sources, resolved.decision
    assert sources is not None
    assert decision is not None
    written, environment = sources.job, sources.environment
    if written.state == "cancelled":
        raise RehearsalError(f"{file} has state: cancelled, so there is nothing to run")
    # Changes that wait are those of the next run, and are tried here.
    name = begun_name(sources, decision.name) if decision.held else decision.name
    automatic = sources.spec.data.get("procsPerNode", "auto") == "auto"
    fewer = automatic and _starts_ranks(written)
    job = _for_here(written, nodes=nodes, procs=procs or (1 if fewer else None))
    job = replace(job, roles=_roles_for_here(written, nodes_of_roles))
    texts = objects.texts(job, environment, name, engines.engine())
    return Rendering(
        job=job,
        object_name=name,
        manifests=objects.manifests(texts, job.target),
        size=job.nodes if job.elastic else None,
        changes=tuple(_changes(written, job)),
    )


def _starts_ranks(job: Job) -> bool:
    """Whether a launcher is seen to start the ranks: it counts them anew, however many there are.
    Any other command may read WORLD_SIZE itself, and has that of the cluster here.
    """
    argv = job.entrypoint.argv
    return job.entrypoint.launched or launches(argv) or starts_ranks(argv)


def _for_here(job: Job, *, nodes: int | None, procs: int | None) -> Job:
    elastic = job.elastic
    if nodes is not None and elastic and not elastic.min_nodes <= nodes <= elastic.max_nodes:
        raise RehearsalError(
            f"--nodes is {nodes}, expected {elastic.min_nodes} to {elastic.max_nodes}: "
            f"{job.environment}/{job.name} is elastic in that range"
        )
    return replace(
        job,
        nodes=nodes or job.nodes,
        procs_per_node=procs or job.procs_per_node,
        backend="gloo",
        state="active",
        flags=_without_nccl(job.flags),
    )


def _roles_for_here(job: Job, nodes: Mapping[str, int]) -> tuple[Job, ...]:
    """Return the roles of a job, with the given numbers of nodes, by name of the role."""
    names = [role.role.name for role in job.roles if role.role]
    if unknown := sorted(nodes.keys() - set(names)):
        raise RehearsalError(
            f"--nodes {unknown[0]}={nodes[unknown[0]]}: {job.environment}/{job.name} has "
            + (f"the roles {', '.join(names)}" if names else "no roles")
        )
    return tuple(
        _for_here(role, nodes=nodes.get(name), procs=None)
        for name, role in zip(names, job.roles, strict=True)
    )


def _without_nccl(flags: Mapping[str, Data]) -> dict[str, Data]:
    """Return flags with gloo for nccl, as scripts have that choose the backend themselves."""
    return {
        name: "gloo" if name.endswith("backend") and value in ("nccl", {"value": "nccl"}) else value
        for name, value in flags.items()
    }


# Commands that change what is installed where they run.
_INSTALLS = re.compile(
    r"\b(?:(?:uv )?pip[\d.]*|conda|mamba|apt(?:-get)?|dnf|apk) (?:-\S+ ){0,4}(?:install|add)\b"
)


def _changes(written: Job, job: Job) -> Iterator[str]:
    yield from _of_size(written, job)
    if installs := _INSTALLS.search(" ".join(job.entrypoint.argv)):
        yield f"packages: {installs[0]} changes what is installed on this machine"
    if written.backend == "nccl":
        yield "backend: gloo on CPU instead of nccl on GPUs"
    for name, value in written.flags.items():
        if job.flags[name] != value:
            yield f"flag: --{name}={job.flags[name]} instead of --{name}={value}"
    if written.state == "suspended":
        yield "state: suspended on the cluster, started here"
    for role, here in zip(written.roles, job.roles, strict=True):
        if role.role and here.nodes != role.nodes:
            yield f"nodes of {role.role.name}: {here.nodes} instead of {role.nodes}"


def _of_size(written: Job, job: Job) -> Iterator[str]:
    own = options(Container("", {"command": [*job.entrypoint.argv]}))
    nodes = ("nodes", "nodes", "nnodes", job.nodes, written.nodes)
    procs, had_procs = job.procs_per_node, written.procs_per_node
    processes = ("processes per node", "procs", "nproc-per-node", procs, had_procs)
    for what, argument, option, has, had in (nodes, processes):
        told = own.get(option, "")
        if has != had and told.isdecimal() and int(told) != has:
            yield f"{what}: {told}, as entrypoint.argv has it, whatever --{argument} says"
        elif has != had:
            yield f"{what}: {has} instead of {had}"
    world, before = (each.nodes * each.procs_per_node for each in (job, written))
    if world != before and not _starts_ranks(job):
        yield f"WORLD_SIZE: {world} instead of {before}, which the command may read"
