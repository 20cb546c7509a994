"""What each training process runs: the script, as if Python had started it, and a clean way out.

    python -m trainwright_runtime.launch.process script.py|-m module [arguments]

A process that has done its work must not look like a crash. Left to the interpreter's own
finalization, the C++ threads of gloo and NCCL may still hold Python objects, and now and then the
process ends in SIGABRT: https://github.com/pytorch/pytorch/pull/179291
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import json
import logging
import os
import runpy
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from trainwright_runtime import metrics
from trainwright_runtime.coordination import descriptors, guard
from trainwright_runtime.failures import causes, errors, exit_codes, failure, stacks
from trainwright_runtime.imports import GROUPS, after_import
from trainwright_runtime.launch import cgroup
from trainwright_runtime.launch.parent import die_with_parent
from trainwright_runtime.observe import logs

_log = logging.getLogger(__name__)

_MANY, _OWN = 10_256, 256
"""Open files that a worker of 10,000 needs, and how many of them are not connections of a step."""

_RANKS = {
    "rank": "RANK",
    "local_rank": "LOCAL_RANK",
    "world_size": "WORLD_SIZE",
    "node_rank": "GROUP_RANK",
}

# Frames of ours and of runpy come before the script's own in each of its tracebacks.
_OUR_FILES = (__file__, runpy.__file__, "<frozen runpy>")


def main(argv: Sequence[str]) -> NoReturn:
    """Run the program and exit with its exit code."""
    if "TRAINWRIGHT_SUPERVISED" in os.environ:
        die_with_parent()  # else it would hold its GPU, and hang in its next collective
    stacks.enable()
    _hide_from_children(os.environ)
    logs.configure(os.environ.get("TRAINWRIGHT_LOG_FORMAT", "text"), logs.label_of(os.environ))
    _write_ranks(os.environ)
    after_import(GROUPS, keep_groups)
    if "TRAINWRIGHT_COORDINATOR" in os.environ:
        guard.refuse_other_programs()
        _warn_of_low_limit(descriptors.raise_limit())
    oom_kills = cgroup.oom_kills()
    try:
        _run(argv)
    except SystemExit as end:
        _exit_process(_exit_code(end))
    except KeyboardInterrupt:
        _exit_process(exit_codes.by_signal(signal.SIGINT))
    except BaseException as error:  # noqa: BLE001 - whatever a script raises is reported here
        _exit_process(_report_exception(error, oom_killed=cgroup.oom_kills() > oom_kills))
    _exit_process(exit_codes.DONE)


def _warn_of_low_limit(limit: int) -> None:
    """Warn if the limit of open files is low: this worker is connected with each other one."""
    if limit < _MANY:
        _log.warning(
            "the limit of %d open files is enough for %d workers at most: raise it (ulimit -n, "
            "LimitNOFILE of the container runtime)", limit, max(limit - _OWN, 0),
        )  # fmt: skip


def _write_ranks(environ: Mapping[str, str]) -> None:
    """Write this process's ranks to a folder, for a rehearsal to compare with its prediction."""
    if folder := environ.get("TRAINWRIGHT_REPORT_DIR"):
        ranks = {name: environ.get(variable) for name, variable in _RANKS.items()}
        report = {name: int(rank) for name, rank in ranks.items() if rank is not None}
        Path(folder, f"{os.getpid()}.json").write_text(json.dumps({**report, "pid": os.getpid()}))


def _run(argv: Sequence[str]) -> None:
    """Run a script or a module as Python itself would."""
    if argv[0] == "-m":
        module = argv[1]
        sys.argv = [module, *argv[2:]]
        _check(module)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        script = argv[0]
        sys.argv = list(argv)
        if not sys.flags.safe_path:  # what python itself does for a script
            sys.path[0] = str(Path(script).resolve().parent)
        runpy.run_path(script, run_name="__main__")


def _check(module: str) -> None:
    """Exit with one line if a module does not exist, where runpy would print a traceback."""
    try:
        module_spec = importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # its package is there, and fails to import something else
        module_spec = None
    if module_spec is None:
        mistake = f"no module named {module!r} (searched: {', '.join(sys.path)})"
        print(f"trainwright_runtime: {mistake}", file=sys.stderr)  # noqa: T201
        sys.exit(exit_codes.USAGE)


def _exit_code(end: SystemExit) -> int:
    """Return the exit code as Python does: for None 0, for a message 1, which goes to stderr."""
    if end.code is None:
        return exit_codes.DONE
    if isinstance(end.code, int):
        code = end.code & 0xFF
        if code != exit_codes.DONE:
            _record(code)
        return code
    _record(exit_codes.FAILED, str(end.code))
    print(end.code, file=sys.stderr)  # noqa: T201
    return exit_codes.FAILED


def _report_exception(error: BaseException, *, oom_killed: bool) -> int:
    """Print a script's exception once; return the exit code, by which a retry is decided."""
    at = time.monotonic()  # before the cause is looked for: that may take a lookup of a name
    cause = _cause_of(error, oom_killed=oom_killed)
    line = failure.error_line(error)
    if isinstance(error, errors.RuntimeFailure):
        code = error.exit_code
        line = line.partition(": ")[2]
    else:
        code = exit_codes.FAILED if cause is None or cause.exit_code is None else cause.exit_code
    _record(code, line, cause, at)
    _print_exception(error, cause)
    if "TRAINWRIGHT_SUPERVISED" not in os.environ:  # no entrypoint of ours is there to do it
        _record_for_torchrun(error)
        failure.report(_own_failure(code, line, cause), os.environ)
    return code


