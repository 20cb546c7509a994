"""`trainwright admin upgrade` against a later version that is really installed."""

from __future__ import annotations

import json
import shutil
import stat
import sys
import zipfile
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import git_repository as git
import second_version
from repository import Repository
from second_version import VERSION, Version
from trainwright.plan.upgrade import staging

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "schemas/upgrade.schema.json").read_text())
DISK = "\nflags: {epochs: 3}\n"


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Version:
    return second_version.install(tmp_path_factory.mktemp("later"))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository")
    for environment in ("dev", "prod"):
        made.environment(environment)
        made.job(f"{environment}/llm", DISK)
        assert made.run("render").exit_code == 0
    return made


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def report(repository: Repository, *arguments: str, code: int = 0) -> dict[str, object]:
    done = repository.run("admin", "upgrade", *arguments, "-o", "json")
    assert done.exit_code == code, done.output
    data = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(data)
    found: dict[str, object] = data["upgrade"]
    return found


@pytest.mark.slow
def test_it_says_what_a_later_version_would_do(repository: Repository, later: Version) -> None:
    before = everything(repository.root), everything(later.folder)
    found = report(repository, "--to", str(later.folder))
    assert found["from"]["trainwright"] != VERSION
    assert found["to"] == {"trainwright": VERSION, "chart": VERSION}
    assert found["runs"]["kept"] == ["dev/llm", "prod/llm"]
    (difference,) = found["nextRuns"]["differences"]
    assert difference["jobs"] == ["dev/llm", "prod/llm"]
    changed = [line.strip() for line in difference["diff"][2:] if line[0] in "+-"]
    assert changed.count(f"+          {second_version.LINE}") == 2, "master and worker"
    assert changed.count("+          terminationGracePeriodSeconds: 90") == 2
    assert found["findings"] == []
    assert (everything(repository.root), everything(later.folder)) == before


@pytest.mark.slow
def test_the_other_way_round_and_by_each_way_to_name_a_version(
    repository: Repository, later: Version, tmp_path: Path
) -> None:
    wheel = tmp_path / "trainwright-99.0.0-py3-none-any.whl"
    source = later.folder / "source"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in source.rglob("*"):
            archive.write(path, path.relative_to(source))
    command = tmp_path / "trainwright"
    command.write_text(f'#!/bin/sh\nexec {later.python} -m trainwright "$@"\n')
    command.chmod(0o755)
    for named in (later.python, source, wheel, command):
        found = report(repository, "dev", "--from", str(named), "--to", str(later.folder))
        assert found["from"] == found["to"] == {"trainwright": VERSION, "chart": VERSION}
        assert found["nextRuns"]["same"] == 1
    back = report(repository, "dev", "--from", str(later.folder), "--to", sys.executable)
    assert back["from"]["trainwright"] == VERSION
    assert len(back["nextRuns"]["differences"]) == 1


@pytest.mark.slow
def test_a_rule_that_weighs_more_blocks(repository: Repository, tmp_path: Path) -> None:
    """Runs stay nevertheless, and the other jobs are compared."""
    stricter = second_version.install(tmp_path / "stricter")
    rule = '("TW717",'
    path = stricter.folder / "source/trainwright/rules/pods.py"
    text = path.read_text(encoding="utf-8")
    assert f"@warning{rule}" in text
    path.write_text(text.replace(f"@warning{rule}", f"@error{rule}"), encoding="utf-8")
    repository.environment("prod", "podSecurity: privileged\n")
    repository.job("prod/many", "volumes: {data: {hostPath: {path: /data}, mountPath: /data}}\n")
    assert repository.run("render").exit_code == 0
    found = report(repository, "--to", str(stricter.folder), code=1)
    assert found["runs"]["kept"] == ["dev/llm", "prod/llm", "prod/many"]
    assert {(f["rule"], f["before"], f["after"]) for f in found["findings"]} == {
        ("TW717", "warning", "error")
    }
    assert found["nextRuns"]["dropped"] == ["prod/many"]
    assert "breaks" in repository.run("admin", "upgrade", "--to", str(stricter.folder)).output


