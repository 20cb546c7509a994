"""Options and paths that are wrong: one line that names the value and what to write, and exit 2."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from repository import Repository

SCHEMAS = Path(__file__).parents[2] / "schemas"


@pytest.fixture
def rendered(repository: Repository) -> Repository:
    repository.environment("dev")
    repository.job("dev/mnist")
    assert repository.run("render").exit_code == 0
    return repository


def refused(repository: Repository, *arguments: str) -> str:
    done = repository.run(*arguments)
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 2, done.output
    return done.stderr


@pytest.fixture(params=["a link to nothing", "a device"])
def no_folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A path that is there, and that click does not know as a file."""
    if request.param == "a device":
        return "/dev/null"
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")
    return str(link)


@pytest.mark.parametrize(
    "command",
    [
        ("rehearse", "dev/mnist", "--dry-run", "--keep"),
        ("admin", "chart", "package", "--destination"),
        ("admin", "schema", "--out"),
    ],
)
def test_a_folder_that_cannot_be_made_is_named(
    command: tuple[str, ...], no_folder: str, rendered: Repository
) -> None:
    complaint = refused(rendered, *command, no_folder)
    assert complaint == f"trainwright: cannot write {no_folder}: it is there, and not a folder\n"


@pytest.mark.parametrize(("option", "field"), [("--nodes", "nodes"), ("--procs", "procsPerNode")])
def test_a_rehearsal_has_as_many_nodes_and_processes_as_a_spec_may(
    option: str, field: str, rendered: Repository
) -> None:
    schema = json.loads((SCHEMAS / "job.schema.json").read_text(encoding="utf-8"))
    most = schema["$defs"]["fields"]["properties"][field]["maximum"]
    complaint = refused(rendered, "rehearse", "dev/mnist", "--dry-run", option, str(most + 1))
    assert f"{most + 1} is not in the range 1<=x<={most}" in complaint


@pytest.mark.parametrize("written", ["nope", "2026-02-30", "0000-00-00"])
def test_the_day_of_an_end_is_a_date(written: str, rendered: Repository) -> None:
    complaint = refused(rendered, "retire", "dev/mnist", "--finished", written)
    assert f'"{written}" is not a valid date; write one such as 2026-06-30' in complaint
    assert not (rendered.root / "environments/dev/ledger.yaml").exists()


def test_an_input_without_an_end_is_refused(rendered: Repository) -> None:
    complaint = refused(rendered, "validate", "/dev/zero")
    assert complaint == "trainwright: cannot read /dev/zero: Larger than 64 MiB\n"
    complaint = refused(rendered, "admin", "upgrade", "--chart", "/dev/zero")
    assert complaint == "trainwright: /dev/zero cannot be read: Larger than 64 MiB\n"


@pytest.mark.parametrize(
    "command", ["--help", "list jobs", "explain dev/mnist", "admin schema job"]
)
def test_an_output_that_cannot_be_written_is_one_line(command: str, rendered: Repository) -> None:
    expected = "trainwright: cannot write the output: No space left on device\n"
    for setting in ("", "PYTHONUNBUFFERED=1 "):
        done = _in_a_shell(f"{command} >/dev/full", rendered, setting)
        assert (done.returncode, done.stderr) == (2, expected)


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_a_closed_output_changes_no_exit_code(closed: str, rendered: Repository) -> None:
    done = _in_a_shell(f"list jobs {closed}", rendered)
    assert (done.returncode, done.stderr) == (0, "")
    rendered.job("dev/mnist", "node: 3\n")
    assert _in_a_shell(f"check {closed}", rendered).returncode == 1


def _in_a_shell(
    command: str, repository: Repository, setting: str = ""
) -> subprocess.CompletedProcess[str]:
    line = f"{setting}{shlex.quote(sys.executable)} -m trainwright {command}"
    return subprocess.run(
        ["sh", "-c", line], cwd=repository.root, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("render",),
        ("explain", "dev/x"),
        ("suspend", "dev/x"),
        ("gitops", "wire"),
    ],
)
def test_a_folder_without_environments_gets_the_same_answer(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    complaint = refused(Repository(tmp_path), *command)
    assert complaint.startswith("trainwright: no environment below environments/")
    assert "trainwright init" in complaint
