"""What needs attention on a page, worst first: each kind, with the jobs or limits concerned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.listing import listed

_REASONS = 3  # of each kind; its badge counts all items, and leads to them
_NAMED = 2  # of the items with one reason


@dataclass(frozen=True, slots=True)
class Item:
    """A job, a limit or a file, and what is wrong with it in a few words, which may name it."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Items of one kind; `tone` is how a page shows it.

    The list of jobs can be filtered by those `of_jobs`; others may have a `section` of the page.
    """

    kind: str
    tone: str
    items: tuple[Item, ...]
    of_jobs: bool = True
    section: str = ""


def shown(kinds: Sequence[Attention], key: str) -> Data:
    """Return kinds as data for the template; `key` is the filter's name in the address."""
    return [
        {
            "kind": kind.kind,
            "tone": kind.tone,
            "count": f"{len(kind.items):,}",
            "link": _link(kind, key),
            "reasons": [*_reasons(kind)][:_REASONS],
        }
        for kind in kinds
    ]


def _link(kind: Attention, key: str) -> str:
    target = urlencode({key: kind.kind}) if kind.of_jobs else kind.section
    return f"#{target}" if target else ""


def _reasons(kind: Attention) -> Iterator[Data]:
    """Yield each reason once, with the first items that have it."""
    names: dict[str, list[str]] = {}
    for item in kind.items:
        names.setdefault(item.why, []).extend(filter(None, (item.name,)))
    for why, named in names.items():
        yield {"why": why, "names": listed(named, _NAMED)}


def of_jobs(kinds: Sequence[Attention]) -> Mapping[str, tuple[Attention, ...]]:
    """Return the kinds that each job has, by its name, with its own item alone."""
    found: dict[str, tuple[Attention, ...]] = {}
    for kind in kinds:
        for item in kind.items if kind.of_jobs else ():
            found[item.name] = (*found.get(item.name, ()), replace(kind, items=(item,)))
    return found
