"""Under --recovery=live each worker is on its own until `elastic.training` brings them together.

A program that trains without it would train once in every process, each of them as rank 0, and all
would write the same files. It is refused at the first step of an optimizer, or where it makes a
process group: Hugging Face's Trainer, accelerate and Lightning do that first.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from trainwright_runtime.coordination import ending
from trainwright_runtime.errors import UsageError

_OPTIMIZERS, _GROUPS = "torch.optim.optimizer", "torch.distributed.distributed_c10d"


def refuse_other_programs() -> None:
    """Watch what this process trains with, once the program imports torch."""
    sys.meta_path.insert(0, _AfterImport(_OPTIMIZERS, _watch_steps))
    sys.meta_path.insert(0, _AfterImport(_GROUPS, _watch_groups))


def _watch_steps(optimizers: ModuleType) -> None:
    optimizers.register_optimizer_step_pre_hook(_require_elastic)


def _require_elastic(*_: Any) -> None:
    if not ending.entered():
        raise _refusal("takes an optimizer step outside of elastic.training()")


def _watch_groups(groups: ModuleType) -> None:
    """Of all nodes, that is: processes of one node have ranks, and so may those of the program."""
    init = groups.init_process_group

    @functools.wraps(init)
    def require_ranks(*arguments: Any, **options: Any) -> Any:
        given = len(arguments) > 1 or options.keys() & {"store", "init_method"}
        if not given and not os.environ.keys() >= {"RANK", "MASTER_ADDR"}:
            raise _refusal("requests a process group of all workers")
        return init(*arguments, **options)

    groups.init_process_group = require_ranks  # type: ignore[attr-defined]


def _refusal(what: str) -> UsageError:
    return UsageError(
        f"this program {what}, and --recovery=live would train it once in every process: use "
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
