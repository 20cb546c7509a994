"""An edit that is not rendered, and then a verb: it acts on the run that is rendered, or refuses."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import git_repository
from git_repository import git
from repository import Repository

QUEUES = "queueing: kueue\nkueue: {version: '0.18'}\nqueues: {team: {}, other: {}}\n"
PRUNED = "gitops: {engine: argocd, prune: immediate}\n"
# Each verb on a job of its own, by the name of that; what comes behind its name in the command.
VERBS = {
    "suspend": ("suspend",),
    "resume": ("resume",),
    "cancel": ("cancel",),
    "orphan": ("cancel", "--orphan"),
    "rerun": ("rerun",),
    "outdated": ("rerun", "--outdated"),
    "retire": ("retire",),
    "deadline": ("set", "--max-duration", "+6h"),
    "priority": ("set", "--priority", "high"),
    "queue": ("set", "--queue", "other"),
}
KEEPING = ("suspend", "resume", "deadline", "priority", "queue")
BEGINNING = ("rerun", "outdated")


def _spec(repository: Repository, job: str) -> Path:
    return repository.root / f"environments/prod/jobs/{job}.yaml"


def _add(line: str) -> Callable[[Repository, str], None]:
    def add(repository: Repository, job: str) -> None:
        path = _spec(repository, job)
        text = path.read_text()
        key = line.partition(":")[0]
        kept = [each for each in text.splitlines(True) if not each.startswith(f"{key}:")]
        path.write_text("".join(kept) + line)

    return add


def _retired(repository: Repository, job: str) -> None:
    """As the ledger of another branch has it."""
    assert repository.run("retire", f"prod/{job}", "--no-render").exit_code == 0


def _there_and_back(repository: Repository, job: str) -> None:
    """Rendered in between, so that what lies there is not what the spec says."""
    before = _spec(repository, job).read_bytes()
    _add("flags: {lr: 0.3}\n")(repository, job)
    assert repository.run("render", f"prod/{job}").exit_code == 0
    _spec(repository, job).write_bytes(before)


def _twice(repository: Repository, job: str) -> None:
    """Of which the first was rendered, and is in no commit."""
    _there_and_back(repository, job)
    _add("flags: {lr: 0.2}\n")(repository, job)


def _both(repository: Repository, job: str) -> None:
    _add("state: suspended\n")(repository, job)
    _add("flags: {lr: 0.2}\n")(repository, job)


EDITS: dict[str, Callable[[Repository, str], None]] = {
    "training": _add("flags: {lr: 0.2}\n"),
    "run": _add("run: 2\n"),
    "retries": _add("retries: 3\n"),
    "deadline": _add("maxDuration: 5h\n"),
    "suspended": _add("state: suspended\n"),
    "cancelled": _add("state: cancelled\n"),
    "retired": _retired,
    "twice": _twice,
    "there and back": _there_and_back,
    "both": _both,
    "same meaning": _add('resources: {cpu: "1000m", memory: 1024Mi}\n'),
    "comment": _add("# nothing of this is trained\n"),
}


REFUSED = r"`trainwright|write|\. Stop|delete|queue"  # what to do
NOTHING_TO_DO = "already|is not suspended|no change waits|is in the ledger"
RENDERED = ("twice", "there and back")


def _paths(job: str) -> tuple[str, str]:
    return f"environments/prod/jobs/{job}.yaml", f"environments/prod/rendered/{job}"


def _object(repository: Repository, job: str, revision: str = "") -> str:
    path = f"environments/prod/rendered/{job}/run.lock"
    text = (
        git(repository.root, "show", f"{revision}:{path}")
        if revision
        else (repository.root / path).read_text()
    )
    name: str = json.loads(text)["object"]
    return name


def _names(text: str) -> list[str]:
    return re.findall(r"\b[a-z]+-[0-9a-f]{8}\b", text)


def _files(repository: Repository) -> dict[str, bytes]:
    paths = (repository.root / "environments").rglob("*")
    return {str(path): path.read_bytes() for path in paths if path.is_file()}


def _begin(repository: Repository, environment: str) -> None:
    for job in ("llm", "mnist"):
        _spec(repository, job).unlink()
    repository.environment("prod", environment)
    queue = "queue: team\n" if "kueue" in environment else ""
    for job in VERBS:
        repository.job(f"prod/{job}", f"flags: {{lr: 0.1}}\n{queue}")
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "Begin others")


COMMITTED, ON_DISK = "in a commit", "on disk"
CASES = [
    *((PRUNED, edit, where) for edit in EDITS for where in (COMMITTED, ON_DISK)),
    *((PRUNED + QUEUES, edit, ON_DISK) for edit in ("training", "retries", "deadline")),
    *(("", edit, ON_DISK) for edit in ("training", "twice")),
]


@pytest.mark.parametrize(("environment", "edit", "where"), CASES)
def test_an_edit_then_a_verb(
    environment: str, edit: str, where: str, repository: Repository
) -> None:
    _begin(repository, environment)
    base = git(repository.root, "rev-parse", "HEAD")
    began = {job: _object(repository, job) for job in VERBS}
    for job in VERBS:
        EDITS[edit](repository, job)
    options: tuple[str, ...] = ()
    if where == COMMITTED:
        rendered = ":(exclude,glob)environments/*/rendered/**"
        git(repository.root, "add", "environments", rendered)
        git(repository.root, "commit", "--quiet", "--allow-empty", "--message", "Edit")
        if edit not in RENDERED:
            options = ("--commit",)
    for job, (verb, *rest) in VERBS.items():
        before = _files(repository)
        done = repository.run(verb, f"prod/{job}", *rest, *options)
        broken = "queueing" in environment and "suspended" in _spec(repository, job).read_text()
        assert done.exit_code in (0, 2, broken), done.output
        names = _names(done.stderr)
        if done.exit_code or _files(repository) == before:
            assert _files(repository) == before, job
            said = REFUSED if done.exit_code else NOTHING_TO_DO
            assert re.search(said, done.stderr), done.stderr
            if edit in RENDERED:  # by itself no commit with that would pass
                git(repository.root, "checkout", "HEAD", *_paths(job))
            continue
        if job in BEGINNING:
            assert names[:2] == [_object(repository, job), began[job]], done.stderr
            assert set(names[2:]) <= {began[job]}
        else:
            assert set(names) <= {began[job]}, (job, done.stderr)
            assert _object(repository, job) == began[job], (job, done.stderr)
        if job in KEEPING:
            assert _names(repository.run("list", "jobs", f"prod/{job}").stdout)[0] == began[job]
    git_repository.commit(repository.root, "Verbs")
    for command in (("check",), ("plan", "--against", base), ("plan", "--against", "HEAD~1")):
        result = repository.run(*command)
        assert result.exit_code == 0, (command, result.output)


def test_what_was_never_rendered_has_no_run_to_end(repository: Repository) -> None:
    repository.job("prod/other")
    before = _files(repository)
    for verb in (("retire",), ("cancel", "--orphan"), ("set", "--max-duration", "+1h"), ("rerun",)):
        done = repository.run(verb[0], "prod/other", *verb[1:])
        assert done.exit_code == 2, done.output
        assert "has no run yet, since it was never rendered: `trainwright render" in done.stderr
    assert _files(repository) == before


def test_what_no_commit_has_never_ran(repository: Repository) -> None:
    first = _object(repository, "llm")
    _add("flags: {lr: 0.2}\n")(repository, "llm")
    assert repository.run("render").exit_code == 0
    second = _object(repository, "llm")
    before = _files(repository)
    for verb in (("retire",), ("cancel", "--orphan")):
        done = repository.run(verb[0], "prod/llm", *verb[1:])
        assert done.exit_code == 2, done.output
        assert f"has not begun {second} yet, which no commit has: commit it first" in done.stderr
    assert _files(repository) == before
    # What it replaces is what runs.
    done = repository.run("rerun", "prod/llm")
    assert f" instead of {first}\n  {first} stays in the cluster" in done.stderr
    assert second not in done.stderr


def test_a_refusal_names_the_line_both_runs_and_what_to_do(repository: Repository) -> None:
    first = _object(repository, "llm")
    _add("flags: {lr: 0.2}\n")(repository, "llm")
    message = repository.run("suspend", "prod/llm").stderr
    assert re.fullmatch(
        r"trainwright: prod/llm has an edit that is not rendered: flags.lr: \(unset\) → 0.2 "
        r"\(environments/prod/jobs/llm.yaml:10:13\); with it llm-[0-9a-f]{8} begins instead of "
        rf"{first}. Take it back, or begin that run first: `trainwright render prod/llm`\n",
        message,
    )


def test_an_edit_around_a_run_stands_in_the_way_only_where_it_begins_one(
    repository: Repository,
) -> None:
    _begin(repository, PRUNED)
    path = repository.environment("prod", PRUNED)
    text = path.read_text()
    path.write_text(f"{text}defaults: {{env: {{A: b}}}}\n")
    assert repository.run("suspend", "prod/suspend").exit_code == 0
    path.write_text(f"{text}defaults: {{env: {{A: b}}}}\nsharedChanges: start\n")
    done = repository.run("suspend", "prod/rerun")
    assert done.exit_code == 2, done.output
    assert 'env.A: (unset) → "b" (environments/prod/environment.yaml:' in done.stderr


@pytest.mark.parametrize("verb", ["suspend", "resume", "cancel", "retire"])
def test_what_a_file_has_already_is_not_done_before_it_is_rendered(
    verb: str, repository: Repository
) -> None:
    _begin(repository, PRUNED)
    if verb == "resume":
        assert repository.run("suspend", f"prod/{verb}").exit_code == 0
        git_repository.commit(repository.root)
        path = _spec(repository, verb)
        path.write_text(path.read_text().replace("state: suspended # set by trainwright\n", ""))
    else:
        assert repository.run(verb, f"prod/{verb}", "--no-render").exit_code == 0
    done = repository.run(verb, f"prod/{verb}")
    assert done.exit_code == 2, done.output
    assert f"`trainwright render prod/{verb}`" in done.stderr
    assert repository.run("render").exit_code == 0
    assert repository.run(verb, f"prod/{verb}").exit_code == 0


@pytest.mark.parametrize(
    "seed", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 11))]
)
def test_edits_and_verbs_in_any_order(seed: int, repository: Repository) -> None:
    """Of one job: whatever a verb does is done to the run that it had, and can be merged."""
    chance = random.Random(seed)
    _begin(repository, chance.choice([PRUNED, ""]))
    edits = [EDITS[name] for name in ("run", "retries", "deadline", "same meaning")]
    edits += [_add(f"flags: {{lr: 0.{digit}}}\n") for digit in range(2, 7)]
    verbs = [VERBS[name] for name in ("suspend", "resume", "orphan", "retire", "deadline")]
    trail: list[tuple[str, ...]] = []
    for _ in range(8):
        if chance.random() < 0.6:
            chance.choice(edits)(repository, "rerun")
            trail.append(("edit",))
        if chance.random() < 0.3:
            git_repository.commit(repository.root, "Edit")
        verb, *rest = step = chance.choice([*verbs, ("rerun",), ("rerun",), ("render",)])
        trail.append(step)
        before, name = _files(repository), _object(repository, "rerun", "HEAD")
        done = repository.run(verb, "prod/rerun", *rest)
        if done.exit_code or _files(repository) == before:
            assert _files(repository) == before, trail
            continue
        names = _names(done.stderr)
        if verb == "rerun":
            assert names[:2] == [_object(repository, "rerun"), name], (trail, done.stderr)
        elif verb != "render":
            assert set(names) <= {name}, (trail, done.stderr)
            assert _object(repository, "rerun") == name, (trail, done.stderr)
        git_repository.commit(repository.root, verb)
        for command in (("check",), ("plan", "--against", "HEAD~1")):
            result = repository.run(*command)
            assert result.exit_code == 0, (trail, command, result.output)
