"""What a commit holds, rendered again: equal or not, file by file, and what is stated of it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from forged_trees import FORGED, RENDERED, base, replaced, sealed

from git_repository import commit, git, init
from repository import Copied, Repository
from trainwright import __version__
from trainwright.helm import own_chart


@pytest.fixture
def branch(tmp_path: Path, copied: Copied) -> Repository:
    """Three commits: two runs, one that has finished, and one more on a branch."""
    return copied(base, tmp_path / "repository")


def verified(repository: Repository, *arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """Each file by path, as a verification has it."""
    done = repository.run("gitops", "verify", *arguments, "-o", "json")
    assert done.exit_code == code, done.output
    sets = json.loads(done.stdout)["items"]
    assert all(each["equal"] for each in sets) == (code == 0)
    return {file.pop("path"): file for each in sets for file in each["files"]}


def merged(repository: Repository) -> None:
    """The branch is merged: its base, which a check believes, is its last commit."""
    commit(repository.root, "More of the harmless job")
    git(repository.root, "checkout", "--quiet", "main")
    git(repository.root, "merge", "--quiet", "--no-ff", "--no-edit", "pull-request")


def test_what_was_rendered_is_equal_file_by_file(branch: Repository) -> None:
    listed = git(branch.root, "ls-tree", "-r", "--name-only", "HEAD", RENDERED).splitlines()
    found = verified(branch, "HEAD")
    assert list(found) == listed
    for path, file in found.items():
        raw = (branch.root / path).read_bytes()
        (digest,) = subprocess.run(
            ["sha256sum"], input=raw, capture_output=True, check=True
        ).stdout.split()[:1]
        assert file == {
            "verdict": "equal", "sha256": digest.decode(), "why": "", "line": 1
        }  # fmt: skip
    text = branch.run("gitops", "verify", "HEAD").stdout.splitlines()
    assert text == [*(f"{path}: equal" for path in listed), f"prod: {len(listed)} equal"]


def test_nothing_is_checked_out_and_nothing_on_disk_counts(branch: Repository) -> None:
    head = git(branch.root, "rev-parse", "HEAD")
    spec = branch.root / "environments/prod/jobs/llm.yaml"
    spec.write_text(spec.read_text().replace("nodes: 2", "nodes: 9"))
    (branch.root / RENDERED / "new/pytorchjob.yaml").unlink()
    before = git(branch.root, "status", "--porcelain")
    assert f"{RENDERED}/new/pytorchjob.yaml" in verified(branch, head)
    assert f"{RENDERED}/new/pytorchjob.yaml" not in verified(branch, "main")
    assert git(branch.root, "status", "--porcelain") == before
    assert git(branch.root, "rev-parse", "HEAD") == head


@pytest.mark.parametrize(
    ("how", "path"),
    [
        ("image", "new/pytorchjob.yaml"),
        ("image of a run of the base", "llm/pytorchjob.yaml"),
        ("second file", "new/binding.yaml"),
        ("state of a run of the base", "llm/pytorchjob.yaml"),
        ("images replaced", "kustomization.yaml"),
        ("object without a source", "_objects/binding.yaml"),
        ("manifest deleted", "llm/pytorchjob.yaml"),
        ("link for a manifest", "new/pytorchjob.yaml"),
        ("run of no environment", ""),
        ("ledger: a run that goes on", ""),
    ],
)
def test_what_was_forged_is_not_though_it_was_merged(
    how: str, path: str, branch: Repository
) -> None:
    FORGED[how](branch.root)
    merged(branch)
    for options in ((), ("--against", "HEAD^1")):
        found = verified(branch, "HEAD", *options, code=1)
        different = [it for it, file in found.items() if file["verdict"] == "different"]
        assert all(found[it]["why"] for it in different)
        assert f"{RENDERED}/{path}" in different or (not path and different)
    verified(branch, "HEAD^1")  # which was honest


def test_a_run_is_held_against_what_its_environment_took_when_it_began(branch: Repository) -> None:
    """And not against what it takes at the last commit, where there is no review to get through."""
    merged(branch)
    for name in ("environment.yaml", "objects/team.yaml"):
        file = branch.root / "environments/prod" / name
        file.write_text(file.read_text().replace("namespace: training", "namespace: moved"))
    assert branch.run("render").exit_code == 0
    commit(branch.root, "Move what comes")
    assert f"{RENDERED}/new/pytorchjob.yaml" in verified(branch, "HEAD")


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        (".sourceignore", "# all of it\nenvironments/prod/rendered/llm/\n", 2),
        ("environments/.gitattributes", "*.yaml filter=x\n", 1),
        (f"{RENDERED}/Kustomization", "resources: []\n", 1),
    ],
)
def test_what_an_engine_reads_beside_is_different(
    path: str, text: str, line: int, branch: Repository
) -> None:
    (branch.root / path).write_text(text)
    merged(branch)
    found = verified(branch, "HEAD", code=1)
    assert (found[path]["verdict"], found[path]["line"]) == ("different", line)
    assert found[path]["why"]
    assert {file["verdict"] for other, file in found.items() if other != path} == {"equal"}


def test_a_record_is_not_equal_where_its_files_are_not(branch: Repository) -> None:
    FORGED["image"](branch.root)
    merged(branch)
    found = verified(branch, "HEAD", code=1)
    manifest, record = (found[f"{RENDERED}/new/{name}"] for name in ("pytorchjob.yaml", "run.lock"))
    line = (branch.root / RENDERED / "new/pytorchjob.yaml").read_text().splitlines()
    assert "registry.example.org/x:1.0" in line[manifest["line"] - 1]
    assert "is rendered" in manifest["why"]
    assert record["verdict"] == "different"
    text = branch.run("gitops", "verify", "HEAD").stdout
    assert f"{RENDERED}/new/pytorchjob.yaml:{manifest['line']}: different: has " in text
    assert text.endswith("prod: 10 equal, 2 different\n")


def test_what_another_version_rendered_is_unproved(branch: Repository) -> None:
    replaced("train.py", "another.py")(branch.root)
    sealed(branch.root, "new", trainwright="0.0.9")
    merged(branch)
    file = verified(branch, "HEAD", code=1)[f"{RENDERED}/new/pytorchjob.yaml"]
    assert file["verdict"] == "unproved"
    assert file["why"].startswith("was rendered by Trainwright 0.0.9 with chart ")


def test_a_shallow_clone_says_what_it_could_not_prove(branch: Repository) -> None:
    branch.write("defaults.yaml", DEFAULTS)
    commit(branch.root, "A default that holds for what begins now")
    verified(branch, "HEAD")
    folder = branch.root.parent / "clone"
    source = f"file://{branch.root}"
    git(branch.root.parent, "clone", "--quiet", "--depth=1", source, str(folder))
    found = verified(Repository(folder), "HEAD", code=1)
    assert {file["verdict"] for file in found.values()} == {"equal", "unproved"}
    unproved = found[f"{RENDERED}/llm/pytorchjob.yaml"]
    assert "this clone is shallow" in unproved["why"]
    assert "fetch-depth: 0" in unproved["why"]


def test_a_shallow_clone_proves_what_came_after_a_trusted_commit(branch: Repository) -> None:
    """It lacks nothing that decides then: what no source renders is different."""
    FORGED["image"](branch.root)
    commit(branch.root, "More of the harmless job")
    folder = branch.root.parent / "clone"
    source = f"file://{branch.root}"
    git(branch.root.parent, "clone", "--quiet", "--depth=2", source, str(folder))
    found = verified(Repository(folder), "HEAD", "--against", "HEAD~1", code=1)
    forged = found[f"{RENDERED}/new/pytorchjob.yaml"]
    assert forged["verdict"] == "different"
    assert "shallow" not in forged["why"]


def test_a_clone_that_lacks_a_file_says_which(branch: Repository) -> None:
    blob = git(branch.root, "rev-parse", "HEAD:environments/prod/jobs/llm.yaml")
    (branch.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for verb in (("gitops", "verify", "HEAD"), ("plan", "--against", "main", "--head", "HEAD")):
        done = branch.run(*verb)
        assert done.exit_code == 2, done.output
        lacks = "trainwright: this clone lacks environments/prod/jobs/llm.yaml of commit "
        assert done.stderr.startswith(lacks)
        assert "clone it without --filter" in done.stderr


def test_a_partial_clone_says_how_to_complete_it(branch: Repository) -> None:
    git(branch.root, "config", "uploadpack.allowFilter", "true")
    folder = branch.root.parent / "clone"
    source = f"file://{branch.root}"
    git(branch.root.parent, "clone", "--quiet", "--filter=blob:none", source, str(folder))
    clone, plan = Repository(folder), ("plan", "--against", "HEAD~2", "--head", "HEAD")
    done = clone.run(*plan)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("trainwright: this clone lacks ")
    git(folder, "fetch", "--quiet", *re.findall("`git fetch (.+?)`", done.stderr)[-1].split())
    assert clone.run(*plan).exit_code == 0


DEFAULTS = """\
apiVersion: trainwright.io/v1alpha1
kind: Defaults
defaults: {gracePeriod: 5m}
"""


def test_the_statement_is_of_the_bytes_that_git_has(branch: Repository, tmp_path: Path) -> None:
    git(branch.root, "remote", "add", "origin", "https://ada:secret@example.com/ml/jobs.git")
    out = tmp_path / "statements"
    verified(branch, "HEAD", "--against", "main", "--statements", str(out))
    assert {path.name for path in out.iterdir()} == {
        "prod.intoto.json", "prod.predicate.json", "prod.sha256"
    }  # fmt: skip
    statement = json.loads((out / "prod.intoto.json").read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://trainwright.io/attestations/rendered/v1"
    assert statement["predicate"] == json.loads((out / "prod.predicate.json").read_text())
    assert statement["predicate"] == {
        "environment": "prod",
        "source": {
            "uri": "https://example.com/ml/jobs.git",
            "digest": {"gitCommit": git(branch.root, "rev-parse", "HEAD")},
        },
        "base": {"digest": {"gitCommit": git(branch.root, "rev-parse", "main")}},
        "tool": {"name": "trainwright", "version": __version__},
        "chart": {
            "name": "training-job",
            "version": own_chart.version(),
            "digest": {"dirHash": own_chart.dir_hash()},
        },
    }
    sums = "".join(f"{it['digest']['sha256']}  {it['name']}\n" for it in statement["subject"])
    assert sums == (out / "prod.sha256").read_text()
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", str(out / "prod.sha256")],
        cwd=branch.root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    assert len(statement["subject"]) == checked.stdout.count(": OK")


def test_the_digest_of_the_chart_is_as_its_definition_computes_it(tmp_path: Path) -> None:
    """https://github.com/in-toto/attestation/blob/main/spec/v1/digest_set.md#dirhash"""
    kept = ("Chart.yaml", "values.yaml", "values.schema.json", "templates")
    script = (
        f"cp -R {' '.join(kept)} {tmp_path} && cd {tmp_path} && "
        "find . -type f | cut -c3- | LC_ALL=C sort | xargs -r sha256sum | sha256sum | cut -f1 -d' '"
    )
    done = subprocess.run(
        ["sh", "-c", script], cwd=own_chart.FOLDER, capture_output=True, text=True, check=True
    )
    assert own_chart.dir_hash() == done.stdout.strip()


