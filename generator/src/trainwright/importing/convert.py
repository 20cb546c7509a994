"""Conversion of one workload into a job spec, with a full account of what the spec lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from trainwright.datatypes.data import Data, dig, mapping
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import Pointer, leaves, without_value
from trainwright.datatypes.same import Difference
from trainwright.importing import (
    accounting,
    candidate,
    companions,
    differing,
    equivalence,
    reasons,
    shortest,
)
from trainwright.importing.accounting import Account
from trainwright.importing.choice import choices, filled
from trainwright.importing.differing import Differing
from trainwright.importing.equivalence import NormalForm
from trainwright.importing.kept_names import staying
from trainwright.importing.missing import missing
from trainwright.importing.placeholders import unfilled_variables
from trainwright.importing.source import Source, naming
from trainwright.importing.trial import ImportContext
from trainwright.kinds import TARGETS
from trainwright.kinds.reading import ImportingError, Loss, NotImported
from trainwright.kinds.target import Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A workload as the spec of a job, and the file for that.

    `left` is what the spec does not carry, `added` what the run has in addition to the workload or
    differently, and `accounts` the fate of every single value.
    """

    source: Source
    file: JobFile
    spec: Mapping[str, Data]
    left: tuple[NotImported, ...]
    added: tuple[Difference, ...]
    notes: tuple[str, ...]
    accounts: tuple[Account, ...]

    @property
    def differing(self) -> tuple[Differing, ...]:
        """What is added or changed, except for what every rendered run has."""
        if not self.added:  # as of an object that goes on as it is, whose pods may be unknown
            return ()
        return tuple(differing.reported(self.added, " ".join(self.source.pod().command)))

    @property
    def severity(self) -> Loss | None:
        """The worst severity of what is left and of changes that prevent a run; None if neither."""
        severities = [left.severity for left in self.left]
        severities += [d.severity for d in self.differing if d.severity is Loss.CANNOT_RUN]
        return max(severities, key=lambda severity: severity.weight, default=None)


def convert(source: Source, place: ImportContext, pool: str = "") -> Imported:
    """Convert a workload to the shortest spec for the same run, or the closest; on `pool` if given.

    Raise ImportingError if no spec can be made of it.
    """
    source.check(place.environment.kubernetes_version)
    run = source.run()
    pods = {"": run.pods[0], **{f" in its role {n}": r.pods[0] for n, r in run.roles.items()}}
    for role in (role for role, pod in pods.items() if not pod.image):
        raise ImportingError(
            f"{source.place}: {source.title} has no image{role}: {_why_no_image(source)}. Name it "
            "with --image"
        )
    with naming(f"{source.place}: {source.title}"):
        named = source.pool if source.pool in place.environment.pools else ""
        wanted = pool or named
        if fills := filled(place.environment, (source.pod(), *source.serving()), wanted):
            source, wanted = replace(source, fills=fills), fills.name
            run = source.run()
        ways = choices(place.environment, source.pod(), wanted)
        # A command that is kept whole would look for its script where none is any more, and that of
        # a RayJob is not a command line of a shell: KubeRay starts Ray.
        whole = not companions.script(run) and run.pods[0].program.launcher != "ray"
        specs = (candidate.spec(source, run, place, c) for c in ways if c.apart or whole)
        best = _best(specs, run, source.run(sampled=True), place)
    if isinstance(best, Unsupported):
        why = f"{best.message}. {best.remedy}".strip(". ")
        raise ImportingError(f"{source.place}: {source.title}: {why}")
    inherited = place.inherited_in(best.spec.get("pool") or "")
    spec = shortest.shorten(best.spec, inherited, partial(place.run, sampled=True))
    with naming(f"{source.place}: {source.title}"):
        place.refuse_unreadable(spec)
    rendered = place.run(best.spec)
    assert isinstance(rendered, NormalForm), "its sample was one"
    if run.elastic and not rendered.elastic:  # of which only the first pod is known
        rendered = replace(rendered, pods=rendered.pods[: len(run.pods)])
    accounts = accounting.accounts(source, run, rendered)
    target = _target(spec, place)
    explain = reasons.Reasons(
        source=source,
        rendered=rendered,
        refused=best.refused,
        deviations=(*TARGETS[source.target].deviations, *TARGETS[target].deviations),
        namespace=place.environment.namespace,
    )
    staying_names = tuple(_staying(source, target))
    changed = frozenset(path for account in accounts for path in account.changed)
    return Imported(
        source=source,
        file=JobFile(place.name, str(spec["name"])),
        spec=spec,
        left=(
            *source.left,
            *_written(source, _others(explain.left(accounts), (*staying_names, *source.left))),
            *staying_names,
            *missing(source, run, rendered, target),
        ),
        added=equivalence.differences(run, rendered, changed),
        notes=tuple(_notes(source, spec)),
        accounts=accounts,
    )


def _why_no_image(source: Source) -> str:
    if TARGETS[source.target].envelope:
        return "its `build` makes one"
    if source.is_made:
        return "its programs are those of the nodes, or in a file that no cluster pulls"
    return "its runtime's, which is not among the files, or none at all"


