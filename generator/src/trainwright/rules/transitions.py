"""What an API server and an operator do with a change to an object that is already there.

Most edits of a training object do not do what they seem to: they are refused, or accepted and
never looked at, or reach only the pods that are made later. Nothing here asks a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.frozen import dataclass
from trainwright.kinds import SERVED
from trainwright.model import Environment, Manifest
from trainwright.objects.transition import Change, Transition, Verdict
from trainwright.pointer import Pointer
from trainwright.rules import edits, mutability

TRANSITIONS: dict[str, Transition] = {
    transition.id: transition
    for transition in sorted(
        (*mutability.TRANSITIONS, *(t for kind in SERVED.values() for t in kind.transitions)),
        key=lambda transition: transition.id,
    )
}
_ORDER = tuple(Verdict)  # the worst first


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOutcome:
    """What becomes of one part of a change, why, and where that was read.

    `pointer` is a JSON pointer into the object after the change, or before it for a removal.
    """

    transition: Transition
    pointer: str
    why: str
    source: str

    @property
    def verdict(self) -> Verdict:
        return self.transition.verdict


def evaluate(
    before: Manifest | None, after: Manifest | None, environment: Environment | None = None
) -> tuple[EditOutcome, ...]:
    """What becomes of each part of a change to one object, the worst first.

    Nothing for a new object, or for one that stays as it is. Two objects of different identity
    are the removal of the first. What is refused leaves nothing else to happen.
    """
    if before is None:
        return ()
    if after is None or after.identity != before.identity:
        return tuple(_removed(before))
    change = Change(edits.as_held(before), edits.as_held(after), environment)
    found: dict[tuple[str, str], EditOutcome] = {}
    for path in change.paths:
        row = edits.of(change, path)
        transition = TRANSITIONS[row.rule]
        pointer = Pointer.of(*path)
        outcome = EditOutcome(
            transition=transition, pointer=pointer, why=row.why, source=row.source
        )
        found.setdefault((transition.id, row.why), outcome)
    checked = sorted(found.values(), key=lambda outcome: _ORDER.index(outcome.verdict))
    refused = tuple(j for j in checked if j.verdict is Verdict.REJECTED)
    return refused or tuple(checked)


def _removed(before: Manifest) -> Iterator[EditOutcome]:
    for transition in TRANSITIONS.values():
        why = transition.removal(before) if transition.removal else ""
        if why:
            yield EditOutcome(transition=transition, pointer="", why=why, source=transition.source)
