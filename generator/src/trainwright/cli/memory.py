"""What a verb printed before: said again, while everything that it looked at is as it was.

Reading some thousands of files takes less than finding out again what follows from them, and
nothing of what finds it out is imported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from trainwright.memo import Cell
from trainwright.specs import memory
from trainwright.specs.memory import EMBEDDED
from trainwright.specs.tracked import Tracked
from trainwright.specs.tree import Folder, Tree


class Printed(NamedTuple):
    """The output of a verb, and its exit code."""

    text: str
    code: int


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
        self._asked = {**settings, "program": memory.fingerprint(engine)}
        name = hashlib.sha256(json.dumps(selections).encode()).hexdigest()[:16]
        # No environment, which have files beside this one, has a name with an underscore.
        self._path = memory.location(root, f"_{verb}-{name}")

    def recall(self) -> Printed | None:
        """What would be printed now; None where that has to be found out."""
        try:
            known = json.loads(self._path.read_bytes())
            if known["asked"] != self._asked or not self._tree.is_as(known["seen"]):
                return None
            return Printed(str(known["text"]), int(known["code"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def print(self, make: Callable[[Tree], Printed]) -> Printed:
        """Find out what a verb prints of the files of a tree, and remember it."""
        printed = Cell(self._tree.memo, lambda: make(self._tree)).get()
        if self._tree.whole:
            known = {**printed._asdict(), "asked": self._asked, "seen": self._tree.seen}
            memory.write(self._path, json.dumps(known))
        return printed
