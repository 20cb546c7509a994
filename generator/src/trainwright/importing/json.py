"""For programs: a versioned envelope that schemas/import.schema.json describes."""

from __future__ import annotations

from trainwright.datatypes.data import Data
from trainwright.findings.credentials import redact
from trainwright.importing import ImportInput
from trainwright.importing.batch import ImportBatch
from trainwright.importing.convert import Imported
from trainwright.kinds.reading import Loss
from trainwright.reports.json import finding_data, place_of
from trainwright.reports.style import document
from trainwright.reports.values import hidden


def render(inputs: ImportInput, batch: ImportBatch, environment: str, *, written: bool) -> str:
    """Return as JSON what was imported, what was not, and what is left behind."""
    return document(
        "Import",
        {
            "environment": environment,
            "summary": _summary(batch),
            "imported": [_imported(imported, written=written) for imported in batch.imported],
            "refused": [redact(message) for message in (*inputs.problems, *batch.problems)],
            "findings": [finding_data(finding) for finding in inputs.findings],
            "beside": [
                {"object": other.field, "place": place_of(other.place), "why": other.why}
                for other in inputs.beside
            ],
        },
    )


def _summary(batch: ImportBatch) -> Data:
    """Return the number of jobs by worst severity; `whole` are those with nothing left behind."""
    worst = [imported.severity for imported in batch.imported]
    return {"whole": worst.count(None), **{kind.value: worst.count(kind) for kind in Loss}}


def _imported(imported: Imported, *, written: bool) -> Data:
    return {
        "source": imported.source.title,
        "place": place_of(imported.source.place),
        "path": imported.file.path,
        "written": written,
        "severity": imported.severity.value if imported.severity else "none",
        "spec": dict(imported.spec),
        "left": [
            {
                "severity": left.severity.value,
                "field": left.field,
                "place": place_of(left.place),
                "value": left.value,
                "why": left.why,
            }
            for left in imported.left
        ],
        "differs": [
            {
                "severity": difference.severity.value,
                "path": difference.difference.path.dotted,
                "before": hidden(difference.difference.path, difference.difference.before),
                "after": hidden(difference.difference.path, difference.difference.after),
            }
            for difference in imported.differing
        ],
        "notes": list(imported.notes),
    }
