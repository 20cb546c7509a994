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
    """The number among this coordinator's views, from 1; 0 for a view of nothing."""
    common: Fields = field(default_factory=dict)
    otherwise: Mapping[str, Fields] = field(default_factory=dict)
    """All fields of the few members that differ from most, by name."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Where each member serves its state, by name."""
    names: tuple[str, ...] = ()
    """The names of all members, in order."""

    def __getitem__(self, name: str) -> Fields:
        return self.otherwise.get(name, self.common)

    def values(self, of: str) -> set[Any]:
        """Return all values that members have in the field `of`."""
        return {self.common[of], *(each[of] for each in self.otherwise.values())}


def of(members: Mapping[str, Fields], before: View) -> View:
    """Return the view that follows `before`, of `members` by name, at least one."""
    compared = {name: _compared(member) for name, member in members.items()}
    (most, _), *_ = Counter(compared.values()).most_common(1)
    otherwise = {
        name: dict(zip(COMPARED, each, strict=True))
        for name, each in compared.items()
        if each != most
    }
    addresses = {name: member["state"] for name, member in members.items()}
    same = addresses == before.addresses
    return View(
        number=before.number + 1,
        common=dict(zip(COMPARED, most, strict=True)),
        otherwise=otherwise,
        addresses=before.addresses if same else addresses,
        names=before.names if same else tuple(sorted(addresses)),
    )


def news(before: View, now: View) -> dict[str, Any]:
    """Return the changes from view `before` to view `now` as JSON: all of `now` after no view."""
    changes: dict[str, Any] = {
        "view": now.number,
        "since": before.number,
        "common": _changed(before.common, now.common),
        "otherwise": {name: _changed(now.common, own) for name, own in now.otherwise.items()},
    }
    if before.addresses is not now.addresses:
        addresses_before = before.addresses
        changes["places"] = {
            name: at for name, at in now.addresses.items() if addresses_before.get(name) != at
        }
        changes["left"] = [name for name in addresses_before if name not in now.addresses]
    return changes


def updated(before: View, news: Mapping[str, Any]) -> View:
    """Return `before` with `news` applied. Raise ValueError if they are changes of another view."""
    if not news["since"]:
        before = View()  # a member that was away for long gets all
    elif news["since"] != before.number:
        raise ValueError(f"news since {news['since']}, known is {before.number}")
    addresses, names = before.addresses, before.names
    if "places" in news:
        left = {*news["left"]}
        kept = {name: at for name, at in addresses.items() if name not in left}
        addresses = kept | news["places"]
        names = tuple(sorted(addresses))
    common = {**before.common, **news["common"]}
    return View(
        number=int(news["view"]),
        common=common,
        otherwise={name: {**common, **own} for name, own in news["otherwise"].items()},
        addresses=addresses,
        names=names,
    )


def _changed(before: Fields, now: Fields) -> Fields:
    return {name: value for name, value in now.items() if before.get(name) != value}
