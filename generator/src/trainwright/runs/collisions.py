"""Objects that two jobs of an environment would both make."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from trainwright.datatypes.finding import Finding, Location, Related
from trainwright.datatypes.layout import JobFile
from trainwright.documents.yamlio import Document
from trainwright.findings import diagnostics as dx
from trainwright.runs.record import Record
from trainwright.specs.load import Reader


def find(environment: str, runs: Mapping[str, Record], reader: Reader) -> Iterator[Finding]:
    """Yield a finding per job and object that another job of the environment renders, too."""
    makers: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for job, run in sorted(runs.items()):
        for name in dict.fromkeys(run.objects):
            makers[run.environment.get("namespace", ""), name].append(job)
    for (_, name), jobs in sorted(makers.items()):
        for job in jobs if len(jobs) > 1 else ():
            others = tuple(other for other in jobs if other != job)
            yield dx.OBJECT_COLLISION.at(
                _place(JobFile(environment, job), name, reader),
                f"{_title(name)} is rendered by {' and '.join(others)}, too",
                subject=f"{environment}/{job}",
                related=tuple(
                    Related("also", other, _place(JobFile(environment, other), name, reader))
                    for other in others
                ),
            )


def _title(name: str) -> str:
    """Return the kind and name of a recorded object."""
    return "/".join(name.split("/")[-2:])


def _place(file: JobFile, name: str, reader: Reader) -> Location:
    """Return the line that names the object: a volume's, for a claim of the job's own."""
    document = reader.document(file.path)
    if not isinstance(document, Document):
        return Location(file.path)
    volume = name.rpartition("/")[2].removeprefix(f"{file.name}-")
    return (
        document.key_place(f"/volumes/{volume}")
        if name.startswith("PersistentVolumeClaim/") and f"/volumes/{volume}" in document.places
        else document.place("/name")
    )
