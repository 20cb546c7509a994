"""The headline of a plan, its table, and jobs to which the same happens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from trainwright.datatypes.finding import Finding, Location, Severity, ValueChange
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import Pointer
from trainwright.plan import headline, html, markdown, text, words
from trainwright.plan.alike import alike
from trainwright.plan.model import (
    Action,
    Ending,
    EnvironmentPlan,
    JobChange,
    ObjectChange,
    Plan,
    PlannedRun,
    SettingChange,
    WiringChange,
)
from trainwright.plan.table import table
from trainwright.plan.uses import uses
from trainwright.reports.style import Style
from trainwright.reports.values import change_line
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import Demand, Range, total

STYLE = Style(against="main", command="trainwright plan")
COST = 335.04


MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec: {template: {spec: {containers: [{name: pytorch, command: [train.py, lr=1]}]}}}
"""


def run(name: str, hours: float = 48, pool: str = "h100") -> PlannedRun:
    demand = Demand(
        nodes=Range(1, 1),
        gpus=Range(4, 4),
        hours=Range(hours, hours),
        cost=Range(hours * 6.98, hours * 6.98),
    )
    return PlannedRun(
        object=name, target="pytorchjob", image="i", queue="", state="active", retired=False,
        files={}, demand=replace(demand, pools={pool: demand}),
    )  # fmt: skip


def change(name: str, action: Action = Action.NEW_RUN, lr: float = 0.2) -> JobChange:
    file = JobFile("prod", name)
    return JobChange(
        file=file,
        action=action,
        why=f"replaces {name}-old: its training stops; {name}-new starts from scratch",
        before=run(f"{name}-old"),
        after=run(f"{name}-new"),
        causes=(ValueChange(Pointer("/flags/lr"), 0.1, lr, Location(file.path, 4, 3)),),
    )


def review(changes: Sequence[JobChange], fits: Sequence[CapacityCheck] = (), currency: str = "USD") -> Plan:  # fmt: skip
    changes = tuple(changes)
    environment = EnvironmentPlan(
        name="prod",
        jobs=len(changes),
        changes=changes,
        before=Demand(),
        after=Demand(),
        asked=total(it.asked for it in changes),
        fits=tuple(fits),
        uses=tuple(uses(changes, (), fits)),
        currency=currency,
    )
    return Plan(
        base="b" * 40, head="", behind=0, environments=(environment,), shared_files=(), findings=(), sources={}
    )  # fmt: skip


def test_what_is_replaced_and_what_it_costs() -> None:
    found = review([change("a"), change("b"), change("c")])
    assert headline.verdict(found) == "Replaces 3 running jobs · +144 GPU-h · +$1,005"
    assert headline.verdict(review([change("a")], currency="EUR")).endswith("+€335")
    assert headline.verdict(review([change("a")], currency="CHF")).endswith("+CHF 335")


def test_what_was_short_before_is_no_headline() -> None:
    pool = CapacityCheck(what="pool h100", unit="GPUs", need=20, most=20, has=8, short_before=12)
    assert "lacks" not in headline.verdict(review([change("a")], [pool]))
    worse = replace(pool, short_before=8)
    assert headline.verdict(review([change("a")], [worse])).endswith("lacks 4 more GPUs")


def test_an_exceeded_limit_is_counted_where_its_name_has_no_room() -> None:
    pool = CapacityCheck(what=f"pool {'h' * 60}", unit="GPUs", need=20, most=20, has=8)
    line = headline.verdict(review([change("a")], [pool]))
    assert line.endswith(" · 1 limit exceeded")
    assert len(line) <= headline.LIMIT


def _waiting(name: str) -> JobChange:
    return replace(change(name), ending=Ending(name, loses=False, waits=True))


