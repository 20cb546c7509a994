"""What GitOps engines read beside rendered files is found, and what they do not is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import git_repository
from repository import Repository
from trainwright.authoring.session import Session
from trainwright.datatypes.finding import Finding
from trainwright.setup.init import repository as new
from trainwright.specs.engine_files import _names

HERE = "environments/prod/rendered"
FOUND = {
    f"{HERE}/.argocd-source.yaml": "kustomize: {images: [train=evil]}\n",
    f"{HERE}/.argocd-source-prod.yaml": "kustomize: {namePrefix: x-}\n",
    f"{HERE}/.argocd-source-argocd_prod.yaml": "",
    f"{HERE}/kustomization.yml": "resources: []\n",
    f"{HERE}/Kustomization": "resources: []\n",
    f"{HERE}/Chart.yaml": "name: evil\n",
    f"{HERE}/zzChart.yaml": "name: evil\n",
    f"{HERE}/.sourceignore": "# Nothing.\n\nllm/\n",
    "environments/prod/.sourceignore": "rendered/*\n",
    "environments/.sourceignore": "*\n!dev/\n",
    ".sourceignore": "/*\n!/deploy\n",
    ".gitattributes": "*.yaml text working-tree-encoding=UTF-16\n",
    "environments/.gitattributes": "prod/** filter=lfs diff=lfs\n",
    f"{HERE}/.gitattributes": "kustomization.yaml eol=crlf\n",
    "environments/prod/.gitattributes": "rendered/llm/*.yaml ident\n",
}
LEFT = {
    ".sourceignore": "/docs/\n*.md\n*.png\n# /environments\n*\n!/environments/\n",
    "environments/.sourceignore": "prod/jobs/\ndev/\nrendered\n!prod/\n",
    ".gitattributes": "*.png filter=lfs diff=lfs merge=lfs -text\n* text=auto eol=lf\n"
    "environments/*/rendered/** text eol=lf linguist-generated=true\n",
    f"{HERE}/README.md": "kustomization.yml\n",
    "environments/prod/Chart.yaml": "name: mine\n",
    "kustomization.yml": "resources: [app]\n",
    "docs/.sourceignore": "*\n",
    "environments/prod/kustomization.yml": "",
}


# How else git takes a line of .gitattributes: of macros, quotes, escapes and what editors begin with.
SPELLED = (
    "[attr]harmless eol=crlf\n*.yaml harmless\n",
    "*.yaml outer\n[attr]outer inner\n[attr]inner -diff ident\n",
    '"*.yaml" text eol=crlf\n',
    '"\\052.y\\141ml"  eol=crlf\n',
    '  "environments/**" eol=crlf\n',
    "\ufeff*.yaml eol=crlf\n",
)
SPARED = (
    "[attr]large filter=lfs\n*.png large\n",
    '"*.png" filter=lfs\n',
    "[attr]plain -text\n*.yaml plain\n",
    '"*.yaml eol=crlf\n',  # quotes that nothing closes: no file is called so
)


@pytest.fixture
def rendered(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.environment("prod")
    made.job("prod/llm")
    made.run("render")
    return made


def found(repository: Repository) -> list[str]:
    done = repository.run("check", "-o", "json")
    results = json.loads(done.stdout)["report"]["results"]
    return [result["place"]["file"] for result in results if result["rule"] == "TW080"]


@pytest.mark.parametrize("path", FOUND)
def test_what_an_engine_reads_is_found(path: str, rendered: Repository) -> None:
    (rendered.root / path).write_text(FOUND[path])
    assert found(rendered) == [path]
    assert rendered.run("render", "--check").exit_code == 1
    assert rendered.run("check").exit_code == 1


@pytest.mark.parametrize("path", LEFT)
def test_what_changes_nothing_is_left_alone(path: str, rendered: Repository) -> None:
    (rendered.root / path).parent.mkdir(parents=True, exist_ok=True)
    (rendered.root / path).write_text(LEFT[path])
    assert found(rendered) == []


@pytest.mark.parametrize("text", SPELLED)
def test_attributes_are_found_however_they_are_spelled(text: str, rendered: Repository) -> None:
    (rendered.root / ".gitattributes").write_text(text, encoding="utf-8")
    assert found(rendered) == [".gitattributes"]


@pytest.mark.parametrize("text", SPARED)
def test_attributes_of_other_files_are_left_alone(text: str, rendered: Repository) -> None:
    (rendered.root / ".gitattributes").write_text(text, encoding="utf-8")
    assert found(rendered) == []


def test_a_macro_of_the_top_counts_in_every_folder(rendered: Repository) -> None:
    (rendered.root / ".gitattributes").write_text("[attr]harmless eol=crlf\n")
    (rendered.root / "environments/.gitattributes").write_text("*.yaml harmless\n")
    assert found(rendered) == ["environments/.gitattributes"]


HIDING = {
    "*.yaml -diff\n": "environments/prod/environment.yaml",
    "* binary\n": "environments/prod/environment.yaml",
    "environments/*/jobs/** linguist-generated\n": "environments/prod/jobs/llm.yaml",
    "environments/*/rendered/** gitlab-generated=true\n": f"{HERE}/kustomization.yaml",
    "[attr]quiet -diff\nllm.yaml quiet\n": "environments/prod/jobs/llm.yaml",
    "llm.yaml -diff\nllm.yaml -linguist-generated\n": "environments/prod/jobs/llm.yaml",
    "*.yaml -diff\njobs/ diff\n/environments/prod/environment.yaml diff\n"
    "kustomization.yaml diff\n": "environments/prod/jobs/llm.yaml",
}
SHOWING = (
    (new.FILES / ".gitattributes").read_text(encoding="utf-8"),
    "*.png binary\n*.pt -diff\ndocs/** linguist-generated\n",
    "*.yaml -diff\n*.yaml diff\n",
    "*.yaml binary\nenvironments/** diff\n",
    "*.yaml linguist-generated\nenvironments/** linguist-generated=false\n",
    "*.yaml -text linguist-vendored\n",
)


def hidden(repository: Repository) -> list[str]:
    done = repository.run("check", "-o", "json")
    results = json.loads(done.stdout)["report"]["results"]
    return [result["message"] for result in results if result["rule"] == "TW081"]


@pytest.mark.parametrize("text", HIDING)
def test_what_a_forge_hides_of_specs_and_manifests_is_a_warning(
    text: str, rendered: Repository
) -> None:
    (rendered.root / ".gitattributes").write_text(text)
    (message,) = hidden(rendered)
    assert f"hides changes of {HIDING[text]} from reviewers" in message
    assert rendered.run("render", "--check").exit_code == 0, "it is applied as it was rendered"


@pytest.mark.parametrize("text", SHOWING)
def test_what_a_forge_shows_is_left_alone(text: str, rendered: Repository) -> None:
    (rendered.root / ".gitattributes").write_text(text)
    assert hidden(rendered) == []


def test_a_file_below_hides_as_well(rendered: Repository) -> None:
    (rendered.root / "environments/prod/jobs/.gitattributes").write_text("* -diff\n")
    assert len(hidden(rendered)) == 1


def test_an_editor_takes_note_of_what_comes_and_goes(rendered: Repository) -> None:
    session = Session(rendered.root)
    for path in (".sourceignore", f"{HERE}/Kustomization", ".sourceignore"):
        (rendered.root / path).write_text("*\n")
        session.changed({path})
        assert [(found.rule, found.place.file) for found in everything(session)] == [
            ("TW080", path)
        ]
        (rendered.root / path).unlink()
        session.changed({path})
        assert everything(session) == []


def everything(session: Session) -> list[Finding]:
    while not session.is_checked:
        session.check_next()
    session.refresh("2026-06-01")
    return list(session.check.everything())


def test_a_line_that_decides_has_its_position(rendered: Repository) -> None:
    (rendered.root / ".sourceignore").write_text("docs/\n*.yaml\n")
    output = rendered.run("check").output
    assert ".sourceignore:2:1" in output
    assert (
        "Flux leaves out environments/prod/rendered/kustomization.yaml, by the pattern *.yaml"
        in output
    )


PATTERNS = (
    "a", "/a", "a/", "a/b", "a/b/", "*", "*.yaml", "/*.yaml", "a/*.yaml", "a/**", "**/c.yaml",
    "a/**/c.yaml", "**/b/**", "b", "/b", "?.yaml", "[a-c].yaml", "[!c].yaml", "[^c].yaml", "a/*",
    "*/b", "a/*/c.yaml", "**", "c.yaml/", "/", "x*x*x*x*x*x*x*x*x*x*x*y",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_mean_what_they_mean_to_git(pattern: str, tmp_path: Path) -> None:
    git_repository.init(tmp_path)
    (tmp_path / ".gitignore").write_text(f"{pattern}\n")
    paths = ("c.yaml", "a/c.yaml", "a/b/c.yaml", "a/b/d/c.yaml", "b/c.yaml", "x" * 200)
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    listed = git_repository.git(tmp_path, "ls-files", "--others", "--ignored", "--exclude-standard")
    assert {path for path in paths if _names(pattern, path)} == {*listed.split()} - {".gitignore"}
