"""The training processes of this node, with any recovery: command, variables, restarts."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from trainwright_runtime.coordination.identity import Identity
from trainwright_runtime.failures import errors, exit_codes
from trainwright_runtime.failures.failure import Node
from trainwright_runtime.launch.launchers import Placement
from trainwright_runtime.launch.layout import Layout
from trainwright_runtime.launch.options import DEFAULT_RESTARTS, Options
from trainwright_runtime.launch.processes import Events, Failed, Process, stop
from trainwright_runtime.launch.rendezvous import wait_for

_log = logging.getLogger(__name__)

_LAUNCHED = time.time()  # the entrypoint's start, all but its imports

ROLE = "trainer"


def argv(options: Options) -> list[str]:
    """Return the command of one training process."""
    return [sys.executable, "-u", "-m", "trainwright_runtime.launch.process", *options.program.argv]


def common_variables(
    layout: Layout, options: Options, environ: Mapping[str, str], local_rank: int
) -> dict[str, str]:
    """Return the variables that every training process of ours has, with any recovery."""
    return {
        "OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS") or str(layout.threads),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(layout.nproc),
        **manifest_variables(layout, options),
        "TRAINWRIGHT_SUPERVISED": "1",
    }


def rank_variables(rank: int, world: int, *, node: int | None, nodes: int | None) -> dict[str, str]:
    """Return the variables of torchrun by which a process knows its rank, and its node's.

    Scripts and libraries read them: `torch.distributed.is_torchelastic_launched()`, Lightning.
    https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
    """
    return {
        **dict.fromkeys(("RANK", "ROLE_RANK"), str(rank)),
        **dict.fromkeys(("WORLD_SIZE", "ROLE_WORLD_SIZE"), str(world)),
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": str(nodes),
        "ROLE_NAME": ROLE,
        "TORCHELASTIC_RUN_ID": Identity.of(os.environ).name,
    }


def attempt_variables(
    number: int, most: int, *, address: str, port: int | None, store_is_open: bool
) -> dict[str, str]:
    """Return those by which the processes of an attempt (of `most` after the first) meet."""
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": str(number),
        "TORCHELASTIC_MAX_RESTARTS": str(most),
        "TORCHELASTIC_USE_AGENT_STORE": str(store_is_open),
    }


def manifest_variables(layout: Layout, options: Options) -> dict[str, str]:
    """Return the variables by which a script follows the manifest, under other launchers too."""
    return {
        "TRAINWRIGHT_BACKEND": layout.backend,
        "TRAINWRIGHT_GRACE_PERIOD": f"{options.grace_period:g}",
        "TRAINWRIGHT_LOG_FORMAT": options.log_format,
        "TRAINWRIGHT_LAUNCHED_AT": f"{_LAUNCHED:.3f}",
    }


def max_restarts(layout: Layout, options: Options) -> int:
    """Return the limit of the command line, else of the launcher, else the recovery's default."""
    if options.max_restarts is not None:
        return options.max_restarts
    if layout.placement.max_restarts is not None:
        return layout.placement.max_restarts
    return 0 if options.recovery == "none" else DEFAULT_RESTARTS


def watch(addresses: Sequence[tuple[str, int]], timeout: float, events: Events) -> None:
    """Wait in the background until one address answers; put Failed on `events` if none does."""

    def wait() -> None:
        try:
            wait_for(addresses, timeout)
        except errors.Unreachable as error:
            events.put(Failed(error))

    threading.Thread(target=wait, daemon=True).start()


def node_of(placement: Placement) -> Node:
    """Return this node as failures name it."""
    return Node(rank=placement.node_rank, name=placement.node)


def stopped(processes: list[Process], number: int, grace: float) -> int:
    """Pass a signal from outside on to the processes; return the exit code when they have ended."""
    _log.info("%s: passing it on, then waiting %g s", signal.Signals(number).name, grace)
    stop(processes, number, grace)
    return exit_code_after(processes, number, grace)


def exit_code_after(processes: list[Process], number: int, grace: float) -> int:
    """Return the exit code for processes that were stopped by a signal from outside."""
    codes = {process.exit_code for process in processes}
    if codes == {exit_codes.DONE}:
        return exit_codes.DONE
    if exit_codes.by_signal(signal.SIGKILL) in codes:
        name = signal.Signals(number).name
        _log.error("not done %g s after %s (--grace-period): killed", grace, name)
        return exit_codes.by_signal(signal.SIGKILL)
    return exit_codes.by_signal(number)