def test_money_and_what_is_unbounded_are_kept_longer_than_counts_of_objects() -> None:
    objects = tuple(
        ObjectChange("prod", f"ConfigMap/{n}", action, Location("a", 1))
        for n, action in enumerate(("added", "changed", "removed"))
    )
    pool = CapacityCheck(what="pool h100", unit="GPUs", need=20, most=20, has=8)
    unbounded = change("d")
    assert unbounded.after is not None
    demand = Demand(gpus=Range(4, 4), unbounded=1)
    unbounded = replace(unbounded, after=replace(unbounded.after, demand=demand))
    unbounded = replace(unbounded, ending=_waiting("d").ending)
    found = review([*map(_waiting, "abc"), unbounded], [pool])
    (environment,) = found.environments
    found = replace(found, environments=(replace(environment, objects=objects),))
    assert headline.verdict(found) == (
        "Starts 4 runs · +144 GPU-h, unbounded GPU-h of 1 job without maxDuration · +$1,005 · "
        "prod pool h100 lacks 12 GPUs"
    )


def _sized(name: str, gpus: int, action: Action, ending: Ending | None = None) -> JobChange:
    found = change(name, action)
    assert found.before is not None
    before = replace(found.before, demand=Demand(gpus=Range(gpus, gpus)))
    return replace(found, before=before, after=None, ending=ending)


def test_what_is_lost_is_the_first_and_the_most_gpus_of_it() -> None:
    """In the terminal, the comment, the page and the JSON, which take the order from the plan."""
    lost, kept, later = (
        Ending("x", loses=True),
        Ending("x", loses=False),
        Ending("x", loses=True, waits=True),
    )
    changes = [
        _sized("rejected", 1, Action.REJECTED),
        _sized("suspends", 16, Action.SUSPENDED, lost),
        _sized("deleted", 8, Action.DELETED, lost),
        _sized("goes-on", 64, Action.LEFT, later),
        _sized("replaced", 32, Action.NEW_RUN, kept),
        _sized("mixed", 128, Action.MIXED),
        _sized("starts-more", 4, Action.STARTED),
        _sized("starts", 2, Action.STARTED),
        _sized("outdated", 256, Action.OUTDATED),
    ]
    found = review(changes[::-1])
    assert [it.file.name for it in found.changes] == [it.file.name for it in changes]
    assert [it.first.file.name for it in alike(found.listed)] == [it.file.name for it in changes]
    assert headline.verdict(found).startswith("Cannot sync 1 job, suspends 1, deletes 1, ")


def test_an_exceeded_limit_is_kept_before_hours_and_money() -> None:
    """It is what a reviewer cannot undo by looking further down."""
    pool = CapacityCheck(what=f"pool {'h' * 60}", unit="GPUs", need=20, most=20, has=8)
    ends = [
        replace(change(str(action)), action=action, ending=Ending("x", loses=True))
        for action in (Action.SUSPENDED, Action.DELETED, Action.CANCELLED, Action.NEW_RUN)
    ]
    line = headline.verdict(review([*ends, change("a", Action.STARTED)], [pool]))
    assert "replaces 1, starts 1, affects 2 more · 4 lose progress" in line
    assert line.endswith("1 limit exceeded")
    assert len(line) <= headline.LIMIT


def test_a_setting_of_gitops_is_in_the_first_line() -> None:
    place = Location("environments/prod/environment.yaml", 6, 3)
    cause = ValueChange(Pointer("/gitops/prune"), "confirm", "immediate", place)
    wired = WiringChange(settings=(SettingChange("prod", cause),))
    found = replace(review([]), wiring=wired)
    assert headline.verdict(found) == "No job changes · changes gitops.prune of prod"


def _set(path: str, before: str, after: str) -> SettingChange:
    place = Location("environments/prod/environment.yaml", 6, 3)
    return SettingChange("prod", ValueChange(Pointer(path), before, after, place))


