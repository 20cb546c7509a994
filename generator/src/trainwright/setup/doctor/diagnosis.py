"""A diagnosis: the state of one thing, and what to do about it."""

from __future__ import annotations

import enum

from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass


class State(enum.StrEnum):
    """The state of one thing; `SKIPPED` if it could not be examined, or does not apply here."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A check's result for one thing; `remedy` and `effect` are empty if nothing is to be done."""

    about: str
    state: State
    message: str
    effect: str = ""
    remedy: str = ""
    place: Location | None = None