def test_nothing_is_stated_of_what_is_not_equal(branch: Repository, tmp_path: Path) -> None:
    branch.environment("dev")
    branch.job("dev/llm")
    assert branch.run("render", "dev").exit_code == 0
    FORGED["image"](branch.root)
    merged(branch)
    out = tmp_path / "statements"
    verified(branch, "HEAD", "--statements", str(out), code=1)
    assert {path.name.partition(".")[0] for path in out.iterdir()} == {"dev"}
    assert all("environments/dev/" in path for path in verified(branch, "HEAD", "dev"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), 'there is no commit "nowhere" here'),
        (("main", "--against", "HEAD"), "HEAD has main already"),
        (("HEAD", "--against", "nowhere"), 'there is no commit "nowhere" here'),
        (("HEAD", "prod/llm"), "environments are verified whole: name prod, not its jobs"),
        (("HEAD", "pord"), 'nothing matches "pord"; did you mean prod?'),
        (("--output=json", "--", "--all"), 'there is no commit "--all" here'),
    ],
)
def test_what_cannot_be_is_one_line(
    arguments: tuple[str, ...], message: str, branch: Repository
) -> None:
    done = branch.run("gitops", "verify", *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"trainwright: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_a_commit_without_rendered_files_proves_nothing(tmp_path: Path) -> None:
    made = Repository(init(tmp_path))
    made.environment("prod")
    made.job("prod/llm")
    commit(tmp_path, "Specs")
    done = made.run("gitops", "verify", "HEAD")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nothing is rendered in HEAD" in done.stderr
