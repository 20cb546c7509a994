"""Rendered files as commits, in real repositories: what moves, what stays, and who comes second."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import settings

import git_repository
from git_repository import git
from repository import Copied, Repository
from trainwright.datatypes.layout import rendered_folder
from trainwright.files import git as our_git
from trainwright.files.filetree import digest_of
from trainwright.files.tree import NOTHING, Edited
from trainwright.gitops.publish import publisher
from trainwright.gitops.publish.model import PublishError, PublishOptions
from trainwright.gitops.publish.provenance import METADATA, Source
from trainwright.gitops.statement import STATEMENT
from trainwright.render import build as plan
from trainwright.runs import record as records

FRESH = plan.BuildOptions(today="2026-06-01", use_cache=False, check_next_runs=False)
OPTIONS = PublishOptions(build=FRESH)
TRACES = {METADATA, STATEMENT}


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in git_repository.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def _begin(folder: Path) -> None:
    bare = folder / "remote.git"
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    first = Repository(git_repository.init(folder / "first"))
    first.environment("dev")
    first.environment("prod")
    for name in ("dev/mnist", "prod/mnist", "prod/llm"):
        first.job(name)
    git_repository.commit(first.root, "Specs")
    git(first.root, "push", "--quiet", str(bare), "main")


@pytest.fixture
def remote(tmp_path: Path, copied: Copied) -> Path:
    """A bare repository with the specs of two environments on main, unrendered."""
    return copied(_begin, tmp_path).root / "remote.git"


def clone(remote: Path, name: str, *options: str) -> Repository:
    git(remote.parent, "clone", "--quiet", *options, remote.as_uri(), name)
    return Repository(remote.parent / name)


def publish(repository: Repository, *arguments: str) -> str:
    result = repository.run("gitops", "publish", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(repository: Repository, *arguments: str) -> str:
    before = (
        git(repository.root, "rev-parse", "HEAD"),
        git(repository.root, "branch", "--format=%(refname) %(objectname)"),
    )
    result = repository.run("gitops", "publish", *arguments)
    assert result.exit_code in (1, 2), result.output
    after = (
        git(repository.root, "rev-parse", "HEAD"),
        git(repository.root, "branch", "--format=%(refname) %(objectname)"),
    )
    assert after == before
    return result.stderr


def files(folder: Path, commit: str, path: str = "") -> dict[str, str]:
    """Texts of a commit by path below a folder."""
    archived = subprocess.run(
        ["git", "-C", folder, "archive", f"{commit}:{path}" if path else commit],
        capture_output=True, check=True,
    )  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        members = [member for member in archive if member.isfile()]
        return {m.name: archive.extractfile(m).read().decode() for m in members}


def before_that(folder: Path, commit: str, path: str) -> Mapping[str, str]:
    """What an earlier commit holds in a folder, if there was one."""
    listed = git(folder, "ls-tree", "--name-only", commit, path)
    return files(folder, commit, path) if listed else {}


def rendering(
    folder: Path, commit: str, environment: str, held: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """What a commit renders to where a branch holds some files: none where no run has begun."""
    before = {path: text for path, text in (held or {}).items() if path not in TRACES}
    inside = rendered_folder(environment)
    runs = Edited(NOTHING, {f"{inside}/{path}": text.encode() for path, text in before.items()})
    tree = our_git.Repository(folder).tree(commit, later="rendered")
    changes = plan.build(folder, (environment,), FRESH, tree, runs).environments[0].changes
    assert changes is not None
    kept = {path: text for path, text in before.items() if path not in changes.removed}
    return kept | dict(changes.written)


def stated(held: dict[str, str], folder: str = "") -> Mapping[str, Any]:
    """The predicate about a published folder, whose subjects are all its other files."""
    statement = json.loads(held.pop(STATEMENT))
    start = f"{folder}/" if folder else ""
    rendered = {path: text for path, text in held.items() if path not in TRACES}
    assert {it["name"]: it["digest"] for it in statement["subject"]} == {
        f"{start}{path}": {"sha256": hashlib.sha256(text.encode()).hexdigest()}
        for path, text in rendered.items()
    }
    predicate: Mapping[str, Any] = statement["predicate"]
    return predicate


def trailer(folder: Path, commit: str, key: str) -> str:
    form = f"--format=%(trailers:key={key},valueonly)"
    return git(folder, "log", "--max-count=1", form, commit).strip()


# --- the branch that is checked out --------------------------------------------------------------


def test_the_current_branch_gets_one_commit_with_everything_rendered(remote: Path) -> None:
    here = clone(remote, "here")
    source = git(here.root, "rev-parse", "HEAD")
    (here.root / "notes.txt").write_text("staged\n")
    git(here.root, "add", "notes.txt")
    assert publish(here).startswith("main  ")
    assert git(here.root, "rev-parse", "HEAD~") == source
    assert git(here.root, "status", "--porcelain") == "A  notes.txt"
    assert here.run("render", "--check").exit_code == 0
    for name in ("dev", "prod"):
        folder = f"environments/{name}/rendered"
        assert files(here.root, "HEAD", folder) == rendering(here.root, source, name)
    assert TRACES.isdisjoint(map(os.path.basename, files(here.root, "HEAD")))
    assert publish(here) == "main  up to date\n"
    assert git(here.root, "rev-parse", "HEAD~") == source


def test_what_was_rendered_but_not_committed_is_no_obstacle(remote: Path) -> None:
    here = clone(remote, "here")
    assert here.run("render").exit_code == 0
    publish(here)
    assert git(here.root, "status", "--porcelain") == ""
    here.job("prod/llm", "retries: 1\n")
    git_repository.git(here.root, "commit", "--quiet", "--all", "--message", "Change")
    assert here.run("render").exit_code == 0
    publish(here, "prod")
    assert git(here.root, "status", "--porcelain") == ""


def test_uncommitted_specs_and_edits_by_hand_are_refused(remote: Path) -> None:
    here = clone(remote, "here")
    path = here.job("prod/llm", "retries: 1\n")
    new = here.job("prod/new")
    message = refused(here)
    assert (
        "environments/prod/jobs/llm.yaml, environments/prod/jobs/new.yaml: commit them" in message
    )
    git(here.root, "checkout", "--quiet", str(path))
    new.unlink()
    publish(here)
    values = here.root / "environments/prod/rendered/llm/values.yaml"
    values.write_text(values.read_text() + "# mine\n")
    assert "edited by hand: environments/prod/rendered/llm/values.yaml" in refused(here, "prod")
    assert values.read_text().endswith("# mine\n")
    git(here.root, "commit", "--quiet", "--all", "--message", "By hand")
    message = refused(here, "prod")
    assert "edited by hand on main: environments/prod/rendered/llm/values.yaml" in message
    assert publish(here, "dev") == "main  up to date\n"
    publish(here, "prod", "--discard-edits")
    assert not values.read_text().endswith("# mine\n")
    assert here.run("render", "--check").exit_code == 0


def test_specs_with_errors_are_not_published(remote: Path) -> None:
    here = clone(remote, "here")
    here.job("prod/llm", "nodse: 1\n")
    git_repository.commit(here.root)
    message = refused(here, "prod", "--branch", "rendered")
    assert "error[TW010]" in message
    assert "Nothing was published" in message


def test_a_job_that_goes_away_goes_from_the_branch(remote: Path) -> None:
    here = clone(remote, "here")
    publish(here)
    (here.root / "environments/prod/jobs/llm.yaml").unlink()
    git_repository.commit(here.root)
    assert "removed" in publish(here)
    assert not (here.root / "environments/prod/rendered/llm").exists()
    assert here.run("render", "--check").exit_code == 0


# --- other branches ------------------------------------------------------------------------------


def test_a_branch_for_each_environment_with_what_traces_it_back(remote: Path) -> None:
    here = clone(remote, "here")
    git(here.root, "remote", "set-url", "origin", "https://ada:secret@example.com/ml/jobs.git")
    long = "Tune it\n\nBecause it was slow.\n\nReviewed-by: Grace <grace@example.com>"
    git(here.root, "commit", "--quiet", "--allow-empty", "--message", long)
    source = git(here.root, "rev-parse", "HEAD")
    before = {path: path.stat().st_mtime_ns for path in here.root.rglob("*.yaml")}
    publish(here, "--branch", "environment/{env}", "--path", ".")
    assert before == {path: path.stat().st_mtime_ns for path in here.root.rglob("*.yaml")}
    assert git(here.root, "status", "--porcelain") == ""
    for name in ("dev", "prod"):
        tip = git(here.root, "rev-parse", f"environment/{name}")
        assert git(here.root, "rev-list", "--count", tip) == "1"
        held = files(here.root, tip)
        metadata = json.loads(held.pop("hydrator.metadata"))
        predicate = stated(held)
        assert held == rendering(here.root, source, name)
        assert predicate["environment"] == name
        assert predicate["source"] == {
            "uri": "https://example.com/ml/jobs.git", "digest": {"gitCommit": source}
        }  # fmt: skip
        assert "base" not in predicate
        # as `git show --format=%aI` has it: Z since Git 2.45, before that an offset
        assert metadata.pop("date").startswith("2026-01-01T00:00:00")
        assert metadata == {
            "repoURL": "https://example.com/ml/jobs.git",
            "drySha": source,
            "commands": [f"trainwright render {name}"],
            "author": "Ada <ada@example.com>",
            "subject": "Tune it",
            "body": "Because it was slow.\n\nReviewed-by: Grace <grace@example.com>",
        }
        assert trailer(here.root, tip, "Trainwright-Source-Commit") == source
        assert trailer(here.root, tip, "Trainwright-Environment") == name
        assert trailer(here.root, tip, "Argocd-reference-commit-sha") == source
        assert trailer(here.root, tip, "Argocd-reference-commit-author") == "Ada <ada@example.com>"
        assert (
            json.loads(trailer(here.root, tip, "Argocd-reference-commit-body")) == metadata["body"]
        )
        assert trailer(here.root, tip, "Argocd-reference-commit-repourl") == metadata["repoURL"]
        assert "secret" not in git(here.root, "show", tip)
    # GitOps engines apply what is listed there
    tip = git(here.root, "rev-parse", "environment/prod")
    listed = yaml.safe_load(git(here.root, "show", f"{tip}:kustomization.yaml"))["resources"]
    assert listed == ["llm/pytorchjob.yaml", "mnist/pytorchjob.yaml"]


def test_a_commit_that_another_led_to_and_a_bot_made_is_traced_as_argocd_traces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = git_repository.init(tmp_path)
    author = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com")
    monkeypatch.setitem(git_repository.ENVIRONMENT, "GIT_AUTHOR_NAME", author[0])
    monkeypatch.setitem(git_repository.ENVIRONMENT, "GIT_AUTHOR_EMAIL", author[1])
    trailers = (
        "Argocd-reference-commit-sha: b82add2",
        'Argocd-reference-commit-body: "Why\\n\\nSigned-off-by: Ada"',
        "Argocd-reference-commit-repourl: https://git.example.com/ml/code",
        "Argocd-reference-commit-unknown: stays",
        "Argocd-reference-commit-body: {broken",
        "Signed-off-by: Grace <grace@example.com>",
    )
    commit = git_repository.committed(
        root, "Bump the image\n\nIt is new.\n\n" + "\n".join(trailers)
    )
    source = Source(our_git.Repository(root), commit)
    metadata = json.loads(source.metadata(("prod",)))
    assert metadata["references"] == [
        {
            "commit": {
                "sha": "b82add2",
                "body": "Why\n\nSigned-off-by: Ada",
                "repoUrl": "https://git.example.com/ml/code",
            }
        }
    ]
    assert metadata["body"].splitlines() == ["It is new.", "", *trailers[3:]]
    # As Go's mail.ParseAddress reads it, and so Argo CD: brackets have to be quoted.
    user = '"41898282+github-actions[bot]"@users.noreply.github.com'
    quoted = f'Argocd-reference-commit-author: "github-actions[bot]" <{user}>'
    assert quoted in source.message(("prod",)).splitlines()


def test_nothing_new_is_no_commit_though_the_source_has_moved(remote: Path) -> None:
    here = clone(remote, "here")
    publish(here, "--branch", "rendered")
    tip = git(here.root, "rev-parse", "rendered")
    git(here.root, "commit", "--quiet", "--allow-empty", "--message", "Nothing")
    assert publish(here, "--branch", "rendered") == "rendered  up to date\n"
    assert git(here.root, "rev-parse", "rendered") == tip


def test_a_later_commit_builds_on_the_one_before(remote: Path) -> None:
    here = clone(remote, "here")
    publish(here, "prod", "--branch", "rendered", "--path", "{env}")
    first = git(here.root, "rev-parse", "rendered")
    here.job("prod/llm", "retries: 1\n")
    source = git_repository.committed(here.root)
    publish(here, "--branch", "rendered", "--path", "{env}")
    tip = git(here.root, "rev-parse", "rendered")
    assert git(here.root, "rev-parse", f"{tip}~") == first
    for name in ("dev", "prod"):
        held = files(here.root, tip, name)
        assert json.loads(held.pop("hydrator.metadata"))["drySha"] == source
        predicate = stated(held, name)
        assert predicate["source"]["digest"] == {"gitCommit": source}
        assert predicate["base"]["digest"] == {"gitCommit": first}
        before = before_that(here.root, first, name)
        assert held == rendering(here.root, source, name, before)


PLACES = [("--path", "{env}"), ("--path", "environments/{env}/rendered"), ()]


@pytest.mark.parametrize("place", PLACES, ids=["elsewhere", "beside", "as rendered"])
def test_a_run_on_another_branch_stays_as_it_began(place: tuple[str, ...], remote: Path) -> None:
    """The runs are those that the branch holds, published from any clone."""
    branch = ("prod", "--branch", "rendered", "--push", *place)
    publish(clone(remote, "first-clone"), *branch)
    here = clone(remote, "here", "--depth=1", "--no-single-branch")
    before = _runs(here.root)
    here.write("defaults.yaml", _defaults("gracePeriod: 5m"))
    git_repository.commit(here.root, "A shared edit")
    git(here.root, "push", "--quiet", "origin", "main")
    assert publish(here, *branch) == "rendered  up to date\n"
    assert _runs(here.root) == before

    here.write("defaults.yaml", _defaults("gracePeriod: 5m, state: suspended"))
    git_repository.commit(here.root, "Everything waits")
    git(here.root, "push", "--quiet", "origin", "main")
    publish(here, *branch)
    waiting = _runs(here.root)
    assert {name: run["object"] for name, run in waiting.items()} == {
        name: run["object"] for name, run in before.items()
    }
    assert {run["state"] for run in waiting.values()} == {"suspended"}
    assert [run["inherited"]["gracePeriod"] for run in waiting.values()] == ["60s", "60s"]

    here.job("prod/llm", "podLabels: {another: run}\n")
    git_repository.commit(here.root, "An edit of its own")
    git(here.root, "push", "--quiet", "origin", "main")
    publish(here, *branch)
    after = _runs(here.root)
    assert after["mnist"] == waiting["mnist"]
    assert after["llm"]["object"] != before["llm"]["object"]
    assert after["llm"]["inherited"]["gracePeriod"] == "5m"


def test_an_unknown_run_is_requested_by_name(remote: Path) -> None:
    """Where its record cannot be read, and the specs have moved on."""
    here = clone(remote, "here")
    branch = ("prod", "--branch", "rendered", "--path", "{env}")
    publish(here, *branch)
    git(here.root, "worktree", "add", "--quiet", "../there", "rendered")
    there = here.root.parent / "there"
    record = there / "prod/llm/run.lock"
    record.write_text("{")
    git_repository.commit(there, "Earlier")
    git(here.root, "worktree", "remove", "../there")
    here.job("prod/llm", "retries: 1\n")
    git_repository.commit(here.root)
    message = refused(here, *branch, "--discard-edits")
    assert "TW054" in message
    assert "or `trainwright gitops publish --new-runs`" in message
    publish(here, *branch, "--new-runs", "--discard-edits")
    assert set(_runs(here.root)) == {"llm", "mnist"}


def _defaults(text: str) -> str:
    head = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
    return f"{head}defaults: {{{text}}}\n"


def _runs(folder: Path) -> dict[str, dict]:
    """The record of each run on the branch `rendered`, here or as last seen at the remote."""
    git(folder, "fetch", "--quiet", "origin")
    known = git(folder, "branch", "--all", "--list", "*rendered", "--format=%(refname)")
    held = files(folder, known.splitlines()[0])
    return {
        path.split("/")[-2]: json.loads(text)
        for path, text in held.items()
        if path.endswith("/run.lock")
    }


@pytest.mark.parametrize("place", [("--path", "."), ()], ids=["top", "as rendered"])
def test_a_published_commit_is_rendered_again_from_its_source(
    place: tuple[str, ...], remote: Path
) -> None:
    here = clone(remote, "here")
    branch = ("prod", "--branch", "rendered", *place)
    publish(here, *branch)
    source = git(here.root, "rev-parse", "HEAD")
    here.job("prod/llm", "retries: 1\n")
    git_repository.commit(here.root)
    here.write("defaults.yaml", _defaults("gracePeriod: 5m"))  # which what runs does not take up
    git_repository.commit(here.root)
    publish(here, *branch)
    for commit, of in (("rendered", "HEAD"), ("rendered~", source)):
        done = here.run("gitops", "verify", commit)
        assert done.exit_code == 0, done.output
        *files, last = done.output.splitlines()
        assert len(files) > 5
        assert all(line.endswith(": equal") for line in files)
        assert last.endswith(f", published from {git(here.root, 'rev-parse', of)[:12]}")
    assert here.run("gitops", "verify", "rendered", "--against", "rendered~").exit_code == 2
    assert here.run("gitops", "verify", "rendered", "dev").exit_code == 2

    git(here.root, "checkout", "--quiet", "rendered")
    (forged,) = here.root.rglob("llm/pytorchjob.yaml")
    forged.write_text(forged.read_text().replace("train.py", "steal.py"))
    lock = forged.with_name("run.lock")  # sealed over it: a branch that had this would keep it
    record = records.parse(lock.read_bytes())
    assert record is not None
    sums = {**record.files, forged.name: digest_of(forged.read_bytes())}
    text = records.text("environments/prod/jobs/llm.yaml", replace(record, files=sums))
    lock.write_text(text)
    git_repository.commit(here.root, "Steal")
    (stated,) = here.root.rglob(STATEMENT)
    text = stated.read_text()
    told = json.loads(text)
    paths = {it.relative_to(here.root).as_posix() for it in (forged, lock)}
    for subject in (it for it in told["subject"] if it["name"] in paths):
        raw = (here.root / subject["name"]).read_bytes()
        subject["digest"]["sha256"] = hashlib.sha256(raw).hexdigest()
    for statement, also in ((text, True), (json.dumps(told), False)):
        stated.write_text(statement)
        git_repository.commit(here.root, "State it")
        done = here.run("gitops", "verify", "HEAD", "-o", "json")
        assert done.exit_code == 1
        ((found),) = json.loads(done.stdout)["items"]
        different = {it["path"] for it in found["files"] if it["verdict"] == "different"}
        beside = {stated.relative_to(here.root).as_posix()} if also else set()
        assert different == paths | beside
    told["predicate"]["source"]["digest"]["gitCommit"] = "0" * 40
    stated.write_text(json.dumps(told))
    git_repository.commit(here.root, "State another")
    done = here.run("gitops", "verify", "HEAD")
    assert done.exit_code == 1
    assert f"unproved: its source {'0' * 12} is not in this clone" in done.stdout
    stated.unlink()
    git_repository.commit(here.root, "Take it away")
    stated.write_text(text)
    (here.root / "copy").mkdir()
    (here.root / "copy" / STATEMENT).write_text(text)  # which hides no other of the same name
    git_repository.commit(here.root, "State it again, and elsewhere")
    done = here.run("gitops", "verify", "HEAD")
    assert done.exit_code == 1
    assert paths <= {
        line.partition(":")[0] for line in done.stdout.splitlines() if not line.endswith(": equal")
    }
    git(here.root, "rm", "--quiet", "-r", "copy")
    pattern = {**told["predicate"], "environment": "*"}
    for broken in ("", "[" * 200_000, "[]", json.dumps({**told, "predicate": pattern})):
        stated.write_text(broken)
        git_repository.commit(here.root, "Break it")
        done = here.run("gitops", "verify", "HEAD")
        assert done.exit_code == 2
        assert "is not a statement of Trainwright" in done.stderr


def test_what_people_keep_beside_the_rendered_files_stays(remote: Path) -> None:
    here = clone(remote, "here")
    publish(here, "prod", "--branch", "rendered", "--path", ".")
    git(here.root, "worktree", "add", "--quiet", "../there", "rendered")
    there = here.root.parent / "there"
    (there / "README.md").write_text("ours\n")
    (there / ".github").mkdir()
    (there / ".github/CODEOWNERS").write_text("* @ada\n")
    git_repository.commit(there, "Ours")
    here.job("prod/llm", "retries: 1\n")
    git_repository.commit(here.root)
    assert "is checked out in another working tree" in refused(
        here, "prod", "--branch", "rendered", "--path", "."
    )
    git(here.root, "worktree", "remove", "../there")
    publish(here, "prod", "--branch", "rendered", "--path", ".")
    held = files(here.root, "rendered")
    assert held["README.md"] == "ours\n"
    assert held[".github/CODEOWNERS"] == "* @ada\n"


def test_an_edit_by_hand_on_another_branch_is_not_replaced(remote: Path) -> None:
    here = clone(remote, "here")
    arguments = ("prod", "--branch", "rendered", "--path", ".")
    publish(here, *arguments)
    git(here.root, "worktree", "add", "--quiet", "../there", "rendered")
    there = here.root.parent / "there"
    (there / "llm/extra.yaml").write_text("kind: ConfigMap\n")
    git_repository.commit(there, "By hand")
    git(here.root, "worktree", "remove", "../there")
    assert "edited by hand on rendered: llm/extra.yaml" in refused(here, *arguments)
    publish(here, *arguments, "--discard-edits")
    assert "llm/extra.yaml" not in files(here.root, "rendered")


def test_a_commit_that_is_older_than_what_is_published_publishes_nothing(remote: Path) -> None:
    here = clone(remote, "here")
    here.job("prod/llm", "retries: 1\n")
    git_repository.commit(here.root)
    publish(here, "--branch", "rendered")
    git(here.root, "checkout", "--quiet", "HEAD~")
    assert "holds what a later commit" in publish(here, "--branch", "rendered")


def test_a_commit_on_another_line_is_refused(remote: Path) -> None:
    here = clone(remote, "here")
    here.job("prod/llm", "retries: 1\n")
    git_repository.commit(here.root, "Mine")
    publish(here, "--branch", "rendered")
    git(here.root, "checkout", "--quiet", "-b", "other", "HEAD~")
    here.job("prod/llm", "retries: 2\n")
    git_repository.commit(here.root, "Theirs")
    assert "does not build: pull first" in refused(here, "--branch", "rendered")


WRONG = [
    (("--branch", "a..b"), '"a..b" is not a valid name for a branch'),
    (("--branch", "x/{envi}"), '"{envi}" is not a placeholder: write {env}'),
    (("--path", "{job}"), '"{job}" is not a placeholder: write {env}'),
    (("--branch=-x",), '"-x" is not a valid name for a branch'),
    (("--branch", "x", "--path", "../up"), "leads out of the branch"),
    (("--branch", "x", "--path", "one"), "in one place: put {env} into"),
    (("prod/llm",), "environments are published whole"),
    (("--branch", "x", "--repository", "/nowhere.git"), "has to be pushed: add --push"),
    (("--branch", "x", "--push", "--remote", "nowhere"), "`git remote add nowhere URL`"),
    (("stagging",), "nothing matches"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_what_cannot_be_is_one_line(arguments: tuple[str, ...], message: str, remote: Path) -> None:
    here = clone(remote, "here")
    error = refused(here, *arguments)
    assert message in error
    assert "Traceback" not in error


def test_no_branch_no_repository(remote: Path, tmp_path: Path) -> None:
    here = clone(remote, "here")
    git(here.root, "checkout", "--quiet", "--detach")
    assert "no branch is checked out: name one with --branch" in refused(here)
    bare = Repository(tmp_path / "bare")
    bare.environment("dev")
    assert "is not in a git repository" in bare.run("gitops", "publish").stderr


def test_a_dry_run_says_what_it_would_do(remote: Path) -> None:
    here = clone(remote, "here")
    assert "rendered  not made: 11 written, 0 removed" in publish(
        here, "--branch", "rendered", "--dry-run"
    )
    assert "rendered" not in git(here.root, "branch")


def test_specs_in_a_folder_of_a_larger_repository(tmp_path: Path) -> None:
    top = git_repository.init(tmp_path / "mono")
    (top / "other").mkdir()
    (top / "other/file").write_text("other\n")
    inside = Repository(top / "ml/jobs")
    inside.environment("prod")
    inside.job("prod/llm")
    source = git_repository.committed(top)
    assert publish(inside).startswith("main  ")
    assert inside.run("render", "--check").exit_code == 0
    assert git(top, "status", "--porcelain") == ""
    publish(inside, "--branch", "out", "--path", ".")
    held = files(top, "out")
    assert "llm/pytorchjob.yaml" in held
    assert json.loads(held["hydrator.metadata"])["drySha"] == git(top, "rev-parse", "HEAD")
    assert source == git(top, "rev-parse", "HEAD~")


# --- signatures, remotes -------------------------------------------------------------------------


def test_commits_are_signed_where_the_user_signs(remote: Path, tmp_path: Path) -> None:
    here = clone(remote, "here")
    key = tmp_path / "key"
    try:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    except FileNotFoundError:
        pytest.skip("ssh-keygen is not installed")
    (tmp_path / "signers").write_text(f"ada@example.com {(tmp_path / 'key.pub').read_text()}")
    git(here.root, "config", "gpg.format", "ssh")
    git(here.root, "config", "user.signingKey", str(tmp_path / "key.pub"))
    git(here.root, "config", "gpg.ssh.allowedSignersFile", str(tmp_path / "signers"))
    publish(here, "--branch", "unsigned")
    git(here.root, "config", "commit.gpgSign", "true")
    publish(here, "--branch", "environment/{env}", "--push")
    assert git(here.root, "log", "-1", "--format=%G?", "unsigned") == "N"
    for name in ("dev", "prod"):
        git(here.root, "fetch", "--quiet", "origin", f"environment/{name}")
        assert git(here.root, "log", "-1", "--format=%G?", "FETCH_HEAD") == "G"
    (tmp_path / "key").unlink()
    assert "sign" in refused(here, "--branch", "other")


def test_pushing_leaves_every_local_branch_alone(remote: Path) -> None:
    here = clone(remote, "here")
    before = git(here.root, "for-each-ref", "refs/heads")
    publish(here, "--branch", "environment/{env}", "--push")
    assert git(here.root, "for-each-ref", "refs/heads") == before
    heads = git(remote, "for-each-ref", "--format=%(refname:short)").splitlines()
    assert heads == ["environment/dev", "environment/prod", "main"]
    assert "up to date" in publish(here, "--branch", "environment/{env}", "--push")


def test_another_repository(remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = clone(remote, "here")
    other = tmp_path / "manifests.git"
    git(tmp_path, "init", "--quiet", "--bare", str(other))
    monkeypatch.chdir(tmp_path)
    arguments = (
        "--repository",
        "../manifests.git",
        "--branch",
        "main",
        "--path",
        "{env}",
        "--push",
    )
    publish(here, *arguments)
    source = git(here.root, "rev-parse", "HEAD")
    held = files(other, "main", "prod")
    assert json.loads(held.pop("hydrator.metadata"))["drySha"] == source
    assert stated(held, "prod")["source"]["digest"] == {"gitCommit": source}
    assert held == rendering(here.root, source, "prod")
    assert git(remote, "for-each-ref", "--format=%(refname:short)") == "main"
    assert publish(here, *arguments) == "main  up to date\n"


def test_a_remote_that_refuses_is_asked_once(remote: Path) -> None:
    here = clone(remote, "here")
    hook = remote / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\necho x >> {remote}/asked\necho protected >&2\nexit 1\n")
    hook.chmod(0o755)
    assert "protected" in refused(here, "--branch", "rendered", "--push")
    assert (remote / "asked").read_text() == "x\n"


def test_the_current_branch_goes_on_from_what_others_pushed(remote: Path) -> None:
    here, other = clone(remote, "here"), clone(remote, "other")
    other.job("prod/llm", "retries: 1\n")
    git_repository.commit(other.root, "Theirs")
    git(other.root, "push", "--quiet")
    publish(here, "--push")
    assert git(here.root, "log", "--format=%s").splitlines()[1:] == ["Theirs", "Specs"]
    assert git(here.root, "status", "--porcelain") == ""
    assert git(here.root, "rev-parse", "HEAD") == git(remote, "rev-parse", "main")
    source = git(here.root, "rev-parse", "HEAD~")
    held = files(here.root, "HEAD", "environments/prod/rendered")
    assert held == rendering(here.root, source, "prod")


def test_the_current_branch_with_commits_on_both_sides_is_refused(remote: Path) -> None:
    here, other = clone(remote, "here"), clone(remote, "other")
    for repository in (here, other):
        repository.job("prod/llm", f"retries: {len(repository.root.name)}\n")
        git_repository.commit(repository.root, repository.root.name)
    git(other.root, "push", "--quiet")
    assert "pull" in refused(here, "--push")


def test_a_shallow_clone_says_what_it_needs(remote: Path) -> None:
    here = clone(remote, "here")
    publish(here, "--branch", "rendered", "--push")
    here.job("prod/llm", "retries: 1\n")
    git_repository.commit(here.root)
    git(here.root, "push", "--quiet", "origin", "main")
    shallow = clone(remote, "shallow", "--depth=1")
    assert "fetch-depth: 0" in refused(shallow, "--branch", "rendered", "--push")
    git(shallow.root, "fetch", "--quiet", "--unshallow")
    publish(shallow, "--branch", "rendered", "--push")


# --- two at once ---------------------------------------------------------------------------------


def test_the_second_publisher_builds_on_the_first(
    remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one pushes in the instant before our push, more than once."""
    here, other = clone(remote, "here"), clone(remote, "other")
    options = replace(OPTIONS, branch="rendered", push=True)
    real, races = our_git.Repository.push, iter(("dev", "prod"))

    def late(repository: our_git.Repository, name: str, commit: str, branch: str) -> None:
        if repository.folder == here.root and (environment := next(races, "")):
            list(publisher.publish(other.root, (environment,), options))
        real(repository, name, commit, branch)

    monkeypatch.setattr(our_git.Repository, "push", late)
    monkeypatch.setattr(publisher, "sleep", lambda _: None)
    here.job("prod/llm", "retries: 1\n")
    source = git_repository.committed(here.root)
    git(here.root, "push", "--quiet", "origin", "main")
    done = list(publisher.publish(here.root, (), options))
    assert done[0].commit == git(remote, "rev-parse", "rendered")
    assert git(remote, "rev-list", "--count", "rendered") == "3"
    for name in ("dev", "prod"):
        held = files(remote, "rendered", f"environments/{name}/rendered")
        held.pop("hydrator.metadata")
        stated(held, f"environments/{name}/rendered")
        before = before_that(remote, "rendered~", f"environments/{name}/rendered")
        assert held == rendering(here.root, source, name, before)


