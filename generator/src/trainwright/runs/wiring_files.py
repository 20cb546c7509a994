"""Files of wiring/, compared with what `gitops wire` writes."""

from __future__ import annotations

from typing import NamedTuple


class WiringFiles(NamedTuple):
    """`current` files are as they are written. `stale` ones differ, lack, or are left over; no
    other file is written.
    """

    stale: tuple[str, ...] = ()
    current: frozenset[str] = frozenset()