@pytest.mark.slow
def test_another_chart_alone(repository: Repository, later: Version, tmp_path: Path) -> None:
    chart = later.folder / "source/trainwright/chart"
    packaged = repository.run(
        "admin", "chart", "package", str(chart), "--destination", str(tmp_path / "d")
    )
    assert packaged.exit_code == 0, packaged.output
    (archive,) = (tmp_path / "d").glob("*.tgz")
    for path in (chart, archive):
        found = report(repository, "--chart", str(path))
        assert found["to"]["chart"] == VERSION
        (difference,) = found["nextRuns"]["differences"]
        changed = {line for line in difference["diff"][2:] if line[0] in "+-"}
        assert changed == {f"+          {second_version.LINE}"}
    unsafe = tmp_path / "unsafe"
    shutil.copytree(chart, unsafe)
    pod = unsafe / "templates/_pod.tpl"
    text = pod.read_text(encoding="utf-8").replace("$values.podSecurityContext", "$values.nothing")
    pod.write_text(text, encoding="utf-8")
    rules = {
        f["rule"] for f in report(repository, "dev", "--chart", str(unsafe), code=1)["findings"]
    }
    assert rules, "what is found in the manifests that it renders"
    (unsafe / "values.schema.json").write_text('{"required": ["new"]}')
    refused = report(repository, "dev", "--chart", str(unsafe), code=1)
    assert {f["rule"] for f in refused["findings"]} >= {"TW012"}
    assert refused["nextRuns"]["dropped"] == ["dev/llm"]


@pytest.mark.slow
def test_files_of_the_repository_are_there_for_both_versions(repository: Repository) -> None:
    """Wherever a layer names them; a broken job elsewhere keeps none from being found."""
    head = "apiVersion: trainwright.io/v1alpha1\nkind: {}\n"
    files = "files: {{/etc/{0}: {{from: configs/{0}.yaml}}}}"
    named = {name: files.format(name) for name in ("job", "base", "pool", "environment", "all")}
    (repository.root / "configs/folder/inside").mkdir(parents=True)
    (repository.root / "configs/folder/inside/a.yaml").write_text("a: 1\n")
    named["job"] = (
        named["job"]
        .replace("{{", "{")
        .replace("files: {", "files: {/etc/folder: {from: configs/folder}, ")
    )
    for name in named:
        (repository.root / f"configs/{name}.yaml").write_text(f"name: {name}\n")
    repository.write("defaults.yaml", head.format("Defaults") + f"defaults: {{{named['all']}}}\n")
    repository.environment(
        "prod",
        f"defaults: {{{named['environment']}}}\npools: {{p: {{defaults: {{{named['pool']}}}}}}}\n",
    )
    repository.write("base/jobs/llm.yaml", head.format("JobSpec") + f"name: llm\n{named['base']}\n")
    repository.job("prod/llm", f"extends: base/llm\npool: p\n{named['job']}\n")
    assert repository.run("render").exit_code == 0
    repository.job("dev/broken", "files: [\n")
    before = everything(repository.root)
    found = report(repository, "prod", "--to", sys.executable)
    assert found["runs"] == {
        "kept": ["prod/llm"],
        "changed": [],
        "started": [],
        "pending": [],
        "refused": {},
    }
    assert found["nextRuns"]["same"] == 1
    assert everything(repository.root) == before


