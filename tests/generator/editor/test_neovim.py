"""A person's editor: Neovim without a screen, with its own client of the protocol."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from repository import Repository

pytest.importorskip("pygls", reason="pygls is not installed")

SESSION = Path(__file__).parent / "session.lua"
POOLS = "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 2}, cpu: {}}\n"


def test_neovim_shows_findings_explains_completes_and_applies_a_remedy(
    repository: Repository,
) -> None:
    if not (nvim := shutil.which("nvim")):
        pytest.skip("there is no nvim: apt-get install neovim")
    repository.environment("dev", POOLS)
    path = repository.job("dev/train", "pool: h100\n")
    text = path.read_text().replace("memory: 1Gi}", "memory: 1Gi, gpu: 4}")
    path.write_text(text)
    command = [sys.executable, "-m", "trainwright", "editor", "lsp"]
    message = {"root": str(repository.root), "path": str(path), "command": command}
    set_up = "".join(
        f"_G.arg_{key} = vim.json.decode({json.dumps(json.dumps(value))})\n"
        for key, value in message.items()
    )
    script = repository.root / "session.lua"
    script.write_text(set_up + SESSION.read_text())
    done = subprocess.run(
        [nvim, "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {script}"],
        capture_output=True, text=True, check=False, timeout=120, cwd=repository.root,
    )  # fmt: skip
    answers = {one["name"]: one["value"] for one in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, (answers, done.stderr)
    assert [6, "TW023", "trainwright"] in answers["opened"]
    assert "set by job" in answers["hover"]
    assert answers["definition"] == (repository.root / "environments/dev/environment.yaml").as_uri()
    assert answers["broken"] == [[9, "TW001", "trainwright"]]
    assert answers["remedied"] == "pool: h100"
    assert answers["completion"] == ["h100", "cpu"]
    assert path.read_text() == text
