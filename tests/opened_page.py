"""A page in a real browser, which notes whatever it prints, breaks or asks the network for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Opened:
    """A page in the browser, what it printed, and what it asked for."""

    page: Any  # of Playwright, which may not be installed
    file: Path
    printed: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """Nothing on the console, no error, and no request but for the file itself."""
        assert self.printed == []
        assert {url.partition("#")[0] for url in self.requested} == {self.file.as_uri()}


Visit = Callable[..., Opened]
