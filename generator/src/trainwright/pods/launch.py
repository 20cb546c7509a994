"""The command line of the training container: where generator and runtime image meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.model import Data, Job

RUNTIME = ("python", "-m", "trainwright_runtime")
SCRIPT_FOLDER = "/opt/trainwright"  # where a script that the spec holds is mounted
SCRIPT_FILE = "main.py"


def command(job: Job, rendezvous: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> list[str]:
    """The container's command: the launcher and what it starts, without the job's flags.

    `rendezvous` are torchrun options for targets whose operator does not set PET_* itself,
    `options` those of our own entrypoint beside the ones that it always gets.
    """
    entry = job.entrypoint
    if entry.argv:
        return list(entry.argv)
    script = f"{SCRIPT_FOLDER}/{SCRIPT_FILE}" if entry.inline else entry.script
    program = [script] if script else ["-m", entry.module]
    if job.launcher == "torchrun":
        return ["torchrun", f"--nproc-per-node={job.procs_per_node}", *rendezvous, *program]
    if job.launcher == "python":
        return ["python", "-u", *program]
    return [
        *RUNTIME,
        f"--backend={job.backend}",
        f"--nproc-per-node={job.procs_per_node}",
        f"--grace-period={job.grace_period}",
        *options,
        "--",
        *program,
    ]


def starts_runtime(job: Job) -> bool:
    """Whether our own entrypoint runs in the container, and so knows every way to be started."""
    return job.launcher == "trainwright" and not job.entrypoint.argv


def restart_policy(job: Job) -> str:
    """Our entrypoint says by its exit code whether a retry can help; other launchers do not."""
    if job.retries == 0:
        return "Never"
    return "ExitCode" if starts_runtime(job) else "OnFailure"


def arguments(flags: Mapping[str, Data]) -> list[str]:
    """Flags as arguments, sorted by name so that the order they are written in changes nothing.

    `true` becomes the bare flag, `false` leaves it out, a list repeats it.
    """
    return [argument for name in sorted(flags) for argument in _flag(name, flags[name])]


def _flag(name: str, value: Data) -> Iterator[str]:
    if value is True:
        yield f"--{name}"
    elif isinstance(value, list):
        for item in value:
            yield f"--{name}={_word(item)}"
    elif value is not False:
        yield f"--{name}={_word(value)}"


def _word(value: Data) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
