"""The rows of the table of edits: the outcome of an edit of one field of a live object."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partialmethod

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.rule_model.edit import Edit, EditRule, Verdict

IMMUTABLE = "TW504"
IN_PLACE = "TW514"
_BY_OUTCOME = {Verdict.REJECTED: IMMUTABLE, Verdict.IN_PLACE: IN_PLACE}
FIELD_IS_IMMUTABLE = "the API server refuses it: the field is immutable"


class Basis(enum.StrEnum):
    """How the outcome of an edit is known."""

    OBSERVED = "observed"  # on a real API server with the controllers
    READ = "read"  # in the source, or in the rules of the definition
    INFERRED = "inferred"  # it follows from what was read, and was not observed


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between both versions of an object, and the row's field that contains it."""

    edit: Edit
    path: Pointer
    field: Pointer

    @property
    def old(self) -> Data:
        return lookup(self.edit.before.body, self.field)

    @property
    def new(self) -> Data:
        return lookup(self.edit.after.body, self.field) if self.edit.after else None


@dataclass(frozen=True, slots=True)
class Condition:
    """When a row applies; `text` continues a sentence after "when"."""

    text: str
    holds: Callable[[Difference], bool]


CHANGED = Condition(
    "it is there before and after", lambda d: d.old is not None and d.new is not None
)
ADDED_OR_REMOVED = Condition("it is added or removed", lambda d: d.old is None or d.new is None)
ADDED_OR_CHANGED = Condition("it is there after", lambda d: d.new is not None)
SUSPENDED = Condition("the object is suspended before", lambda d: d.edit.suspended)
AROUND = Condition("it is suspended before or after", lambda d: d.edit.suspended_around)
RUNNING = Condition(
    "it is suspended neither before nor after", lambda d: not d.edit.suspended_around
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRow:
    """A field of a kind, and the outcome of an edit of it under some conditions.

    `path` is a pattern (* is any key or index) and covers everything below it. Of several rows for
    a difference, the first whose conditions all hold applies. `rule` is what reports it.
    """

    kinds: tuple[GroupKind, ...] = ()  # empty: any
    path: Pointer
    when: tuple[Condition, ...] = ()
    outcome: Verdict
    rule: str
    why: str
    basis: Basis
    source: str

    def covers(self, edit: Edit, path: Pointer) -> bool:
        """Whether the row applies to the difference at a path."""
        if self.kinds and edit.before.group_kind not in self.kinds:
            return False
        if not path.matches(f"{self.path}/**"):
            return False
        field = Pointer.of(*path.parts[: len(self.path.parts)])
        difference = Difference(edit, path, field)
        return all(condition.holds(difference) for condition in self.when)


@dataclass(frozen=True, slots=True)
class EditSource:
    """A source of the outcomes of edits of some kinds; its methods make rows by basis."""

    kinds: tuple[GroupKind, ...]
    text: str

    def _rows(
        self,
        basis: Basis,
        outcome: Verdict | EditRule,
        why: str,
        *paths: str,
        when: tuple[Condition, ...] = (),
    ) -> tuple[EditRow, ...]:
        """Return a row for each of some fields: JSON pointers, with * for any key or index.

        The outcome is that of the rule that reports it, if it is not one that any kind has.
        """
        if isinstance(outcome, EditRule):
            verdict, rule = outcome.verdict, outcome.id
        else:
            verdict, rule = outcome, _BY_OUTCOME[outcome]
        return tuple(
            EditRow(
                kinds=self.kinds,
                path=Pointer(path),
                when=when,
                outcome=verdict,
                rule=rule,
                why=why,
                basis=basis,
                source=self.text,
            )
            for path in paths
        )

    observed = partialmethod(_rows, Basis.OBSERVED)
    read = partialmethod(_rows, Basis.READ)
    inferred = partialmethod(_rows, Basis.INFERRED)
