"""A job whose own file says again what it said once: another run, and never an earlier object."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

import git_repository
from git_repository import git
from repository import Copied, Repository

JOBSET = 'targets: {jobset: {version: "0.10"}}\n'
PATH = "prod/rendered/llm/run.lock"


@pytest.fixture
def repository(tmp_path: Path, copied: Copied) -> Repository:
    """prod/llm, rendered and committed."""
    return copied(_begin, tmp_path / "specs")


def _begin(folder: Path) -> None:
    made = Repository(git_repository.init(folder))
    made.environment("prod")
    made.job("prod/llm")
    commit(made)


def rendered(repository: Repository, *arguments: str) -> dict[str, str]:
    result = repository.run("render", *arguments)
    assert result.exit_code == 0, result.output
    return repository.tree()


def commit(repository: Repository, message: str = "Edit") -> Mapping[str, str]:
    tree = rendered(repository)
    git_repository.commit(repository.root, message)
    return tree


def name(tree: Mapping[str, str], job: str = "llm") -> str:
    return str(json.loads(tree[f"prod/rendered/{job}/run.lock"])["object"])


def nodes(repository: Repository, number: int) -> None:
    """The job's own file, with another number of nodes."""
    path = repository.job("prod/llm")
    text = path.read_text(encoding="utf-8").replace("nodes: 2", f"nodes: {number}")
    path.write_text(text, encoding="utf-8")


def there_and_back(repository: Repository) -> list[str]:
    """The names of the runs of 2, 3, 2, 3 and 2 nodes, each committed."""
    found = [name(repository.tree())]
    for number in (3, 2, 3, 2):
        nodes(repository, number)
        found.append(name(commit(repository)))
    return found


def test_each_edit_begins_a_run_of_its_own_name(repository: Repository) -> None:
    """The object of the first may be there still: refused as an edit, or taken for finished."""
    found = there_and_back(repository)
    assert len(set(found)) == 5


def test_names_depend_on_nothing_but_what_is_committed(
    repository: Repository, tmp_path: Path
) -> None:
    first = git(repository.root, "rev-parse", "HEAD")
    found = there_and_back(repository)
    git(tmp_path, "clone", "--quiet", str(repository.root), "again")
    again = Repository(tmp_path / "again")
    git(again.root, "reset", "--quiet", "--hard", first)
    assert there_and_back(again) == found


@pytest.mark.parametrize("kept", ["shallow clone", "archive"])
def test_without_history_the_next_run_has_the_same_name(
    repository: Repository, tmp_path: Path, kept: str
) -> None:
    there_and_back(repository)
    copy = Repository(tmp_path / "copy")
    if kept == "archive":
        shutil.copytree(repository.root / "environments", copy.root / "environments")
    else:
        git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository.root}", "copy")
    for each in (repository, copy):
        nodes(each, 3)
    assert rendered(copy) == rendered(repository)


def test_what_was_rendered_between_two_commits_begins_nothing(repository: Repository) -> None:
    """Who looks at what an edit would render to, and takes the edit back, has the run back."""
    before = repository.tree()
    nodes(repository, 3)
    assert name(rendered(repository)) != name(before)
    nodes(repository, 2)
    assert rendered(repository) == before
    assert git(repository.root, "status", "--porcelain") == ""
    # However often it is rendered on the way, a commit holds the same run.
    nodes(repository, 4)
    directly = rendered(repository)
    for number in (2, 3, 4):
        nodes(repository, number)
        rendered(repository)
    assert repository.tree() == directly


def test_a_new_job_has_its_first_name_until_it_is_committed(repository: Repository) -> None:
    repository.job("prod/other", "flags: {epochs: 3}\n")
    directly = rendered(repository)
    repository.job("prod/other", "flags: {epochs: 4}\n")
    assert name(rendered(repository), "other") != name(directly, "other")
    repository.job("prod/other", "flags: {epochs: 3}\n")
    assert rendered(repository) == directly


def test_verbs_name_the_run_that_is_rendered(repository: Repository) -> None:
    """Also in place of one that is in no commit."""
    nodes(repository, 3)
    rendered(repository)
    done = repository.run("rerun", "prod/llm")
    assert done.exit_code == 0, done.output
    assert f"runs again: {name(repository.tree())} instead" in done.output


def test_what_is_kept_out_of_git_may_have_begun(repository: Repository) -> None:
    git(repository.root, "rm", "--quiet", "-r", "--cached", "environments/prod/rendered")
    (repository.root / ".gitignore").write_text("rendered/\n", encoding="utf-8")
    git_repository.commit(repository.root, "Apply by hand")
    found = [name(repository.tree())]
    for number in (3, 2):
        nodes(repository, number)
        found.append(name(rendered(repository)))
    assert len(set(found)) == 3