def test_a_namespace_takes_no_room_from_another_setting_and_from_errors() -> None:
    settings = (_set("/namespace", "a", "b"), _set("/gitops/prune", "confirm", "immediate"))
    found = replace(review([]), wiring=WiringChange(settings=settings))
    moved = "Further runs of prod begin in another namespace"
    rest = "no job changes · changes gitops.prune of prod"
    assert headline.verdict(found) == f"{moved} · {rest}"
    outdated = review([change(f"{n}", Action.OUTDATED) for n in range(6)])
    line = headline.verdict(replace(outdated, wiring=found.wiring))
    assert line == f"{moved} · outdates 6 jobs · changes gitops.prune of prod"
    found = replace(found, findings=tuple(_found(Severity.ERROR)))
    line = headline.verdict(found)
    assert line.startswith("1 error · further runs of prod begin in another namespace · ")
    assert len(line) <= headline.LIMIT


def test_errors_are_in_the_first_line_whatever_has_no_room() -> None:
    found = tuple(_found(Severity.ERROR, 12))
    kept = [change(f"{n}", action) for action in (Action.SUSPENDED, Action.DELETED) for n in "ab"]
    long = replace(review(kept), findings=found)
    assert headline.verdict(long).startswith("12 errors · ")
    actions = [action for action in Action if action is not Action.UNCHANGED]
    broken = replace(review([change(f"{it}-{n}", it) for it in actions for n in range(1200)]))
    assert headline.verdict(replace(broken, findings=found)).endswith(" · 12 errors")


def test_a_run_that_goes_on_is_not_counted_as_replaced() -> None:
    found = review([_waiting("a"), change("b"), replace(change("c"), action=Action.SUSPENDED)])
    assert headline.verdict(found).startswith(
        "Starts 1 run beside the old one, replaces 1 running job, suspends 1 · "
    )
    new = replace(change("d", Action.STARTED), before=None)
    assert headline.verdict(review([new])).startswith("Starts 1 job · ")


def test_a_waiver_of_a_job_counts() -> None:
    found = replace(review([change("a")]), waived=2)
    assert headline.verdict(found) == "Replaces 1 running job · adds 2 waivers · +48 GPU-h · +$335"


def test_a_budget_is_money() -> None:
    cost = CapacityCheck(what="budget", unit="EUR", need=85517.2, most=85517.2, has=40000)
    assert headline.verdict(review([change("a")], [cost])).endswith("budget exceeded by €45,517")
    assert words.fitting(cost) == "€85,517 of €40,000: €45,517 over"
    hours = CapacityCheck(what="budget", unit="GPU-hours", need=24960, most=24960, has=12000)
    assert words.fitting(hours) == "24,960 of 12,000 GPU-hours: 12,960 over"


@pytest.mark.parametrize(
    ("low", "high", "shown", "priced"),
    [
        (0.004, 0.004, "0", "$0"),
        (-0.004, 0.004, "0", "$0"),
        (0.3, 0.1 + 0.2, "+0.3", "+$0.30"),
        (-2.5, 1234.5, "-2.5 to +1,234.5", "-$2.50 to +$1,234"),
        (99.999, 99.999, "+100", "+$100"),
    ],
)
def test_what_is_shown_alike_is_shown_once(
    low: float, high: float, shown: str, priced: str
) -> None:
    assert words.span(Range(low, high), sign=True) == shown
    assert words.money(Range(low, high), "USD", sign=True) == priced


def test_the_line_is_short_whatever_happens() -> None:
    actions = [action for action in Action if action is not Action.UNCHANGED]
    many = [change(f"{action.name}-{n}", action) for action in actions for n in range(1200)]
    long = "e" * 63
    pool = CapacityCheck(what=f"pool {long}", unit="GPUs", need=20, most=20, has=8)
    error = Finding(
        rule="TW010", severity=Severity.ERROR, place=Location("a", 1), message="m", remedy="r"
    )
    found = replace(review(many, [pool]), findings=(error,) * 12, underived=(error,))
    (environment,) = found.environments
    found = replace(found, environments=(replace(environment, name=long),))
    line = headline.verdict(found)
    assert len(line) <= headline.LIMIT
    assert line.startswith("1 rendered file that no source renders · cannot sync 1,200 jobs")
    assert "14,400 more" not in line or "changes" in line


