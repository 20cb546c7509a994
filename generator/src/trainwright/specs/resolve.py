"""A merged, schema-valid spec into a typed `Job`, once everything it names exists and agrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment, GitOps, SeverityOverride, Waiver
from trainwright.datatypes.finding import Finding, Severity
from trainwright.datatypes.job import (
    Job,
    Role,
)
from trainwright.datatypes.pointer import Pointer
from trainwright.specs import (
    convert,
    files,
    layers,
)
from trainwright.specs.contradictions import contradictions
from trainwright.specs.merge import Layered, merge

if TYPE_CHECKING:
    from trainwright.documents.yamlio import Document


# --- environment.yaml --------------------------------------------------------------------------


def environment(
    name: str, document: Document, gitops: Mapping[str, Data] | None = None
) -> Environment:
    """A schema-valid environment.yaml as a value; a null is as good as an absent key.

    `gitops` is that of the file and of defaults.yaml, merged; by default, that of the file alone.
    """
    data = merge({}, document.data)
    return convert.value(
        Environment,
        data,
        name=name,
        place=document.place(""),
        gitops=convert.value(GitOps, data.get("gitops", {}) if gitops is None else gitops),
        severities={
            key: SeverityOverride(
                Severity.ERROR if value == "required" else Severity(value),
                document.key_place(Pointer.of("severities", key)),
                required=value == "required",
            )
            for key, value in data.get("severities", {}).items()
        },
        waivers=tuple(
            convert.value(Waiver, waiver, place=document.place(Pointer.of("waivers", index)))
            for index, waiver in enumerate(data.get("waivers", ()))
        ),
    )


# --- the job -----------------------------------------------------------------------------------


def job(spec: Layered, environment: Environment, source: str) -> Job | tuple[Finding, ...]:
    """Return the job, or findings for everything in it that is contradictory."""
    resolved = typed(spec, environment, source)
    return tuple(contradictions(resolved, spec, environment)) or resolved


def typed(spec: Layered, environment: Environment, source: str) -> Job:
    """Return a valid spec as a Job, without checking what it refers to."""
    data = spec.data
    gpus = data.get("resources", {}).get("gpu", 0)
    procs, backend = data.get("procsPerNode", "auto"), data.get("backend", "auto")
    typed_job = convert.value(
        Job,
        data,
        roles=tuple(
            _role(spec, name, environment, source) for name in sorted(data.get("roles", {}))
        ),
        environment=environment.name,
        source=source,
        namespace=environment.namespace,
        # As written, else as many as the elastic range allows, else one.
        nodes=data.get("nodes") or data.get("elastic", {}).get("maxNodes", 1),
        procs_per_node=(gpus or 1) if procs == "auto" else procs,
        backend=("nccl" if gpus else "gloo") if backend == "auto" else backend,
        pool=environment.pools.get(data.get("pool", "")),
        waivers=tuple(
            convert.value(
                Waiver, waiver, rule=rule, place=spec.key_origin(Pointer.of("waivers", rule))
            )
            for rule, waiver in data.get("waivers", {}).items()
        ),
    )
    return (
        replace(typed_job, files=files.resolved(typed_job.files, spec))
        if typed_job.files
        else typed_job
    )


def _role(spec: Layered, name: str, environment: Environment, source: str) -> Job:
    own = convert.value(Role, spec.data["roles"][name], name=name)
    return replace(typed(layers.of_role(spec, name), environment, source), role=own)
