"""What the everyday verbs cost in a large repository: 120 environments of 25 jobs, all rendered.

    make bench     # or: .venv/bin/python benchmarks/repository.py [--environments 120] [--runs 5]

The environments are copies of the shipped ones, with their jobs and targets. Every command is a
process of its own, and the runs of all commands alternate, so that a busy hour is nobody's in
particular; CPU time, of the process and its children, is what to compare. The floor of a verb
starts Python and reads the files that the verb has to read. The last line of the output says which
revision of `plan` changes what, since a plan that finds nothing would be cheap.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import COMMAND, HERE, commit, copies, trainwright

_READ = """
import sys
from pathlib import Path
for pattern in sys.argv[2:]:
    for path in Path(sys.argv[1]).glob(pattern):
        path.is_file() and path.read_bytes()
"""
_SPECS = ("environments/*.yaml", "environments/*/*.yaml", "environments/*/jobs/*.yaml")
_RECORDS = ("environments/*/rendered/*/run.lock",)
_RENDERED = ("environments/*/rendered/*", "environments/*/rendered/*/*")


@dataclass(frozen=True, slots=True)
class Measured:
    """A command, the files that it has to read, and the CPU time that is wanted, in ms."""

    name: str
    arguments: tuple[str, ...]
    reads: tuple[str, ...] = ()
    wanted: int | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--environments", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=25, help="jobs in each environment")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process compiles every module again
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as folder:
        root = Path(folder) / "repository"
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        fill(root, options.environments, options.jobs)
        changed = commit_and_change(root)
        report(root, commands(root), options.runs)
        print(f"plan is of one line in {changed.relative_to(root)}")


def fill(root: Path, environments: int, jobs: int) -> None:
    """Copies of the shipped environments in turn, each with `jobs` copies of its own jobs."""
    shipped = HERE / "environments"
    originals = sorted(path.parent for path in shipped.glob("*/environment.yaml"))
    for number in range(environments):
        original = originals[number % len(originals)]
        copies(original, root / "environments" / f"{original.name}-{number:03}", jobs)
    for path in [*shipped.glob("*.yaml"), *shipped.glob("base")]:
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, root / "environments" / path.name)
    trainwright(root, "render")
    trainwright(root, "check")


def commit_and_change(root: Path) -> Path:
    """Everything committed to main, and one line of one job changed since."""
    commit(root)
    job = min((root / "environments").glob("prod-*/jobs/*.yaml"))
    job.write_text(f"{job.read_text()}maxDuration: 77h\n")
    return job


def commands(root: Path) -> tuple[Measured, ...]:
    job = min((root / "environments").glob("dev-*/jobs/*.yaml"))
    one = f"{job.parents[1].name}/{job.stem}"
    folder = f"environments/{job.parents[1].name}"
    its = ("environments/*.yaml", f"{folder}/environment.yaml", f"{folder}/jobs/{job.name}")
    return (
        Measured("--help", ("--help",)),
        Measured("check of one job", ("check", "--no-cache", one), its, 250),
        Measured("check of one job, cached", ("check", one), its, 250),
        Measured("list jobs", ("list", "jobs"), (*_SPECS, *_RECORDS), 500),
        Measured("check, nothing changed", ("check",), (*_SPECS, *_RENDERED), 500),
        Measured("plan of one line", ("plan", "--against", "main"), (*_SPECS, *_RECORDS), 2000),
    )


def report(root: Path, measured: Sequence[Measured], runs: int) -> None:
    processes: dict[str, list[str]] = {"": [sys.executable, "-c", "pass"]}
    for each in measured:
        processes[each.name] = [*COMMAND, "-C", str(root), *each.arguments]
        processes[f"{each.name} floor"] = [sys.executable, "-c", _READ, str(root), *each.reads]
    found = medians(processes, runs)
    specs = len(list(root.glob("environments/*/jobs/*.yaml")))
    print(
        f"{specs} specs, median of {runs} alternating runs; Python starts in {found[''][0]:.0f} ms"
    )
    print(f"{'':26} {'CPU ms':>8} {'wall ms':>8} {'floor ms':>9} {'ratio':>6}")
    for each in measured:
        cpu, wall = found[each.name]
        floor, _ = found[f"{each.name} floor"]
        wanted = f"   (wanted: at most {each.wanted} ms)" if each.wanted else ""
        print(f"{each.name:26} {cpu:8.0f} {wall:8.0f} {floor:9.0f} {cpu / floor:6.1f}{wanted}")


def medians(processes: Mapping[str, list[str]], runs: int) -> dict[str, tuple[float, float]]:
    """CPU time and time of each process, in ms, by name."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
    for _ in range(runs):
        for name, command in processes.items():
            taken[name].append(spent(command))
    return {
        name: (
            statistics.median(cpu for cpu, _ in times),
            statistics.median(wall for _, wall in times),
        )
        for name, times in taken.items()
    }


def spent(command: list[str]) -> tuple[float, float]:
    """Milliseconds of CPU, of a process and those that it waited for, and of time."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=HERE
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000, wall * 1000


if __name__ == "__main__":
    main()