def test_it_gives_up_at_last_and_says_so(remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, other = clone(remote, "here"), clone(remote, "other")
    git(other.root, "checkout", "--quiet", "--orphan", "rendered")
    git(other.root, "rm", "-rfq", ".")
    waits = []

    def late(repository: our_git.Repository, name: str, commit: str, branch: str) -> None:
        git(other.root, "commit", "--quiet", "--allow-empty", "--message", str(len(waits)))
        git(other.root, "push", "--quiet", "origin", "rendered")
        raise our_git.GitError("git push: rejected")

    monkeypatch.setattr(our_git.Repository, "push", late)
    monkeypatch.setattr(publisher, "sleep", waits.append)
    with pytest.raises(PublishError, match="others pushed to rendered during all 7 attempts"):
        list(publisher.publish(here.root, (), replace(OPTIONS, branch="rendered", push=True, attempts=7)))  # fmt: skip
    assert waits == [0, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]


RACER = Path(__file__).with_name("publish_racer.py")


@pytest.mark.parametrize(
    "rounds",
    [3, pytest.param(settings.default.max_examples // 5, marks=pytest.mark.slow)],
    ids=["a few", "many"],
)
@pytest.mark.parametrize("branch", ["environment/{env}", "main"])
def test_two_racing_clones_lose_nothing(rounds: int, branch: str, remote: Path) -> None:
    """Two processes change a job each, push it, and publish, over and over, at the same time."""
    git(remote, "config", "core.logAllRefUpdates", "always")
    racers = [clone(remote, name) for name in ("ada", "grace")]
    for racer in racers:
        racer.job(f"prod/{racer.root.name}")
    processes = [
        subprocess.Popen(
            [sys.executable, RACER, racer.root, branch, str(rounds)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            stderr=subprocess.PIPE,
            text=True,
        )
        for racer in racers
    ]
    message = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], message
    judge = clone(remote, "judge").root
    name = branch.replace("{env}", "prod")
    tip = git(remote, "rev-parse", name)
    git(judge, "fetch", "--quiet", "origin", name)
    form = "--format=%H %(trailers:key=Trainwright-Source-Commit,valueonly,separator=%x2C)"
    published = [line.split() for line in git(judge, "log", form, tip).splitlines()]
    published = [pair for pair in published if len(pair) == 2]
    assert len(published) >= rounds
    for commit, source in published:
        held = files(judge, commit, "environments/prod/rendered")
        if held.pop("hydrator.metadata", None):
            stated(held, "environments/prod/rendered")
        parent = git(judge, "log", "--max-count=1", "--format=%P", commit)  # the first has none
        before = before_that(judge, parent, "environments/prod/rendered") if parent else {}
        assert held == rendering(judge, source, "prod", before)
    # Nothing was overwritten: the branch only ever moved forward, and the last rounds are in it.
    moves = git(remote, "reflog", "--format=%H", name).splitlines()
    for later, earlier in pairwise(moves):
        git(remote, "merge-base", "--is-ancestor", earlier, later)
    held = files(judge, tip, "environments/prod/rendered")
    for racer in racers:
        assert f"--round={rounds}" in held[f"{racer.root.name}/values.yaml"]


# --- a sparse checkout ---------------------------------------------------------------------------


@pytest.mark.parametrize("branch", ["", "env/{env}"])
def test_what_a_sparse_checkout_leaves_out_is_published_too(branch: str, remote: Path) -> None:
    whole, sparse = clone(remote, "whole"), clone(remote, "sparse")
    git(sparse.root, "sparse-checkout", "set", "environments/dev")
    assert not (sparse.root / "environments/prod").exists()
    options = ("--branch", branch) if branch else ()
    publish(whole, *options)
    publish(sparse, *options)
    for commit in ("env/dev", "env/prod") if branch else ("main",):
        assert files(sparse.root, commit) == files(whole.root, commit)
    assert not (sparse.root / "environments/prod").exists()
    assert git(sparse.root, "status", "--porcelain") == ""
    publish(sparse, "prod", *options)


def test_a_sparse_checkout_without_environments_publishes(remote: Path) -> None:
    repository = clone(remote, "here")
    (repository.root / "README.md").write_text("specs\n")
    git_repository.commit(repository.root)
    git(repository.root, "sparse-checkout", "set", "--no-cone", "/README.md")
    assert not (repository.root / "environments").exists()
    publish(repository, "--branch", "env/{env}")
    assert "llm/pytorchjob.yaml" in str(sorted(files(repository.root, "env/prod")))


@pytest.mark.parametrize("how", ["refused", "Ctrl-C"])
def test_a_branch_that_does_not_move_leaves_its_files_as_they_were(
    how: str, remote: Path, tmp_path: Path
) -> None:
    """The files are put in place before the branch that is checked out moves."""
    repository = clone(remote, "here")
    publish(repository, "prod")
    repository.job("prod/llm", "retries: 2\n")
    (repository.root / "environments/prod/jobs/mnist.yaml").unlink()
    head = git_repository.committed(repository.root)
    before = repository.tree()
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    hook = repository.root / ".git/hooks/reference-transaction"
    waits = f"exec 3>{pipe}; echo >&3; sleep 600 & wait" if how == "Ctrl-C" else "exit 1"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{waits}\n")
    hook.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "trainwright", "gitops", "publish", "prod"],
        cwd=repository.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    if how == "Ctrl-C":
        with pipe.open() as alive:
            alive.readline()
            process.send_signal(signal.SIGINT)
            process.wait()
    assert process.wait() not in (0, 3)
    hook.unlink()
    assert repository.tree() == before
    assert git(repository.root, "status", "--porcelain") == ""
    assert git(repository.root, "rev-parse", "HEAD") == head
    publish(repository, "prod")
    assert repository.tree() != before
