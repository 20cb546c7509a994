"""Start training as this container's launcher expects, or run one of the sub-commands."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType

from trainwright_runtime.coordination import identity
from trainwright_runtime.failures import errors, failure
from trainwright_runtime.failures.failure import Node
from trainwright_runtime.health import preflight
from trainwright_runtime.launch import machine, options
from trainwright_runtime.launch.launchers import recognise
from trainwright_runtime.launch.layout import Layout, Machine, resolve
from trainwright_runtime.launch.options import Options, Program
from trainwright_runtime.launch.processes import handling
from trainwright_runtime.observe import logs
from trainwright_runtime.recovery import node_processes

_log = logging.getLogger(f"{logs.ROOT}.entrypoint")

_WITHOUT_A_KEY = (
    "without TRAINWRIGHT_RUN_KEY the ports of this training are closed to other runs, but not to "
    "an attacker who knows its name"
)

# Imported when used: each needs its own libraries. All have main(argv) -> exit code.
COMMANDS = {
    "audit": "trainwright_runtime.elastic.audit",
    "coordinator": "trainwright_runtime.coordination.coordinator",
    "slow-nodes": "trainwright_runtime.health.slow_nodes",
    "report": "trainwright_runtime.report",
}

# Imported when used. All have run(layout, options, environ) -> exit code.
RECOVERIES = {
    "ray": "trainwright_runtime.ray",
    "none": "trainwright_runtime.recovery.none",
    "restart": "trainwright_runtime.recovery.restart",
    "live": "trainwright_runtime.recovery.live",
}


def main(argv: Sequence[str]) -> int:
    """Run the command line and return the container's exit code."""
    logs.configure("text", {})
    if argv and argv[0] in COMMANDS:
        return _command(COMMANDS[argv[0]], argv[1:])
    try:
        with _stoppable():
            code = _train(options.parse(argv, os.environ), os.environ)
    except errors.RuntimeFailure as error:
        return _report_failure(error, os.environ)
    failure.clear_message(code, os.environ)
    return code


def _command(module: str, argv: Sequence[str]) -> int:
    try:
        code: int = importlib.import_module(module).main(argv)
    except errors.RuntimeFailure as error:
        _log.error("%s", error)
        return error.exit_code
    return code


def _report_failure(error: errors.RuntimeFailure, environ: Mapping[str, str]) -> int:
    """Report an error that ended the entrypoint itself, and return the exit code."""
    try:
        node = node_processes.node_of(recognise(environ))
    except errors.RuntimeFailure:
        node = Node(rank=None, name=environ.get("HOSTNAME", ""))
    own_failure = failure.Failure(
        who="", rank=None, worker="", node=node, time=time.time(), how="",
        error=str(error), own_exit_code=error.exit_code, cause=failure.cause_of(error),
    )  # fmt: skip
    return failure.report(own_failure, environ)


def _train(chosen: Options, environ: Mapping[str, str]) -> int:
    """Start the training processes of this node with their recovery; return the exit code."""
    placement = recognise(environ)
    rank = {} if placement.node_rank is None else {"node": placement.node_rank}
    logs.configure(chosen.log_format, rank or {"node": placement.node})
    layout = resolve(
        placement,
        chosen,
        Machine(gpus=machine.gpus, has_gpu_driver=machine.has_gpu_driver, cores=machine.cores),
    )
    _check(chosen.program)
    environ = {**environ, **_identify_run(layout, environ)}
    recovery = _recovery(layout, chosen)
    _log.info("%s, %s", layout, "Ray" if recovery == "ray" else f"recovery {recovery}")
    if recovery == "launcher":
        _replace_process(layout, chosen, environ)
    preflight.run(layout, chosen, environ)
    code: int = _imported(recovery).run(layout, chosen, environ)
    return code


def _imported(recovery: str) -> ModuleType:
    """Return the module of a recovery. Raise UsageError if the image lacks what it needs."""
    try:
        return importlib.import_module(RECOVERIES[recovery])
    except ModuleNotFoundError as error:
        raise errors.UsageError(
            f"--recovery={recovery} needs {error.name}, which this image does not have: "
            "build it on one that does"
        ) from error


def _identify_run(layout: Layout, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that identify the run, and set them for this process: it may listen too.

    Raise EnvironmentMistake if the run's secret cannot be read or is too short.
    """
    placement = layout.placement
    may_span_nodes = placement.per_process or "TRAINWRIGHT_COORDINATORS" in environ
    alone = layout.nodes.high == 1 and not may_span_nodes
    variables = identity.ensured(environ, placement.master_addr, alone=alone)
    os.environ.update(variables)
    if not (identity.Identity.of(os.environ).secret or layout.nodes.high == 1):
        _log.info("%s", _WITHOUT_A_KEY)
    return variables


def _recovery(layout: Layout, chosen: Options) -> str:
    """Return what restarts training after a failure: a key of RECOVERIES, or "launcher"."""
    if chosen.ray:
        return _ray(layout)
    if chosen.recovery == "live":
        return "live"
    if layout.placement.per_process:
        return "launcher"  # it watches its processes itself
    if layout.placement.elastic:
        return "restart"  # ranks come from torch's rendezvous only, which its agent leads
    return chosen.recovery


def _ray(layout: Layout) -> str:
    """Return "ray". Raise UsageError if node 0 is unknown or the launcher starts each process."""
    placement = layout.placement
    if placement.per_process or placement.elastic:
        raise errors.UsageError(
            f"--ray needs a fixed number of nodes, and node 0 among them: {placement.launcher} "
            + ("starts each process itself" if placement.per_process else "lets nodes come and go")
        )
    return "ray"


def _replace_process(layout: Layout, chosen: Options, environ: Mapping[str, str]) -> None:
    """Replace this process with the training process that the launcher has already placed."""
    command = node_processes.argv(chosen)
    os.execve(command[0], command, {**environ, **node_processes.manifest_variables(layout, chosen)})  # noqa: S606


def _check(program: Program) -> None:
    """Raise UsageError if the program does not exist: here once, instead of in every process."""
    if program.script and not Path(program.script).exists():
        raise errors.UsageError(f"{program.script} is not there (looked in {Path.cwd()})")
    package = program.module.partition(".")[0]
    sys.path.insert(0, str(Path.cwd()))  # where -m looks first in the training processes
    if package and importlib.util.find_spec(package) is None:
        raise errors.UsageError(f"no module named {package!r} in {Path.cwd()} or sys.path")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let a signal end the wait before training; a PID 1 without handlers would ignore it."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise errors.Stopped(number)

    with handling(handle):
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
