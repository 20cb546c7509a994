"""Helm's Go SDK as a Python module, which takes a while to start: nothing else is imported here."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from threading import Lock, Thread
from types import ModuleType

from trainwright.datatypes.errors import EngineError

# Who waits for another thread's import that fails is given what it left: a module without content.
_LOADING = Lock()


def load() -> ModuleType:
    """Return Helm's SDK, loaded on first use. Raise EngineError if it cannot be loaded."""
    # Rendering makes much short-lived garbage: collecting it less often takes a fifth off the time.
    os.environ.setdefault("GOGC", "400")
    with _LOADING:
        try:
            import helm_python  # 50 ms, and only commands that render need it
        except Exception as error:  # its own kind too, for a library of another processor
            raise EngineError(f"Helm cannot be loaded: {error}") from error
    return helm_python


@cache
def start() -> None:
    """Start loading the SDK in a thread: Go takes 45 ms without the GIL, so other work goes on."""
    Thread(target=_begin, daemon=True).start()


def _begin() -> None:
    with suppress(EngineError):  # rendering will raise it again
        load()
