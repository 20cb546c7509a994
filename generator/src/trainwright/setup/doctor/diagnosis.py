"""What is examined, and a diagnosis: the state of one thing, and what to do about it."""

from __future__ import annotations

import enum
from pathlib import Path

from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.files.tree import Folder
from trainwright.render.build import BuildOptions
from trainwright.runs.workspace import Workspace


@dataclass(frozen=True)
class Examined:
    """The repository that is examined, which every check reads through one workspace."""

    root: Path
    options: BuildOptions

    @cached_property
    def workspace(self) -> Workspace:
        return Workspace(Folder(self.root))


class State(enum.StrEnum):
    """The state of one thing; `SKIPPED` if it could not be examined, or does not apply here."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A check's result for one thing; `remedy` and `effect` are empty if nothing is to be done.

    `about` is only set where it is not the name of the check.
    """

    state: State
    message: str
    effect: str = ""
    remedy: str = ""
    place: Location | None = None
    about: str = ""


def ok(message: str, about: str = "") -> Diagnosis:
    return Diagnosis(State.OK, message, about=about)


def skipped(message: str) -> Diagnosis:
    return Diagnosis(State.SKIPPED, message)


def warning(
    message: str, effect: str, remedy: str, place: Location | None = None, about: str = ""
) -> Diagnosis:
    return Diagnosis(State.WARNING, message, effect, remedy, place, about)


def error(
    message: str, effect: str, remedy: str, place: Location | None = None, about: str = ""
) -> Diagnosis:
    return Diagnosis(State.ERROR, message, effect, remedy, place, about)
