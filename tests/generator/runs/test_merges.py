"""Branches that touch different jobs merge, and no merge starts, loses or changes a run."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from repository import Copied, Repository
from trainwright.setup.init import repository as new

ATTRIBUTES = (new.FILES / ".gitattributes").read_text(encoding="utf-8")
LIST = "environments/prod/rendered/kustomization.yaml"


def git(root: Path, *arguments: str, fails: bool = False) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", *arguments],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout


def commit(repository: Repository, message: str = "Edit") -> None:
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    git(repository.root, "add", "-A")
    git(repository.root, "commit", "-qm", message)


def _begin(folder: Path) -> None:
    made = Repository(folder)
    (folder / ".gitattributes").write_text(ATTRIBUTES, encoding="utf-8")
    made.environment("prod")
    for name in ("a", "c", "e"):
        made.job(f"prod/{name}")
    git(folder, "init", "-q", "-b", "main")
    commit(made, "Jobs")


@pytest.fixture
def repository(copied: Copied, tmp_path: Path) -> Repository:
    """prod with the jobs a, c and e, rendered and committed, as `init` sets it up."""
    return copied(_begin, tmp_path)


Change = Callable[[Repository], object]


def adds(*names: str) -> Change:
    def change(repository: Repository) -> None:
        for name in names:
            repository.job(f"prod/{name}")

    return change


def edits(name: str, old: str, new: str) -> Change:
    def change(repository: Repository) -> None:
        path = repository.root / "environments/prod" / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return change


def runs_verb(*arguments: str) -> Change:
    def change(repository: Repository) -> None:
        done = repository.run(*arguments)
        assert done.exit_code == 0, done.output

    return change


def renames(old: str, new: str) -> Change:
    def change(repository: Repository) -> None:
        (repository.root / f"environments/prod/jobs/{old}.yaml").unlink()
        repository.job(f"prod/{new}")

    return change


def merged(repository: Repository, ours: Change, theirs: Change, *, fails: bool = False) -> None:
    """Two branches of the same commit, rendered and committed each, and merged by git."""
    git(repository.root, "branch", "theirs")
    ours(repository)
    commit(repository, "Ours")
    git(repository.root, "checkout", "-q", "theirs")
    theirs(repository)
    commit(repository, "Theirs")
    git(repository.root, "checkout", "-q", "main")
    git(repository.root, "merge", "-q", "--no-edit", "theirs", fails=fails)


def manifests(repository: Repository) -> dict[str, str]:
    return {path: text for path, text in repository.tree().items() if path.endswith("job.yaml")}


def runs(repository: Repository) -> dict[str, str]:
    """Everything that is rendered of runs, and their records."""
    return {path: text for path, text in repository.tree().items() if path.count("/") > 2}


def in_order(repository: Repository) -> None:
    """`render` may write the list anew, and nothing of any run."""
    before = runs(repository)
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    assert runs(repository) == before
    assert repository.run("render", "--check").exit_code == 0
    assert_listed(repository)


def assert_listed(repository: Repository) -> None:
    """Exactly what is rendered is what a GitOps engine applies."""
    listed = yaml.safe_load((repository.root / LIST).read_text(encoding="utf-8"))["resources"]
    there = [path.removeprefix("prod/rendered/") for path in manifests(repository)]
    assert sorted(listed) == sorted(there)
    if shutil.which("kubectl"):
        built = subprocess.run(
            ["kubectl", "kustomize", (repository.root / LIST).parent],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        kinds = [body["kind"] for body in yaml.safe_load_all(built.stdout)]
        assert kinds == ["PyTorchJob"] * len(there)


RETIRED = ("retire", "prod/c", "--outcome", "succeeded")
MERGES: dict[str, tuple[Change, Change]] = {
    "neighbours added": (adds("b"), adds("bb")),
    "a neighbour each, on both sides": (adds("b", "d"), adds("bb", "dd")),
    "one retired, one added in front of it": (runs_verb(*RETIRED), adds("b")),
    "one retired, one added behind it": (runs_verb(*RETIRED), adds("d")),
    "neighbours retired": (runs_verb(*RETIRED), runs_verb("retire", "prod/e", "--outcome", "failed")),
    "one retired, one edited": (runs_verb(*RETIRED), edits("jobs/e.yaml", "nodes: 2", "nodes: 3")),
    "one cancelled, one added": (runs_verb("cancel", "prod/c", "--orphan"), adds("d")),
    "one suspended, one added": (runs_verb("suspend", "prod/c"), adds("d")),
    "one renamed, one added": (renames("c", "cc"), adds("ca", "d")),
}  # fmt: skip
MERGES_TO_RENDER: dict[str, tuple[Change, Change]] = {
    "one deleted, one added": (
        lambda repository: (repository.root / "environments/prod/jobs/c.yaml").unlink(),
        adds("d"),
    ),
}


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("turned", [False, True], ids=["", "the other way round"])
def test_branches_that_touch_different_jobs_merge(
    repository: Repository, merge: str, turned: bool
) -> None:
    ours, theirs = reversed(MERGES[merge]) if turned else MERGES[merge]
    merged(repository, ours, theirs)
    assert_listed(repository)  # as git merged it
    checked = repository.run("render", "--check", "--no-cache")
    assert checked.exit_code == 0, checked.output
    in_order(repository)


@pytest.mark.parametrize("merge", MERGES_TO_RENDER)
@pytest.mark.parametrize("turned", [False, True], ids=["", "the other way round"])
def test_a_job_deleted_next_to_one_that_is_added(
    repository: Repository, merge: str, turned: bool
) -> None:
    """No line of it stays to keep the two changes apart, and a union brings its own back."""
    ours, theirs = reversed(MERGES_TO_RENDER[merge]) if turned else MERGES_TO_RENDER[merge]
    merged(repository, ours, theirs)
    checked = repository.run("render", "--check", "--no-cache")
    assert (checked.exit_code, f"{LIST}: out of date" in checked.output) == (1, True)
    in_order(repository)


def test_a_line_that_a_merge_brings_back_is_found(repository: Repository) -> None:
    """A union keeps what one side took out."""
    listed = repository.root / LIST
    entry = "c/pytorchjob.yaml,\n"
    before = listed.read_text(encoding="utf-8")
    assert repository.run(*RETIRED).exit_code == 0
    assert entry not in listed.read_text(encoding="utf-8")
    listed.write_text(before, encoding="utf-8")
    checked = repository.run("render", "--check")
    assert checked.exit_code == 1
    assert f"{LIST}: out of date" in checked.output
    in_order(repository)


def test_both_ledgers_count(repository: Repository) -> None:
    merged(
        repository,
        runs_verb(*RETIRED),
        runs_verb("retire", "prod/a", "--outcome", "failed"),
    )
    in_order(repository)
    listed = repository.run("list", "jobs").output
    assert "retired: succeeded" in listed
    assert "retired: failed" in listed
    assert list(manifests(repository)) == ["prod/rendered/e/pytorchjob.yaml"]


def test_a_shared_edit_of_one_side_holds_for_what_the_other_began(repository: Repository) -> None:
    before = manifests(repository)
    merged(
        repository,
        edits("environment.yaml", "namespace: training", "serviceMesh: istio\nnamespace: training"),
        edits("jobs/c.yaml", "nodes: 2", "nodes: 3"),
    )
    in_order(repository)
    after = manifests(repository)
    changed = {path for path in before if before[path] != after[path]}
    assert changed == {"prod/rendered/c/pytorchjob.yaml"}
    assert "istio" not in "".join(after.values())
    assert repository.run("list", "jobs").output.count("serviceMesh (") == 3


CONFLICT = "prod/rendered/c/run.lock"


@pytest.fixture
def conflicting(repository: Repository) -> Repository:
    """A merge that git has stopped in: both branches ask for another run of c."""
    merged(
        repository,
        edits("jobs/c.yaml", "nodes: 2", "nodes: 3"),
        edits("jobs/c.yaml", "nodes: 2", "nodes: 4"),
        fails=True,
    )
    assert "<<<<<<<" in repository.tree()[CONFLICT]
    return repository


@pytest.mark.parametrize("side", ["--ours", "--theirs", "markers"])
def test_a_conflict_is_resolved_in_the_spec_alone(conflicting: Repository, side: str) -> None:
    root = conflicting.root
    git(root, "checkout", "--theirs", "environments/prod/jobs/c.yaml")
    if side != "markers":
        git(root, "checkout", side, "environments/prod/rendered")
    done = conflicting.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Merge")
    in_order(conflicting)
    tree = conflicting.tree()
    path = "environments/prod/rendered/c/pytorchjob.yaml"
    theirs = git(root, "show", f"theirs:{path}")
    merged = tree["prod/rendered/c/pytorchjob.yaml"]
    assert merged == theirs  # also where the record of ours was kept
    assert "<<<<<<<" not in "".join(tree.values())


@pytest.mark.parametrize(
    ("kept", "committed"),
    [("--ours", False), ("--theirs", False), ("markers", False), ("--ours", True)],
)
def test_the_record_of_the_kept_job_file_is_taken(
    repository: Repository, kept: str, committed: bool
) -> None:
    """Also where what lies around a run has changed since: it would begin under another name."""
    root = repository.root
    merged(
        repository,
        edits("jobs/c.yaml", "nodes: 2", "nodes: 3"),
        edits("jobs/c.yaml", "nodes: 2", "nodes: 4"),
        fails=True,
    )
    git(root, "checkout", "--theirs", "environments/prod/jobs/c.yaml")
    git(root, "checkout", "--theirs", "environments/prod/rendered/c/pytorchjob.yaml")
    if kept != "markers":
        git(root, "checkout", kept, "environments/prod/rendered/c/run.lock")
    edits("environment.yaml", "namespace: training", "serviceMesh: istio\nnamespace: training")(
        repository
    )
    if committed:
        git(root, "add", "-A")
        git(root, "commit", "-qm", "Merge")
        repository.job("prod/z")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "More")
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    for name in ("run.lock", "pytorchjob.yaml", "values.yaml"):
        theirs = git(root, "show", f"theirs:environments/prod/rendered/c/{name}")
        assert repository.tree()[f"prod/rendered/c/{name}"] == theirs
    in_order(repository)


def test_a_file_of_neither_side_is_another_run(conflicting: Repository) -> None:
    path = conflicting.root / "environments/prod/jobs/c.yaml"
    git(conflicting.root, "checkout", "--theirs", "environments/prod/jobs/c.yaml")
    path.write_text(path.read_text(encoding="utf-8").replace("nodes: 4", "nodes: 5"), "utf-8")
    done = conflicting.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    assert json.loads(conflicting.tree()[CONFLICT])["job"]["nodes"] == 5


def test_the_same_run_of_both_sides_is_one(repository: Repository) -> None:
    same = edits("jobs/c.yaml", "nodes: 2", "nodes: 3")
    merged(repository, same, same)
    in_order(repository)


def test_markers_that_were_committed_begin_nothing(conflicting: Repository) -> None:
    git(conflicting.root, "checkout", "--theirs", "environments/prod/jobs/c.yaml")
    git(conflicting.root, "add", "-A")
    git(conflicting.root, "commit", "-qm", "Merge with markers")
    before = conflicting.tree()
    refused = conflicting.run("render", "--no-cache")
    assert refused.exit_code == 1
    assert "TW054" in refused.output
    assert "markers of a conflict" in refused.output
    assert "git checkout COMMIT -- environments/prod/rendered/c" in " ".join(refused.output.split())
    assert conflicting.tree() == before
    # What it says to do: take the record of one side.
    git(conflicting.root, "checkout", "theirs", "--", "environments/prod/rendered/c")
    done = conflicting.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    record = json.loads(conflicting.tree()[CONFLICT])
    assert record["job"]["nodes"] == 4
