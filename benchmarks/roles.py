"""What three roles cost: jobs with them over as many without, rendered from cold and planned.

    make bench     # or: .venv/bin/python benchmarks/roles.py [--jobs 3000] [--runs 3]

For each target that has roles there are two repositories, whose jobs differ in nothing else. Cold
renderings, and plans of one edited line of a role or of the job, alternate between the two; CPU
time of the process and its children is what is compared.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from pipeline import COMMAND, commit
from repository import spent

TARGETS = ("jobset", "trainjob", "compose")
ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {{version: "1.34"}}
podSecurity: baseline
targets: {{jobset: {{version: "0.12"}}, trainjob: {{version: "2.3"}}, compose: {{}}}}
pools: {{gpu: {{resource: nvidia.com/gpu, gpusPerNode: 8}}, cpu: {{}}}}
defaults: {{target: {target}}}
"""
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: {name}
image: {{repository: registry.example.com/ml/grpo, tag: "1.4.0"}}
entrypoint: {{script: train.py}}
flags: {{{flags}}}
pool: gpu
resources: {{cpu: "8", memory: 64Gi, gpu: 2}}
env: {{HF_HOME: /data/cache}}
volumes: {{data: {{claim: rl, mountPath: /data}}}}
"""
ROLES = """\
roles:
  rollout: {nodes: 2, entrypoint: {argv: [vllm, serve, m]}, port: 8000, ready: {path: /health}}
  reward: {pool: cpu, entrypoint: {script: serve.py}, resources: {cpu: "4"}, port: 9000}
  judge: {pool: cpu, entrypoint: {script: judge.py}, resources: {cpu: "2"}, port: 9001}
"""
_FLAGS = [f'{role}: "${{{{ roles.{role}.urls }}}}"' for role in ("rollout", "reward", "judge")]
Repositories = dict[str, Path]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--target", choices=TARGETS, action="append")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process compiles every module again
    for target in options.target or TARGETS:
        with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as folder:
            report(Path(folder), target, options.jobs, options.runs)


def fill(root: Path, target: str, jobs: int, *, roles: bool) -> Path:
    folder = root / "environments" / "prod"
    (folder / "jobs").mkdir(parents=True)
    (folder / "environment.yaml").write_text(ENVIRONMENT.format(target=target))
    for number in range(jobs):
        name = f"grpo-{number:04}"
        flags = ", ".join([f"seed: {number}", *(_FLAGS if roles else ())])
        text = JOB.format(name=name, flags=flags) + (ROLES if roles else "")
        (folder / "jobs" / f"{name}.yaml").write_text(text)
    return root


def report(folder: Path, target: str, jobs: int, runs: int) -> None:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    repositories = {
        "without": fill(folder / "without", target, jobs, roles=False),
        "with": fill(folder / "with", target, jobs, roles=True),
    }
    print(f"{target}, {jobs} jobs, median CPU time of {runs} alternating runs:")
    rendered = measured(repositories, runs, lambda root: made_cold(root, folder / "cache"))
    print(_line("render from cold", rendered, "   (wanted: at most 2.2)"))
    for root in repositories.values():
        commit(root)
        edited = root / "environments/prod/jobs/grpo-0000.yaml"
        edited.write_text(edited.read_text().replace('cpu: "8"', 'cpu: "9"'))
    planned = measured(repositories, runs, lambda root: took(root, "plan", "--against", "main"))
    print(_line("plan of one edited line", planned, "   (wanted: at most 2.2)"))


def measured(
    repositories: Repositories, runs: int, work: Callable[[Path], float]
) -> dict[str, float]:
    """CPU time in ms, of jobs without roles and with them."""
    taken: dict[str, list[float]] = {name: [] for name in repositories}
    for _ in range(runs):
        for name, root in repositories.items():
            taken[name].append(work(root))
    return {name: statistics.median(times) for name, times in taken.items()}


def made_cold(root: Path, cache: Path) -> float:
    shutil.rmtree(cache, ignore_errors=True)
    shutil.rmtree(root / "environments" / "prod" / "rendered", ignore_errors=True)
    return took(root, "render")


def took(root: Path, *arguments: str) -> float:
    cpu, _ = spent([*COMMAND, "-C", str(root), *arguments])
    return cpu


def _line(what: str, of: dict[str, float], wanted: str) -> str:
    each = f"{of['without'] / 1000:6.2f} s, with roles {of['with'] / 1000:6.2f} s"
    return f"  {what:24} {each}: {of['with'] / of['without']:5.2f}{wanted}"


if __name__ == "__main__":
    main()
