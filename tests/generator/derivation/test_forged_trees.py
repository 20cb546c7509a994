"""What somebody may write who can open a pull request: none of it passes for what was rendered."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from forged_trees import BY_HAND, FORGED, LIST, RENDERED, base, sealed

from editing import editing
from git_repository import commit, git
from repository import Copied, Repository
from trainwright.runs import meaning


@pytest.fixture
def forged(tmp_path: Path, copied: Copied) -> Repository:
    return copied(base, tmp_path / "repository")


def refused(repository: Repository) -> str:
    checked = repository.run("check")
    assert checked.exit_code == 1, checked.output
    rendered = repository.run("render", "--check")
    assert rendered.exit_code == 1, rendered.output
    return checked.output


def planned(repository: Repository) -> Mapping[str, Any]:
    done = repository.run("plan", "--against", "main", "-o", "json")
    assert done.exit_code == 1, done.output
    found: Mapping[str, Any] = json.loads(done.stdout)["plan"]
    return found


def test_what_was_rendered_is_believed(forged: Repository) -> None:
    assert "TW057" not in forged.run("check").output
    assert forged.run("render", "--check").exit_code == 0
    plan = json.loads(forged.run("plan", "--against", "main", "-o", "json").stdout)["plan"]
    assert not plan["underived"]
    assert not plan["blocked"]


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_tree_is_refused(how: str, forged: Repository) -> None:
    FORGED[how](forged.root)
    commit(forged.root, "More of the harmless job")
    refused(forged)
    assert planned(forged)["underived"]


# What is rendered again does not depend on what was forged: one shows it, and the others by turns.
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(how, marks=() if how == "image" else pytest.mark.slow)
        for how in FORGED
        if how not in BY_HAND
    ],
)
def test_rendering_again_takes_back_what_was_refused(how: str, forged: Repository) -> None:
    FORGED[how](forged.root)
    commit(forged.root, "More of the harmless job")
    refused(forged)
    assert planned(forged)["underived"]
    _is_taken_back(forged)


def _is_taken_back(forged: Repository) -> None:
    """Rendering again replaces what was forged, in whoever's cache it was refused before."""
    done = forged.run("render")
    assert done.exit_code == 0, done.output
    assert "error[TW057]" not in done.stderr
    assert "It has been replaced: commit the result if `git status` shows one." in done.stderr
    assert forged.run("render", "--check").exit_code == 0
    assert "TW057" not in forged.run("check").output


def test_the_version_of_a_new_run_decides_nothing_of_what_is_rendered(forged: Repository) -> None:
    """It is believed where the bytes are equal: another version may have rendered them."""
    honest = _decided(forged)
    sealed(forged.root, trainwright="9.9.9", chart="9.9.9")
    commit(forged.root, "More of the harmless job")
    assert "TW057" not in forged.run("check").output
    assert _decided(forged) == honest
    folder = forged.root / RENDERED
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert forged.run("render").exit_code == 0
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def _decided(repository: Repository) -> object:
    plan = json.loads(repository.run("plan", "--against", "main", "-o", "json").stdout)["plan"]
    return {key: value for key, value in plan.items() if key not in ("base", "head")}


@pytest.mark.parametrize("how", ["image", "hostPID", "state of a run of the base", "second file"])
def test_what_is_not_committed_yet_is_proved_as_well(how: str, forged: Repository) -> None:
    FORGED[how](forged.root)
    refused(forged)
    found = planned(forged)["underived"]
    first, second, *_ = forged.run("plan", "--against", "main").output.splitlines()
    message = found[0]["message"].partition("\n")[0]
    if how == "state of a run of the base":  # by which nothing would be rendered for it
        assert first.startswith("2 rendered files are missing · ")
        assert second.startswith(f"{message}, and its source renders it: ")
        return
    assert "edited by hand (" in first or "that no source renders" in first
    assert message[:40] in second
    assert second.startswith("no source renders this: ")


def test_rendering_again_takes_back_what_was_never_looked_at(forged: Repository) -> None:
    """With nothing in the cache but what the author's own commands left there."""
    FORGED["image"](forged.root)
    commit(forged.root, "More of the harmless job")
    _is_taken_back(forged)


def test_a_record_larger_than_anything_hides_nothing_of_the_others(forged: Repository) -> None:
    FORGED["image of a run of the base"](forged.root)
    FORGED["record larger than anything"](forged.root)
    commit(forged.root, "More of the harmless job")
    for verb in (("check", "-o", "json"), ("plan", "--against", "main", "-o", "json")):
        found = json.loads(forged.run(*verb).stdout)
        results = found["plan"]["underived"] if "plan" in found else found["report"]["results"]
        places = [it["place"]["file"] for it in results if it["rule"] == "TW057"]
        assert places == [f"{RENDERED}/llm/pytorchjob.yaml", f"{RENDERED}/new/run.lock"]
    assert "llm/pytorchjob.yaml" in forged.run("render", "--check").output


@pytest.mark.parametrize("undone", ["retire", "cancel"])
def test_a_revert_that_trains_again_names_the_run_that_was(
    undone: str, forged: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(forged.root, "checkout", "--quiet", "main")
    how = ("--outcome", "succeeded") if undone == "retire" else ("--orphan",)
    assert forged.run(undone, "prod/llm", *how).exit_code == 0
    assert forged.run("render").exit_code == 0
    commit(forged.root, undone)
    git(forged.root, "checkout", "--quiet", "-b", "undo")
    git(forged.root, "revert", "--no-edit", "HEAD")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "reviewer"))
    assert forged.run("render", "--check").exit_code == 0
    plan = forged.run("plan", "--against", "main")
    assert plan.exit_code == 0, plan.output
    assert re.search(
        r"prod/llm  starts: at once;\s+llm-\w+ was rendered before: .*rerun", plan.output
    )


