"""Findings: what is wrong, at a position in the files that people wrote."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A position in a file people write: path relative to the root, line and column from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Severity(enum.StrEnum):
    """How serious a finding is; only `ERROR` fails a command unless `--fail-on` says otherwise."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    OFF = "off"  # only as a setting: the finding is dropped


@dataclass(frozen=True, slots=True)
class Related:
    """A second position that explains a finding: what it is, and where."""

    label: str  # "from", "first", "overrides", ...
    text: str
    place: Location | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing wrong with the input, at the line people wrote.

    `subject` is "env/job", "env" or a file; `path` is the position in the spec when one is known;
    `pointer` is the JSON pointer into the rendered object, for findings about rendered objects.
    """

    rule: str
    severity: Severity
    place: Location
    message: str
    remedy: str
    subject: str = ""
    path: Pointer = Pointer()
    note: str = ""  # said under the caret: "8 processes, but resources.gpu is 4"
    effect: str = ""
    related: tuple[Related, ...] = ()
    manifest: str = ""  # "PyTorchJob/name" for findings about rendered objects
    pointer: str = ""

    @property
    def order(self) -> tuple[Location, str, str, str]:
        return (self.place, self.rule, self.pointer, self.message)


class Cause:
    """The base of what findings are about: rules, outcomes of edits and other mistakes."""

    __slots__ = ()

    if TYPE_CHECKING:  # some subclasses have them as fields

        @property
        def id(self) -> str: ...

        @property
        def severity(self) -> Severity: ...

        @property
        def effect(self) -> str: ...

        @property
        def remedy(self) -> str: ...

    def at(  # noqa: PLR0913 - a field each
        self,
        place: Location,
        message: str,
        *,
        remedy: str = "",
        effect: str = "",
        severity: Severity | None = None,
        subject: str = "",
        path: Pointer = Pointer(),  # noqa: B008 - it is a string
        note: str = "",
        related: tuple[Related, ...] = (),
        manifest: str = "",
        pointer: str = "",
    ) -> Finding:
        """Return a finding at a place, with what is given in place of the texts of this cause."""
        return Finding(
            rule=self.id,
            severity=severity or self.severity,
            place=place,
            message=message,
            remedy=remedy or self.remedy,
            subject=subject,
            path=path,
            note=note,
            effect=effect or self.effect,
            related=related,
            manifest=manifest,
            pointer=pointer,
        )


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A value of a spec, or a setting of its environment, that differs, and the line that sets it.

    A value is None on the side where it is not set. Both are redacted where they are shown. `note`
    is what changed where no value does, "new job spec"; of a value that a run could have taken as
    it is, why it did not. It is `earlier` where it differs since an earlier commit than those that
    are looked at.
    """

    path: Pointer
    before: Data
    after: Data
    place: Location
    note: str = ""
    earlier: bool = False

    @classmethod
    def noted(cls, note: str, place: Location) -> ValueChange:
        """Return a change of a whole file."""
        return cls(Pointer(), None, None, place, note)
