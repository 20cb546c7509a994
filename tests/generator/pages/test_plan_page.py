"""`plan -o html` in a browser: what a reviewer sees, filters, folds and prints."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import git_repository
from git_repository import git
from opened_page import Visit
from repository import Repository
from trainwright.datatypes.finding import Finding, Location, Severity, ValueChange
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import Pointer
from trainwright.plan import html
from trainwright.plan.model import (
    Action,
    Ending,
    EnvironmentPlan,
    JobChange,
    Plan,
    PlannedRun,
    SharedFileImpact,
    Use,
)
from trainwright.reports.style import Style
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import Demand, Range

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

STYLE = Style(against="main", command="trainwright plan", link="https://git.example/tree/abc")
FIT = CapacityCheck(what="pool h100", unit="GPUs", need=96, most=120, has=64)
ATTACK = '"><img src=x onerror=alert(1)><script>alert(2)</script>\u202e</template>'


def plan_of(jobs: int, text: str = "plain") -> Plan:
    """Jobs that each begin another run of four GPUs, with a diff, a finding and a shared cause."""
    line = Location("environments/base/jobs/llm.yaml", 2, 3)
    environments = []
    for number in range(-(-jobs // 25)):
        names = range(number * 25, min(jobs, number * 25 + 25))
        environments.append(
            EnvironmentPlan(
                name=f"env-{number}",
                jobs=len(names),
                changes=tuple(_change(f"env-{number}", name, line, text) for name in names),
                before=Demand(),
                after=Demand(),
                asked=Demand(gpus=Range(4, 8), hours=Range(4, 8)),
                fits=(FIT,),
                uses=(
                    Use(
                        what="pool h100",
                        before=Demand(gpus=Range(64, 64)),
                        after=Demand(gpus=Range(96, 120)),
                        fits=(FIT,),
                    ),
                ),
            )
        )
    finding = Finding(
        rule="TW023", severity=Severity.ERROR, place=line, message=f"too large {text}",
        remedy="Ask for less.", subject="env-0/llm-0",
    )  # fmt: skip
    return Plan(
        base="1" * 40,
        head="2" * 40,
        behind=2,
        environments=tuple(environments),
        shared_files=(SharedFileImpact(line.file, (JobFile("env-0", "llm-0"),), 1, 3),),
        findings=(finding,),
        sources={line.file: ("flags:", f"  lr: {text}")},
    )


def _change(
    environment: str, number: int, line: Location, text: str, *, alone: bool = True
) -> JobChange:
    file = JobFile(environment, f"llm-{number}")

    def run(lr: str, digest: str) -> PlannedRun:
        manifest = (
            f"kind: PyTorchJob\nmetadata:\n  name: {file.name}-{digest}\nargs:\n- --lr={lr}\n"
        )
        return PlannedRun(
            object=f"{file.name}-{digest}", target="pytorchjob", image=f"registry.example/{lr}",
            queue="", state="active", retired=False, files={"pytorchjob.yaml": manifest},
            demand=Demand(gpus=Range(4, 4), hours=Range(number % 7, number % 7)),
        )  # fmt: skip

    return JobChange(
        file=file,
        action=Action.DELETED if number % 10 == 9 else Action.NEW_RUN,
        why=f"{file.name} begins {number if alone else ''}",
        before=run("0.1", "aaaaaaaa"),
        after=None if number % 10 == 9 else run(text, f"{number:08x}"),
        causes=(ValueChange(Pointer("/flags/lr"), 0.1, text, line),),
    )


def unfold(page: Any) -> None:
    """Open everything that is folded away."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    page.locator("details.row .body").last.wait_for()


def test_a_real_branch(visit: Visit, tmp_path: Path) -> None:
    repository = Repository(git_repository.init(tmp_path / "clone"))
    repository.environment("prod")
    repository.job("prod/llm")
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "Begin")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.job("prod/llm", "env: {MODE: fast}\n")
    repository.environment("dev")
    repository.job("dev/told", "env: {API_TOKEN: hf_abcdefghijklmnopqrstuvwxyz012345}\n")
    opened = visit(repository.run("plan", "--against", "main", "-o", "html").output)
    page = opened.page
    unfold(page)
    row = page.locator("details.row", has_text="prod/llm")
    row.locator(".diff").wait_for()
    assert row.locator(".added", has_text="fast").count() >= 1
    assert row.locator(".authored", has_text="MODE: fast").count() >= 1
    page.locator(".finding", has_text="API_TOKEN").wait_for()
    assert "hf_abcdef" not in page.inner_text("main")
    opened.assert_quiet()


def test_what_is_asked_for_is_found_by_words_and_by_what_happens(visit: Visit) -> None:
    page = visit(html.render(plan_of(60), STYLE)).page
    shown, rows = page.locator("#shown"), page.locator("details.row")
    assert shown.inner_text() == "60 of 60"
    page.keyboard.press("/")
    page.keyboard.type("llm-59 lr")
    assert shown.inner_text() == "1 of 60"
    assert rows.locator(".job").all_inner_texts() == ["env-2/llm-59"]
    page.locator("#search").fill("")
    page.get_by_role("button", name="deleted 6").click()
    assert set(rows.locator(".badge").all_inner_texts()) == {"deleted"}
    page.locator("#environment").select_option("env-0")
    assert shown.inner_text() == "2 of 60"


