"""The type of a format: a frozen value, defined in its own module, listed in the registry."""

from __future__ import annotations

from collections.abc import Callable

from trainwright.datatypes.frozen import dataclass
from trainwright.plan.model import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What a format is told besides the review itself.

    `against` is the branch as the user named it, `command` what gives the same review again,
    `link` an address that a path and `#L<line>` are added to (empty: no links), and `marker` what
    tells the comment of this review from those of others. `differing` colours a line of a diff, and
    `files` has the text show the diffs of rendered files, which other formats always do.
    """

    against: str
    command: str
    link: str = ""
    marker: str = "trainwright-plan"
    paint: Callable[[str, str], str] = lambda text, _color: text
    differing: Callable[[str], str] = str
    color: bool = False
    files: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write a review."""

    name: str
    summary: str
    render: Callable[[Plan, Style], str]