def _cause_of(error: BaseException, *, oom_killed: bool) -> causes.Cause | None:
    """Return the cause of an exception, or None if it is unknown."""
    cause = failure.cause_of(error, oom_killed=oom_killed)
    distributed = sys.modules.get("torch.distributed")
    if cause is None and distributed is not None and isinstance(error, distributed.DistError):
        return causes.BY_NAME["peer-lost"]  # the usual reason for an error without a text
    if cause is not None and cause.name == "master-unreachable" and not _master_resolves():
        return causes.BY_NAME["name-not-resolved"]  # torch only reports that it gave up
    return cause


def _print_exception(error: BaseException, cause: causes.Cause | None) -> None:
    """Print an exception on stderr: its traceback, or one line where that is clearer."""
    if isinstance(error, errors.RuntimeFailure):
        print(f"trainwright_runtime: {error}", file=sys.stderr)  # noqa: T201
        return
    if cause is not None and cause.follows:
        # When one rank fails, all others fail in their next collective: their tracebacks would
        # bury the one that matters.
        first = str(error).partition("\n")[0]
        print(f"{type(error).__name__}: {cause.title}: {first}", file=sys.stderr)  # noqa: T201
        return
    trace = _trimmed(error.__traceback__)
    hook = sys.excepthook
    # torch's own hook puts "[rank0]: " before each line, which the entrypoint does already.
    module = getattr(hook, "__module__", None) or ""  # None in a namespace without a name
    if hook is sys.__excepthook__ or module.startswith("torch."):
        traceback.print_exception(type(error), error, trace)
    else:
        hook(type(error), error, trace)


def _record_for_torchrun(error: BaseException) -> None:
    """Write the error where torchrun looks for it, whose summary else has "error_file: <N/A>".

    https://docs.pytorch.org/docs/stable/elastic/errors.html
    """
    if "TORCHELASTIC_ERROR_FILE" in os.environ and "torch" in sys.modules:
        from torch.distributed.elastic.multiprocessing.errors import get_error_handler

        with suppress(OSError):
            get_error_handler().record_exception(error)


def _own_failure(code: int, line: str, cause: causes.Cause | None) -> failure.Failure:
    """Return this process's failure, for a report without an entrypoint of ours."""
    rank, node = (os.environ.get(name, "") for name in ("RANK", "GROUP_RANK"))
    return failure.Failure(
        who=f"rank {rank}",
        rank=int(rank) if rank.isdecimal() else None,
        worker=metrics.worker_name(None, os.environ),
        node=failure.Node(
            rank=int(node) if node.isdecimal() else None,
            name=os.environ.get("HOSTNAME") or socket.gethostname(),
        ),
        time=time.time(),
        how=f"exit code {code}",
        error=line,
        own_exit_code=code,
        cause=cause,
    )


def _record(
    exit_code: int, line: str = "", cause: causes.Cause | None = None, at: float | None = None
) -> None:
    """Report the error before the shutdown: processes may end in another order than they failed."""
    record = failure.Record(
        at=time.monotonic() if at is None else at,
        error=line,
        exit_code=exit_code,
        cause=cause.name if cause else "",
    )
    failure.send(record, os.environ)


def _master_resolves() -> bool:
    try:
        socket.getaddrinfo(os.environ.get("MASTER_ADDR") or "localhost", None)
    except OSError:
        return False
    return True


def _hide_from_children(environ: Mapping[str, str]) -> None:
    """Keep the pipe to the entrypoint from programs that the script starts."""
    descriptor = environ.get("TRAINWRIGHT_FAILURE_FD", "")
    if descriptor.isdecimal():
        with suppress(OSError):
            os.set_inheritable(int(descriptor), False)


def _trimmed(trace: TracebackType | None) -> TracebackType | None:
    while trace and trace.tb_frame.f_code.co_filename in _OUR_FILES:
        trace = trace.tb_next
    return trace


def _exit_process(code: int) -> NoReturn:
    """Exit, doing what the interpreter does at its end except for tearing itself down."""
    if ending := sys.modules.get("trainwright_runtime.coordination.ending"):
        ending.program_ended(code)
    if code == exit_codes.DONE:  # a failed script waits for no thread
        # Ends the idle threads of executors, then joins what is no daemon; multiprocessing does
        # the same: multiprocessing/process.py, BaseProcess._bootstrap.
        threading._shutdown()  # type: ignore[attr-defined]
        _destroy_process_groups()
    # CPython ends its own forked processes like this: multiprocessing/popen_fork.py.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader is gone, or the script closed it
            stream.flush()
    os._exit(code)


def keep_groups(groups: ModuleType) -> None:
    """Keep the process groups that a program destroys until it destroys the next ones.

    DDP's reducer holds the GIL while it releases its group: if that was the last reference, gloo's
    thread waits for the GIL and the program for the thread, forever. One program in
    30 hangs at its end: https://github.com/pytorch/pytorch/issues/56297
    """
    destroy = groups.destroy_process_group
    kept: list[object] = []

    @functools.wraps(destroy)
    def destroy_process_group(*arguments: Any, **options: Any) -> None:
        kept[:] = groups._world.pg_map
        destroy(*arguments, **options)

    groups.destroy_process_group = destroy_process_group  # type: ignore[attr-defined]


def _destroy_process_groups() -> None:
    """Destroy the process groups that the program has left open."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return
    try:
        if distributed.is_initialized():
            distributed.destroy_process_group()
    except RuntimeError as error:
        _log.warning("the work is done, but its process group did not close: %s", error)


if __name__ == "__main__":
    main(sys.argv[1:])
