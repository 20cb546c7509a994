"""A small repository to play in, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner, Result

from trainwright.cli import main
from trainwright.kinds import TARGETS

ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.31"}
targets: {pytorchjob: {version: "1.9", restrictedInitContainer: true}}
"""

# The targets of an environment that has all of them.
EVERY_TARGET = """\
targets:
  pytorchjob: {version: "1.9"}
  trainingjob: {}
  trainjob: {version: "2.3"}
  jobset: {}
  job: {}
  rayjob: {}
  compose: {}
"""

JOB = """\
# A comment that changes nothing.
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: NAME
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi}
nodes: 2
maxDuration: 2h
"""


def launcher(target: str) -> str:
    """What a job has to say on a target that starts programs by one launcher alone."""
    return "".join(f"launcher: {name}\n" for name in TARGETS[target].launchers[:1])


Copied = Callable[[Callable[[Path], object], Path], "Repository"]


class Repository:
    """environments/ in a temporary folder, and `trainwright` run over it."""

    def __init__(self, root: Path):
        self.root = root

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text in a file below environments/ that has it."""
        full = self.root / "environments" / path
        text = full.read_text(encoding="utf-8")
        assert old in text
        full.write_text(text.replace(old, new), encoding="utf-8")

    def write(self, path: str, text: str) -> Path:
        full = self.root / "environments" / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text, encoding="utf-8")
        return full

    def environment(self, name: str, extra: str = "") -> Path:
        return self.write(f"{name}/environment.yaml", ENVIRONMENT + extra)

    def job(self, name: str, extra: str = "") -> Path:
        environment, _, job = name.partition("/")
        return self.write(f"{environment}/jobs/{job}.yaml", JOB.replace("NAME", job) + extra)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["-C", str(self.root), *arguments])

    def tree(self) -> dict[str, str]:
        """Every file below environments/*/rendered by path from environments/."""
        base = self.root / "environments"
        return {
            path.relative_to(base).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(base.glob("*/rendered/**/*"))
            if path.is_file()
        }
