"""What an API server and an operator do with an edit of an object that is already there.

Most edits of a training object do not do what they seem to: they are refused, or accepted and
never looked at, or reach only the pods that are made later. Nothing here asks a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import SERVED
from trainwright.rule_model.edit import Edit, EditRule, Verdict, may_wait
from trainwright.rules.edits import rules, table

EDIT_RULES: dict[str, EditRule] = {
    rule.id: rule
    for rule in sorted(
        (*rules.EDIT_RULES, *(t for kind in SERVED.values() for t in kind.edit_rules)),
        key=lambda rule: rule.id,
    )
}
_ORDER = tuple(Verdict)  # the worst first


def is_rejected(rule: str) -> bool:
    """Whether a rule reports edits that the API server refuses."""
    return rule in EDIT_RULES and EDIT_RULES[rule].verdict is Verdict.REJECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOutcome:
    """The outcome of one part of an edit, why, and where that was read.

    `pointer` is a JSON pointer into the object after the edit, or before it for a removal.
    """

    rule: EditRule
    pointer: str
    why: str
    source: str

    @property
    def verdict(self) -> Verdict:
        return self.rule.verdict


def evaluate(
    before: Manifest | None,
    after: Manifest | None,
    environment: Environment | None = None,
    run: Sequence[Manifest] = (),
) -> tuple[EditOutcome, ...]:
    """Return the outcome of each part of an edit of one object, the worst first.

    There is none for a new object, or for one that stays as it is. If the identities differ, the
    first object is removed, with all of its `run`. If any part is rejected, nothing else happens.
    """
    if before is None:
        return ()
    if after is None or after.identity != before.identity:
        return tuple(_removed(before, environment, run))
    edit = Edit(table.as_held(before), table.as_held(after), environment)
    running = _of(edit)
    if not (_is_refused(running) and may_wait(before)):
        return running
    waiting = _of(replace(edit, waits=True))
    return running if _is_refused(waiting) else tuple(map(_until_admitted, running))


REFUSED = frozenset({Verdict.REJECTED, Verdict.REFUSED_BELOW})


def _is_refused(outcomes: tuple[EditOutcome, ...]) -> bool:
    return any(outcome.verdict in REFUSED for outcome in outcomes)


def _until_admitted(refused: EditOutcome) -> EditOutcome:
    """Return the outcome where the queue may hold the job back: refused only once it runs."""
    why = f"taken while the job waits in its queue, and no longer: {refused.why}"
    return replace(refused, rule=EDIT_RULES[rules.UNTIL_ADMITTED.id], why=why)


def _of(edit: Edit) -> tuple[EditOutcome, ...]:
    """Return the outcomes of an edit, the worst first; only refusals if there are any."""
    by_reason: dict[tuple[str, str], EditOutcome] = {}
    for path in edit.paths:
        row = table.row_for(edit, path)
        rule = EDIT_RULES[row.rule]
        outcome = EditOutcome(rule=rule, pointer=path, why=row.why, source=row.source)
        by_reason.setdefault((rule.id, row.why), outcome)
    checked = sorted(by_reason.values(), key=lambda outcome: _ORDER.index(outcome.verdict))
    refused = tuple(outcome for outcome in checked if outcome.verdict is Verdict.REJECTED)
    return refused or tuple(checked)


def _removed(
    before: Manifest, environment: Environment | None, run: Sequence[Manifest]
) -> Iterator[EditOutcome]:
    for rule in EDIT_RULES.values():
        why = rule.removal(before, environment, run) if rule.removal else ""
        if why:
            yield EditOutcome(rule=rule, pointer="", why=why, source=rule.source)
