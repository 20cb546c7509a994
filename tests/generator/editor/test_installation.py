"""`trainwright editor`, with its distribution and without."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import trainwright
import trainwright_editor
from uninstalled import without

PROJECT = Path(__file__).parents[3] / "editor/pyproject.toml"


@pytest.mark.parametrize("arguments", [(), ("lsp", "--stdio"), ("mcp",), ("anything", "-x")])
def test_without_the_distribution_the_command_names_it(arguments: tuple[str, ...]) -> None:
    done = without("trainwright_editor", "editor", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install trainwright-editor" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_distribution_help_is_there() -> None:
    done = without("trainwright_editor", "--help")
    assert done.returncode == 0
    assert "once trainwright-editor is installed" in " ".join(done.stdout.split())
    assert without("trainwright_editor", "editor", "--help").returncode == 0


def test_without_the_extra_the_server_of_assistants_names_it() -> None:
    done = without("mcp", "editor", "mcp")
    assert done.returncode == 2
    assert "pip install 'trainwright-editor[mcp]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_is_of_the_same_version_and_requires_that() -> None:
    assert trainwright_editor.__version__ == trainwright.__version__
    project = tomllib.loads(PROJECT.read_text())["project"]
    (of_ours,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "trainwright")
    assert str(of_ours.specifier) == f"=={trainwright.__version__}"
