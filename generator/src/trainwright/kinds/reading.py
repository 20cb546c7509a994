"""How objects of each kind are imported: which others they need, and what is not imported.

Positions and names are as people wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.yamlio import load_rendered
from trainwright.findings import credentials


class ImportingError(TrainwrightError):
    """Something cannot be imported at all; the message gives the reason."""


class Loss(StrEnum):
    """How much it matters to a run that a value is not imported.

    `cosmetic`: the pods train the same without it. `behaviour`: they train the same program on the
    same data, and are scheduled, restarted or observed differently. `cannot-run`: the run cannot
    start without it, or trains something else.
    """

    COSMETIC = "cosmetic"
    BEHAVIOUR = "behaviour"
    CANNOT_RUN = "cannot-run"

    @property
    def weight(self) -> int:
        return list(Loss).index(self)


class Reason(NamedTuple):
    """Why a value is left behind, by a pattern of JSON pointers.

    In a pattern `*` is one key and `**` any number. `severity` is None if it follows from what the
    value changes.
    """

    pattern: str
    why: str
    severity: Loss | None = None


def reasons(module: str) -> tuple[Reason, ...]:
    """Return those of reasons.yaml beside a module, of which the first that matches counts."""
    return as_reasons(table(module, "reasons.yaml"))


def as_reasons(rows: Data) -> tuple[Reason, ...]:
    return tuple(Reason(at, why, Loss(loss) if loss else None) for at, loss, why in rows)


def table(module: str, name: str) -> Data:
    """Return the rows of a YAML file beside a module."""
    (rows,) = load_rendered(Path(module).with_name(name).read_text("utf-8"))
    return rows


@dataclass(frozen=True, slots=True)
class NotImported:
    """A value that is not imported into the job spec, with its field, position and reason.

    `value` is fit for people's eyes: nothing that looks like a credential is in it.
    """

    field: str
    place: Location
    value: str
    why: str
    severity: Loss = Loss.BEHAVIOUR

    def __str__(self) -> str:
        value = f" {self.value}" if self.value else ""
        return f"{self.place}: {self.field}{value}: {self.why}"


def shown(name: str, value: Data, most: int = 80) -> str:
    """Return a value in a few words, with everything that looks like a credential hidden."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        named = [f"name: {shown('', value['name'])}"] if "name" in value else []
        return f"{{{', '.join([*named, *(str(key) for key in value if key != 'name')])}}}"
    if isinstance(value, list):
        from trainwright.findings.redaction import redact_words  # which a check has no use for

        return f"[{', '.join(shown(name, item) for item in redact_words(value))}]"[:120]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if credentials.kind(text) or credentials.named(name, text):
        return credentials.HIDDEN
    text = credentials.redact(text).replace("\n", "\\n")
    return text if len(text) <= most else f"{text[: most - 3]}..."


@dataclass(frozen=True, kw_only=True)
class SourceObject(Manifest):
    """One object to import, with the position of each value and what people call it."""

    body: Mapping[str, Data]
    place: Callable[[str], Location]  # of a JSON pointer
    called: Callable[[str], str] = str  # what people call it: the pointer itself, or an option
    given: Mapping[str, str] = field(default_factory=dict)  # values as written, by that name
    beside: bool = False  # not part of the workload, but there for it
    left: tuple[NotImported, ...] = ()  # not imported from what it was taken out of
    as_written: Callable[[str], str] = str  # of a text: as people wrote it

    def not_imported(
        self,
        pointer: str,
        value: Data,
        why: str,
        severity: Loss = Loss.BEHAVIOUR,
        *,
        name: str = "",
    ) -> NotImported:
        """Return a value of the object as not imported; `name` is its name, if not the last key."""
        called = self.called(pointer)
        said = self.as_written(shown(name or Pointer(pointer).last, value))
        return NotImported(called, self.place(pointer), self.given.get(called, said), why, severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a reader returns for an object: parts to import, values left out, objects not given.

    `reasons` apply to values of this object, before the reasons of its kind.
    """

    parts: tuple[SourceObject, ...]
    left: tuple[NotImported, ...] = ()
    assumed: tuple[Manifest, ...] = ()
    reasons: tuple[Reason, ...] = ()


def _none(_: SourceObject) -> tuple[tuple[str, SourceObject], ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How objects of one kind are imported.

    `read` takes the object and all others that were given with it. `reasons` are patterns of JSON
    pointers and why what matches is left behind. `entrypoint` is the field of a container that
    holds its command. For a kind that no API server has, `is_file` recognizes its files, and
    `inside` returns the objects that stand for the parts of one, each with the name of a job.
    """

    read: Callable[[SourceObject, Sequence[SourceObject]], Read] = lambda part, _: Read(
        parts=(part,)
    )
    reasons: tuple[Reason, ...] = ()
    entrypoint: str = "command"
    is_file: Callable[[Mapping[str, Data]], bool] = lambda _: False
    inside: Callable[[SourceObject], Iterable[tuple[str, SourceObject]]] = _none