def test_a_plan_says_how_a_run_stays_whose_job_was_edited_there_and_back(
    repository: Repository,
) -> None:
    before = repository.tree()
    git(repository.root, "checkout", "--quiet", "-b", "branch")
    for number in (3, 2):
        nodes(repository, number)
        commit(repository)
    plan = " ".join(repository.run("plan", "--against", "main").output.split())
    assert "new run: " in plan
    command = plan.partition("keep it by `")[2].partition("`")[0]
    git(repository.root, *command.split()[1:])
    assert rendered(repository) == before


def test_a_reverted_commit_brings_its_run_back(repository: Repository) -> None:
    """With the record the run is the one that it was: the plan says what that may mean."""
    before = repository.tree()
    nodes(repository, 3)
    commit(repository, "Three nodes")
    git(repository.root, "revert", "--no-edit", "HEAD")
    assert rendered(repository) == before
    plan = " ".join(repository.run("plan", "--against", "HEAD~1").output.split())
    first = f"Goes back to run {name(before)} and leaves the newer one running"
    goes_on = f"{name(before)} goes on if its object is still in the cluster, and otherwise starts"
    assert plan.startswith(first)
    assert f"prod/llm goes back: after the merge {goes_on}" in plan
    assert f"do not run the earlier command that deletes {name(before)}; if it has finished" in plan
    assert "nothing trains: `trainwright rerun` begins another run" in plan


def test_a_run_that_goes_on_after_a_revert_requests_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was counted before, since nothing had deleted it; the plan's sums stay."""
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-01-01")  # of all commits
    nodes(repository, 3)
    commit(repository, "Three nodes")
    git(repository.root, "revert", "--no-edit", "HEAD")
    first, *others = repository.run("plan", "--against", "HEAD~1").output.splitlines()
    assert first.startswith("Goes back to run llm-")
    assert first.endswith(" and leaves the newer one running")
    assert not any("requests" in line for line in others)


@pytest.mark.parametrize("by", ["render", "specs alone"])
def test_a_job_that_was_deleted_and_comes_back_goes_on(repository: Repository, by: str) -> None:
    """Its object may still wait for its deletion: the plan says so."""
    before = repository.tree()
    repository.job("prod/other")
    commit(repository, "Another job")
    (repository.root / "environments/prod/jobs/llm.yaml").unlink()
    commit(repository, "No llm")
    repository.job("prod/llm")
    if by == "render":
        assert name(rendered(repository)) == name(before)
    plan = repository.run("plan", "--against", "HEAD").output
    assert plan.startswith(f"Goes back to run {name(before)}")
    goes_on = "goes on if its object is still in the cluster, and otherwise starts at once"
    assert f"prod/llm  goes back: {name(before)} {goes_on};" in plan


@pytest.mark.parametrize("target", ["jobset", "pytorchjob"])
def test_a_job_that_comes_back_otherwise_may_be_refused(tmp_path: Path, target: str) -> None:
    """What is in no name may have changed since: the plan shows what happens to the object."""
    made = Repository(git_repository.init(tmp_path))
    made.environment("prod")
    environment = made.root / "environments/prod/environment.yaml"
    text = environment.read_text(encoding="utf-8").replace(
        "targets: {", 'targets: {jobset: {version: "0.10"}, '
    )
    environment.write_text(text, encoding="utf-8")

    def there(epochs: int) -> None:
        job = made.job("prod/llm", f"target: {target}\nflags: {{epochs: {epochs}}}\n")
        job.write_text(
            job.read_text(encoding="utf-8").replace("maxDuration: 2h\n", ""), encoding="utf-8"
        )

    made.job("prod/other")
    there(1)
    first = name(commit(made))
    (made.root / "environments/prod/jobs/llm.yaml").unlink()
    commit(made, "No llm")
    environment.write_text(f"{text}defaults: {{maxDuration: 1h}}\n", encoding="utf-8")
    commit(made, "An hour at most")
    there(1)
    plan = " ".join(made.run("plan", "--against", "HEAD").output.split())
    assert f"{first} was rendered before, and otherwise: where its object still is in the" in plan
    assert ("the edit is refused by the API: " in plan) == (target == "jobset")


def test_a_reverted_spec_begins_another_run(repository: Repository) -> None:
    before = repository.tree()
    nodes(repository, 3)
    between = commit(repository, "Three nodes")
    git(repository.root, "revert", "--no-commit", "HEAD")
    git(repository.root, "checkout", "--quiet", "HEAD", "--", "environments/prod/rendered")
    after = rendered(repository)
    assert len({name(before), name(between), name(after)}) == 3
    plan = repository.run("plan", "--against", "HEAD").output
    assert "was rendered before" not in plan


def test_what_is_revived_has_another_name(repository: Repository) -> None:
    before = name(repository.tree())
    assert repository.run("cancel", "prod/llm", "--orphan", "--commit").exit_code == 0
    repository.job("prod/llm")
    assert name(commit(repository)) != before


