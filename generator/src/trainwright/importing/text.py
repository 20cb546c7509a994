"""The import as text: the file of the spec, and the report of what was not imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from trainwright.documents import yamlio
from trainwright.findings.credentials import redact
from trainwright.kinds.reading import Loss
from trainwright.reports import redacted
from trainwright.reports.style import Paint, finding_line

if TYPE_CHECKING:
    from trainwright.importing import ImportInput
    from trainwright.importing.convert import Imported

_SCHEMA = (
    "# yaml-language-server: $schema=https://trainwright.io/schemas/v1alpha1/job.schema.json\n"
)

_WORDS = {kind: kind.value.replace("-", " ") for kind in Loss}
_WIDTH = len("differs, cannot run  ")
_COLOURS = {Loss.COSMETIC: "cyan", Loss.BEHAVIOUR: "yellow", Loss.CANNOT_RUN: "red"}


def spec(imported: Imported) -> str:
    """Return the text of the job file."""
    return _SCHEMA + yamlio.dump(dict(imported.spec), blocks=True, flows=True)


def report(imported: Imported, paint: Paint) -> Iterator[str]:
    """Yield the lines of an import's report: values left behind, differences of the run, notes."""
    yield f"{imported.source.place.file}: {imported.source.title} is {imported.file.path}"
    for left in sorted(imported.left, key=lambda entry: -entry.severity.weight):
        yield f"  {_label('left', left.severity, paint)}{left}"
    for differing in sorted(imported.differing, key=lambda entry: -entry.severity.weight):
        yield f"  {_label('differs', differing.severity, paint)}{differing}"
    for note in imported.notes:
        yield f"  {'note':{_WIDTH}}{note}"


def refusals(inputs: ImportInput, problems: Iterable[str], paint: Paint) -> Iterator[str]:
    """Yield a line for each thing that was not imported, and for each that is beside what was."""
    for finding in inputs.findings:
        yield finding_line(redacted(finding), paint)
    for problem in (*inputs.problems, *problems):
        yield f"{paint('error', 'red')}: {redact(problem)}"
    for left in inputs.beside:
        yield f"beside: {left}"


def _label(what: str, severity: Loss, paint: Paint) -> str:
    label = f"{what}, {_WORDS[severity]}"
    return f"{paint(label, _COLOURS[severity])}{' ' * (_WIDTH - len(label))}"