def _written(source: Source, left: Iterator[NotImported]) -> Iterator[NotImported]:
    """Yield what is left of what people wrote, without JSON pointers into generated objects."""
    return (loss for loss in left if not (source.is_made and loss.field.startswith("/")))


def _others(left: Iterator[NotImported], named: Sequence[NotImported]) -> Iterator[NotImported]:
    """Yield what is left behind, except for fields in `named`, whose reasons there say more."""
    fields = {loss.field for loss in named}
    return (loss for loss in left if loss.field not in fields)


def _staying(source: Source, target: str) -> Iterator[NotImported]:
    """Yield names that nothing replaces; between compose files, those of services still hold."""
    workload = source.workload()
    bare = source.target != target and TARGETS[source.target].envelope is not None
    for part in source.parts:
        yield from staying(part, workload, source.services, TARGETS[target].numbered, bare=bare)


def _target(spec: Mapping[str, Data], place: ImportContext) -> str:
    return str(spec.get("target", place.inherited["target"]))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A spec that renders, and what had to be removed from it for that, with the reasons."""

    spec: Mapping[str, Data]
    run: NormalForm
    refused: Mapping[Pointer, str]


def _best(
    specs: Iterable[dict[str, Data]], run: NormalForm, sample: NormalForm, place: ImportContext
) -> _Attempt | Unsupported:
    """Return the first of the attempts that come nearest to a run, or, if none of the specs
    renders, why the first one does not.

    If a sample of the pods represents all, they are compared by the sample.
    """
    last, others = len(sample.pods) - 1, len(run.pods) - len(sample.pods)
    best: tuple[tuple[int, int, int], _Attempt] | None = None
    why: Unsupported | None = None
    tried: list[dict[str, Data]] = []
    for spec in specs:
        if spec in tried:  # such as a command that cannot be taken apart
            continue
        tried.append(spec)
        made = _attempt(spec, place, sampled=others > 0)
        if isinstance(made, Unsupported):
            why = why or made
            continue
        differences = list(equivalence.differences(sample, made.run))
        differences += others * [
            difference for difference in differences if difference.path.startswith(f"/pods/{last}/")
        ]
        lost = (differing.devices_lost(differences), len(differences), len(made.refused))
        if best is None or lost < best[0]:
            best = (lost, made)
        if not any(lost):
            break
    if best is None:
        assert why is not None
        return why
    return best[1]


_MOST_REFUSALS = 200


def _attempt(
    spec: dict[str, Data], place: ImportContext, *, sampled: bool
) -> _Attempt | Unsupported:
    """Return a candidate without what the environment or target refuses, or the last refusal."""
    refused: dict[Pointer, str] = {}
    spec = candidate.complete(spec, place)
    refusal: Unsupported | None = None
    for _ in range(_MOST_REFUSALS):
        outcome = place.run(spec, sampled=sampled)
        if isinstance(outcome, NormalForm):
            return _Attempt(spec, outcome, refused)
        refusal = outcome
        shorter = _without(spec, refusal.path)
        if shorter is None:
            return refusal
        if refusal.path != "/name":
            refused[refusal.path] = refusal.message
        spec = candidate.complete(shorter, place)
    assert refusal is not None
    return refusal


def _without(spec: Mapping[str, Data], path: Pointer) -> dict[str, Data] | None:
    """Return the spec without what is refused (a name gets shorter); None if that cannot go."""
    if path == "/name":
        name = str(spec["name"])[:-1].rstrip("-")
        return {**spec, "name": name} if name else None
    while path and not (path.parts[0] == "roles" and len(path.parts) < 3):
        holder = mapping(dig(spec, *path.parent.parts))
        if holder.get(path.last) is not None and _NEEDED.isdisjoint(path.parts):
            return dict(without_value(spec, path))
        path = path.parent
    return None


_NEEDED = frozenset({"image", "entrypoint", "nodes", "apiVersion", "kind"})


def _notes(source: Source, spec: Mapping[str, Data]) -> Iterator[str]:
    """Yield what to know of a spec that is not an error: nulls, its script, spellings."""
    yield from unfilled_variables(source)
    if pool := source.fills:
        yield (
            f"all {pool.resource} of its machine are the {pool.gpus_per_node} of a node of the "
            f"pool {pool.name}: --pool names another"
        )
    without = [path.dotted for path, value in leaves(spec) if value is None]
    if without:
        yield (
            f"{', '.join(without)}: null, since {source.title} has none; delete "
            f"{'it' if len(without) == 1 else 'them'} to have what the environment gives its jobs"
        )
    path = companions.started(source.pod())
    if "inline" in spec["entrypoint"] and path != companions.SCRIPT:
        yield f"{path} is {companions.SCRIPT} in the rendered run"
    written = " ".join(source.pod().command)
    flags = spec.get("flags") or {}
    for name, value in flags.items():
        first = value[0] if isinstance(value, list) and value else value
        if f"--{name} {first}" in written:
            yield f"--{name} {first} is written as --{name}={first}, which is the same to parsers"
            return


_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def job_name(text: str) -> str:
    """Turn the name of a workload into a job name: a DNS label that starts with a letter."""
    name = _NOT_IN_NAMES.sub("-", text.lower()).strip("-")
    return (name if name[:1].isalpha() else f"job-{name}".rstrip("-"))[:63].rstrip("-")
