"""`trainwright report` in a browser: every run of a repository, and how it came to that."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import git_repository
import trainwright.api
from opened_page import Visit
from repository import Copied, Repository
from trainwright.cluster.pods import LivePod
from trainwright.cluster.status import RunStatus
from trainwright.datatypes.finding import Finding, Location, Severity, ValueChange
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.state import Phase, State
from trainwright.overview import html
from trainwright.overview.collect import overview, with_goodput
from trainwright.overview.goodput import parse
from trainwright.overview.history import Event, events
from trainwright.overview.model import EnvironmentOverview, JobOverview, Overview
from trainwright.overview.trouble import troubles
from trainwright.reports.style import Style
from trainwright.runs.workspace import JobRun, RunState
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import Demand, Range
from trainwright.specs.ledger import LedgerEntry

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

TODAY = "2026-06-01"
STYLE = Style(command="trainwright report", link="https://git.example/tree/abc")


@pytest.fixture
def repository(tmp_path: Path, copied: Copied) -> Repository:
    """prod/llm, which is behind; prod/old, which is cancelled; prod/done, which has finished."""
    return copied(_begin, tmp_path / "specs")


def _begin(folder: Path) -> None:
    made = Repository(git_repository.init(folder))
    pool = "{resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 16}"
    gpus = "defaults: {pool: h100, resources: {gpu: 4}}"
    made.environment(
        "prod",
        f"pools: {{h100: {pool}}}\nbudget: {{gpuHours: 100, owner: ml@example.com}}\n{gpus}\n",
    )
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


def runs(repository: Repository) -> dict[JobFile, JobRun]:
    return {job.file: job.run for job in overview_of(repository).jobs}


def overview_of(repository: Repository) -> Overview:
    return overview(
        repository.root, trainwright.api.Repository(repository.root).build(), today=TODAY
    )


def step(repository: Repository, subject: str) -> None:
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    git_repository.commit(repository.root, subject)


def test_a_repository(visit: Visit, repository: Repository) -> None:
    opened = visit(repository.run("report", "--link", "https://git.example/x").output)
    page = opened.page
    rows = page.locator("details.row")
    assert sorted(zip(rows.locator(".job").all_inner_texts(), rows.locator(".badge").all_inner_texts(), strict=True)) == [
        ("prod/done", "retired: succeeded"), ("prod/llm", "active"), ("prod/old", "cancelled"),
    ]  # fmt: skip
    limits = page.locator("table.limits tbody tr")
    assert limits.first.locator("td").all_inner_texts() == [
        "prod pool h100",
        "8 of 16 GPUs",
        "",
        "fits",
    ]
    assert "prod budget\nml@example.com" in limits.last.inner_text()
    assert not page.locator("#filters").is_visible()  # three rows are seen at a glance
    page.get_by_role("link", name="outdated 1").click()
    page.get_by_role("button", name="outdated 1").wait_for()
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


def test_a_job_shows_its_roles_and_how_many_of_their_pods_are_ready(
    visit: Visit, tmp_path: Path
) -> None:
    made = Repository(git_repository.init(tmp_path / "specs"))
    pools = "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8}, cpu: {}}\n"
    head = "apiVersion: trainwright.io/v1alpha1\nkind: Environment\nnamespace: training\n"
    targets = "kubernetes: {version: '1.34'}\ntargets: {jobset: {}}\n"
    made.write("prod/environment.yaml", f"{head}{targets}{pools}")
    image = "{repository: registry.example.com/judge, tag: '2'}"
    judge = f"{{nodes: 2, pool: cpu, image: {image}, entrypoint: {{script: serve.py}}}}"
    made.job("prod/grpo", f"target: jobset\npool: h100\nroles: {{judge: {judge}}}\n")
    step(made, "Begin")
    found = overview_of(made)
    ((environment,), (job,)) = found.environments, found.jobs
    pods = tuple(
        LivePod(
            name=f"p{ready}", run="r", created="", node="", container="", phase="Running",
            ready=ready, restarts=0, role="judge",
        )
        for ready in (True, False)
    )  # fmt: skip
    live = RunStatus(
        environment="prod", job="grpo", object=job.run.object, kind="JobSet",
        desired=job.run.state, state=State(phase=Phase.RUNNING), pods=pods,
    )  # fmt: skip
    environment = replace(environment, jobs=(replace(job, live=live),))
    opened = visit(html.render(replace(found, environments=(environment,)), STYLE))
    row = opened.page.locator("details.row", has_text="prod/grpo")
    row.locator("summary").click()
    table = row.locator("table", has_text="Roles")
    table.wait_for()
    cells = table.locator("tbody td").all_inner_texts()
    assert cells == ["judge", "2", "0", "cpu", "registry.example.com/judge:2", "1/2"]
    opened.assert_quiet()


def test_a_suspended_run_is_said_to_be(visit: Visit, repository: Repository) -> None:
    assert repository.run("suspend", "prod/llm").exit_code == 0
    page = visit(repository.run("report").output).page
    row = page.locator("details.row", has_text="prod/llm")
    assert row.locator(".badge").inner_text() == "suspended"
    assert "1 suspended" in page.locator("header").inner_text()


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
            object=object_, job=file.name, own="0" * 64, outcome="failed" if number % 9 == 0 else "succeeded",
            finished=f"2026-0{number % 9 + 1}-11", place=Location("ledger.yaml"),
        )  # fmt: skip
        return JobOverview(
            file=file,
            run=JobRun(object=object_, target="pytorchjob", state=RunState.ACTIVE),
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
    text = html.render(large(3000), STYLE)
    assert len(text.encode()) < 1_000_000
    opened = visit(text)
    page = opened.page
    page.locator("details.row:nth-child(3000)").wait_for(state="attached")
    page.locator("#environment").select_option("env-7")
    assert page.locator("#shown").inner_text() == "25 of 3000"
    opened.assert_quiet()


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_three_thousand_jobs_are_within_one_screen(visit: Visit, width: int, height: int) -> None:
    found = troubled(large(3000))
    page = visit(html.render(found, STYLE), viewport={"width": width, "height": height}).page
    assert page.locator(".attention > li").count() == 3
    assert (
        page.evaluate("document.querySelector('details.row').getBoundingClientRect().bottom")
        <= height
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def troubled(found: Overview) -> Overview:
    """The same with failed runs, runs that are behind, and pools that are too small."""
    place = Location("environments/defaults.yaml", 4, 3)
    held = ValueChange(Pointer("/env/MODE"), None, "fast", place)
    pool = CapacityCheck(what="pool h100", unit="GPUs", need=12, most=12, has=8)

    def job(number: int, one: JobOverview) -> JobOverview:
        if number % 5 == 0:
            run = replace(one.run, state=RunState.RETIRED, outcome="failed")
            return replace(one, run=run)
        return replace(one, run=replace(one.run, held=(held,))) if number % 5 == 1 else one

    return replace(
        found,
        environments=tuple(
            replace(it, jobs=tuple(job(*one) for one in enumerate(it.jobs)), fits=(pool,))
            for it in found.environments
        ),
    )


NEWEST = ((1, 35, "09-11"), (1, 25, "08-11"), (0, 15, "07-11"))  # of the failed ones


def test_trouble_comes_first_and_leads_to_its_jobs(visit: Visit) -> None:
    page = visit(html.render(troubled(large(50)), STYLE)).page
    headings = page.locator("h2").all_inner_texts()
    assert [it.split()[0] for it in headings[:5]] == [
        "Needs",
        "Capacity",
        "Jobs",
        "Environments",
        "Timeline",
    ]
    verdict = page.locator("h1").inner_text()
    assert verdict == "10 failed · 2 over limit · 10 outdated · 50 jobs in 2 environments"
    lines = page.locator(".attention > li")
    assert lines.locator(".badge").all_inner_texts() == ["failed 10", "over limit 2", "outdated 10"]
    newest = [f"env-{env}/llm-{job} 2026-{month}" for env, job, month in NEWEST]
    assert lines.first.locator("li").all_inner_texts() == [*newest, "and 7 more"]
    assert lines.last.locator("li").all_inner_texts() == [
        'env-0/llm-1, env-0/llm-6 and 8 more env.MODE: (unset) → "fast"'
    ]
    jobs = page.locator("details.row .job").all_inner_texts()
    assert jobs[0] == "env-1/llm-35"
    assert jobs[10] == "env-0/llm-1"
    page.locator("#sort").select_option("name")
    assert page.locator("details.row .job").first.inner_text() == "env-0/llm-0"
    page.get_by_role("link", name="outdated 10").click()
    page.locator('[aria-pressed="true"]').wait_for()
    assert page.locator("#shown").inner_text() == "10 of 50"


def test_jobs_with_errors_are_before_failed_ones_and_exceeded_limits() -> None:
    found = troubled(large(25))
    error = Finding(
        rule="TW010", severity=Severity.ERROR, place=Location("environments/env-0/jobs/llm-2.yaml"),
        message="nodes must be an integer", remedy="Write a number.", subject="env-0/llm-2",
    )  # fmt: skip
    kinds = troubles(replace(found, findings=(error,)))
    assert [kind.kind for kind in kinds] == ["with errors", "failed", "over limit", "outdated"]
    assert [kind.concern.tone for kind in kinds] == ["danger", "danger", "danger", "warning"]


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_shows_what_failed_and_the_state_of_each_job(visit: Visit, width: int) -> None:
    """Without scrolling to the side; the filters and the capacity are a tap away."""
    page = visit(
        html.render(troubled(large(25)), STYLE), viewport={"width": width, "height": 844}
    ).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    within = f"""(found) => found.every((one) => {{
      const {{ left, right, width }} = one.getBoundingClientRect();
      return width > 0 && left >= 0 && right <= {width};
    }})"""
    failed = page.locator(".attention > li").first.locator("li")
    assert failed.all_inner_texts()[-1] == "and 2 more"
    assert failed.evaluate_all(within)
    badges = page.locator("details.row > summary .badge")
    assert badges.count() == 25
    assert badges.evaluate_all(within)
    assert page.locator("details.row").first.bounding_box()["y"] < 844
    assert not page.locator("#search").is_visible()
    page.locator("summary", has_text="Search and filter").click()
    chips = page.locator(".chips button")
    assert chips.first.inner_text() == "failed 5"
    assert chips.evaluate_all(within)


def test_limits_are_bars_on_one_scale_the_fullest_first(visit: Visit) -> None:
    found = large(50)
    budget = CapacityCheck(what="budget", unit="USD", need=50, most=150, has=100)
    pool = CapacityCheck(what="pool h100", unit="GPUs", need=24, most=24, has=8)
    first, second = found.environments
    owned = replace(first, fits=(budget,), budget_owner="ml@example.com")
    limited = (owned, replace(second, fits=(pool,)))
    page = visit(html.render(replace(found, environments=limited), STYLE)).page
    rows = page.locator("table.limits tbody tr")
    assert [rows.nth(row).locator("td").all_inner_texts() for row in range(2)] == [
        ["env-1 pool h100", "24 of 8 GPUs", "", "16 too few"],
        [
            "env-0 budget\nml@example.com",
            "$50 to $150 of $100",
            "",
            "fits at least; $50 over at most",
        ],
    ]
    assert page.locator(".scale span").all_inner_texts() == ["0", "100 %", "200 %"]

    def widths(row: int, part: str) -> list[str | None]:
        drawn = rows.nth(row).locator(f"rect.{part}")
        return [drawn.nth(at).get_attribute("width") for at in range(drawn.count())]

    assert (widths(0, "need"), widths(0, "over")) == (["100"], ["100"])
    assert (widths(1, "need"), widths(1, "most"), widths(1, "over")) == (["50.0"], ["150.0"], [])


def test_a_limit_that_is_not_exceeded_ends_the_scale(visit: Visit) -> None:
    found = large(25)
    pool = CapacityCheck(what="pool h100", unit="GPUs", need=4, most=4, has=8)
    limited = replace(found.environments[0], fits=(pool,) * 7)
    page = visit(html.render(replace(found, environments=(limited,)), STYLE)).page
    assert page.locator("#limits .scale").first.locator("span").all_inner_texts() == ["0", "100 %"]
    folded = page.locator("#limits details.group")
    assert folded.locator("summary").inner_text() == "2 more, less full"
    assert not folded.locator("table").is_visible()


def test_the_team_of_a_job_is_shown_and_chosen(visit: Visit, tmp_path: Path) -> None:
    made = Repository(git_repository.init(tmp_path / "specs"))
    made.environment("prod", "queueing: kueue\nqueues: {team-nlp: {}}\n")
    made.job("prod/labelled", "labels: {team: vision}\nqueue: team-nlp\n")
    made.job("prod/queued", "queue: team-nlp\n")
    made.job("prod/alone")
    page = visit(made.run("report").stdout).page
    assert page.locator("details.row .team").all_inner_texts() == ["", "vision", "team-nlp"]
    page.keyboard.press("/")
    assert page.locator("#environment").is_hidden()  # there is one
    page.locator("#team").select_option("vision")
    assert page.locator("details.row .job").all_inner_texts() == ["prod/labelled"]
    assert page.url.endswith("#team=vision")


def test_environments_are_sorted_by_any_column(visit: Visit) -> None:
    found = large(75)
    first, second, third = found.environments
    many = replace(second, active=Demand(gpus=Range(100, 100)))
    found = replace(found, environments=(first, many, replace(third, active=Demand())))
    page = visit(html.render(found, STYLE)).page
    names = page.locator("table.sortable tbody td:first-child")
    table = page.locator("table.sortable")
    assert table.locator("th").all_inner_texts() == ["environment", "jobs", "GPUs"]
    table.get_by_role("button", name="GPUs").click()
    assert names.all_inner_texts()[0] == "env-1"
    assert table.locator('[aria-sort="descending"]').inner_text() == "GPUs"
    table.get_by_role("button", name="environment").click()
    table.get_by_role("button", name="environment").click()
    assert names.all_inner_texts() == ["env-2", "env-1", "env-0"]


def test_dates_of_the_timeline_do_not_overlap_on_a_phone(visit: Visit) -> None:
    page = visit(html.render(large(25), STYLE)).page
    page.set_viewport_size({"width": 390, "height": 800})
    shown = page.locator(".ticks span").filter(has_text="-")
    boxes = [shown.nth(at).bounding_box() for at in range(shown.count())]
    ends = [(box["x"], box["x"] + box["width"]) for box in boxes if box]
    assert len(ends) > 2
    assert all(one[1] < other[0] for one, other in pairwise(ends))


def test_dates_are_those_of_what_happened(visit: Visit) -> None:
    found = large(25)
    event = replace(found.events[0], when="2026-11-23T10:00:00+00:00")
    jobs = tuple(replace(job, finished=()) for job in found.jobs)
    one = replace(found.environments[0], jobs=jobs)
    page = visit(html.render(replace(found, environments=(one,), events=(event,)), STYLE)).page
    caption = page.locator("figcaption").inner_text()
    assert caption.startswith("1 run began on 2026-11-23, a bar for each day.")
    assert page.locator(".ticks span").last.inner_text() == "2026-11-23"
    assert page.locator(".axis span").all_inner_texts() == ["1", "0"]


def test_runs_began_on_the_days_on_which_they_did(visit: Visit) -> None:
    """A run that finished earlier does not make the days more on which others began."""
    found = large(25)
    events = (
        replace(found.events[0], when="2026-11-23T10:00:00+00:00"),
        replace(found.events[0], when="2026-11-20T10:00:00+00:00", what="removed"),
    )
    jobs = tuple(replace(job, finished=()) for job in found.jobs)
    one = replace(found.environments[0], jobs=jobs)
    page = visit(html.render(replace(found, environments=(one,), events=events), STYLE)).page
    assert page.locator("figcaption").inner_text().startswith("1 run began on 2026-11-23, ")


def test_paper_has_all_rows_and_the_time(visit: Visit) -> None:
    shown = replace(large(3000), written="2026-11-23 10:00 UTC")
    page = visit(html.render(shown, STYLE)).page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.row").count() == 3000
    assert "written 2026-11-23 10:00 UTC" in page.locator("header").inner_text()


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


def goodput(run: str, **more: Any) -> dict[str, Any]:
    """A report of a run, as the runtime prints it."""
    split = {
        "scheduling": 10,
        "start": 5,
        "recovery": 0,
        "checkpoint": 0,
        "stall": 5,
        "training": 80,
        "other": 0,
    }
    body = {
        "$schema": "https://trainwright.io/schemas/v1alpha1/run-goodput.schema.json",
        "apiVersion": "trainwright.io/v1alpha1", "kind": "RunGoodput", "run": run,
        "workers": ["rank-0"], "begin": 1.7e9, "seconds": 3725.5, "samples": 640, "steps": 10,
        "restarts": 2, "goodput": 0.81, "split": split, "ettr": 0.8, "scheduling_goodput": 0.9,
        "runtime_goodput": 0.889, "program_goodput": None, "mpg": None,
        "checkpoints": {"count": 1, "stalled": 0.5, "worst": 0.5},
        "failures": [], "attempts": [],
    }  # fmt: skip
    return body | more


def test_the_goodput_of_runs(visit: Visit, repository: Repository, tmp_path: Path) -> None:
    now = {job.name: run.object for job, run in runs(repository).items()}
    failure = {
        "worker": "rank-0", "time": 1.7e9, "cause": "out-of-memory", "exit_code": 137, "node": "n",
        "error": "</template><img src=x onerror=alert(1)> token=hf_abcdefghijklmnopqrstuvwxyz012345",
    }  # fmt: skip
    folder = tmp_path / "goodput"
    folder.mkdir()
    reports = {
        "one.json": goodput(f"prod/{now['llm']}", mpg=0.4, program_goodput=0.5, failures=[failure]),
        f"{now['done']}.json": goodput(""),  # named by its file
        "gone.json": goodput("llm-00000000"),
    }
    for name, body in reports.items():
        (folder / name).write_text(json.dumps(body), encoding="utf-8")
    done = repository.run("report", "--goodput", str(folder))
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        f"{folder}/gone.json: not shown: it is about the run llm-00000000, which is not one of "
        "exactly one job here; its name is set by `python -m trainwright_runtime report --run ENV/NAME`"
    ]
    opened = visit(done.stdout)
    page = opened.page
    assert "0.800 of 2 runs" in page.locator("table.sortable").inner_text()
    row = page.locator("details.row", has_text="prod/llm")
    assert "goodput 0.810" in row.locator("summary").inner_text()
    row.locator("summary").click()
    table = row.locator("table", has_text="Goodput")
    table.wait_for()  # it is made when the row is opened
    cells = table.locator("tbody td").all_inner_texts()
    assert cells[:6] == [now["llm"], "0.810", "0.800", "0.400", "1:02:06", "2"]
    shown = ["scheduling 10.0%", "start 5.0%", "stall 5.0%", "training 80.0%"]
    assert all(part in cells[6] for part in shown)
    assert "</template><img src=x onerror=alert(1)>" in cells[6]
    assert "hf_abcdef" not in cells[6]
    assert row.locator("svg.parts rect").count() == len(shown)
    other = page.locator("details.row", has_text="prod/done")
    other.locator("summary").click()
    assert now["done"] in other.locator("table", has_text="Goodput").inner_text()
    opened.assert_quiet()
    assert axe.Axe().run(page).violations_count == 0


def test_a_run_of_several_environments_needs_its_own(
    repository: Repository, tmp_path: Path
) -> None:
    """Names of objects are unique in a cluster, and not over all of them."""
    made = overview_of(repository)
    job = made.jobs[0]
    twin = replace(job, file=JobFile("dev", job.file.name))
    two = replace(
        made,
        environments=(
            *made.environments,
            EnvironmentOverview(name="dev", jobs=(twin,), active=Demand(), fits=()),
        ),
    )
    reports = [
        parse("a.json", json.dumps(goodput(name)).encode())
        for name in (job.run.object, f"dev/{job.run.object}")
    ]
    found = with_goodput(two, reports)
    assert [one.name for one in found.unassigned] == [job.run.object]
    assert {str(one.file) for one in found.jobs if one.goodput} == {f"dev/{job.file.name}"}


def test_reports_that_are_not_valid_are_named_at_once(
    repository: Repository, tmp_path: Path
) -> None:
    texts = {
        "a.json": b'{"kind": "Goo',
        "b.json": b'{"kind": NaN}',
        "c.json": json.dumps(goodput("x") | {"ettr": "high", "extra": 1}, indent=1).encode(),
        "d.json": b"\xff\xfe\xfa",
        "e.json": b"[" * 100_000,
    }
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    done = repository.run("report", "--goodput", str(tmp_path))
    assert (done.exit_code, done.stdout) == (2, "")
    written = texts["c.json"].decode().splitlines()
    ettr = next(n for n, line in enumerate(written, 1) if line.startswith(' "ettr"'))
    lines = done.stderr.removeprefix("trainwright: ").splitlines()
    assert [line.removeprefix(f"{tmp_path}/").split(": ")[0] for line in lines] == [
        "a.json:1:10", "b.json", f"c.json:{ettr}:10", f"c.json:{len(written) - 1}:2", "d.json", "e.json",
    ]  # fmt: skip
    assert "Traceback" not in done.stderr


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
