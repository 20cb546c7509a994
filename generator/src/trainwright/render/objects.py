"""A job in memory into files and objects: nothing is read, recorded or held against a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright import values
from trainwright.datatypes.model import Environment, Job, Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.errors import EngineError
from trainwright.findings import diagnostics as dx
from trainwright.helm.engines import Engine
from trainwright.kinds import TARGETS
from trainwright.kinds.capabilities import unsupported
from trainwright.kinds.target import Unsupported
from trainwright.rule_model.edit import Verdict
from trainwright.rules.edits import outcomes
from trainwright.runs import identity
from trainwright.runs.record import VALUES_FILE
from trainwright.specs import yamlio
from trainwright.values import references


def refusals(
    job: Job, environment: Environment, name: str
) -> Iterator[tuple[dx.Diagnostic, Unsupported]]:
    """What keeps a job from being rendered under a name: the values that it would lose or break."""
    broken = tuple(references.problems(job, environment, name))
    if broken:
        yield from broken
        return
    target = TARGETS[job.target]
    for problem in unsupported(references.resolved(job, environment, name), environment):
        yield dx.UNSUPPORTED, problem
    for problem in values.reserved(job, environment, name):
        yield dx.RESERVED, problem
    longest = f"{name}{target.longest_suffix(job)}"
    over = len(longest) - identity.MAX_NAME
    if over > 0:
        message = f'the pod "{longest}" would have {len(longest)} characters, {over} too many'
        remedy = f"Shorten the name to at most {len(job.name) - over} characters."
        yield dx.NAME_LENGTH, Unsupported(Pointer("/name"), message, remedy)


def texts(job: Job, environment: Environment, name: str, engine: Engine) -> dict[str, str]:
    """The chart's values, and the manifests that it renders of them. Raises ChartRefusal."""
    decided = values.build(job, environment, name)
    templates = engine.render(decided, job.name, job.namespace)
    template = TARGETS[job.target].template
    if template not in templates:
        raise EngineError(f"Helm rendered no {template} for {job.environment}/{job.name}")
    return {VALUES_FILE: yamlio.dump(decided, blocks=True), **templates}


def manifests(files: Mapping[str, str], target: str) -> tuple[Manifest, ...]:
    """The objects in rendered files, in the order of the files."""
    envelope = TARGETS[target].envelope or dict
    return tuple(
        Manifest(body=envelope(body), path=path)
        for path, text in files.items()
        if path != VALUES_FILE
        for body in yamlio.load_rendered(text)
    )


_TAKEN = frozenset({Verdict.IN_PLACE, Verdict.UNTIL_ADMITTED})


def untaken(
    before: Mapping[str, str], after: Mapping[str, str], target: str, environment: Environment
) -> str:
    """Return why live objects do not take an edit of their files; empty where they do."""
    was, now = ({m.identity: m for m in manifests(files, target)} for files in (before, after))
    if was.keys() != now.keys():
        return "objects of the run would come or go"
    changed = [name for name in was if was[name].body != now[name].body]
    if changed and not TARGETS[target].of.plural:
        return "its containers would be made anew"
    for name in changed:
        for outcome in outcomes.evaluate(was[name], now[name], environment):
            if outcome.verdict not in _TAKEN:
                return f"{outcome.why} ({outcome.pointer})"
    return ""
