"""The import as text: the file of the spec, and the report of what was not imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from trainwright.documents import yamlio
from trainwright.kinds.reading import Loss

if TYPE_CHECKING:
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


def report(imported: Imported, paint: Callable[[str, str], str]) -> Iterator[str]:
    """Yield the lines of an import's report: values left behind, differences of the run, notes."""
    yield f"{imported.source.place.file}: {imported.source.title} is {imported.file.path}"
    for left in sorted(imported.left, key=lambda entry: -entry.severity.weight):
        yield f"  {_label('left', left.severity, paint)}{left}"
    for differing in sorted(imported.differing, key=lambda entry: -entry.severity.weight):
        yield f"  {_label('differs', differing.severity, paint)}{differing}"
    for note in imported.notes:
        yield f"  {'note':{_WIDTH}}{note}"


def _label(what: str, severity: Loss, paint: Callable[[str, str], str]) -> str:
    label = f"{what}, {_WORDS[severity]}"
    return f"{paint(label, _COLOURS[severity])}{' ' * (_WIDTH - len(label))}"
