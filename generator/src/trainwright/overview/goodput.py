"""Where the time of runs went, as `python -m trainwright_runtime report --json` prints it.

schemas/run-goodput.schema.json is the contract: the generator never imports the runtime.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import NoReturn

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.frozen import dataclass
from trainwright.documents import yamlio
from trainwright.documents.validation import schema
from trainwright.documents.validation.violation import Violation
from trainwright.findings.credentials import redact
from trainwright.findings.visibility import visible

_NOT_A_REPORT = "not a report of a run's goodput"

# In the order of the schema, which is that of the runtime's own report.
PARTS = ("scheduling", "start", "recovery", "checkpoint", "stall", "training", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGoodput:
    """A goodput report on one run; `environment` is empty if the report does not name it."""

    file: str
    environment: str
    object: str
    seconds: float  # of the run
    goodput: float
    ettr: float
    mpg: float | None
    restarts: int
    split: Mapping[str, float]  # seconds of all its workers, by part
    failures: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.environment}/{self.object}" if self.environment else self.object

    @property
    def wall(self) -> float:
        """Seconds of all its workers."""
        return sum(self.split.values())


def parse(file: str, raw: bytes) -> RunGoodput:
    """The report in a file. SourceError has all that is wrong with it, a line each."""
    try:
        data: Data = json.loads(raw, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        at = f"{visible(file)}:{error.lineno}:{error.colno}"
        raise SourceError(f"{at}: {_NOT_A_REPORT}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{visible(file)}: {_NOT_A_REPORT}: {error}") from error
    if violations := schema.run_goodput().explain(data):
        document = yamlio.parse(file, raw)  # for the lines
        lines = [
            f"{_place(document, file, violation)}: {violation.message}" for violation in violations
        ]
        raise SourceError("\n".join(map(visible, lines)))
    return _report(file, data)


def _place(document: object, file: str, violation: Violation) -> str:
    if not isinstance(document, yamlio.Document):
        return file
    at = document.key_place if violation.key else document.place
    return str(at(violation.pointer))


def _report(file: str, data: Data) -> RunGoodput:
    # Where the report does not name its run, the file may.
    environment, _, object_ = (data["run"] or PurePath(file).stem).rpartition("/")
    return RunGoodput(
        file=file,
        environment=environment,
        object=object_,
        seconds=data["seconds"],
        goodput=data["goodput"],
        ettr=data["ettr"],
        mpg=data["mpg"],
        restarts=data["restarts"],
        split={part: data["split"][part] for part in PARTS},
        failures=tuple(
            redact(f"{failure['worker']}: {failure['cause']}: {failure['error']}")
            for failure in data["failures"]
        ),
    )


def total_ettr(reports: Iterable[RunGoodput]) -> float | None:
    """Return training time over total time of several runs, or None if they took no time."""
    runs = list(reports)
    wall = sum(run.wall for run in runs)
    return sum(run.split["training"] for run in runs) / wall if wall > 0 else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a valid number in JSON")
