"""What needs attention, worst first: each kind, with the jobs or limits concerned."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.listing import listed, more

_REASONS = 3  # of each kind; its badge counts all items, and leads to them
_NAMED = 2  # of the items with one reason


class Concern(enum.IntEnum):
    """How bad something is, the worst first: the order of all lists of jobs and of attention."""

    BLOCKS = 0  # errors
    LOSES = 1  # a training is lost
    ENDS = 2  # a training is replaced or stopped, now or later
    EXCEEDS = 3  # a limit
    RISKS = 4
    INFORMS = 5

    @property
    def tone(self) -> str:
        """How a page shows it."""
        return _TONES[self]


_TONES = {
    Concern.BLOCKS: "danger",
    Concern.LOSES: "danger",
    Concern.ENDS: "warning",
    Concern.EXCEEDS: "danger",
    Concern.RISKS: "warning",
    Concern.INFORMS: "",
}


@dataclass(frozen=True, slots=True)
class Item:
    """A job, a limit or a file, and what is wrong with it in a few words, which may name it."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Items of one kind. The list of jobs can be filtered by those `of_jobs`; others may have a
    `section` of the page.
    """

    kind: str
    concern: Concern
    items: tuple[Item, ...]
    of_jobs: bool = True
    section: str = ""


def of_jobs(kind: str, concern: Concern, items: Iterable[Item]) -> Attention:
    """Return a kind by which the list of jobs can be filtered."""
    return Attention(kind=kind, concern=concern, items=tuple(items))


def elsewhere(kind: str, concern: Concern, items: Iterable[Item], section: str = "") -> Attention:
    """Return a kind of which the list of jobs knows nothing."""
    found = tuple(items)
    return Attention(kind=kind, concern=concern, items=found, of_jobs=False, section=section)


def worst_first(kinds: Iterable[Attention]) -> tuple[Attention, ...]:
    """Return the kinds that have at least one item; those of one concern keep their order."""
    return tuple(sorted((kind for kind in kinds if kind.items), key=lambda kind: kind.concern))


def first_errors(findings: Iterable[Finding]) -> dict[str, str]:
    """Return the message of the first error of each subject."""
    first: dict[str, str] = {}
    for finding in findings:
        if finding.severity is Severity.ERROR:
            first.setdefault(finding.subject, finding.message)
    return first


def shown(kinds: Sequence[Attention], key: str) -> Data:
    """Return kinds as data for the template; `key` is the filter's name in the address."""
    return [
        {
            "kind": kind.kind,
            "tone": kind.concern.tone,
            "count": f"{len(kind.items):,}",
            "link": _link(kind, key),
            "reasons": [*_reasons(kind)],
        }
        for kind in kinds
    ]


def _link(kind: Attention, key: str) -> str:
    target = urlencode({key: kind.kind}) if kind.of_jobs else kind.section
    return f"#{target}" if target else ""


def _reasons(kind: Attention) -> Iterator[Data]:
    """Yield the first reasons with the first items that have them, and how many items are left."""
    by_reason: dict[str, list[str]] = {}
    for item in kind.items:
        by_reason.setdefault(item.why, []).append(item.name)
    for why, names in [*by_reason.items()][:_REASONS]:
        yield {"why": why, "names": listed([*filter(None, names)], _NAMED)}
    if left := sum(map(len, [*by_reason.values()][_REASONS:])):
        yield {"why": more(left), "names": ""}


def by_job(kinds: Sequence[Attention]) -> Mapping[str, tuple[Attention, ...]]:
    """Return the kinds that each job has, by its name, with its own item alone."""
    found: dict[str, tuple[Attention, ...]] = {}
    for kind in kinds:
        for item in kind.items if kind.of_jobs else ():
            found[item.name] = (*found.get(item.name, ()), replace(kind, items=(item,)))
    return found
