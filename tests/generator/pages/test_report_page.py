"""`trainwright report` in a browser: every run of a repository, and how it came to that."""

from __future__ import annotations

from pathlib import Path

import pytest

import git_repository
from opened_page import Visit
from repository import Repository
from trainwright.model import Location
from trainwright.overview import page as pages
from trainwright.overview.history import Event, events
from trainwright.overview.model import EnvironmentOverview, JobOverview, Overview
from trainwright.specs.demand import Demand, Range
from trainwright.specs.layout import JobFile
from trainwright.specs.ledger import LedgerEntry
from trainwright.workspace import JobRun, RunState

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

STYLE = pages.Style(command="trainwright report", link="https://git.example/tree/abc")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """prod/llm, which is behind; prod/old, which is cancelled; prod/done, which has finished."""
    made = Repository(git_repository.init(tmp_path / "specs"))
    pool = "{resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 16}"
    gpus = "defaults: {pool: h100, resources: {gpu: 4}}"
    made.environment("prod", f"pools: {{h100: {pool}}}\nbudget: {{gpuHours: 100}}\n{gpus}\n")
    for name in ("llm", "old", "done"):
        made.job(f"prod/{name}")
    step(made, "Begin")
    made.job("prod/old", "state: cancelled\n")
    step(made, "Stop the old one")
    assert made.run("retire", "prod/done", "--outcome", "succeeded").exit_code == 0
    step(made, "It is done")
    head = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
    made.write("defaults.yaml", f"{head}defaults: {{env: {{MODE: fast}}}}\n")
    step(made, "Go faster")
    return made


def step(repository: Repository, subject: str) -> None:
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    git_repository.commit(repository.root, subject)


def test_a_repository(visit: Visit, repository: Repository) -> None:
    opened = visit(repository.run("report", "--link", "https://git.example/x").output)
    page = opened.page
    rows = page.locator("details.row")
    assert sorted(zip(rows.locator(".job").all_inner_texts(), rows.locator(".badge").all_inner_texts(), strict=True)) == [
        ("prod/done", "retired: succeeded"), ("prod/llm", "rendered"), ("prod/old", "cancelled"),
    ]  # fmt: skip
    assert "8 of 16 GPUs: fits" in page.locator(".measure").first.inner_text()
    page.get_by_role("button", name="behind 1").click()
    assert rows.locator(".job").all_inner_texts() == ["prod/llm"]
    rows.locator("summary").click()
    rows.locator(".causes").wait_for()
    assert 'env.MODE: (unset) → "fast"' in rows.inner_text()
    link = rows.locator(".causes a").get_attribute("href")
    assert link == "https://git.example/x/environments/defaults.yaml#L3"
    page.locator("summary", has_text="Events").click()
    page.locator("#events p").last.wait_for()
    assert "Stop the old one" in page.locator("#events").inner_text()
    opened.assert_quiet()
    assert axe.Axe().run(page).violations_count == 0


def test_what_commits_did_to_runs(repository: Repository) -> None:
    found = [(e.subject, str(e.file), e.what) for e in events(repository.root)]
    assert found == [
        ("Stop the old one", "prod/old", "cancelled"),
        ("Begin", "prod/done", "began"),
        ("Begin", "prod/llm", "began"),
        ("Begin", "prod/old", "began"),
    ]


def test_a_merge_is_one_step(repository: Repository) -> None:
    """What happened on a branch counts when it comes in."""
    git_repository.git(repository.root, "checkout", "--quiet", "-b", "topic")
    repository.job("prod/new")
    step(repository, "Add one")
    git_repository.git(repository.root, "checkout", "--quiet", "main")
    git_repository.git(repository.root, "merge", "--quiet", "--no-ff", "-m", "Merge it", "topic")
    newest = events(repository.root)[0]
    assert (newest.subject, newest.what, str(newest.file)) == ("Merge it", "began", "prod/new")