def test_what_would_choose_nothing_is_not_there(visit: Visit) -> None:
    few = visit(html.render(plan_of(3), STYLE)).page  # rows that are seen at a glance
    assert few.locator("#heads").is_visible()
    for part in ("#filters", "#search", "#grouping"):  # the findings are of one team
        assert not few.locator(part).is_visible(), part
    many = visit(html.render(plan_of(8), STYLE)).page  # all of one environment, with one action
    assert many.locator("#search").is_visible()
    assert not many.locator("#environment").is_visible()
    assert many.locator(".chips button").count() == 0
    none = visit(html.render(replace(plan_of(0), findings=()), STYLE)).page
    assert none.locator("#shown").inner_text() == "none change"
    assert not none.locator("#heads").is_visible()


def test_filters_are_in_the_address(visit: Visit) -> None:
    review = html.render(plan_of(60), STYLE)
    page = visit(review).page
    page.locator("#search").fill("llm-1")
    page.get_by_role("button", name="new run").click()
    hash_ = re.sub("^[^#]*", "", page.url)
    again = visit(review, hash_).page
    assert again.locator("#shown").inner_text() == page.locator("#shown").inner_text()
    assert again.locator("#search").input_value() == "llm-1"
    assert again.locator('[aria-pressed="true"]').all_inner_texts() == ["new run 54"]


def test_a_diff_is_side_by_side_and_leads_to_the_authored_line(visit: Visit) -> None:
    page = visit(html.render(plan_of(1), STYLE)).page
    page.locator("details.row summary").click()
    page.locator(".diff").wait_for()
    cells = page.locator(".diff tr", has_text="--lr=").locator("td").all_inner_texts()
    assert cells == ["5", "- --lr=0.1", "5", "- --lr=plain"]
    link = page.locator(".causes a").get_attribute("href")
    assert link == "https://git.example/tree/abc/environments/base/jobs/llm.yaml#L2"
    assert page.locator(".authored").first.inner_text() == "lr: plain"


def test_what_is_lost_comes_first_and_leads_to_its_jobs(visit: Visit) -> None:
    line = Location("environments/base/jobs/llm.yaml", 2, 3)
    ends = [
        Ending("llm-0-aaaaaaaa", loses=True),
        Ending("llm-1-aaaaaaaa", loses=True, waits=True),
        Ending("llm-2-aaaaaaaa", loses=False),
    ]
    changes = tuple(
        replace(_change("env-0", number, line, "x"), ending=end) for number, end in enumerate(ends)
    )
    review = plan_of(1)
    (environment,) = review.environments
    review = replace(review, environments=(replace(environment, changes=changes),))
    page = visit(html.render(review, STYLE)).page
    assert page.locator("h2").first.inner_text() == "Needs attention"
    concerns = page.locator(".attention > li")
    assert [" ".join(text.split()) for text in concerns.all_inner_texts()] == [
        "errors 1 environments/base/jobs/llm.yaml:2:3 too large plain",
        "loses progress 1 env-0/llm-0 new run: the run with 4 GPUs ends, and nothing of it is kept",
        "loses progress later 1 env-0/llm-1 new run: the run with 4 GPUs keeps training until its "
        "object is deleted, and nothing of it is kept",
        "over limit 1 env-0 pool h100 96 to 120 of 64 GPUs: 32 too few",
    ]
    page.get_by_role("link", name="loses progress later 1").click()
    page.locator('[aria-pressed="true"]').wait_for()  # with what takes it back
    assert page.locator("details.row .job").all_inner_texts() == ["env-0/llm-1"]
    badges = page.locator("details.row .badge").all_inner_texts()
    assert badges == ["new run", "loses progress later"]


def test_what_becomes_of_a_pool_is_a_row_without_empty_columns(visit: Visit) -> None:
    page = visit(html.render(plan_of(1), STYLE)).page
    table = page.locator("table.stacked")
    assert table.locator("th").all_inner_texts() == ["limit", "requested"]
    assert table.locator("td").first.inner_text() == "env-0 pool h100"
    cell = table.locator("td.danger").inner_text()
    assert " ".join(cell.split()) == "64 → 96 to 120 of 64 GPUs: 32 too few"


