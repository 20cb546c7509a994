"""One plan for every verb: the cache it keeps, and the processes it may use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repository import Repository
from trainwright.files import memory
from trainwright.render import batch, job
from trainwright.render import build as plan
from trainwright.specs import resolve


def _outputs(repository: Repository, verb: str) -> list[Path]:
    """What is remembered of a verb's output."""
    folder = memory.location(repository.root, "prod").parent
    return sorted(folder.glob(f"_{verb}-*.json"))


def _forget_output(repository: Repository) -> None:
    """The next check looks at what is remembered of each job."""
    for path in _outputs(repository, "check"):
        path.unlink()


def _options(**more) -> plan.BuildOptions:
    return plan.BuildOptions(today="2026-06-01", **more)


def _remembered(repository: Repository, environment: str) -> dict[str, object]:
    path = memory.location(repository.root, environment)
    return json.loads(path.read_text())["values"]


def test_an_unchanged_job_is_not_rendered_again(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repository.run("render").exit_code == 0
    assert repository.run("check").exit_code == 0
    monkeypatch.setattr("trainwright.render.job.job", lambda *_: pytest.fail("rendered again"))
    for verb in (("render",), ("render", "--check")):
        assert repository.run(*verb).exit_code == 0
        assert repository.run(*verb, "--no-cache").exit_code == 0
    assert repository.run("check").exit_code == 0


def test_a_job_is_resolved_once_where_its_environment_has_a_budget(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = repository.root / "environments/prod/environment.yaml"
    path.write_text(path.read_text() + "\nbudget: {gpuHours: 1}\n")
    resolved: list[str] = []
    real = resolve.typed

    def note(spec, environment, path):
        resolved.append(path)
        return real(spec, environment, path)

    monkeypatch.setattr(resolve, "typed", note)
    repository.run("render")
    assert resolved
    assert len(resolved) == len({*resolved})


CHANGES = {
    "the job": ("prod/jobs/llm.yaml", {"prod/llm"}),
    "its base": ("base/jobs/common.yaml", {"prod/llm"}),
    "the environment": ("prod/environment.yaml", {"prod/llm", "prod/mnist"}),
    "the defaults": ("defaults.yaml", {"dev/mnist", "prod/llm", "prod/mnist"}),
    "a rendered file": ("prod/rendered/llm/values.yaml", {"prod/llm"}),
}


@pytest.mark.parametrize(("file", "affected"), CHANGES.values(), ids=CHANGES)
def test_a_change_judges_exactly_what_depends_on_it(
    file: str, affected: set[str], repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run of a job is checked again where something that decides it changed."""
    repository.write("defaults.yaml", "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n")
    base = (repository.root / "environments/prod/jobs/llm.yaml").read_text()
    repository.write("base/jobs/common.yaml", base.replace("name: llm", "name: common"))
    repository.job("prod/llm", "extends: base/common\n")
    assert repository.run("render").exit_code == 0
    assert repository.run("check").exit_code == 0
    path = repository.root / "environments" / file
    path.write_text(path.read_text() + "\n# changed\n")

    rendered: set[str] = set()
    real = job.job

    def note(found, *rest):
        rendered.add(str(found.loaded.file))
        return real(found, *rest)

    monkeypatch.setattr(job, "job", note)
    repository.run("check")
    assert rendered == affected
    rendered.clear()
    repository.run("render")
    assert rendered == (affected if file.endswith("values.yaml") else affected & {OWN.get(file)})


OWN = {"prod/jobs/llm.yaml": "prod/llm"}


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"mark": 1}', '{"mark": "x", "values": 3}', "[" * 200_000],
)
def test_a_broken_cache_is_forgotten(repository: Repository, content: str) -> None:
    repository.run("render")
    assert repository.run("check").exit_code == 0
    path = memory.location(repository.root, "prod")
    path.write_text(content.replace('"x"', json.dumps(memory.fingerprint(memory.EMBEDDED))))
    _forget_output(repository)
    assert repository.run("check").exit_code == 0
    assert set(_remembered(repository, "prod")) == {"llm", "mnist"}


def test_findings_are_remembered_whole(repository: Repository) -> None:
    repository.job("prod/llm", "launcher: python\nprocsPerNode: 2\n")
    first = repository.run("check", "-o", "json")
    assert "TW021" in first.stdout
    assert _remembered(repository, "prod")["llm"]
    assert repository.run("check", "-o", "json").stdout == first.stdout
    _forget_output(repository)
    assert repository.run("check", "-o", "json").stdout == first.stdout


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"mark": 1}', "[" * 200_000, '{"mark": MARK}', "TRUNCATED"]
)
def test_a_broken_output_is_forgotten(repository: Repository, content: str) -> None:
    for verb in (("check",), ("list", "jobs")):
        first = repository.run(*verb)
        (path,) = _outputs(repository, verb[0])
        whole = path.read_text()
        known = content.replace("MARK", json.dumps(json.loads(whole)["mark"]))
        path.write_text(whole[:-20] if content == "TRUNCATED" else known)
        again = repository.run(*verb)
        assert (again.exit_code, again.output) == (first.exit_code, first.output)
        ((_, printed),) = json.loads(path.read_text())["values"].values()
        assert printed["text"] == first.stdout


@pytest.mark.parametrize(
    "other", [("-o", "json"), ("--fail-on", "note"), ("prod",)], ids=lambda words: words[0]
)
def test_what_was_asked_otherwise_has_another_output(
    repository: Repository, other: tuple[str, ...]
) -> None:
    repository.job("prod/llm", "launcher: python\nprocsPerNode: 2\n")
    for verb in (("check",), ("check", *other), ("check",)):
        found, fresh = repository.run(*verb), repository.run(*verb, "--no-cache")
        assert (found.exit_code, found.output) == (fresh.exit_code, fresh.output)


def test_a_waiver_expires_although_no_file_changes(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.job("prod/llm", 'waivers: {TW717: {reason: known, until: "2026-06-30"}}\n')
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-06-30")
    assert "expired" not in repository.run("check").stdout
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-07-01")
    assert "expired" in repository.run("check").stdout


def test_another_helm_in_the_same_place_has_another_memory(tmp_path: Path) -> None:
    binary = tmp_path / "helm"
    binary.write_text("one")
    marks = {memory.fingerprint(str(binary))}
    binary.write_text("another")
    memory.fingerprint.cache_clear()  # as in the next process
    marks |= {memory.fingerprint(str(binary)), memory.fingerprint(memory.EMBEDDED)}
    assert len(marks) == 3


def test_what_did_not_change_is_not_written_again(repository: Repository) -> None:
    repository.run("render")
    path = memory.location(repository.root, "prod")
    repository.run("check")  # remembers what lies in rendered/ now
    before = path.stat()
    repository.run("check", "prod/llm")
    repository.run("render")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    known = [entry.name for entry in sorted(path.parent.iterdir())]
    outputs = [entry.name for entry in _outputs(repository, "check")]
    assert len(outputs) == 2  # of everything, and of prod/llm
    assert known == sorted([*outputs, "dev.json", "prod.json"])


def test_a_cache_that_cannot_be_written_is_no_failure(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert repository.run("render").exit_code == 0


@pytest.mark.parametrize("text", ["", "{", "null", '{"kind": "Run"}', "[" * 200_000])
def test_a_broken_record_is_written_anew_with_the_word_of_consent(
    repository: Repository, text: str
) -> None:
    repository.run("render")
    tree = repository.tree()
    record = repository.root / "environments/prod/rendered/llm/run.lock"
    record.write_text(text)
    for arguments in (("render", "--check"), ("render",)):
        refused = repository.run(*arguments)
        assert refused.exit_code == 1
        assert "TW054" in refused.output
    assert record.read_text() == text
    assert repository.run("render", "--new-runs").exit_code == 0
    assert repository.tree() == tree


def test_several_processes_give_the_same_bytes_and_findings(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        repository.job(f"prod/job-{number}", "nodez: 1\n" if number == 5 else "")
    alone = plan.build(repository.root, (), _options(use_cache=False))
    monkeypatch.setattr(batch, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(batch, "_CHUNK", 2)
    monkeypatch.setattr(batch, "processors", lambda: 2)
    together = plan.build(repository.root, (), _options(use_cache=False))
    assert together == alone
    assert together.failed


QUEUES = "queueing: kueue\nqueues: {team: {}, other: {}}\n"


@pytest.mark.parametrize("state", ["active", "cancelled", "retired", "behind its base"])
def test_render_refuses_what_names_something_that_is_gone(
    state: str, repository: Repository
) -> None:
    """No file of the job or of its run changes, and only `check` looked at them."""
    repository.environment("prod", QUEUES)
    repository.write("defaults.yaml", "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n")
    repository.job("prod/llm", "queue: team\n")
    assert repository.run("render").exit_code == 0
    if state == "cancelled":
        assert repository.run("cancel", "prod/llm", "--orphan").exit_code == 0
    if state == "retired":
        assert repository.run("retire", "prod/llm", "--outcome", "succeeded").exit_code == 0
    if state.startswith("behind"):
        kind = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
        repository.write("defaults.yaml", f"{kind}defaults: {{env: {{A: b}}}}\n")
    repository.environment("prod", QUEUES.replace("team: {}, ", ""))
    gone = 'error[TW020]: the queue "team" does not exist in prod'
    assert gone in repository.run("check").stdout
    before = repository.tree()
    for verb in (("render",), ("render", "--check"), ("render", "--check", "prod/llm")):
        done = repository.run(*verb)
        assert done.exit_code == 1, verb
        assert gone in done.stderr, verb
    assert repository.tree() == before
    assert repository.run("render", "--check", "dev", "prod/mnist").exit_code == 0
