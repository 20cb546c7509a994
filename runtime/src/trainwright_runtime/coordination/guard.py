"""Under --recovery=live each worker is on its own until `elastic.training` brings them together.

A program that trains without it would train once in every process, each of them as rank 0, and all
would write the same files. It is refused at the first step of an optimizer.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from trainwright_runtime.coordination import ending
from trainwright_runtime.errors import UsageError

_OPTIMIZERS = "torch.optim.optimizer"


def refuse_other_programs() -> None:
    """Watch the optimizers of this process, once the program imports torch."""
    sys.meta_path.insert(0, _AfterImport(_OPTIMIZERS, _watch))


def _watch(optimizers: ModuleType) -> None:
    optimizers.register_optimizer_step_pre_hook(_require_elastic)


def _require_elastic(*_: Any) -> None:
    if not ending.entered():
        raise UsageError(
            "this program takes an optimizer step outside of elastic.training(), and "
            "--recovery=live would train it once in every process: use "
            "trainwright_runtime.elastic, or --recovery=restart"
        )


class _AfterImport(MetaPathFinder):
    """Calls back once, when a module was imported."""

    def __init__(self, name: str, callback: Callable[[ModuleType], None]) -> None:
        self._name, self._callback = name, callback

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._callback)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Loader, callback: Callable[[ModuleType], None]) -> None:
        self._loader, self._callback = loader, callback

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._callback(module)
