"""Selecting environments and jobs by patterns: "prod", "prod/llm", "*/mnist" or a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from fnmatch import fnmatchcase

from trainwright.datatypes.errors import SelectionError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import NO_ENVIRONMENT, JobFile
from trainwright.datatypes.listing import MOST, listed


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected jobs of an environment, and the others; `whole` if none was left out."""

    environment: str
    jobs: tuple[JobFile, ...]
    others: tuple[JobFile, ...]
    whole: bool


def select(
    patterns: tuple[str, ...],
    available: Mapping[str, tuple[JobFile, ...]],
    *,
    writes: bool = False,
) -> tuple[Selection, ...]:
    """Return the selected environments, sorted by name; all if there are no patterns.

    The path of a job's file, from the root of the repository, selects the job.

    Raise SelectionError for a pattern that matches nothing, with similar names, or if there
    is nothing to select from. Who writes, or named a job, is never shown an environment instead:
    that would select every job of it.
    """
    if not available:
        raise SelectionError(NO_ENVIRONMENT)
    chosen: dict[str, set[JobFile]] = {}
    whole: set[str] = set()
    every = (job for jobs in available.values() for job in jobs) if patterns else ()
    paths = {job.path: str(job) for job in every}
    for pattern in patterns or ("*",):
        named = paths.get(pattern.removeprefix("./"), pattern)
        environment_glob, slash, job_glob = named.strip("/").partition("/")
        hits = 0
        for environment, jobs in available.items():
            if not fnmatchcase(environment, environment_glob):
                continue
            matching = [job for job in jobs if not slash or fnmatchcase(job.name, job_glob)]
            if not slash:
                whole.add(environment)
            if matching or not slash:
                hits += 1
                chosen.setdefault(environment, set()).update(matching)
        if not hits:
            raise SelectionError(_nothing(pattern, available, jobs=writes or bool(slash)))
    return tuple(
        Selection(
            environment=environment,
            jobs=tuple(file for file in available[environment] if file in jobs),
            others=tuple(file for file in available[environment] if file not in jobs),
            whole=environment in whole,
        )
        for environment, jobs in sorted(chosen.items())
    )


def environments(
    patterns: tuple[str, ...], available: Mapping[str, tuple[JobFile, ...]], done: str
) -> tuple[str, ...]:
    """Return the names of selected environments, for commands that work on whole ones only.

    Raise SelectionError if only some jobs of an environment are selected.
    """
    chosen = select(patterns, available)
    for name in (selection.environment for selection in chosen if not selection.whole):
        raise SelectionError(f"environments are {done} whole: name {name}, not its jobs")
    return tuple(selection.environment for selection in chosen)


_MANIFESTS = re.compile(r"\.(ya?ml|json)$|^-$")


def _nothing(pattern: str, available: Mapping[str, tuple[JobFile, ...]], *, jobs: bool) -> str:
    every = [str(job) for each in available.values() for job in each]
    near = _nearest(pattern, every if jobs else [*available, *every])
    hint = f"did you mean {' or '.join(near)}?" if near else _there_are(pattern, available, jobs)
    if not near and _MANIFESTS.search(pattern):
        hint += f", or check manifests with `trainwright validate {pattern}`"
    return f'nothing matches "{pattern}"; {hint}'


def _there_are(pattern: str, available: Mapping[str, tuple[JobFile, ...]], jobs: bool) -> str:
    """Return what can be selected, the nearest first: environments unless only `jobs` can be."""
    groups = {} if jobs else {"environment": [*available]}
    groups["job"] = [str(job) for each in available.values() for job in each]
    alike = SequenceMatcher(b=_short(pattern), autojunk=False)

    def distance(name: str) -> tuple[float, str]:
        alike.set_seq1(name)
        return -alike.ratio(), name

    shown = [
        f"the {what}{'s' * (len(names) > 1)} {listed(sorted(names, key=distance))}"
        for what, names in groups.items()
        if names
    ]
    has_more = any(len(names) > MOST for names in groups.values())
    all_of_them = ", see `trainwright list jobs`" if has_more else ""
    if not shown:
        return "there is no job yet"
    is_one = sum(map(len, groups.values())) == 1
    return f"there {'is' if is_one else 'are'} {' and '.join(shown)}{all_of_them}"


def _nearest(wanted: str, names: Sequence[str]) -> list[str]:
    """Return names similar to a pattern, which may be the path of a job's file."""
    return get_close_matches(_short(wanted), names, n=3, cutoff=0.6)


def _short(wanted: str) -> str:
    return re.sub(r"^(?:\./)?environments/|(?<=/)jobs/|\.ya?ml$", "", wanted)