def test_a_plan_names_what_has_finished_before(repository: Repository) -> None:
    """Nothing trains where the file says what the ledger lists: not without a word."""
    first = name(repository.tree())
    assert repository.run("retire", "prod/llm", "--commit").exit_code == 0
    nodes(repository, 3)
    commit(repository, "Three nodes")
    nodes(repository, 2)
    for _ in range(2):  # while the run in between trains, and when it has finished, too
        plan = repository.run("plan", "--against", "HEAD").output
        assert "prod/llm  retires: " in plan
        assert f"{first} has finished with the same spec" in plan
        assert "`trainwright rerun`" in plan
        nodes(repository, 3)
        assert repository.run("retire", "prod/llm", "--commit").exit_code == 0
        nodes(repository, 2)


def test_another_chart_is_no_edit_of_an_earlier_object(
    tmp_path: Path,
) -> None:
    """Nor what is inherited and in no name: a JobSet refuses both."""
    made = Repository(git_repository.init(tmp_path))
    made.write(
        "defaults.yaml", "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\ndefaults: {}\n"
    )
    made.environment("prod")
    environment = made.root / "environments/prod/environment.yaml"
    text = environment.read_text(encoding="utf-8")
    environment.write_text(text[: text.index("targets:")] + JOBSET, encoding="utf-8")

    def begins(epochs: int) -> str:
        text = made.job("prod/llm", f"flags: {{epochs: {epochs}}}\n").read_text(encoding="utf-8")
        made.write("prod/jobs/llm.yaml", text.replace("maxDuration: 2h\n", "target: jobset\n"))
        return name(commit(made))

    first = begins(1)
    begins(2)
    made.write(
        "defaults.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\ndefaults: {maxDuration: 1h}\n",
    )
    assert begins(1) != first


def in_namespace(repository: Repository, name: str) -> None:
    """An environment with a namespace of its own."""
    file = repository.environment(name)
    message = file.read_text(encoding="utf-8")
    file.write_text(
        re.sub("(?m)^namespace: .*$", f"namespace: of-{name}", message), encoding="utf-8"
    )


def test_a_copied_environment_begins_runs_of_its_own(tmp_path: Path) -> None:
    """The copy would apply the runs of the original, in the namespace of the original."""
    repository = Repository(tmp_path)
    in_namespace(repository, "dev")
    repository.job("dev/llm")
    assert repository.run("render").exit_code == 0
    shutil.copytree(tmp_path / "environments/dev", tmp_path / "environments/prod")
    in_namespace(repository, "prod")
    assert "llm/run.lock" in repository.run("render", "--check").output
    before = repository.tree()
    assert repository.run("render").exit_code == 0
    after = repository.tree()
    rendered = [text for name, text in after.items() if name.startswith("prod/rendered/llm/")]
    assert rendered
    assert not any("of-dev" in text for text in rendered)
    assert {n: t for n, t in after.items() if n.startswith("dev/")} == {
        n: t for n, t in before.items() if n.startswith("dev/")
    }


def test_a_renamed_environment_keeps_its_runs(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    in_namespace(repository, "dev")
    repository.job("dev/llm")
    assert repository.run("render").exit_code == 0
    before = repository.tree()
    (tmp_path / "environments/dev").rename(tmp_path / "environments/prod")
    in_namespace(repository, "prod")
    assert repository.run("render").exit_code == 0
    after = repository.tree()
    for name in ("pytorchjob.yaml", "values.yaml"):
        assert after[f"prod/rendered/llm/{name}"] == before[f"dev/rendered/llm/{name}"]


@pytest.mark.parametrize(
    "edit",
    ["", "# a comment\n", "state: suspended\n", "namespace"],
    ids=["as it is", "comment", "suspended", "namespace"],
)
def test_a_renamed_environment_keeps_in_git_what_has_replaced_another_run(
    edit: str, repository: Repository
) -> None:
    """Its runs are proved by those of the environment that is gone, its finished ones as well."""
    nodes(repository, 3)
    repository.job("prod/done")
    began = name(commit(repository))
    assert repository.run("retire", "prod/done", "--commit").exit_code == 0
    git(repository.root, "checkout", "--quiet", "-b", "rename")
    environments = repository.root / "environments"
    (environments / "prod").rename(environments / "live")
    if edit == "namespace":
        in_namespace(repository, "live")
    else:
        with (environments / "live/jobs/llm.yaml").open("a", encoding="utf-8") as job:
            job.write(edit)
    tree = commit(repository, "Rename")
    record = json.loads(tree["live/rendered/llm/run.lock"])
    assert (record["object"], record["environment"]["namespace"]) == (began, "training")
    assert not [path for path in tree if path.startswith("live/rendered/done/") and "job" in path]
    for verb in ("check", "render --check", "gitops verify HEAD", "plan --against main"):
        done = repository.run(*verb.split())
        assert done.exit_code == 0, (verb, done.output)
        assert "TW057" not in done.output
