"""Take the pictures of docs/images: a finding, and pages of a branch of the shipped environments.

    python scripts/screenshots.py

Needs Chromium and the packages of requirements-dev.txt. Fonts and rendering differ from machine to
machine, so nothing compares the pictures; take them again when a page looks different.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
BROWSER = "chromium"
RESNET = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: resnet
image: {repository: registry.example.com/ml/resnet, tag: "1.4.0"}
entrypoint: {script: train.py}
flags: {epochs: 90, lr: 0.1}
nodes: 2
procsPerNode: 8
pool: h100
resources: {cpu: "4", memory: 32Gi, gpu: 1}
"""
_IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")


def main() -> None:
    browser = shutil.which(BROWSER)
    if browser is None:
        sys.exit(f"{BROWSER} is not installed: apt-get install {BROWSER}")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        branch(root)
        finding(root)
        pages = {
            "plan": trainwright(root, "plan", "--against", "main", "-o", "html"),
            "report": trainwright(root, "report"),
        }
        with sync_playwright() as driver:
            window = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            for name, text in pages.items():
                file = root / f"{name}.html"
                file.write_text(text, encoding="utf-8")
                page = window.new_page(viewport={"width": 1180, "height": 900})
                page.goto(file.as_uri())
                page.wait_for_selector("html[data-ready]")
                unfold(page)
                page.screenshot(path=IMAGES / f"{name}.png")
            window.close()


def finding(root: Path) -> None:
    """A mistake in a job, as a terminal shows it."""
    job = root / "environments/prod/jobs/resnet.yaml"
    job.write_text(RESNET, encoding="utf-8")
    shown = trainwright(root, "--color", "always", "check", "prod/resnet")
    job.unlink()
    terminal = Console(record=True, width=112, file=io.StringIO())
    terminal.print("$ trainwright check", style="bold")
    terminal.print(Text.from_ansi(shown.rstrip()))
    picture = terminal.export_svg(title="trainwright")
    # Without the fonts that it would load from a server.
    picture = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    (IMAGES / "finding.svg").write_text(picture, encoding="utf-8")


def unfold(page: Page) -> None:
    """Open the first job of a list: what is inside of the others looks alike."""
    page.locator("details.row summary").first.click()
    page.locator("details.row .body").first.wait_for()


def branch(root: Path) -> None:
    """The shipped environments on main, and a branch that changes some of their jobs."""
    shutil.copytree(ROOT / "environments", root / "environments")
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root, "Begin")
    git(root, "checkout", "--quiet", "-b", "change")
    jobs = root / "environments/prod/jobs"
    for name, old, new in (
        ("distilgpt2", "nodes: 2", "nodes: 3"),
        ("mnist-nccl", "epochs: 10", "epochs: 20"),
    ):
        file = jobs / f"{name}.yaml"
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(old, new), encoding="utf-8")
    trainwright(root, "retire", "prod/bert-mrpc", "--outcome", "succeeded")
    commit(root, "Train longer")
    defaults = root / "environments/defaults.yaml"
    text = defaults.read_text(encoding="utf-8")
    defaults.write_text(text.replace("retries: 3", "retries: 5"), encoding="utf-8")
    commit(root, "Try more often")


def commit(root: Path, subject: str) -> None:
    trainwright(root, "render")
    git(root, "add", "--all")
    git(root, *_IDENTITY, "commit", "--quiet", "--message", subject)


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True)  # noqa: S603, S607


def trainwright(root: Path, *arguments: str) -> str:
    """What a command prints. A plan that finds errors is worth a picture, too."""
    command = [sys.executable, "-m", "trainwright", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode > 1:
        sys.exit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    main()