def test_only_files_inside_of_the_repository_are_copied(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    repository.environment("prod")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret\n")
    (repository.root / "folder").mkdir()
    (repository.root / "folder/file").write_text("file\n")
    (repository.root / ".git").mkdir()
    (repository.root / ".git/config").write_text("secret\n")
    (repository.root / "unnamed").write_text("secret\n")
    (repository.root / "link").symlink_to("folder/file")
    (repository.root / "linked").symlink_to(tmp_path / "outside")
    paths = (
        "folder/file", "folder", "link", "linked/secret", "../outside/secret", ".git/config",
        str(tmp_path / "outside/secret"), "folder/../../outside/secret", "missing", "a\\0",
        "environments/prod/environment.yaml",
    )  # fmt: skip
    files = {f"/etc/{number}": {"from": path} for number, path in enumerate(paths)}
    repository.job("prod/llm", f"files: {json.dumps(files)}\n")
    copy = tmp_path / "copies/copy"
    staging.copy_sources(repository.root, copy)
    assert sorted(everything(tmp_path / "copies")) == [
        "copy/environments/prod/environment.yaml",
        "copy/environments/prod/jobs/llm.yaml",
        "copy/folder/file",
    ]


def test_what_git_ignores_in_a_named_folder_is_not_copied(tmp_path: Path) -> None:
    repository = Repository(git.init(tmp_path / "repository"))
    repository.environment("prod")
    (repository.root / ".gitignore").write_text(".env\n")
    files = {}
    for folder in ("configs", "environments/prod/scripts"):
        (repository.root / folder / "in").mkdir(parents=True)
        for name in ("a", ".env", "in/.env"):
            (repository.root / folder / name).write_text("text\n")
        files[f"/etc/{folder}"] = {"from": folder}
    repository.job("prod/llm", f"files: {json.dumps(files)}\n")
    staging.copy_sources(repository.root, tmp_path / "copies/copy")
    assert sorted(everything(tmp_path / "copies")) == [
        "copy/configs/a",
        "copy/environments/prod/environment.yaml",
        "copy/environments/prod/jobs/llm.yaml",
        "copy/environments/prod/scripts/a",
    ]


WRONG = {
    "nothing": ("missing", "does not exist"),
    "a folder": ("empty", "has neither bin/python nor trainwright/"),
    "a program": ("program", "does not run Trainwright: not today"),
    "no program": ("plain", "is not executable"),
    "no wheel": ("broken.whl", "cannot be unpacked"),
    "another wheel": ("other.whl", "is not a wheel of Trainwright"),
    "a wheel that leaves its folder": ("leaving.whl", "'../leaving.pth' leads out of its folder"),
    "an absolute wheel": ("absolute.whl", "'/leaving.pth' leads out of its folder"),
    "a wheel with a link": ("linking.whl", "'trainwright' is neither a file nor a folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_a_version_is_one_line(case: str, tmp_path: Path) -> None:
    name, message = WRONG[case]
    repository = Repository(tmp_path)
    repository.environment("prod")
    repository.job("prod/llm")
    (tmp_path / "empty").mkdir()
    (tmp_path / "program").write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "plain").write_text("")
    (tmp_path / "broken.whl").write_text("")
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr("other/__init__.py", "")
    for wheel, outside in {"leaving": "../leaving.pth", "absolute": "/leaving.pth"}.items():
        with zipfile.ZipFile(tmp_path / f"{wheel}.whl", "w") as archive:
            archive.writestr(outside, "")
    with zipfile.ZipFile(tmp_path / "linking.whl", "w") as archive:
        link = zipfile.ZipInfo("trainwright")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc")
    for option in ("--from", "--to"):
        to = () if option == "--to" else ("--to", "missing")
        done = repository.run("admin", "upgrade", option, name, *to)
        assert done.exit_code == 2
        assert message in done.output
        assert len(done.output.splitlines()) == 1
    assert not (tmp_path / "environments/prod/rendered").exists()


@pytest.mark.parametrize("arguments", [(), ("--to", "a", "--chart", "b")])
def test_exactly_one_version_is_named(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = Repository(tmp_path).run("admin", "upgrade", *arguments)
    assert done.exit_code == 2
    assert "--to PATH, or --chart PATH" in done.output
