"""The embedded engine, which renders equal values once: Helm makes the same of them each time, see
tests/generator/test_engines.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

from trainwright.datatypes.data import Data
from trainwright.helm import engines

_MANY = 2000  # renderings, some 20 MB


class _Remembering(engines.Engine):
    def __init__(self) -> None:
        self._engine = engines.Embedded()
        self._rendered: dict[str, dict[str, str]] = {}

    def render(self, values: Mapping[str, Data], release: str, namespace: str) -> dict[str, str]:
        asked = json.dumps([values, release, namespace], default=dict)
        if asked not in self._rendered:
            if len(self._rendered) == _MANY:
                self._rendered.clear()
            self._rendered[asked] = self._engine.render(values, release, namespace)
        return dict(self._rendered[asked])


_of_binary = engines.engine  # tests replace it


@cache
def engine(binary: str | None = None) -> engines.Engine:
    """The same one for all tests of a process; that of a binary remembers nothing."""
    return _of_binary(binary) if binary else _Remembering()