def test_a_record_put_back_without_the_ledger_names_the_run_that_was(forged: Repository) -> None:
    before = git(forged.root, "rev-parse", "main~1")
    git(forged.root, "checkout", "--quiet", before, "--", f"{RENDERED}/done", LIST)
    commit(forged.root, "More of the harmless job")
    refused(forged)
    plan = forged.run("plan", "--against", "main").output
    assert re.search(r"prod/done  starts: .*\s+done-\w+ was rendered before", plan), plan


@pytest.mark.parametrize("where", [(), ("--push",), ("--branch", "rendered", "--push")])
def test_a_forged_tree_is_not_published(
    where: tuple[str, ...], forged: Repository, tmp_path: Path
) -> None:
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "--quiet", "--bare", str(remote))
    git(forged.root, "remote", "add", "origin", str(remote))
    git(forged.root, "push", "--quiet", "origin", "main", "pull-request")
    FORGED["image"](forged.root)
    commit(forged.root, "More of the harmless job")
    before = git(remote, "for-each-ref"), git(forged.root, "for-each-ref")
    for more in ((), ("--discard-edits",)):
        done = forged.run("gitops", "publish", *where, *more)
        assert done.exit_code == 2, done.output
        assert f"no source renders this: {RENDERED}/new/pytorchjob.yaml" in done.output
        assert (git(remote, "for-each-ref"), git(forged.root, "for-each-ref")) == before


@pytest.mark.asyncio
async def test_an_editor_shows_a_forged_file(forged: Repository) -> None:
    FORGED["image"](forged.root)
    async with editing(forged) as editor:
        editor.open("prod/jobs/new.yaml")
        (found,) = await editor.diagnostics("prod/rendered/new/pytorchjob.yaml")
        assert found.code == "TW057"
        assert "registry.example.org/x:1.0" in found.message


def test_a_run_that_began_and_ended_between_two_commits_was_had(
    forged: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever checks has not rendered it: a rerun of the job's file stepped over its number. Its own
    commits were squashed.
    """
    ledger = forged.root / "environments/prod/ledger.yaml"
    before = git(forged.root, "rev-parse", "HEAD")
    for number in (1, 2, 3):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"author-{number}"))
        assert forged.run("retire", "prod/llm").exit_code == 0
        assert forged.run("rerun", "prod/llm").exit_code == 0
        commit(forged.root, "Run it again")
    git(forged.root, "reset", "--quiet", "--soft", before)
    commit(forged.root, "Run it again, three times")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "reviewer"))
    assert "TW057" not in forged.run("check").output
    assert forged.run("render", "--check").exit_code == 0
    *above, second, third = ledger.read_text(encoding="utf-8").splitlines(keepends=True)
    assert "run: 2" in second
    assert "run: 3" in third

    # Another name than it had, another text of the job's file, or a number that is yet to come.
    own = meaning.digest({}, 2)
    for lines in (
        [*above, re.sub("llm-[0-9a-f]{8}", "llm-00000000", second), third],
        [*above, re.sub("[0-9a-f]{64}", own, second), third],
        [*above, second.replace("run: 2", "run: 4"), third],
    ):
        ledger.write_text("".join(lines), encoding="utf-8")
        assert "is not a run that llm has had" in refused(forged)


def test_the_ledger_has_no_run_that_is_yet_to_come(forged: Repository) -> None:
    ledger = forged.root / "environments/prod/ledger.yaml"
    before = git(forged.root, "rev-parse", "HEAD")
    for verb in ("retire", "rerun", "retire"):
        assert forged.run(verb, "prod/llm").exit_code == 0
        commit(forged.root, verb)
    *_, second = ledger.read_text(encoding="utf-8").splitlines(keepends=True)
    assert "run: 2" in second
    git(forged.root, "reset", "--quiet", "--hard", before)
    ledger.write_text(ledger.read_text(encoding="utf-8") + second, encoding="utf-8")
    commit(forged.root, "More of the harmless job")
    assert "is not a run that llm has had" in refused(forged)


@pytest.mark.parametrize(("left", "action"), [("run.lock", "new run"), ("pytorchjob.yaml", "")])
def test_of_a_render_that_is_committed_in_part_the_object_counts_that_is_applied(
    left: str, action: str, forged: Repository
) -> None:
    forged.job("prod/llm", "flags: {epochs: 2}\n")
    assert forged.run("render").exit_code == 0
    applied = (forged.root / RENDERED / "llm/pytorchjob.yaml").read_text()
    git(forged.root, "checkout", "--quiet", "main", "--", f"{RENDERED}/llm/{left}")
    found = {change["job"]: change for change in planned(forged)["changes"]}
    if not action:
        assert "prod/llm" not in found
        return
    change = found["prod/llm"]
    assert change["action"] == action
    assert f'name: "{change["after"]["object"]}"' in applied
    assert f"{change['before']['object']} keeps training beside it" in change["why"]


def test_the_run_of_a_folder_that_was_deleted_by_hand_is_counted_once(forged: Repository) -> None:
    shutil.rmtree(forged.root / RENDERED / "llm")
    (environment,) = planned(forged)["environments"]
    before, after = (environment[side]["nodes"]["low"] for side in ("before", "after"))
    assert (before, after) == (4, 6)  # the run goes on until it is deleted, and is counted once
