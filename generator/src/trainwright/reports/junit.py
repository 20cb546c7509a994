"""For test dashboards: a suite an environment, a case a job, a failure an error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainwright.datatypes.finding import Finding, Severity
from trainwright.findings.visibility import visible
from trainwright.reports.report import Report
from trainwright.reports.style import Style

if TYPE_CHECKING:
    from xml.etree import ElementTree


def render(report: Report, _style: Style) -> str:
    from xml.etree import ElementTree  # 15 ms, and only this format needs it

    by_subject: dict[str, list[Finding]] = {subject: [] for subject in report.checked}
    for finding in report.findings:
        by_subject.setdefault(finding.subject or finding.place.file, []).append(finding)
    suites: dict[str, list[str]] = {}
    for subject in by_subject:
        suites.setdefault(_split(subject)[0], []).append(subject)
    root = ElementTree.Element("testsuites", name="trainwright check")
    for name, subjects in suites.items():
        findings = [f for subject in subjects for f in by_subject[subject]]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_clean(name),
            tests=str(len(subjects)),
            failures=_failed(findings),
        )
        for subject in subjects:
            _case(suite, subject, by_subject[subject])
    ElementTree.indent(root)
    # ElementTree would declare the encoding of the locale; outputs are UTF-8 everywhere.
    declaration = '<?xml version="1.0" encoding="UTF-8"?>'
    return f"{declaration}\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _split(subject: str) -> tuple[str, str]:
    """The suite and the case of a subject: an environment's own files count in its suite."""
    from trainwright.datatypes.layout import ENVIRONMENTS

    folder, _, inside = subject.partition("/")
    if folder == ENVIRONMENTS and "/" in inside:
        folder, _, inside = inside.partition("/")
    return folder, inside or subject


def _failed(findings: Iterable[Finding]) -> str:
    return str(len({f.subject or f.place.file for f in findings if f.severity is Severity.ERROR}))


def _case(suite: ElementTree.Element, subject: str, findings: list[Finding]) -> None:
    name = _clean(_split(subject)[1])
    from xml.etree import ElementTree

    case = ElementTree.SubElement(suite, "testcase", name=name, classname=_clean(subject))
    for finding in findings:
        if finding.severity is Severity.ERROR:
            title = _clean(finding.message)
            failure = ElementTree.SubElement(case, "failure", message=title, type=finding.rule)
            failure.text = f"{_clean(str(finding.place))}: {title}\nhelp: {_clean(finding.remedy)}"
    rest = [f for f in findings if f.severity is not Severity.ERROR]
    if rest:
        out = ElementTree.SubElement(case, "system-out")
        out.text = "\n".join(
            _clean(f"{f.severity.value}[{f.rule}] {f.place}: {f.message}") for f in rest
        )


def _clean(text: str) -> str:
    """Return text with visible control characters: XML 1.0 has none, not even escaped ones."""
    return visible(text)
