"""Under --recovery=live each worker is on its own until `elastic.training` brings them together.

A program that trains without it would train once in every process, each of them as rank 0, and all
would write the same files. It is refused at the first step of an optimizer, or where it makes a
process group, as Lightning does first. So is one that divides a record over processes.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any, NoReturn

from trainwright_runtime.coordination import ending
from trainwright_runtime.failures.errors import UsageError
from trainwright_runtime.imports import GROUPS, after_import

_OPTIMIZERS = "torch.optim.optimizer"


def refuse_other_programs() -> None:
    """Have training outside of `elastic.training` raise UsageError, once torch is imported."""
    after_import(_OPTIMIZERS, _watch_steps)
    after_import(GROUPS, _watch_groups)
    after_import("torch.distributed.tensor.experimental", _watch_context_parallel)
    after_import("accelerate.state", _watch_accelerate)


def _watch_steps(optimizers: ModuleType) -> None:
    optimizers.register_optimizer_step_pre_hook(_require_elastic)


def _require_elastic(*_: Any) -> None:
    if not ending.entered():
        raise _refusal("takes an optimizer step outside of elastic.training()")


def _watch_groups(groups: ModuleType) -> None:
    """Refuse a process group of all nodes: one without ranks, a store or an init_method.
    Processes of one node have ranks, and those that the program starts may have them."""
    init = groups.init_process_group

    @functools.wraps(init)
    def require_ranks(*arguments: Any, **options: Any) -> Any:
        given = len(arguments) > 1 or options.keys() & {"store", "init_method"}
        if not given and not _has_ranks():
            raise _refusal("requests a process group of all workers")
        return init(*arguments, **options)

    groups.init_process_group = require_ranks  # type: ignore[attr-defined]


def _watch_context_parallel(experimental: ModuleType) -> None:
    """Refuse context_parallel(), which gives each process its own part of each record.

    No optimizer step or process group would show it.
    """

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise _refusal("divides records over processes by context_parallel()")

    experimental.context_parallel = refuse  # type: ignore[attr-defined]


def _watch_accelerate(state: ModuleType) -> None:
    """Hide LOCAL_RANK from accelerate in a process without ranks, so that it sees no others.

    A Trainer can then give elastic training its parts. A program that trains with accelerate
    itself steps its optimizer, and is refused there.
    """
    init = state.PartialState.__init__

    @functools.wraps(init)
    def alone(*arguments: Any, **options: Any) -> None:
        rank = None if _has_ranks() else os.environ.pop("LOCAL_RANK", None)
        try:
            init(*arguments, **options)
        finally:
            if rank is not None:
                os.environ["LOCAL_RANK"] = rank

    state.PartialState.__init__ = alone


def _has_ranks() -> bool:
    return os.environ.keys() >= {"RANK", "MASTER_ADDR"}


def _refusal(what: str) -> UsageError:
    return UsageError(
        f"this program {what}, and --recovery=live would train it once in every process: use "
        "trainwright_runtime.elastic, or --recovery=restart"
    )
