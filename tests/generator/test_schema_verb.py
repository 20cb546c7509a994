"""`schema`: the contract for editors that have no network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from trainwright.cli import main
from trainwright.documents.validation.schema import FOLDER


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["admin", "schema", *arguments])


def names() -> list[str]:
    files = FOLDER.rglob("*.schema.json")
    return [p.relative_to(FOLDER).as_posix().removesuffix(".schema.json") for p in files]


def test_they_are_listed() -> None:
    done = run()
    assert done.exit_code == 0
    listed = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert sorted(listed) == sorted(names())
    assert listed[:4] == ["defaults", "environment", "import", "job"]


@pytest.mark.parametrize("name", names())
def test_one_is_printed(name: str) -> None:
    done = run(name)
    assert done.exit_code == 0
    Draft202012Validator.check_schema(json.loads(done.stdout))
    assert done.stdout == (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")


def test_all_are_written_and_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = run("--out", str(tmp_path / "schemas"))
        assert done.exit_code == 0
        written = [Path(line) for line in done.stdout.splitlines()]
        assert sorted(written) == sorted((tmp_path / "schemas").rglob("*.json"))
        assert len(written) == len(names())


def test_one_comes_with_those_that_it_refers_to(tmp_path: Path) -> None:
    assert run("environment", "--out", str(tmp_path)).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "environment.schema.json",
        "job.schema.json",
    ]


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("--out", str(tmp_path / "file/below"))
    assert done.exit_code == 2
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.output
