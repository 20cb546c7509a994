"""Files of wiring/, compared with what `gitops wire` writes."""

from __future__ import annotations

from typing import NamedTuple

from trainwright.datatypes.finding import Finding


class WiringFiles(NamedTuple):
    """`current` files are as they are written. `stale` ones differ, lack, or are left over.

    No other file is written, except of environments that have the `refused` errors: theirs are not
    compared.
    """

    stale: tuple[str, ...] = ()
    current: frozenset[str] = frozenset()
    refused: tuple[Finding, ...] = ()
