"""How fast the page of a large repository is there: 120 environments of 25 jobs, in Chromium.

    .venv/bin/python benchmarks/pages.py [--environments 120] [--visits 5]

`trainwright report` writes the page, and a headless browser opens it from a file, each time anew.
First paint and first contentful paint are the browser's own (https://w3c.github.io/paint-timing/);
"ready" is when the script has built the list. Milliseconds from the start of the navigation.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from pipeline import COMMAND
from repository import fill

_JOBS = 25  # of an environment
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_MEASURED = """() => new Promise((done) => {
  const entries = () => performance.getEntriesByType("paint");
  const painted = () => entries().map((one) => [one.name, one.startTime]);
  const look = () => painted().length && document.documentElement.dataset.ready
    ? done(Object.fromEntries([...painted(), ["ready", performance.now()]]))
    : setTimeout(look, 1);
  look();
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--environments", type=int, default=120)
    parser.add_argument("--visits", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        fill(root, options.environments, _JOBS)
        page = root / "report.html"
        page.write_text(_report(root), encoding="utf-8")
        print(f"{options.environments * _JOBS} jobs, {page.stat().st_size:,} bytes")
        for name, times in _visits(page, options.visits).items():
            print(f"{name:24} median {statistics.median(times):6.0f}  worst {max(times):6.0f}")


def _report(root: Path) -> str:
    command = [*COMMAND, "-C", str(root), "report"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _visits(page: Path, count: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    executable = next(path for name in _BROWSERS if (path := shutil.which(name)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for _ in range(count):
            for name, time in _visit(browser, page).items():
                found.setdefault(name, []).append(time)
        browser.close()
    return found


def _visit(browser: Browser, page: Path) -> dict[str, Any]:
    tab = browser.new_page()
    tab.goto(page.as_uri(), wait_until="commit")
    measured: dict[str, Any] = tab.evaluate(_MEASURED)
    tab.close()
    return measured


if __name__ == "__main__":
    main()
