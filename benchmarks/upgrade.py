"""How long `trainwright admin upgrade` takes, as ratios over rendering 3,000 jobs from cold.

    .venv/bin/python benchmarks/upgrade.py [--jobs 1000] [--runs 1]

The jobs are those of pipeline.py, rendered and recorded. Each version renders beside the recorded
runs, then every job anew, and checks them: so one version costs a cold rendering, and what is above
that is copying, comparing and the processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from pipeline import HERE, multiply, timed, trainwright


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=1000, help="jobs in each environment")
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as folder:
        root = Path(folder)
        os.environ["XDG_CACHE_HOME"] = str(root / "cache")
        multiply(root, options.jobs)
        report(root, options.runs)


def report(root: Path, runs: int) -> None:
    def clean() -> None:
        shutil.rmtree(root / "cache", ignore_errors=True)
        for rendered in (root / "environments").glob("*/rendered"):
            shutil.rmtree(rendered)

    count = len(list((root / "environments").glob("*/jobs/*.yaml")))
    cold = timed(lambda: trainwright(root, "render"), runs, clean)
    chart = timed(
        lambda: trainwright(root, "admin", "upgrade", "--chart", str(HERE / "chart")), runs
    )
    both = timed(lambda: trainwright(root, "admin", "upgrade", "--to", str(HERE)), runs)
    print(f"{count} jobs, median of {runs} runs")
    print(f"  render from cold                               {cold:6.2f} s")
    print(f"upgrade --chart / render from cold       {chart / cold:6.2f}   (wanted: at most 2.0)")
    print(f"upgrade --to / render from cold          {both / cold:6.2f}   (wanted: at most 3.5)")


if __name__ == "__main__":
    main()
