"""How long 3,000 jobs take, as ratios against what cannot be avoided and against a process a job.

    make bench            # or: .venv/bin/python benchmarks/pipeline.py [--jobs 1000] [--runs 3]

The jobs are copies of the shipped ones, `--jobs` in each of the three environments. Every figure
is the median of `--runs` runs made in this one process tree, so that they can be compared.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from trainwright.helm.engines import Embedded, Release

HERE = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "trainwright"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=1000, help="jobs in each environment")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as folder:
        root = Path(folder)
        os.environ["XDG_CACHE_HOME"] = str(root / "cache")
        multiply(root, options.jobs)
        report(root, options.runs)


def multiply(root: Path, count: int, tree: Path = HERE) -> None:
    """Copy environments/ and fill each environment with numbered copies of its own jobs."""
    shutil.copytree(
        tree / "environments", root / "environments", ignore=shutil.ignore_patterns("rendered")
    )
    for folder in sorted((root / "environments").glob("*/environment.yaml")):
        copies(folder.parent, folder.parent, count)


def copies(original: Path, folder: Path, count: int) -> None:
    """Fill an environment with numbered copies of the jobs of another, or of its own."""
    specs = {path.stem: path.read_text() for path in sorted((original / "jobs").glob("*.yaml"))}
    # Pools are finite, and a thousand jobs would not fit; fitting is not what is measured.
    text = (original / "environment.yaml").read_text()
    text = re.sub(r"^\s+capacity: .*\n", "", text, flags=re.M)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "jobs").mkdir(parents=True)
    (folder / "environment.yaml").write_text(text)
    for number in range(count):
        stem = list(specs)[number % len(specs)]
        name = f"{stem[:24].rstrip('-')}-{number:04}"
        text = re.sub(rf"^name: {stem}$", f"name: {name}", specs[stem], flags=re.M)
        (folder / "jobs" / f"{name}.yaml").write_text(text)


def timed(work: Callable[[], object], runs: int, before: Callable[[], object] = int) -> float:
    times = []
    for _ in range(runs):
        before()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def trainwright(root: Path, *arguments: str) -> None:
    done = subprocess.run(
        [*COMMAND, "-C", str(root), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(
            f"{arguments} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )


def peak_memory(root: Path) -> float:
    """The largest sum over the process tree of proportional set sizes, in MB, while rendering."""
    process = subprocess.Popen(
        [*COMMAND, "-C", str(root), "render"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(_pss(pid) for pid in _tree(process.pid)))
        time.sleep(0.05)
    return peak / 1024


def _tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(p for child in children for p in _tree(int(child)))]


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+)", text, re.M)
    return int(found.group(1)) if found else 0


def report(root: Path, runs: int) -> None:
    specs = sorted((root / "environments").glob("*/jobs/*.yaml"))
    count = len(specs)

    def clean() -> None:
        shutil.rmtree(root / "cache", ignore_errors=True)
        for rendered in (root / "environments").glob("*/rendered"):
            shutil.rmtree(rendered)

    cold = timed(lambda: trainwright(root, "render"), runs, clean)
    again = timed(lambda: trainwright(root, "render", "--no-cache"), runs)
    fresh = timed(lambda: trainwright(root, "render", "--check", "--no-cache"), runs)
    checked = timed(lambda: trainwright(root, "check"), 1)
    known = timed(lambda: trainwright(root, "check"), runs)
    floor = measure_floor(root, specs, runs)
    total = sum(floor.values())
    print(f"{count} jobs, median of {runs} runs")
    for name, seconds in floor.items():
        print(f"  unavoidable: {name:<34} {seconds:6.2f} s")
    print(f"  unavoidable, together                          {total:6.2f} s")
    print(f"  render from cold                               {cold:6.2f} s")
    print(f"render from cold / unavoidable          {cold / total:6.2f}   (wanted: at most 2.0)")
    print("all runs are recorded, nothing has changed, and there is no cache:")
    print(f"  render / from cold                    {again / cold:6.2f}   (wanted: at most 0.25)")
    print(f"  render --check / from cold            {fresh / cold:6.2f}   (wanted: at most 0.25)")
    print(
        f"check again / for the first time        {known / checked:6.2f}   (wanted: at most 0.33)"
    )
    clean()
    print(
        f"peak memory of the process tree         {peak_memory(root):6.0f} MB (wanted: below 400)"
    )
    planned = measure_plan(root, runs)
    print(f"plan of a one-line change               {planned:6.2f} s (wanted: at most 3)")
    print(f"  over render from cold                 {planned / cold:6.2f}")
    peer = measure_peer(root)
    if peer:
        name, seconds = peer
        print(
            f"{name} a job / render a job  {seconds / (cold / count):6.1f}   (wanted: at least 20)"
        )
    measure_start(root)


def measure_floor(root: Path, specs: list[Path], runs: int) -> dict[str, float]:
    """The parts that no implementation can leave out, each alone, in one thread."""
    texts = [path.read_bytes() for path in specs]
    rendered = sorted((root / "environments").glob("*/rendered/*/*.yaml"))
    values = [
        yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
        for path in rendered
        if path.name == "values.yaml"
    ]
    engine = Embedded()
    releases = [Release(each, "bench", "bench") for each in values]
    manifests = [path.read_bytes() for path in rendered if path.name != "values.yaml"]
    everything = {path.relative_to(root): path.read_bytes() for path in rendered}
    target = root / "floor"

    def write() -> None:
        for path, content in everything.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            with (target / path).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())

    def load(contents: list[bytes]) -> None:
        for content in contents:
            yaml.load(content, Loader=yaml.CSafeLoader)

    def render() -> None:  # as many at once as a batch does
        for start in range(0, len(releases), 50):
            engine.render_all(releases[start : start + 50])

    return {
        "libyaml reads the specs": timed(lambda: load(texts), runs),
        "Helm renders, in this process": timed(render, runs),
        "libyaml reads the manifests": timed(lambda: load(manifests), runs),
        "files are written and synced": timed(
            write, runs, lambda: shutil.rmtree(target, ignore_errors=True)
        ),
    }


def commit(root: Path) -> None:
    """Everything of environments/, on the branch main of a new repository."""
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    for command in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "environments"],
        [*who, "commit", "--quiet", "--message=bench"],
    ):
        subprocess.run(["git", *command], cwd=root, check=True)


def measure_plan(root: Path, runs: int) -> float:
    """What a merge does that changes one line of one job, among all of them."""
    commit(root)
    job = next((root / "environments/prod/jobs").glob("*.yaml"))
    text = job.read_text()
    job.write_text(f"{text}maxDuration: 77h\n")
    seconds = timed(lambda: trainwright(root, "plan", "--against", "main"), runs)
    job.write_text(text)
    return seconds


def measure_peer(root: Path) -> tuple[str, float] | None:
    """One external process a job, the way shell scripts over kustomize or Helm do it."""
    jobs = sorted((root / "environments" / "prod" / "rendered").glob("*/values.yaml"))[:20]
    if shutil.which("kubectl"):
        return "kubectl kustomize", timed_each(jobs, root, _kustomize)
    if shutil.which("helm"):
        return "helm template", timed_each(jobs, root, _helm)
    print("(neither kubectl nor helm is here: no comparison with a process a job)")
    return None


def timed_each(jobs: list[Path], root: Path, run: Callable[[Path, Path], None]) -> float:
    start = time.perf_counter()
    for job in jobs:
        run(job, root)
    return (time.perf_counter() - start) / len(jobs)


def _kustomize(values: Path, root: Path) -> None:
    folder = root / "kustomize"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    manifest = next(path for path in values.parent.glob("*.yaml") if path.name != "values.yaml")
    shutil.copy(manifest, folder / "base.yaml")
    patch = {"resources": ["base.yaml"], "namespace": "other", "labels": [{"pairs": {"a": "b"}}]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(patch))
    subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, check=True)


def _helm(values: Path, root: Path) -> None:
    command = ["helm", "template", "bench", str(HERE / "chart"), "--values", str(values)]
    subprocess.run(command, capture_output=True, check=True, cwd=root)


def measure_start(root: Path) -> None:
    def run(*command: str) -> None:
        subprocess.run(command, capture_output=True, check=False, cwd=HERE)

    bare = timed(lambda: run(sys.executable, "-c", "pass"), 11)
    help_ = timed(lambda: run(*COMMAND, "--help"), 11)
    job = next((HERE / "environments" / "dev" / "jobs").glob("*.yaml")).stem
    check = timed(lambda: run(*COMMAND, "check", "--no-cache", f"dev/{job}"), 11)
    print(f"--help, beyond a bare Python            {(help_ - bare) * 1000:6.0f} ms (wanted: 150)")
    print(f"check of one job                        {check * 1000:6.0f} ms (wanted: 400)")


if __name__ == "__main__":
    main()
