"""For test dashboards: a suite an environment, a case a job, a failure an error."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from trainwright.model import Finding, Severity
from trainwright.reports.report import Format, Report, visible


def render(report: Report) -> str:
    by_subject: dict[str, list[Finding]] = {subject: [] for subject in report.checked}
    for finding in report.findings:
        by_subject.setdefault(finding.subject or finding.place.file, []).append(finding)
    suites: dict[str, list[str]] = {}
    for subject in by_subject:
        suites.setdefault(subject.partition("/")[0], []).append(subject)
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
    text = ElementTree.tostring(root, encoding="unicode", xml_declaration=True)
    return text.replace("encoding='us-ascii'", "encoding='UTF-8'") + "\n"


def _failed(findings: Iterable[Finding]) -> str:
    return str(len({f.subject or f.place.file for f in findings if f.severity is Severity.ERROR}))


def _case(suite: ElementTree.Element, subject: str, findings: list[Finding]) -> None:
    name = subject.partition("/")[2] or subject
    case = ElementTree.SubElement(suite, "testcase", name=_clean(name), classname=_clean(subject))
    for finding in findings:
        text = f"{finding.place}: {finding.message}\n{finding.remedy}"
        if finding.severity is Severity.ERROR:
            title = _clean(finding.message)
            failure = ElementTree.SubElement(case, "failure", message=title, type=finding.rule)
            failure.text = _clean(text)
    rest = [f for f in findings if f.severity is not Severity.ERROR]
    if rest:
        out = ElementTree.SubElement(case, "system-out")
        out.text = "\n".join(
            _clean(f"{f.severity.value}[{f.rule}] {f.place}: {f.message}") for f in rest
        )


def _clean(text: str) -> str:
    """XML 1.0 has no control characters, not even escaped ones."""
    return "\n".join(visible(line) for line in text.split("\n")).encode(errors="replace").decode()


FORMAT = Format("junit", "for test dashboards: JUnit XML, a case a job", render)
