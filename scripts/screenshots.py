"""Take the pictures of docs/images: a finding, and pages of a week of the shipped environments.

    python scripts/screenshots.py

Needs Chromium and the packages of requirements-dev.txt. Fonts and rendering differ from machine to
machine, so nothing compares the pictures; take them again when a page looks different.
"""

from __future__ import annotations

import io
import os
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
SHIPPED = ROOT / "environments"
HEIGHTS = {"plan": 900, "report": 2060}  # all of a report, which has only what is in sight
MONTH = "2026-11"
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
SUSPENDED = "state: suspended # set by trainwright\n"  # what the week itself does
_IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")


def main() -> None:
    browser = shutil.which(BROWSER)
    if browser is None:
        sys.exit(f"{BROWSER} is not installed: apt-get install {BROWSER}")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        week(root)
        report = trainwright(root, "report")
        branch(root)
        plan = trainwright(root, "plan", "--against", "main", "-o", "html")
        finding(root)
        pages = {"plan": plan, "report": report}
        with sync_playwright() as driver:
            window = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            for name, text in pages.items():
                file = root / f"{name}.html"
                file.write_text(text, encoding="utf-8")
                page = window.new_page(viewport={"width": 1180, "height": HEIGHTS[name]})
                page.goto(file.as_uri())
                page.wait_for_selector("html[data-ready]")
                if name == "plan":
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


def week(root: Path) -> None:
    """The shipped environments as they come to life within a week: on each day some runs begin,
    and others end.
    """
    for path in ("base", "defaults.yaml"):
        copy(path, root)
    git(root, "init", "--quiet", "--initial-branch=main")
    begin(root, 16, "Try everything on a desk", "dev/*")
    begin(root, 17, "Try it on a GPU", "staging/*")
    end(root, 18, "staging/cifar10-cnn", "failed", "OOMKilled")
    end(root, 19, "staging/mnist-nccl", "succeeded")
    begin(root, 19, "Train the language models", "prod/bert-mrpc", "prod/distilgpt2")
    begin(
        root,
        20,
        "Train the vision models",
        "prod/cifar10-cnn",
        "prod/mnist-*",
        "prod/elastic-mnist",
    )
    end(root, 20, "staging/distilgpt2", "succeeded")
    trainwright(root, "suspend", "staging/mnist-gloo")
    commit(root, 21, "Leave the node to others")
    end(root, 21, "prod/mnist-nccl", "failed", "NCCL timeout")
    end(root, 22, "prod/mnist-gloo", "succeeded")
    begin(root, 22, "Resize between nodes", "prod/custom-image")
    edit(root, "base/jobs/transformers.yaml", "env: {", 'env: {HF_HUB_OFFLINE: "1", ')
    commit(root, 22, "Load nothing from a hub")


def branch(root: Path) -> None:
    """A branch that changes some jobs of it."""
    git(root, "checkout", "--quiet", "-b", "change")
    edit(root, "prod/jobs/distilgpt2.yaml", "nodes: 2", "nodes: 3")
    edit(root, "prod/jobs/cifar10-cnn.yaml", "queue:", "flags: {epochs: 20}\nqueue:")
    end(root, 23, "prod/bert-mrpc", "succeeded")


def begin(root: Path, day: int, subject: str, *jobs: str) -> None:
    for job in jobs:
        environment, name = job.split("/")
        copy(f"{environment}/environment.yaml", root)
        for path in sorted((SHIPPED / environment / "jobs").glob(f"{name}.yaml")):
            copy(str(path.relative_to(SHIPPED)), root)
    commit(root, day, subject)


def end(root: Path, day: int, job: str, outcome: str, reason: str = "") -> None:
    finished = ("--finished", f"{MONTH}-{day}")
    trainwright(root, "retire", job, "--outcome", outcome, "--reason", reason, *finished)
    commit(root, day, f"{job} has {outcome}")


def edit(root: Path, path: str, old: str, new: str) -> None:
    file = root / "environments" / path
    text = file.read_text(encoding="utf-8")
    if old not in text:
        sys.exit(f"{file}: has no {old}")
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def copy(path: str, root: Path) -> None:
    source, made = SHIPPED / path, root / "environments" / path
    made.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, made)
    else:
        text = source.read_text(encoding="utf-8")
        made.write_text(text.replace(SUSPENDED, ""), encoding="utf-8")


def commit(root: Path, day: int, subject: str) -> None:
    trainwright(root, "render")
    git(root, "add", "--all")
    git(root, *_IDENTITY, "commit", "--quiet", "--message", subject, day=day)


def git(root: Path, *arguments: str, day: int = 16) -> None:
    when = f"{MONTH}-{day}T10:00:00+00:00"
    dated = os.environ | {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    subprocess.run(["git", "-C", str(root), *arguments], check=True, env=dated)  # noqa: S603, S607


def trainwright(root: Path, *arguments: str) -> str:
    """What a command prints. A plan that finds errors is worth a picture, too."""
    command = [sys.executable, "-m", "trainwright", "-C", str(root), *arguments]
    day = os.environ | {"TRAINWRIGHT_TODAY": f"{MONTH}-23"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=day)  # noqa: S603
    if done.returncode > 1:
        sys.exit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    main()
