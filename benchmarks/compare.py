"""Whether a revision is slower than another: both do the same on this machine, in turn.

    .venv/bin/python benchmarks/compare.py BEFORE [AFTER] [--runs 7] [--only "render" ...]

Each revision is checked out into a temporary worktree and started from there, with the libraries of
this environment, over files of its own that begin alike: the jobs are copies of those that BEFORE
ships. The processes of both alternate, and which of them is first alternates as well. What is
compared is the CPU time of a process and its children, since others may use the machine. A scenario
is slower where three of four pairs are, by more than `--limit`; the command ends with 1 then. What
one of them cannot do is skipped, by its own words.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import manifests
from pipeline import COMMAND, HERE, commit, multiply


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two revisions: where it is checked out, and where it works."""

    tree: Path
    root: Path

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.tree / "generator/src"),
            "XDG_CACHE_HOME": str(self.root / "cache"),
        }

    def start(self, arguments: Sequence[str]) -> float:
        """Run a command, and return its CPU time in seconds."""
        return manifests.timed([*COMMAND, *arguments], self._environment, self.root).processor

    def save(self, arguments: Sequence[str]) -> float:
        """Return the CPU time in seconds that a command which watches needs for one save."""
        command = [*COMMAND, *arguments]
        spec = self._spec
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment,
            cwd=self.root,
            text=True,
        ) as process:
            assert process.stdout is not None
            _answer(process.stdout)
            before = _used(process.pid)
            for number in range(_SAVES):
                text = spec.read_text().partition("# saved")[0]
                spec.write_text(f"{text}# saved\nmaxDuration: {number + 1}h\n")
                _answer(process.stdout)
            used = _used(process.pid) - before
            process.terminate()
        return used / _SAVES

    def refusal(self, arguments: Sequence[str]) -> str:
        """Return what a revision says that lacks a command or one of its options, else ""."""
        command = [*COMMAND, *arguments, "--help"]
        done = subprocess.run(
            command, capture_output=True, text=True, env=self._environment, check=False
        )
        return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""

    @property
    def _spec(self) -> Path:
        return sorted((self.root / "environments").glob("*/jobs/*-0001.yaml"))[0]

    def clean(self) -> None:
        """Take away what is rendered and remembered."""
        shutil.rmtree(self.root / "cache", ignore_errors=True)
        for rendered in (self.root / "environments").glob("*/rendered"):
            shutil.rmtree(rendered)

    def forget(self) -> None:
        shutil.rmtree(self.root / "cache", ignore_errors=True)

    def edit(self) -> None:
        """Render and commit, and then change a line of one job and render it, if not done yet."""
        if "# edited" in self._spec.read_text():
            return
        self.start(["render"])
        commit(self.root)
        self._spec.write_text(f"{self._spec.read_text()}resources: {{memory: 7Gi}} # edited\n")
        self.start(["render"])


_SAVES = 10


def _answer(lines: Iterable[str]) -> None:
    """Read the next answer, which is JSON in several lines."""
    for line in lines:
        if line.rstrip() == "}":
            return
    raise SystemExit("a command that watches has ended")


def _used(pid: int) -> float:
    """Return the CPU time in seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command, as revisions spell it, and what comes before each of its runs, which is not
    measured.
    """

    spellings: tuple[tuple[str, ...], ...]
    before: Callable[[Side], object] = lambda _: None
    measure: Callable[[Side, Sequence[str]], float] = Side.start


_MANIFESTS = ("manifests", "-o", "json")
_PLAN = ("plan", "--against", "HEAD")
SCENARIOS = {
    "validate": Scenario((("validate", *_MANIFESTS), ("check", "--manifests", *_MANIFESTS))),
    "render from cold": Scenario((("render",),), Side.clean),
    "render --check": Scenario((("render", "--check", "--no-cache"),)),
    "check from cold": Scenario((("check",),), Side.forget),
    "check again": Scenario((("check",),)),
    "list jobs": Scenario((("list", "jobs"),)),
    "plan": Scenario((_PLAN,), Side.edit),
    "a save, watched": Scenario(((*_PLAN, "-o", "json", "--watch"),), Side.edit, Side.save),
    "--help": Scenario((("--help",),)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("before", help="a revision of this repository")
    parser.add_argument("after", nargs="?", default="HEAD")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=167, help="jobs in each environment")
    parser.add_argument("--only", choices=SCENARIOS, nargs="+", default=[*SCENARIOS])
    parser.add_argument("--limit", type=float, default=1.05)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as name:
        folder = Path(name)
        with (
            checked_out(options.before, folder / "a") as a,
            checked_out(options.after, folder / "b") as b,
        ):
            sides = Side(a, folder / "before"), Side(b, folder / "after")
            prepare(sides, options.documents, options.jobs)
            print(f"CPU seconds, median of {options.runs} pairs: {options.before}, {options.after}")
            slower = [
                name
                for name in SCENARIOS  # in this order, since some change the files
                if name in options.only and compare(name, sides, options.runs) > options.limit
            ]
    if slower:
        sys.exit(f"slower: {', '.join(slower)}")


@contextmanager
def checked_out(revision: str, tree: Path) -> Iterator[Path]:
    git = ["git", "-C", str(HERE), "worktree"]
    add = [*git, "add", "--quiet", "--detach", str(tree), revision]
    subprocess.run(add, check=True)
    try:
        compileall.compile_dir(str(tree / "generator/src"), quiet=1)  # as pip leaves it
        yield tree
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def prepare(sides: tuple[Side, Side], documents: int, jobs: int) -> None:
    first, second = sides
    (first.root / "manifests").mkdir(parents=True)
    manifests.write(first.root / "manifests", documents, 0.01)
    multiply(first.root, jobs, first.tree)
    commit(first.root)
    shutil.copytree(first.root, second.root)


def compare(name: str, sides: tuple[Side, Side], runs: int) -> float:
    """Print how both do in a scenario; the ratio that three of four pairs are above."""
    scenario = SCENARIOS[name]
    commands: dict[Side, Sequence[str]] = {}
    for side in sides:
        refusals = {spelling: side.refusal(spelling) for spelling in scenario.spellings}
        spelled = [spelling for spelling, refusal in refusals.items() if not refusal]
        if not spelled:
            print(f"{name:18} skipped, {side.root.name}: {refusals[scenario.spellings[0]]}")
            return 0
        commands[side] = spelled[0]
    times: dict[Side, list[float]] = {side: [] for side in sides}
    for side in sides:  # once without measuring, for what comes before is remembered
        scenario.before(side)
        scenario.measure(side, commands[side])
    for run in range(runs):
        for side in sides if run % 2 else reversed(sides):
            scenario.before(side)
            times[side].append(scenario.measure(side, commands[side]))
    before, after = (times[side] for side in sides)
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(
        f"{name:18} {statistics.median(before):7.3f} {statistics.median(after):7.3f}"
        f"   ratio {middle:.2f} ({low:.2f} to {high:.2f}), least {min(after) / min(before):.2f}",
        flush=True,
    )
    return low


if __name__ == "__main__":
    main()