def test_outside_of_git_there_is_no_timeline(visit: Visit, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "specs")
    repository.environment("prod")
    repository.job("prod/llm")
    page = visit(repository.run("report").output).page
    assert page.locator("details.row .badge").all_inner_texts() == ["not rendered"]
    assert page.locator("#timeline").count() == 0


def large(jobs: int) -> Overview:
    """Jobs in environments of 25, each with a finished run, an event and four GPUs."""

    def job(name: str, number: int) -> JobOverview:
        file = JobFile(name, f"llm-{number}")
        object_ = f"{file.name}-{number * 2654435761 % 2**32:08x}"
        entry = LedgerEntry(
            object=object_, job=file.name, outcome="failed" if number % 9 == 0 else "succeeded",
            finished=f"2026-0{number % 9 + 1}-11", place=Location("ledger.yaml"),
        )  # fmt: skip
        return JobOverview(
            file=file,
            run=JobRun(object=object_, target="pytorchjob", state=RunState.RENDERED),
            job=None,
            demand=Demand(gpus=Range(4, 4), hours=Range(number % 7, number % 7)),
            finished=(entry,),
        )

    found = []
    for start in range(0, jobs, 25):
        name = f"env-{start // 25}"
        inside = tuple(job(name, number) for number in range(start, start + 25))
        found.append(
            EnvironmentOverview(name=name, jobs=inside, active=Demand(gpus=Range(4, 4)), fits=())
        )
    began = tuple(
        Event(
            commit=f"{number:040x}", when=f"2026-{number % 9 + 1:02}-03T10:00:00+00:00",
            subject="Begin", file=JobFile("env-0", "llm-0"), object="llm-0-12345678", what="began",
        )
        for number in range(jobs)
    )  # fmt: skip
    return Overview(environments=tuple(found), events=began, findings=(), sources={})


def test_three_thousand_jobs_are_below_a_megabyte(visit: Visit) -> None:
    text = pages.render(large(3000), STYLE)
    assert len(text.encode()) < 1_000_000
    opened = visit(text)
    page = opened.page
    page.locator("details.row:nth-child(3000)").wait_for(state="attached")
    page.locator("#environment").select_option("env-7")
    assert page.locator("#shown").inner_text() == "25 of 3000"
    opened.assert_quiet()


def test_findings_by_rule_and_by_team(visit: Visit, tmp_path: Path) -> None:
    """A team is the label of that name, or the queue, or else the environment."""
    made = Repository(git_repository.init(tmp_path / "specs"))
    made.environment("prod", "queueing: kueue\nqueues: {team-nlp: {}}\n")
    loose = made.job("base/loose")
    loose.write_text(loose.read_text().replace('tag: "1.0"', "tag: latest"))
    for name, extra in (
        ("labelled", "labels: {team: vision}\nqueue: team-nlp\n"),
        ("queued", "queue: team-nlp\n"),
        ("alone", "queue: null\n"),
    ):
        head = f"apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: {name}\n"
        made.write(f"prod/jobs/{name}.yaml", f"{head}extends: base/loose\n{extra}")
    opened = visit(made.run("report").stdout)
    page = opened.page
    rules = page.locator("#findings summary")
    assert all(text.startswith("TW") for text in rules.all_inner_texts())
    page.get_by_label("Group by").select_option("team")
    names = {text.rsplit(" ", 1)[0].strip() for text in rules.all_inner_texts()}
    assert names == {"vision", "team-nlp", "prod"}
    rules.first.click()
    opened.assert_quiet()
    assert axe.Axe().run(page).violations_count == 0


def test_hostile_text_is_text(visit: Visit, repository: Repository) -> None:
    git_repository.git(repository.root, "commit", "--quiet", "--allow-empty", "-m", "x")
    repository.job("prod/attack")
    step(repository, '"><img src=x onerror=alert(1)></template><script>alert(2)</script>')
    opened = visit(repository.run("report", "--link", "javascript:alert(3)").output)
    opened.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
    opened.page.locator("#events p", has_text="<script>").wait_for()
    assert opened.page.locator("img").count() == 0
    assert opened.page.locator("a[href^=javascript]").count() == 0
    opened.assert_quiet()
