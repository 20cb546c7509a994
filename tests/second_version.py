"""A later version of Trainwright, installed: this one with small changes, as releases bring them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "generator/src/trainwright"
VERSION = "99.0.0"
LINE = "enableServiceLinks: false"  # in each pod of a run that it renders
# By file: what is replaced, and by what.
CHANGES = {
    "__init__.py": (('__version__ = "', f'__version__ = "{VERSION}" or "'),),
    "chart/Chart.yaml": (("\nversion: ", f"\nversion: {VERSION} #"),),
    "chart/templates/_pod.tpl": (
        ("  terminationGracePeriodSeconds:", f"  {LINE}\n  terminationGracePeriodSeconds:"),
    ),
    "defaults.yaml": (("gracePeriod: 60s", "gracePeriod: 90s"),),
    "schemas/job.schema.json": (('"default": "60s"', '"default": "90s"'),),
    "rules/delivery.py": (("import defined_in, warning", "import defined_in, error as warning"),),
}


@dataclass(frozen=True)
class Version:
    """A virtual environment with a version of Trainwright."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    def run(self, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A verb over a repository, in a process of its own."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.run(
            [str(self.python), "-m", "trainwright", "-C", str(root), *arguments],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip


def install(folder: Path) -> Version:
    """The later version in a light virtual environment, with the libraries of this one."""
    venv.create(folder, with_pip=False, symlinks=True)
    package = folder / "source/trainwright"
    shutil.copytree(SOURCE, package)
    for name, changes in CHANGES.items():
        path = package / name
        text = path.read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text, f"{name} has no {old!r}"
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
    (site,) = folder.glob("lib/python*/site-packages")
    libraries = [entry for entry in sys.path if entry.endswith("site-packages")]
    (site / "trainwright.pth").write_text("\n".join([str(package.parent), *libraries]) + "\n")
    return Version(folder)