@pytest.mark.parametrize("action", [it for it in Action if it is not Action.UNCHANGED])
def test_every_action_has_words(action: Action) -> None:
    line = headline.verdict(review([change("a", action)]))
    assert "1" in line
    assert line[0] == line[0].upper()


def test_a_pool_before_and_after() -> None:
    fit = CapacityCheck(what="pool h100", unit="GPUs", need=12, most=12, has=8, short_before=0)
    moved = replace(change("a"), before=run("a-old", pool="a100"))
    found = table(review([moved], [fit]))
    heads = ("environment", "limit", "requested", "GPU-hours", "cost", "used by ended runs")
    assert found.heads == heads
    assert [row[:2] for row in found.texts] == [("prod", "pool a100"), ("prod", "pool h100")]
    assert found.short == (False, True)
    assert found.texts[1][2].endswith("of 8 GPUs: 4 too few")


def test_the_hours_of_a_run_that_ends_are_what_the_first_line_has_beyond_the_difference() -> None:
    plan = review([change("a")])
    found = table(plan)
    assert found.heads[-1] == "used by ended runs"
    assert found.texts[0][-1] == "48 GPU-h, $335"
    assert headline.verdict(plan).endswith("+48 GPU-h · +$335")


def test_jobs_that_differ_in_their_names_alone_are_one() -> None:
    seeds = [change(f"seed-{number}") for number in range(12)]
    other = change("other", lr=0.3)
    groups = alike([other, *seeds])
    assert [len(group.changes) for group in groups] == [12, 1]  # by the GPUs of all
    assert groups[0].name == "prod/seed-0 and 11 more"
    shown = text.render(review([other, *seeds]), STYLE)
    assert "prod/seed-0 and 11 more  new run: replaces seed-0-old" in shown
    assert "requests +576 GPU-h" in shown
    assert all(f"prod/seed-{number}" in shown for number in range(12))
    comment = markdown.render(review([other, *seeds]), STYLE)
    assert comment.count("| 🔁 prod/") == 2


def _left(name: str, command: str = "kubectl --namespace training delete pytorchjob/") -> JobChange:
    why = f"{name}-old stays until `{command}{name}-old`; `trainwright rerun` begins another"
    return replace(change(name), why=why)


def test_the_commands_of_all_jobs_of_a_row_are_shown() -> None:
    changes = review([_left("a"), _left("b"), _left("c")])
    same = (
        "the same for prod/b, prod/c: "
        "`kubectl --namespace training delete pytorchjob/b-old pytorchjob/c-old`"
    )
    shown = text.render(changes, STYLE)
    assert "until `kubectl --namespace training delete pytorchjob/a-old`" in shown
    assert f"  {same}\n" in shown
    comment = markdown.render(changes, STYLE)
    row, *_, fold = comment.split("<details>")
    row = re.sub(r"\\(.)", r"\1", row)
    assert "a-old stays until it is deleted;<br>`trainwright rerun` begins another" in row
    assert "the same for prod/b, prod/c, by the commands with the diff |" in row
    assert "kubectl" not in row
    for names in ("pytorchjob/a-old", "pytorchjob/b-old pytorchjob/c-old"):
        assert f"- `kubectl --namespace training delete {names}`\n" in fold


def test_commands_that_have_no_room_in_a_row_are_with_the_diff() -> None:
    changes = review([_left(f"seed-{number:02}") for number in range(60)])
    row, _, fold = re.sub(r"\\(.)", r"\1", markdown.render(changes, STYLE)).partition("\n<details>")
    assert "the same for prod/seed-01, " in row
    assert "and 51 more, by the commands with the diff |" in row
    assert (
        "- `kubectl --namespace training delete pytorchjob/seed-01-old pytorchjob/seed-02" in fold
    )


def test_commands_that_name_several_objects_are_joined() -> None:
    delete = "kubectl --namespace training delete configmap/x service/"
    (group,) = alike([_left(name, delete) for name in "abc"])
    assert group.commands == (
        "kubectl --namespace training delete configmap/x service/b-old configmap/x service/c-old",
    )


