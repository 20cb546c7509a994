"""What lies at a path of a tree."""

from __future__ import annotations

from typing import Literal

from trainwright.frozen import dataclass

ENVIRONMENTS = "environments"
# special: a pipe, a socket or a device, which are never opened. Empty: nothing there, or nothing
# that can be read.
Kind = Literal["file", "folder", "link", "special", ""]


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A name in a folder, and what it is, links not followed."""

    name: str
    kind: Kind
