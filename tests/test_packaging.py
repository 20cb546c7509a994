"""The wheel and the editable install carry everything that rendering needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from repository import Repository

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def _run(*command: object, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, and an sdist with the wheel that is built from it, in one folder."""
    return _built("generator", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of the editor's distribution."""
    return _built("editor", tmp_path_factory.mktemp("servers"))


def _built(project: str, out: Path) -> Path:
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT / project]
    _run(*build, cwd=out)
    return out


def test_the_wheel_holds_schemas_and_chart_and_nothing_of_this_machine(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        text = b"".join(archive.read(name) for name in names)
    for path in (ROOT / "schemas").rglob("*.json"):
        assert f"trainwright/schemas/{path.relative_to(ROOT / 'schemas').as_posix()}" in names
    for path in (ROOT / "chart").rglob("*"):
        if path.is_file():
            assert f"trainwright/chart/{path.relative_to(ROOT / 'chart').as_posix()}" in names
    for path in (ROOT / "generator/src").rglob("data/TW*.yaml"):
        assert path.relative_to(ROOT / "generator/src").as_posix() in names
    assert {"trainwright/py.typed", "trainwright/defaults.yaml"} <= names
    assert str(ROOT).encode() not in text


@pytest.mark.parametrize("project", ["generator", "editor", "runtime"])
def test_two_builds_are_equal_to_the_byte(project: str, tmp_path: Path) -> None:
    """By whom, where and when they were made does not show: by another, of another checkout."""
    made = []
    for name, mask, when in (("one", 0o022, 10**9), ("two", 0o077, 1.7 * 10**9)):
        checkout = tmp_path / name / "checkout"
        for part in {project, "chart", "schemas", "runtime"}:
            shutil.copytree(
                ROOT / part, checkout / part, symlinks=True,
                ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
            )  # fmt: skip
        for path in checkout.rglob("*"):
            os.utime(path, (when, when), follow_symlinks=False)
            if path.is_file() and not path.is_symlink():
                path.chmod(path.stat().st_mode & ~mask)
        out = tmp_path / name / "out"
        build = [sys.executable, "-I", "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel"]
        _run(*build, "--directory", out, cwd=checkout / project)
        made.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert len(made[0]) == 2
    assert made[0] == made[1]


def test_the_wheel_renders_a_new_folder_in_an_empty_environment(
    distributions: Path, tmp_path: Path
) -> None:
    (wheel,) = distributions.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    _run(python, "-m", "pip", "install", "--quiet", "--no-compile", wheel, cwd=tmp_path)
    folder = tmp_path / "elsewhere"
    repository = Repository(folder)
    repository.environment("prod")
    repository.job("prod/llm")
    trainwright = tmp_path / "venv/bin/trainwright"
    assert "1 job" in _run(trainwright, "render", cwd=folder)
    assert "up to date" in _run(trainwright, "render", cwd=folder)
    rendered = folder / "environments/prod/rendered/llm/pytorchjob.yaml"
    by_wheel = rendered.read_text()
    shutil.rmtree(folder / "environments/prod/rendered")
    repository.run("render")
    assert rendered.read_text() == by_wheel, "the wheel and the checkout render the same bytes"
    assert "trainwright" in _run(trainwright, "--version", cwd=tmp_path)
    site = tmp_path / "venv/lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    assert 200 < _megabytes(site) < 290
    _run("sh", "-euc", _made_lighter(python), cwd=tmp_path)
    assert _megabytes(site) < 125, "docs/ci.md promises less"
    _run(python, "-m", "pip", "check", cwd=tmp_path)
    assert "up to date" in _run(trainwright, "render", "--no-cache", cwd=folder)


def _made_lighter(python: Path) -> str:
    """The lines of docs/ci.md, after that which installs."""
    page = (ROOT / "docs/ci.md").read_text(encoding="utf-8").partition("### Weight")[2]
    install, *lines = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert install.startswith("pip install")
    return "\n".join(lines).replace("python -c", f"{python} -c")


def _megabytes(site: Path) -> int:
    """What the tool and its dependencies take on a disk, each file once under whatever names."""
    installers = {"pip", "setuptools", "pkg_resources", "_distutils_hack"}
    files = {
        (status := path.stat()).st_ino: status.st_size
        for path in site.rglob("*")
        if path.relative_to(site).parts[0].partition("-")[0] not in installers
        and path.is_file()
        and path.suffix != ".pyc"
    }
    return sum(files.values()) // 10**6


def test_the_servers_are_a_distribution_above_the_tool(
    distributions: Path, servers: Path, tmp_path: Path
) -> None:
    (wheel,) = servers.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition("/")[0] for name in archive.namelist()}
    assert names == {
        "trainwright_editor",
        wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info",
    }
    (sdist,) = servers.glob("*.tar.gz")
    with tarfile.open(sdist) as source:
        assert not any("vscode" in name for name in source.getnames())
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    (tool,) = distributions.glob("*.whl")
    _run(python, "-m", "pip", "install", "--quiet", "--no-compile", tool, wheel, cwd=tmp_path)
    shown = _run(tmp_path / "venv/bin/trainwright", "editor", "lsp", "--help", cwd=tmp_path)
    assert "--stdio" in shown
    done = subprocess.run(
        [tmp_path / "venv/bin/trainwright", "editor", "lsp"],
        input=b"", capture_output=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