def test_commands_that_take_one_object_are_not_joined() -> None:
    (group,) = alike([_left(name, "argocd app confirm-deletion ") for name in "abc"])
    assert group.commands == tuple(f"argocd app confirm-deletion {name}-old" for name in "bc")


def _found(severity: Severity, count: int = 1) -> list[Finding]:
    place = [Location(f"environments/prod/jobs/{number:02}.yaml", 8, 7) for number in range(count)]
    return [
        Finding(
            rule="TW718", severity=severity, place=it, message="nothing is saved", remedy="Save"
        )
        for it in place
    ]


def test_a_terminal_shows_warnings_as_the_comment_does() -> None:
    found = [*_found(Severity.WARNING), *_found(Severity.NOTE)]
    shown = text.render(replace(review([]), findings=tuple(found)), STYLE)
    assert shown == (
        "Nothing changes for any job\n\n"
        "warning[TW718]: nothing is saved  (environments/prod/jobs/00.yaml:8:7)\n"
    )


def test_many_warnings_are_counted_and_no_error_is() -> None:
    found = (*_found(Severity.ERROR, 23), *_found(Severity.WARNING, 23))
    shown = text.render(replace(review([change("a")]), findings=found), STYLE)
    assert shown.count("error[TW718]") == 23
    assert shown.index("error[TW718]: nothing is saved") < shown.index("ENVIRONMENT  LIMIT")
    assert shown.count("warning[TW718]") == 20
    assert shown.endswith("and 3 more warnings: see `trainwright check`\n")


def test_sixty_jobs_are_a_comment_of_a_screen_and_all_of_them_are_in_it() -> None:
    """Errors and the worst jobs first; the table of pools, warnings and diffs fold away."""
    pool = CapacityCheck(what="pool h100", unit="GPUs", need=250, most=250, has=64)
    changes = [change(f"seed-{number:02}", lr=number) for number in range(60)]
    found = (*_found(Severity.WARNING, 2), *_found(Severity.ERROR), *_found(Severity.NOTE))
    plan = replace(review(changes, [pool]), findings=found)
    comment = markdown.render(plan, STYLE)
    seen, _, folded = comment.partition("\n<details>")
    assert seen.count("\n") <= 25
    assert seen.index("❌ [TW718]") < seen.index("| job | what happens")
    assert all(f"seed\\-{number:02}" in seen for number in range(60))
    assert seen.count("| 🔁 prod/") == 10
    assert folded.count("| 🔁 prod/") == 50
    assert "⚠️ Capacity and budgets: prod pool h100 250 of 64 GPUs: 186 too few</sum" in folded
    assert "<details><summary>2 warnings, 1 note</summary>" in folded
    outer, _, inner = folded.partition("<details><summary>60 diffs</summary>")
    assert "<details><summary>prod/seed-00: new run</summary>" in inner
    assert "prod/seed-00: new run" not in outer


def test_the_command_is_not_repeated_where_the_changed_flags_are_told() -> None:
    def started(path: str) -> str:
        after = {"pytorchjob.yaml": MANIFEST.replace("lr=1", "lr=2")}
        made = change("a")
        (cause,) = made.causes
        made = replace(
            made,
            before=replace(run("a-old"), files={"pytorchjob.yaml": MANIFEST}),
            after=replace(run("a-new"), files=after),
            causes=(replace(cause, path=Pointer(path)),),
        )
        return markdown.render(review([made]), STYLE).partition("\n<details>")[0]

    assert "command train.py" in started("/entrypoint/script")
    assert "command" not in started("/flags/lr")


def test_a_comment_has_no_empty_column() -> None:
    bare = replace(change("a"), before=None, after=None, causes=())
    comment = markdown.render(review([bare]), STYLE)
    assert "| job | what happens |\n|---|---|\n" in comment


def test_a_whole_file_has_words() -> None:
    cause = ValueChange(
        Pointer(), None, None, Location("environments/prod/jobs/a.yaml"), "new job spec"
    )
    assert change_line(cause) == "new job spec"


