"""What import makes of a folder of public jobs: what is left, how short specs are, how fast.

    .venv/bin/python benchmarks/importing.py [FOLDER] [--environment FILE]

Each file is imported by itself, without writing, into an environment that allows everything. A line
per workload: the exit code that the file has, what is left by severity, whether the pods are the
same but by design, lines of the spec over those of the file, and CPU time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "tests/generator/importing"))

import test_workloads as workloads  # type: ignore[import-not-found] # noqa: E402 - what the test holds

from trainwright.importing import text  # noqa: E402
from trainwright.kinds.reading import Loss  # noqa: E402

SHARED = HERE.parent / "shared/workloads"
WANTED = 0.5  # seconds of a job, in the median


@dataclass(frozen=True, slots=True)
class Measured:
    """One file: seconds of CPU, and the shares of lines of what was imported of it."""

    seconds: float
    shares: tuple[float, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, default=SHARED)
    parser.add_argument("--environment", type=Path, help="an environment.yaml to import into")
    options = parser.parse_args()
    files = sorted(options.folder.rglob("*.y*ml"))
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as name:
        path = Path(name) / "environments/open/environment.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(_environment(options.environment, files), encoding="utf-8")
        found = [measured for file in files for measured in _measured(Path(name), file)]
    imported = [one for one in found if one.shares]
    if imported:
        seconds = [one.seconds for one in imported]
        shares = [share for one in imported for share in one.shares]
        print(
            f"{len(imported)} of {len(files)} files imported; in the median "
            f"{statistics.median(seconds):.2f} s (wanted {WANTED}), "
            f"{statistics.median(shares):.0%} of the lines (wanted 45 %)"
        )


def _environment(given: Path | None, files: list[Path]) -> str:
    if given:
        return given.read_text(encoding="utf-8")
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    names = sorted({name for content in texts for name in workloads.QUEUE.findall(content)})
    queues = "".join(f"  {name}: {{}}\n" for name in names) or "  none: {}\n"
    return f"{workloads.ENVIRONMENT}{queues}"


def _measured(root: Path, file: Path) -> Iterator[Measured]:
    started = time.process_time()
    found, done = workloads.imported(root, file)
    seconds = time.process_time() - started
    failed = found.findings or found.problems or done.problems or done.broken
    code, shares = int(bool(failed)), []
    if not done.imported:
        print(f"{file.name:44} {code}  refused")
    for one in done.imported:
        counts = [sum(left.severity is kind for left in one.left) for kind in Loss]
        same = "same pods" if not workloads.differing(one, root) else "other pods"
        lines = [workloads.lines(t) for t in (text.spec(one), file.read_text(encoding="utf-8"))]
        shares.append(lines[0] / lines[1])
        left = ", ".join(f"{n} {kind.value}" for n, kind in zip(counts, Loss, strict=True) if n)
        print(
            f"{file.name:44} {code}  {same}  {lines[0]:4}/{lines[1]:<4} {seconds:5.2f} s  "
            f"{left or 'nothing left'}"
        )
    yield Measured(seconds, tuple(shares))


if __name__ == "__main__":
    main()
