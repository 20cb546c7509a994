"""Every format over one rich report, over nothing, and over text that wants to break it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator
from markdown_it import MarkdownIt

from trainwright.datatypes.finding import Finding, Location, Related, Severity
from trainwright.datatypes.pointer import Pointer
from trainwright.reports import FORMATS
from trainwright.reports.markdown import LIMIT
from trainwright.reports.report import Report
from trainwright.reports.style import Style, written

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[3]
FILE = "environments/prod/jobs/resnet.yaml"
BASE = "environments/base/jobs/gpu.yaml"
SOURCES = {
    FILE: (
        "name: resnet",
        "procsPerNode: 8",
        "env: {名前: \tx, TOKEN: <b>@team</b> | `x`}",
        "flags: {" + ", ".join(f"flag{i}: {i}" for i in range(60)) + "}",
    ),
    BASE: ("name: gpu", "resources: {gpu: 4}"),
}


def _finding(rule: str, severity: str, line: int, column: int, message: str, **more) -> Finding:
    return Finding(
        **{
            "rule": rule,
            "severity": Severity(severity),
            "place": Location(FILE, line, column),
            "message": message,
            "remedy": "Change it.",
            "subject": "prod/resnet",
            **more,
        }
    )


RICH = Report(
    findings=(
        _finding(
            "TW704",
            "warning",
            2,
            15,
            "8 processes per node, but 4 GPUs",
            note="8 processes, but resources.gpu is 4",
            effect="GPUs stay idle, or two ranks share one and NCCL aborts.",
            path=Pointer("/procsPerNode"),
            manifest="PyTorchJob/resnet-0123abcd",
            pointer="/spec/nprocPerNode",
            related=(
                Related("from", "base sets resources.gpu: 4", Location(BASE, 2, 18)),
                Related("overrides", "built-in sets procsPerNode: auto"),
            ),
        ),
        _finding("TW710", "error", 3, 7, "名前 holds a tab"),
        _finding("TW710", "error", 3, 23, "<b>@team</b> | `x` says 100% & more"),
        _finding("TW112", "note", 4, 400, "a very long line"),
        _finding("TW010", "error", 9, 1, "the line is gone", subject="dev/other"),
        _finding("TW010", "error", 9, 1, "the line is gone", subject="dev/third"),
    ),
    sources=SOURCES,
    checked=("dev/other", "dev/third", "prod/resnet", "prod/fine"),
)
EMPTY = Report(findings=(), sources={}, checked=("prod/fine",))


STYLE = Style(command="trainwright check dev prod")


def rendered(name: str, report: Report, style: Style = STYLE) -> str:
    return written("reports", name, report, style)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("report", [RICH, EMPTY], ids=["rich", "empty"])
def test_golden(name: str, report: Report, request: pytest.FixtureRequest) -> None:
    style = Style(command="trainwright check") if report is EMPTY else STYLE
    text = rendered(name, report, style)
    path = GOLDEN / f"{'empty' if report is EMPTY else 'rich'}.{name}"
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert text.endswith("\n")


def test_colour_changes_only_the_escapes() -> None:
    from dataclasses import replace

    plain = rendered("text", RICH)
    colored = rendered("text", RICH, replace(STYLE, color=True))
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_the_caret_stands_under_the_column_whatever_comes_before() -> None:
    lines = rendered("text", RICH).splitlines()
    (index,) = [
        i for i, line in enumerate(lines) if "名前:" in line and lines[i + 1].strip(" |") == "^"
    ][:1]
    shown, caret = lines[index], lines[index + 1]
    cells = sum(2 if "\u4e00" <= c <= "\u9fff" else 1 for c in shown[: shown.index("名前")])
    assert caret.index("^") == cells


@pytest.fixture(scope="session")
def sarif_schema(npm_package: Callable[[str], Path]) -> Draft7Validator:
    folder = npm_package("@microsoft/jest-sarif@1.0.0-beta.0")
    schema = json.loads((folder / "lib/schemas/sarif-2.1.0-rtm.5.json").read_text())
    return Draft7Validator(schema)


@pytest.mark.parametrize("report", [RICH, EMPTY], ids=["rich", "empty"])
def test_sarif_follows_its_schema(report: Report, sarif_schema: Draft7Validator) -> None:
    data = json.loads(rendered("sarif", report))
    assert [error.message for error in sarif_schema.iter_errors(data)] == []
    (run,) = data["runs"]
    assert len(run["results"]) == len(report.findings)
    for result, finding in zip(run["results"], report.findings, strict=True):
        location = result["locations"][0]["physicalLocation"]
        assert location["artifactLocation"]["uri"] == finding.place.file
        assert location["region"]["startLine"] == finding.place.line
        assert location["region"]["startColumn"] == finding.place.column
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == finding.rule


def test_sarif_fingerprints_survive_lines_that_move() -> None:
    def prints(report: Report) -> list[str]:
        results = json.loads(rendered("sarif", report))["runs"][0]["results"]
        return [r["partialFingerprints"]["primaryLocationLineHash"] for r in results]

    moved = Report(
        findings=tuple(
            _finding(f.rule, f.severity, f.place.line + 3, f.place.column, f.message)
            for f in RICH.findings
        ),
        sources={FILE: ("", "", "", *SOURCES[FILE])},
        checked=RICH.checked,
    )
    assert prints(moved) == prints(RICH)
    assert len(set(prints(RICH))) == len(RICH.findings)


@pytest.mark.parametrize("report", [RICH, EMPTY], ids=["rich", "empty"])
def test_json_follows_its_schema(report: Report) -> None:
    schema = json.loads((ROOT / "schemas/report.schema.json").read_text())
    data = json.loads(rendered("json", report))
    assert [e.message for e in Draft202012Validator(schema).iter_errors(data)] == []
    assert data["$schema"] == schema["$id"]


def test_junit_counts_an_unreadable_file_in_its_environment() -> None:
    findings = tuple(
        _finding("TW001", "error", 1, 1, "broken", subject="", place=Location(file))
        for file in (FILE, "environments/defaults.yaml")
    )
    report = Report(findings=findings, sources={}, checked=("prod/fine",))
    root = ElementTree.fromstring(rendered("junit", report))
    assert {s.get("name"): (s.get("tests"), s.get("failures")) for s in root} == {
        "prod": ("2", "1"),
        "environments": ("1", "1"),
    }


def test_junit_says_its_encoding_wherever_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locale.getpreferredencoding", lambda _do=True: "ISO-8859-1")
    monkeypatch.setattr("locale.getencoding", lambda: "ISO-8859-1")
    assert rendered("junit", EMPTY).startswith('<?xml version="1.0" encoding="UTF-8"?>\n')


def test_junit_counts_what_it_lists() -> None:
    root = ElementTree.fromstring(rendered("junit", RICH))
    assert {s.get("name"): (s.get("tests"), s.get("failures")) for s in root} == {
        "dev": ("2", "2"),
        "prod": ("2", "1"),
    }
    assert len(root.findall(".//failure")) == 4


def _many(count: int) -> Report:
    severities = ("note", "warning", "error")
    findings = tuple(
        _finding("TW704", severities[i % 3], 1 + i % 4, 1, f"finding {i} " + "x" * 80)
        for i in range(count)
    )
    return Report(findings=findings, sources=SOURCES, checked=("prod/resnet",))


@pytest.mark.parametrize("count", [0, 1, 30, 31, 150, 400, 5000])
def test_github_and_markdown_keep_their_limits_and_say_what_was_dropped(count: int) -> None:
    report = _many(count)
    annotations = [x for x in rendered("github", report).splitlines() if x.startswith("::")]
    for word in ("error", "warning", "notice"):
        assert sum(line.startswith(f"::{word} ") for line in annotations) == min(
            10, (count + {"error": 0, "warning": 1, "notice": 2}[word]) // 3
        )
    assert [a.split()[0] for a in annotations] == sorted(
        (a.split()[0] for a in annotations), key=["::error", "::warning", "::notice"].index
    )
    left = re.search(r"^(\d+) more findings", rendered("github", report), re.M)
    assert (int(left.group(1)) if left else 0) == count - len(annotations)

    text = rendered("markdown", report)
    assert len(text) <= LIMIT
    rows, folded = (
        text.count("\n| ❌") + text.count("\n| ⚠️") + text.count("\n| 💬"),
        text.count("<details>"),
    )
    dropped = {
        what: int(number.replace(",", ""))
        for number, what in re.findall(r"([\d,]+) (rows|folded findings)", text)
    }
    assert rows + dropped.get("rows", 0) == count
    assert folded + dropped.get("folded findings", 0) == count
    assert folded == 0 or rows == count, "details are dropped before rows"


# What obeys, hides, reorders or breaks: in a terminal, a log, a browser or a parser.
_OBEYED = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
_hostile = st.text(st.characters(codec=None), max_size=40) | st.sampled_from(
    ["::error::x", "a\n::set-output name=x::y", "##[set-output name=x;]y", "###[add-mask]a", "##vso[task.setvariable variable=x]y", "%0A", "]]>", "<script>", "</details>", "| x |", "a\\|b", "\\", "\x00", "\x1b[31m", "\x9b31m", "@team", "```", "\u202e", "\u200f", "\u2028", "\r\n", "&amp;", "[x](javascript:y)", "[x](https://evil.example)", "https://evil.example", "www.evil.example", "</pre>", "<!--", "\ud800", "a\udc80b", "\uffff", "\ufffe", "\U000e0041"]
)  # fmt: skip


def _about(message: str, line: str, file: str, remedy: str) -> Report:
    finding = Finding(
        rule="TW704", severity=Severity.ERROR, place=Location(file or "f", 1, 1), message=message,
        remedy=remedy, subject="prod/x", note=message, effect=remedy,
        related=(Related("from", line, Location(file or "f", 2, 1)),),
    )  # fmt: skip
    return Report(findings=(finding,), sources={file or "f": (line,)}, checked=("prod/x",))


def _each(text: str) -> Callable[..., Report]:
    """The example in every place where text from a file may stand."""
    return example(message=text, line=text, file=text, remedy=text)


@given(message=_hostile, line=_hostile, file=_hostile, remedy=_hostile)
@_each("a\n::set-output name=x::y")
@_each("##[set-output name=x;]y")
@_each("###[add-mask]\ud800\udc80\ufffe\uffff")
@_each("\x9b31m\u200f\u202e\U000e0041")
def test_text_from_files_breaks_no_format(message: str, line: str, file: str, remedy: str) -> None:
    report = _about(message, line, file, remedy)
    style = Style(command=message)
    texts = {name: rendered(name, report, style) for name in FORMATS}
    for name, text in texts.items():
        assert text.encode("utf-8").decode("utf-8") == text
        seen = text.replace("\u2060", "") if name == "markdown" else text  # ours: breaks mentions
        assert not re.search(_OBEYED, seen), name
        # The runners of GitHub and Azure obey these anywhere in a line of a log.
        assert not re.search(r"##(vso)?\[", text), name
        obeyed = [x for x in text.split("\n") if x.lstrip().startswith("::")]
        assert len(obeyed) == (name == "github"), name
    assert len(json.loads(texts["json"])["report"]["results"]) == 1
    assert len(json.loads(texts["sarif"])["runs"][0]["results"]) == 1
    assert len(ElementTree.fromstring(texts["junit"]).findall(".//failure")) == 1
    lines = texts["github"].split("\n")
    assert len(lines) == 3
    assert [x.startswith("::error file=") for x in lines] == [True, False, False]


@given(message=_hostile, line=_hostile, file=_hostile, remedy=_hostile)
@_each("a\\|b")
@_each("www.evil.example")
def test_markdown_keeps_its_shape(message: str, line: str, file: str, remedy: str) -> None:
    text = rendered("markdown", _about(message, line, file, remedy), Style(command=message))
    page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)
    tags = {tag: len(re.findall(rf"<{tag}\b", page)) for tag in ("tr", "td", "li", "details")}
    report = 2 + bool(remedy)  # where from, how out, and the effect when there is one
    assert tags == {"tr": 2, "td": 4, "li": report, "details": 1}
    known = "h3|table|thead|tbody|tr|th|td|a|code|details|summary|pre|ul|li|em|p"
    assert not re.findall(rf"<(?!/?(?:{known})\b)", page)
    assert len(re.findall("href=", page)) == 1, "the only link is the rule's"
    outside_code = re.sub(r"`[^`\n]*`|<pre>.*</pre>", "", text)
    assert not re.search(r"@\w|://(?!github\.com/trainwright)|\bwww\.", outside_code)


def test_commands_are_shown_as_they_are_typed() -> None:
    report = Report(findings=(), sources={}, checked=())
    style = Style(command="trainwright check 'a|b'")
    assert "`trainwright check 'a|b'`" in rendered("markdown", report, style)


def test_json_and_sarif_say_what_the_file_says() -> None:
    text = '名前 é 😀 \x9b31m \u202e \U000e0041 ##[x] \\ "'
    report = _about(text, text, "f", text)
    (result,) = json.loads(rendered("json", report))["report"]["results"]
    assert result["message"] == text
    (result,) = json.loads(rendered("sarif", report))["runs"][0]["results"]
    assert result["message"]["text"] == f"{text}. {text}"
    assert "名前 é 😀" in rendered("json", report)


def test_sarif_messages_hold_no_links() -> None:
    report = _about("see [x](https://evil.example)", "[y](0)", "f", "r")
    (result,) = json.loads(rendered("sarif", report))["runs"][0]["results"]
    assert result["message"]["text"] == "see [x\\](https://evil.example). r"
    assert result["relatedLocations"][0]["message"]["text"] == "from: [y\\](0)"


@pytest.mark.parametrize(
    ("before", "cells"),
    [("ab", 2), ("名前", 4), ("e\u0301", 1), ("a\tb", 6), ("\u0e01\u0e47", 1), ("a\u200bb", 8)],
)
def test_the_caret_counts_cells(before: str, cells: int) -> None:
    finding = _finding(
        "TW704", "error", 1, len(before) + 1, "m", place=Location("f", 1, len(before) + 1)
    )
    report = Report(findings=(finding,), sources={"f": (before + "X",)}, checked=())
    caret = next(x for x in rendered("text", report).splitlines() if x.endswith("^"))
    assert caret == f"  | {' ' * cells}^"


@pytest.mark.parametrize("column", range(1, 20))
def test_the_caret_splits_nothing_that_is_spelled_out(column: int) -> None:
    line = "x: ##[add-mask]y"
    finding = _finding("TW704", "error", 1, column, "m", place=Location("f", 1, column))
    report = Report(findings=(finding,), sources={"f": (line,)}, checked=())
    assert "\n1 | x: \\x23#[add-mask]y\n" in rendered("text", report)
