"""Renders a job in memory to files and objects. Nothing is read, recorded or checked by rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.errors import EngineError
from trainwright.datatypes.job import Job
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.documents import fast_yaml, yamlio
from trainwright.findings import diagnostics as dx
from trainwright.helm import values
from trainwright.helm.engines import Engine, Release
from trainwright.helm.values import references
from trainwright.kinds import NAMED, TARGETS
from trainwright.kinds.capabilities import unsupported, without_roles
from trainwright.kinds.target import Unsupported
from trainwright.rule_model.edit import Verdict
from trainwright.rules.edits import outcomes
from trainwright.runs import identity
from trainwright.runs.record import VALUES_FILE


def refusals(
    job: Job, environment: Environment, name: str
) -> Iterator[tuple[dx.Diagnostic, Unsupported]]:
    """Yield what prevents rendering a job under a name: values that would be lost or broken."""
    target = TARGETS[job.target]
    broken = [(dx.UNSUPPORTED, problem) for problem in without_roles(job, environment)]
    for group in () if broken else job.groups:
        broken += _broken_references(group, environment, name)
    if broken:
        yield from broken
        return
    messages = set()  # inherited values give every role the same message
    for group in job.groups:
        for kind, problem in _refusals_of(group, environment, name):
            if problem.message not in messages:
                messages.add(problem.message)
                yield kind, _in_role(problem, group)
    longest = f"{name}{target.longest_suffix(job)}"
    over = len(longest) - identity.MAX_NAME
    if over > 0:
        message = f'the pod "{longest}" would have {len(longest)} characters, {over} too many'
        remedy = f"Shorten the name to at most {len(job.name) - over} characters."
        yield dx.NAME_LENGTH, Unsupported(Pointer("/name"), message, remedy)


def _broken_references(
    job: Job, environment: Environment, name: str
) -> Iterator[tuple[dx.Diagnostic, Unsupported]]:
    for kind, problem in references.problems(job, environment, name):
        yield kind, _in_role(problem, job)


def _refusals_of(
    job: Job, environment: Environment, name: str
) -> Iterator[tuple[dx.Diagnostic, Unsupported]]:
    resolved = references.resolved(job, environment, name)
    for problem in unsupported(resolved.job, environment):
        yield dx.UNSUPPORTED, problem
    for problem in values.reserved(resolved, environment, name):
        yield dx.RESERVED, problem


def _in_role(problem: Unsupported, job: Job) -> Unsupported:
    """Return a problem of a role with its path in the job's spec."""
    if job.role is None:
        return problem
    return replace(problem, path=Pointer.of("roles", job.role.name, *problem.path.parts))


def texts(job: Job, environment: Environment, name: str, engine: Engine) -> dict[str, str]:
    """Return the chart's values, and the manifests that it renders of them. Raise ChartRefusal."""
    release = release_of(job, environment, name)
    return with_values(job, release, engine.render(*release))


def release_of(job: Job, environment: Environment, name: str) -> Release:
    """Return what the chart is given of a job under a name."""
    return Release(values.build(job, environment, name), job.name, job.namespace)


def with_values(job: Job, release: Release, templates: dict[str, str]) -> dict[str, str]:
    """Return the chart's values, and the manifests that it rendered of them."""
    return {VALUES_FILE: yamlio.dump(release.values, blocks=True), **_complete(job, templates)}


def rendered(decided: Mapping[str, Data], job: Job, engine: Engine) -> dict[str, str]:
    """Return the manifests that the chart renders of a job's values. Raise ChartRefusal."""
    return _complete(job, engine.render(decided, job.name, job.namespace))


def _complete(job: Job, templates: dict[str, str]) -> dict[str, str]:
    template = TARGETS[job.target].template
    if template not in templates:
        raise EngineError(f"Helm rendered no {template} for {job.environment}/{job.name}")
    return templates


def manifests(files: Mapping[str, str], target: str) -> tuple[Manifest, ...]:
    """Return the objects in rendered files, in the order of the files."""
    envelope = TARGETS[target].envelope or dict
    return tuple(
        Manifest(body=envelope(body), path=path)
        for path, text in files.items()
        if path != VALUES_FILE
        for body in fast_yaml.rendered(text)
    )


_TAKEN = frozenset({Verdict.IN_PLACE, Verdict.UNTIL_ADMITTED})


def untaken(
    before: Mapping[str, str], after: Mapping[str, str], target: str, environment: Environment
) -> str:
    """Return why live objects do not take an edit of their files, or "" if they do."""
    was, now = ({m.identity: m for m in manifests(files, target)} for files in (before, after))
    if was.keys() != now.keys():
        return "objects of the run would come or go"
    changed = [name for name in was if was[name].body != now[name].body]
    if changed and not NAMED[target].is_served:
        return "its containers would be recreated"
    for name in changed:
        for outcome in outcomes.evaluate(was[name], now[name], environment):
            if outcome.verdict not in _TAKEN:
                return f"{outcome.why} ({outcome.pointer})"
    return ""
