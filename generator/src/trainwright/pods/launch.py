"""The command line of the training container: where generator and runtime image meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.model import Data, Job

RUNTIME = ("python", "-m", "trainwright_runtime")
# The entrypoint's checks before training, and which of them it does unasked.
CHECKS = ("shm", "memory", "disk", "ports", "names", "checkpoint", "collective")
_UNASKED: Mapping[str, bool] = {"shm": True, "disk": True, "checkpoint": True}
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
        *_preflight(job.preflight),
        "--",
        *program,
    ]


def _preflight(asked: Mapping[str, Data]) -> Iterator[str]:
    if asked:
        wanted = {**_UNASKED, **asked}
        words = [_check(name, wanted.get(name, False)) for name in CHECKS]
        yield f"--preflight={','.join(filter(None, words)) or 'none'}"


def _check(name: str, value: Data) -> str:
    if isinstance(value, bool):
        return name if value else ""
    return f"{name}={value if isinstance(value, str) else f'{value:g}'}"


def read_preflight(option: str) -> dict[str, Data]:
    """What a job says of its checks that gets such an option; nothing for one that is not ours."""
    if not option:
        return {}
    found: dict[str, Data] = dict.fromkeys(_UNASKED, False)
    for word in option.split(",") if option != "none" else ():
        name, equals, value = word.partition("=")
        if name not in CHECKS or (name == "collective" and equals and not _is_number(value)):
            return {}
        found[name] = (float(value) if name == "collective" else value) if equals else True
    return {name: found[name] for name in CHECKS if name in found}


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


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
