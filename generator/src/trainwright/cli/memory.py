"""What a verb printed before: said again, while everything that it looked at is as it was.

Reading some thousands of files takes less than finding out again what follows from them, and
nothing of what finds it out is imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.datatypes.same import digest
from trainwright.files import memory
from trainwright.files.memo import Cell
from trainwright.files.memory import EMBEDDED, Kept
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Folder, Tree

_LAST = "last"


class Printed(NamedTuple):
    """The output of a verb, and its exit code; `lasts` while the files of the tree are the same."""

    text: str
    code: int
    lasts: bool = True


class Memory:
    """The last output of a verb for one selection.

    `settings` are what decides it besides the files of the tree, which the verb has to read alone.
    """

    def __init__(
        self,
        root: Path,
        verb: str,
        selections: tuple[str, ...],
        settings: dict[str, str],
        *,
        engine: str = EMBEDDED,
    ):
        self._tree = Tracked(Folder(root))
        name = digest(json.dumps(selections).encode())[:16]
        # No environment, which have files beside this one, has a name with an underscore.
        path = memory.location(root, f"_{verb}-{name}")
        mark = {**settings, "program": memory.fingerprint(engine)}
        self._kept = Kept(path, mark, _printed, Printed._asdict)

    def recall(self) -> Printed | None:
        """What would be printed now; None where that has to be found out."""
        return self._kept.recall(_LAST, self._tree.is_as)

    def print(self, make: Callable[[Tree], Printed]) -> Printed:
        """Find out what a verb prints of the files of a tree, and remember it."""
        printed = Cell(self._tree.memo, lambda: make(self._tree)).get()
        if self._tree.whole and printed.lasts:
            self._kept.keep(_LAST, printed, self._tree.seen)
            self._kept.save()
        return printed


def _printed(_: object, data: Any) -> Printed:
    return Printed(str(data["text"]), int(data["code"]))
