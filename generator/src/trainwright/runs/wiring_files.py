"""Files of wiring/, compared with what `gitops wire` writes."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

from trainwright.datatypes.finding import Finding
from trainwright.datatypes.layout import WIRING, is_wiring_of
from trainwright.datatypes.listing import listed

WIRE = f"trainwright gitops wire --out {WIRING}"
REMOVES = "which removes the files, and names the command that deletes their objects"


class WiringFiles(NamedTuple):
    """`current` files are as they are written. `stale` ones differ, lack, or are not needed; of
    these, `left` ones were written for what no engine applies any more.

    No other file is written, except of the `uncompared` environments, which have the `refused`
    errors. `warned` are findings about sources, with which files are written all the same.
    """

    stale: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    current: frozenset[str] = frozenset()
    refused: tuple[Finding, ...] = ()
    warned: tuple[Finding, ...] = ()
    uncompared: frozenset[str] = frozenset()

    def of(self, environments: Container[str]) -> WiringFiles:
        """Return the stale files of some environments, and of all."""
        stale, left = (
            tuple(it for it in paths if is_wiring_of(it, environments))
            for paths in (self.stale, self.left)
        )
        return self._replace(stale=stale, left=left)

    @property
    def problems(self) -> Iterator[tuple[str, str, str]]:
        """Yield the first file that is stale, with what is wrong and what to do, and the same of
        those that are left.
        """
        if others := [path for path in self.stale if path not in self.left]:
            wrong = f"files of {WIRING}/ are not up to date: {listed(others, 3)}"
            yield others[0], wrong, f"Run `{WIRE}`, and apply what it writes."
        if self.left:
            wrong = f"files of {WIRING}/ are needed by no engine any more: {tops(self.left)}"
            yield self.left[0], wrong, f"Run `{WIRE}`, {REMOVES}."


def tops(paths: tuple[str, ...]) -> str:
    """Return in which folders of wiring/ some files are, and those that are in none."""
    return listed(list(dict.fromkeys("/".join(path.split("/")[:2]) for path in paths)))
