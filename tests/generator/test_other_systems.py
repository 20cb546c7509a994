"""Where the system lacks something: what needs it says so, and all else works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from repository import Repository

WINDOWS = """\
import os, signal, sys
sys.modules["fcntl"] = None
for module, names in (
    (os, ("sched_getaffinity", "killpg", "waitid", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY")),
    (signal, ("SIGHUP", "pthread_sigmask")),
):
    for name in names:
        delattr(module, name)
"""
MACOS = """\
import os
for name in ("sched_getaffinity", "waitid"):
    delattr(os, name)
"""
START = "from trainwright.__main__ import main; main()"


def _run(repository: Repository, system: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    root = str(repository.root)
    return subprocess.run(
        [sys.executable, "-c", f"{system}\n{START}", "-C", root, *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("error", ["ImportError", "OSError"])
def test_an_engine_that_cannot_be_loaded_is_one_line(
    error: str, repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "helm_python.py").write_text(f"raise {error}('built for another processor')\n")
    broken = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
    done = _run(repository, broken, "render")
    assert (done.returncode, done.stderr) == (
        2,
        "trainwright: Helm cannot be loaded: built for another processor\n",
    )


def test_windows_reads_all_and_names_what_it_cannot_do(repository: Repository) -> None:
    assert _run(repository, WINDOWS, "check").returncode == 0
    assert _run(repository, WINDOWS, "render", "--check").returncode == 1
    render = _run(repository, WINDOWS, "render")
    folder = repository.root / "environments"
    assert (render.returncode, render.stderr) == (
        2,
        f"trainwright: cannot write {folder}: this system has no POSIX file locks; "
        "on Windows, use WSL\n",
    )
    assert not repository.tree()
    rehearsal = _run(repository, WINDOWS, "rehearse", "dev/mnist")
    assert (rehearsal.returncode, rehearsal.stderr) == (
        2,
        "trainwright: a rehearsal needs POSIX process groups, which this system does not have; "
        "on Windows, run it in WSL\n",
    )


def test_macos_rehearses(repository: Repository) -> None:
    (repository.root / "train.py").write_text("print('trained')\n")
    repository.job("dev/plain", "launcher: python\n")
    done = _run(repository, MACOS, "rehearse", "dev/plain")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained") == 2


def test_macos_s_entrypoint_starts_its_processes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text("print('trained')\n")
    code = f"{MACOS}\nfrom trainwright_runtime.__main__ import main; main(['--', 'train.py'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "trained" in done.stdout, done.stderr
