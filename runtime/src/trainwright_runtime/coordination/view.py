"""What the members of a step know of each other, sent to them as changes.

Nearly all of it is the same for all members, and most of the rest is as it was in the last step. So
a view consists of what most members have in common, the address of each, and the few deviations. A
member that already has a view gets only the changes to the next one. If nothing but the step has
changed, that is no more for ten thousand members than for two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

Fields = Mapping[str, Any]

COMPARED = ("step", "lineage", "group", "position", "declared")
"""What members mostly have in common; `state` is where each of them is."""

_compared = itemgetter(*COMPARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the members of a step know of each other. Unchanged fields stay the same objects."""

    number: int = 0
    """Of all that this coordinator has put together, from 1; 0 when nothing is known."""
    common: Fields = field(default_factory=dict)
    otherwise: Mapping[str, Fields] = field(default_factory=dict)
    """By name, all of the few members that do not have everything in common with most."""
    places: Mapping[str, str] = field(default_factory=dict)
    """By name, where each member hands out its state."""
    names: tuple[str, ...] = ()
    """Of all members, in their order."""

    def __getitem__(self, name: str) -> Fields:
        return self.otherwise.get(name, self.common)

    def values(self, of: str) -> set[Any]:
        """That the members have."""
        return {self.common[of], *(each[of] for each in self.otherwise.values())}


def of(members: Mapping[str, Fields], before: View) -> View:
    """Return the view that follows `before`, of `members` by name, at least one."""
    all_of_it = {name: _compared(member) for name, member in members.items()}
    (most, _), *_ = Counter(all_of_it.values()).most_common(1)
    otherwise = {
        name: dict(zip(COMPARED, each, strict=True))
        for name, each in all_of_it.items()
        if each != most
    }
    places = {name: member["state"] for name, member in members.items()}
    same = places == before.places
    return View(
        number=before.number + 1,
        common=dict(zip(COMPARED, most, strict=True)),
        otherwise=otherwise,
        places=before.places if same else places,
        names=before.names if same else tuple(sorted(places)),
    )


def news(known: View, now: View) -> dict[str, Any]:
    """Return the changes from `known` to `now`, as JSON: all of `now` if nothing is known."""
    changes: dict[str, Any] = {
        "view": now.number,
        "since": known.number,
        "common": _changed(known.common, now.common),
        "otherwise": {name: _changed(now.common, own) for name, own in now.otherwise.items()},
    }
    if known.places is not now.places:
        there = known.places
        changes["places"] = {name: at for name, at in now.places.items() if there.get(name) != at}
        changes["left"] = [name for name in there if name not in now.places]
    return changes


def updated(known: View, news: Mapping[str, Any]) -> View:
    """Return `known` with `news` applied. Raise ValueError if they are changes of another view."""
    if not news["since"]:
        known = View()  # all is sent to who was away for long
    elif news["since"] != known.number:
        raise ValueError(f"news since {news['since']}, known is {known.number}")
    places, names = known.places, known.names
    if "places" in news:
        left = {*news["left"]}
        places = {name: at for name, at in places.items() if name not in left} | news["places"]
        names = tuple(sorted(places))
    common = {**known.common, **news["common"]}
    return View(
        number=int(news["view"]),
        common=common,
        otherwise={name: {**common, **own} for name, own in news["otherwise"].items()},
        places=places,
        names=names,
    )


def _changed(before: Fields, now: Fields) -> Fields:
    return {name: value for name, value in now.items() if before.get(name) != value}
