"""Two outcomes compared: what counts as the same, and what breaks."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from trainwright.cli.upgrade import FORMATS
from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.plan.upgrade.comparison import Environments, compare
from trainwright.plan.upgrade.model import Outcome, Release, Upgrade
from trainwright.reports.style import Style, written

FILE = "environments/prod/jobs/llm.yaml"
OLD, NEW = Release("1.0.0"), Release("2.0.0")


def manifest(job: str, digits: str, more: str = "") -> str:
    return (
        f"# Rendered by Trainwright {digits}.\n"
        f"kind: Job\nmetadata: {{name: {job}-{digits}}}\n"
        f"spec:\n  host: {job}-{digits}-0.{job}-{digits}\n{more}  last: line\n"
    )


STYLE = Style(command="trainwright admin upgrade")


def outcome(release: Release, **given: object) -> Outcome:
    empty = Outcome(release=release, runs={}, next_runs={}, findings=())
    return replace(empty, **given)  # type: ignore[arg-type]


def rendered(digits: str, more: str, *jobs: str) -> dict[str, dict[str, str]]:
    return {
        job: {"job.yaml": manifest(job.partition("/")[2], digits, more), "values.yaml": digits}
        for job in jobs
    }


def upgrade(
    before: Outcome, after: Outcome, *, present: object = None, **given: frozenset[str]
) -> Upgrade:
    return compare(present or {}, before, after, Environments(**given))  # type: ignore[arg-type]


def finding(severity: Severity = Severity.WARNING, **given: object) -> Finding:
    plain = Finding(
        rule="TW704",
        severity=severity,
        place=Location(FILE, 3, 1),
        message="m",
        subject="prod/llm",
        remedy="r",
    )
    return replace(plain, **given)  # type: ignore[arg-type]


def test_the_digits_of_a_name_and_the_comment_on_top_are_no_difference() -> None:
    found = upgrade(
        outcome(OLD, next_runs=rendered("0a1b2c3d", "", "prod/llm", "dev/llm")),
        outcome(NEW, next_runs=rendered("ffffffff", "", "prod/llm", "dev/llm")),
    )
    assert (found.same, found.differences, found.blocked) == (2, (), False)


def test_the_same_difference_is_shown_once() -> None:
    jobs = ("dev/a", "prod/a", "prod/llm")
    before = rendered("0a1b2c3d", "", *jobs, "prod/other")
    after = {
        **rendered("ffffffff", "  owner: a team\n", *jobs),
        **rendered("ffffffff", "  owner: nobody\n", "prod/other"),
    }
    found = upgrade(outcome(OLD, next_runs=before), outcome(NEW, next_runs=after))
    assert [difference.jobs for difference in found.differences] == [jobs, ("prod/other",)]
    diff = found.differences[0].diff
    assert diff[:2] == ("--- dev/a/job.yaml (1.0.0)", "+++ dev/a/job.yaml (2.0.0)")
    assert [line for line in diff[2:] if line[0] in "+-"] == ["+  owner: a team"]
    assert "   host: a-<run>-0.a-<run>" in diff


def test_a_difference_that_names_each_job_is_one() -> None:
    before = rendered("0a1b2c3d", "", "dev/a", "prod/llm")
    after = {
        **rendered("ffffffff", "  label: a\n", "dev/a"),
        **rendered("ffffffff", "  label: llm\n", "prod/llm"),
    }
    found = upgrade(outcome(OLD, next_runs=before), outcome(NEW, next_runs=after))
    assert [difference.jobs for difference in found.differences] == [("dev/a", "prod/llm")]


def test_a_chart_of_its_own_is_given_values() -> None:
    before = {"prod/llm": {"values.yaml": "a: 1\n", "job.yaml": "kind: Job\n"}}
    after = {"prod/llm": {"values.yaml": "a: 2\n", "job.yaml": "kind: Other\n"}}
    sides = outcome(OLD, next_runs=before), outcome(NEW, next_runs=after)
    (manifests,) = upgrade(*sides).differences
    (values,) = upgrade(*sides, charted=frozenset({"prod"})).differences
    assert manifests.diff[-2:] == ("-kind: Job", "+kind: Other")
    assert values.diff[-2:] == ("-a: 1", "+a: 2")


def test_no_diff_shows_a_credential() -> None:
    secret = "hf_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzA"
    before = {"prod/llm": {"job.yaml": "env:\n- name: HF_TOKEN\n  value: one\n"}}
    after = {"prod/llm": {"job.yaml": "env:\n- name: HF_TOKEN\n  value: " + secret + "\n"}}
    found = upgrade(outcome(OLD, next_runs=before), outcome(NEW, next_runs=after))
    for name in FORMATS:
        assert secret not in written("plan.upgrade", name, found, STYLE)


def test_runs_by_what_becomes_of_them() -> None:
    present = {job: {"job.yaml": "a"} for job in ("dev/a", "prod/a", "prod/b", "prod/c", "qa/a")}
    before = {**present, "prod/c": {"job.yaml": "c"}}
    after = {**before, "dev/a": {"job.yaml": "b"}, "prod/a": {}, "prod/d": {"job.yaml": "d"}}
    found = upgrade(
        outcome(OLD, runs=before),
        outcome(NEW, runs=after, refused={"qa": "error[TW001]"}),
        present=present,
        starting=frozenset({"dev"}),
    ).runs
    assert found.started == ("dev/a",)
    assert found.changed == ("prod/a",)
    assert found.kept == ("prod/b",)
    assert found.pending == ("prod/c",)
    assert found.refused == {"qa": "error[TW001]"}


FINDINGS = {
    "the same": ((finding(),), (finding(),), []),
    "other words": ((finding(),), (finding(message="n"),), []),
    "a line further, at the same field": (
        (finding(pointer="nodes"),),
        (finding(pointer="nodes", place=Location(FILE, 4, 1)),),
        [],
    ),
    "new": ((), (finding(),), [(None, "warning")]),
    "gone": ((finding(),), (), [("warning", None)]),
    "heavier": ((finding(),), (finding(Severity.ERROR),), [("warning", "error")]),
    "one more at the same place": (
        (finding(message="b"),),
        (finding(message="a"), finding(message="b")),
        [(None, "warning")],
    ),
    "one less at the same place": (
        (finding(message="a"), finding(message="b")),
        (finding(message="b", severity=Severity.ERROR),),
        [("warning", "error"), ("warning", None)],
    ),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_findings_are_new_gone_or_weighed_differently(case: str) -> None:
    before, after, expected = FINDINGS[case]
    found = upgrade(outcome(OLD, findings=before), outcome(NEW, findings=after))
    assert [(change.before, change.after) for change in found.findings] == expected
    assert found.blocked == any(after == "error" for _, after in expected)


BLOCKING = {
    "nothing": (False, {}, {}),
    "a warning": (False, {}, {"findings": (finding(),)}),
    "an error": (True, {}, {"findings": (finding(Severity.ERROR),)}),
    "an error less": (False, {"findings": (finding(Severity.ERROR),)}, {}),
    "a job that is not rendered": (True, {"next_runs": rendered("0" * 8, "", "prod/a")}, {}),
    "an environment that is refused": (True, {}, {"refused": {"prod": "why"}}),
}


@pytest.mark.parametrize("case", BLOCKING)
def test_what_breaks_blocks(case: str) -> None:
    blocked, before, after = BLOCKING[case]
    found = upgrade(outcome(OLD, **before), outcome(NEW, **after))
    assert found.blocked is blocked
    words = "breaks" if blocked else "No run changes"
    assert words in written("plan.upgrade", "text", found, STYLE)


def test_a_comment_fits_whatever_is_in_it() -> None:
    jobs = tuple(f"prod/job-{number:04}" for number in range(300))
    after = {
        job: {"job.yaml": f"a: '```` @team <b> {job} {n}'\n" * 40} for n, job in enumerate(jobs)
    }
    before = {job: {"job.yaml": "a: b\n"} for job in jobs}
    found = upgrade(outcome(OLD, next_runs=before), outcome(NEW, next_runs=after))
    comment = written("plan.upgrade", "markdown", found, STYLE)
    assert len(comment) <= 65_536
    assert "Left out to fit a comment" in comment
    assert "\n`````diff\n" in comment


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_reason_of_several_lines_is_shown_as_lines(form: str) -> None:
    reason = "error[TW001]: first\nerror[TW002]: second \x1b[2J"
    found = upgrade(outcome(OLD), outcome(NEW, refused={"prod": reason}))
    message = written("plan.upgrade", form, found, STYLE)
    assert "x0a" not in message
    (first,) = (line for line in message.splitlines() if "TW001" in line)
    assert "not rendered: " in first
    (second,) = (part for part in re.split(r"\n|<br>", message) if "TW002" in part)
    assert "TW001" not in second
    assert "x1b" in second
    assert "\x1b" not in second