def test_on_a_phone_nothing_is_beside_the_screen(visit: Visit) -> None:
    page = visit(html.render(plan_of(12), STYLE), viewport={"width": 390, "height": 844}).page
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_jobs_to_which_the_same_happens_are_one_row(visit: Visit) -> None:
    line = Location("environments/base/jobs/llm.yaml", 2, 3)
    found = (_change("env-0", 7 * number, line, "x", alone=False) for number in range(1, 6))
    more = Demand(gpus=Range(8, 8))  # four before
    changes = tuple(replace(it, after=it.after and replace(it.after, demand=more)) for it in found)
    review = plan_of(1)
    (environment,) = review.environments
    review = replace(review, environments=(replace(environment, changes=changes),))
    page = visit(html.render(review, STYLE)).page
    rows = page.locator("#list > details.row")
    assert rows.locator("> summary .job").all_inner_texts() == ["env-0/llm-14 and 4 more"]
    assert rows.locator("> summary .asked").first.inner_text() == "+20 GPUs"  # of all five
    assert page.locator("#shown").inner_text() == "5 of 5"
    rows.locator("> summary").click()
    inside = rows.locator("details.row .job")
    inside.last.wait_for()
    # Their texts are there before they are painted, and only then in `innerText`.
    assert inside.all_text_contents() == [f"env-0/llm-{n}" for n in (14, 21, 28, 35, 7)]
    assert not page.locator("#search").is_visible()  # five rows are seen at a glance
    page.keyboard.press("/")
    page.locator("#search").fill("llm-28")
    assert rows.locator(".job").all_inner_texts() == ["env-0/llm-28"]


def test_hostile_text_is_text(visit: Visit) -> None:
    style = replace(STYLE, link="javascript:alert(3)", against=ATTACK, command=ATTACK)
    opened = visit(html.render(plan_of(12, ATTACK), style))
    page = opened.page
    page.on("dialog", lambda dialog: opened.printed.append(dialog.message))
    unfold(page)
    assert page.locator("img, iframe, body script:not(:last-child)").count() == 0
    assert page.locator("a[href^=javascript]").count() == 0
    assert "\u202e" not in page.locator("main").inner_text()
    opened.assert_quiet()


def test_code_in_words_is_code(visit: Visit) -> None:
    review = plan_of(1)
    (environment,) = review.environments
    why = "goes on; `trainwright rerun <b>x</b>` begins another, or ` not"
    changes = tuple(replace(it, why=why.removesuffix(", or ` not")) for it in environment.changes)
    review = replace(review, environments=(replace(environment, changes=changes),))
    page = visit(html.render(review, STYLE)).page
    assert (
        page.locator("summary code", has_text="rerun <b>").inner_text()
        == "trainwright rerun <b>x</b>"
    )
    changes = tuple(replace(it, why=why) for it in changes)
    review = replace(review, environments=(replace(environment, changes=changes),))
    page = visit(html.render(review, STYLE)).page
    assert page.locator("summary", has_text=why).count() == 1


def test_the_commands_of_all_jobs_of_a_row_are_together(visit: Visit) -> None:
    review = plan_of(3)
    (environment,) = review.environments
    deleted = [f"kubectl delete pytorchjob/{it.file.name}" for it in environment.changes]
    changes = tuple(
        replace(it, why=f"{it.file.name} goes on until `{command}`")
        for it, command in zip(environment.changes, deleted, strict=True)
    )
    review = replace(review, environments=(replace(environment, changes=changes),))
    page = visit(html.render(review, STYLE)).page
    assert "kubectl" not in page.locator("#list").inner_text()
    assert "goes on until it is deleted" in page.locator("#list summary").first.inner_text()
    unfold(page)
    shown = page.locator(".commands pre").all_inner_texts()
    assert {line for text in shown for line in text.splitlines()} == {*deleted}


def test_no_script_but_its_own_runs(visit: Visit) -> None:
    """Even where text came in as markup, the policy would stop it."""
    text = html.render(plan_of(1), STYLE)
    page = visit(text.replace("<main", '<img src="x" onerror="document.title = 1"><main', 1)).page
    assert page.locator("img").count() == 1
    assert page.title().startswith("Plan: ")
    assert page.evaluate("document.querySelector('img').onerror") is None


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_anybody_can_read_it(visit: Visit, scheme: str) -> None:
    page = visit(html.render(plan_of(12), STYLE), color_scheme=scheme).page
    unfold(page)
    result = axe.Axe().run(page)
    assert result.violations_count == 0, result.generate_report()


def test_it_prints_without_what_only_a_screen_can_use(visit: Visit) -> None:
    page = visit(html.render(plan_of(12), STYLE), media="print").page
    assert not page.locator("#filters").is_visible()
    assert page.locator("details.row").count() == 12


@pytest.mark.slow
def test_three_thousand_jobs_are_below_a_megabyte(visit: Visit) -> None:
    text = html.render(plan_of(3000), STYLE)
    assert len(text.encode()) < 1_000_000
    opened = visit(text)
    opened.page.wait_for_selector("details.row:nth-child(3000)")
    opened.page.locator("#search").fill("llm-2999")
    assert opened.page.locator("details.row").count() == 1
    opened.assert_quiet()


def test_the_same_plan_is_the_same_bytes() -> None:
    assert html.render(plan_of(30), STYLE) == html.render(plan_of(30), STYLE)