def test_code_in_the_notes_of_a_page_is_code() -> None:
    page = html.render(review([replace(change("a"), unrendered=True)]), STYLE)
    assert "until you commit what <code>trainwright render</code> writes." in page
    foreign = WiringChange(foreign=("wiring/`<b>.yaml",))
    page = html.render(replace(review([]), wiring=foreign), STYLE)
    assert "wiring/`&lt;b&gt;.yaml is not written by `trainwright gitops wire`" in page


def test_what_is_no_job_of_its_own_needs_attention_too() -> None:
    """In the page and, in one line below the first, in the comment."""
    place = Location("environments/prod/objects/team.yaml", 3, 3)
    quota = ObjectChange(
        "prod", "ResourceQuota/team", "changed", place, effects=("allows less: 8 GPUs",)
    )
    moved = replace(_set("/gitops/destination/name", "a", "b"), environment="dev")
    settings = (_set("/gitops/prune", "confirm", "immediate"), moved)
    found = review([replace(change("a"), unrendered=True), replace(_waiting("b"), ending=LOST)])
    (environment,) = found.environments
    found = replace(found, environments=(replace(environment, objects=(quota,)),))
    found = replace(found, wiring=WiringChange(settings=settings))
    comment = markdown.render(found, STYLE).splitlines()
    assert comment[3] == (
        "**Needs attention**: loses progress later 1 (prod/b) · changed destination 1 (dev) · "
        "not rendered 1 (prod/a) · changed setting 1 (prod) · "
        "changed object 1 (prod ResourceQuota/team)"
    )
    page = html.render(found, STYLE)
    assert page.index("changed destination 1") < page.index("changed setting 1")
    assert "<b>prod ResourceQuota/team</b> allows less: 8 GPUs" in page
    assert "Needs attention" not in markdown.render(review([change("a")]), STYLE)


LOST = Ending("b-old", loses=True, waits=True)


def test_runs_of_several_jobs_are_more_than_one() -> None:
    later = [replace(change(name), ending=LOST) for name in "ab"]
    page = html.render(review(later), STYLE)
    assert (
        "new run: the runs with 4 GPUs each keep training until their objects are deleted, and "
        "nothing of them is kept" in page
    )
    assert "the run with 4 GPUs keeps training" in html.render(review(later[:1]), STYLE)


def test_a_command_beside_an_object_is_code_outside_of_a_link() -> None:
    command = "`kubectl --namespace training delete resourcequota/team`"
    place = Location("environments/prod/objects/team.yaml", 3, 18)
    gone = ObjectChange("prod", "ResourceQuota/team", "removed", place, until=command)
    found = review([])
    (environment,) = found.environments
    found = replace(found, environments=(replace(environment, objects=(gone,)),))
    says = "- prod ResourceQuota/team leaves git, and stays in the cluster until it is deleted"
    comment = markdown.render(found, STYLE)
    assert f"{says} (environments/prod/objects/team.yaml:3:18)\n" in comment
    link = replace(STYLE, link="https://git.example/tree/abc")
    url = "https://git.example/tree/abc/environments/prod/objects/team.yaml#L3"
    linked = f"{says} ([environments/prod/objects/team.yaml:3:18]({url}))\n"
    assert linked in markdown.render(found, link)
    page = html.render(found, link)
    text = "<b>prod</b> ResourceQuota/team leaves git, and stays in the cluster until it is deleted"
    anchor = f'<a href="{url}" rel="noreferrer">environments/prod/objects/team.yaml:3:18</a>'
    assert f'{text} {anchor}<code class="command">{command.strip("`")}</code>' in page


def test_what_happens_is_a_line_per_clause_and_a_command_is_whole() -> None:
    why = "a goes on until `kubectl x; y`; after that its progress is lost; b starts"
    found = review([replace(change("a"), why=why)])
    lines = ("a goes on until `kubectl x; y`;", "after that its progress is lost;", "b starts")
    assert "\n  ".join(lines) in text.render(found, STYLE)
    assert "<br>".join(("a goes on until it is deleted;", *lines[1:])) in markdown.render(
        found, STYLE
    )
