"""Edits of live objects as a sync sends them, against what the table of edits has of each."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from live import Data, Live, Refused
from outcomes import EditOutcome, Result
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.rule_model.edit import Edit, Verdict
from trainwright.rule_model.edit_row import EditRow
from trainwright.rules.edits import kueue, table
from trainwright.rules.edits import outcomes as table_of_edits

_CATALOG: Data = yaml.safe_load((Path(__file__).parent / "edits.yaml").read_text(encoding="utf-8"))
_TAKEN = "taken"
_REFUSED = "refused"
_UNREADABLE = re.compile("typed patch object|strict decoding|unknown field|not declared in schema")


class Edits:
    """The edits of one target, and which rows of the table they met."""

    def __init__(self, live: Live, environment: Environment, target: str, *, webhooks: bool = True):
        self._live, self._environment, self._target = live, environment, target
        self._webhooks = webhooks
        self._met: set[int] = set()

    def all_of(self, bodies: Sequence[Data], state: str) -> Iterator[EditOutcome]:
        """Each edit of what is applied, one at a time, as a dry run."""
        for body in bodies:
            for edit in _of_kind(body):
                yield from self._tried(body, edit, state)

    def of_variants(self, bodies: Sequence[Data]) -> Iterator[EditOutcome]:
        """Edits of what the run has not: each variant is made, tried and deleted again."""
        for body in bodies:
            for number, variant in enumerate(_CATALOG.get(body["kind"], {}).get("variants", ())):
                yield from self._of_variant(_variant(body, variant, number), variant)

    def _of_variant(self, made: Data, variant: Data) -> Iterator[EditOutcome]:
        try:
            self._live.apply(made)
        except Refused as refused:
            words = f"{made['kind']} with {', '.join(variant['set'])}"
            answer = f"{_REFUSED}: {refused}"
            yield EditOutcome(self._target, "variant", words, "", "is made", answer, Result.SKIPPED)
            return
        try:
            for edit in variant["edits"]:
                prefix = variant.get("prefix", "")
                yield from self._tried(made, _prefixed(edit, "P", prefix), "variant")
        finally:
            self._live.delete(made)

    def queued(self, body: Data, state: str, names: dict[str, str]) -> Iterator[EditOutcome]:
        """Edits of what a run states about its queue; `names` are of what is there beside it."""
        for edit in _CATALOG["queued"]:
            named = {at: names.get(value, value) for at, value in edit.items()}
            yield from self._tried(body, named, state)

    def _tried(self, body: Data, edit: Data, state: str) -> Iterator[EditOutcome]:
        after = _edited(body, edit)
        if after in (None, body):
            return
        expected, by_webhook = self._expected(body, after, state)
        answer, result = self._answer(after, expected)
        if result is Result.DIFFERED and by_webhook and not self._webhooks:
            answer, result = f"{_TAKEN}: the webhook that refuses it is not there", Result.SKIPPED
        words = f"{body['kind']} " + ", ".join(
            f"{pointer}: {json.dumps(value)}" for pointer, value in edit.items()
        )
        yield EditOutcome(
            target=self._target,
            state=state,
            edit=words,
            row=", ".join(self._rows(body, after)),
            expected=expected,
            answer=answer,
            result=result,
        )

    def _expected(self, body: Data, after: Data, state: str) -> tuple[str, bool]:
        """What the table of edits has, and whether it is a webhook that refuses."""
        before = Manifest(body=body)
        found = table_of_edits.evaluate(before, Manifest(body=after), self._environment)
        refusing = {Verdict.REJECTED, *([Verdict.UNTIL_ADMITTED] if state == "admitted" else ())}
        refused = [outcome for outcome in found if outcome.verdict in refusing]
        by_webhook = any("webhook" in outcome.why for outcome in refused)
        return (_REFUSED if refused else _TAKEN), by_webhook

    def _answer(self, after: Data, expected: str) -> tuple[str, Result]:
        """What the server did with it; an edit that it cannot read is none of this version."""
        try:
            self._live.apply(after, dry=True)
        except Refused as refused:
            if _UNREADABLE.search(str(refused)):
                return f"unreadable: {refused}", Result.SKIPPED
            if refused.code >= 500:  # a webhook that cannot be reached refuses nothing
                return f"failed: {refused}", Result.DIFFERED
            answer = f"{_REFUSED}: {refused}"
            return answer, Result.HELD if expected == _REFUSED else Result.DIFFERED
        return _TAKEN, Result.HELD if expected == _TAKEN else Result.DIFFERED

    def _rows(self, body: Data, after: Data) -> Iterator[str]:
        edit = Edit(
            table.as_held(Manifest(body=body)),
            table.as_held(Manifest(body=after)),
            self._environment,
        )
        for path in edit.paths:
            row = table.row_for(edit, path)
            self._met.add(id(row))
            yield _named(row)

    def not_met(self, bodies: Sequence[Data], *, queued: bool = False) -> list[str]:
        """The rows about the kinds of these objects that no edit has met: Kueue's, or the others."""
        kinds = {Manifest(body=body).group_kind for body in bodies}
        of_kueue = set(map(id, kueue.EDITS))
        return [
            _named(row)
            for row in table.EDITS
            if kinds.intersection(row.kinds)
            and (id(row) in of_kueue) is queued
            and id(row) not in self._met
        ]


def _named(row: EditRow) -> str:
    when = ", ".join(condition.text for condition in row.when)
    return f"{'.'.join(row.path.parts) or 'any'}{f' ({when})' if when else ''}"


def _of_kind(body: Data) -> Iterator[Data]:
    yield from _CATALOG["any"]
    known = _CATALOG.get(body["kind"], {})
    yield from known.get("edits", ())
    if "template" in known:
        for edit in _CATALOG["template"]:
            yield _prefixed(edit, "T", known["template"])


def _prefixed(edit: Data, letter: str, prefix: str) -> Data:
    return {
        prefix + pointer[1:] if pointer.startswith(f"{letter}/") else pointer: value
        for pointer, value in edit.items()
    }


def _variant(body: Data, variant: Data, number: int) -> Data:
    made = copy.deepcopy(body)
    made["metadata"]["name"] += f"-v{number}"
    values = _prefixed(variant["set"], "P", variant.get("prefix", ""))
    for pointer, value in values.items():
        _put(made, Pointer(pointer).parts, value)
    return made


def _edited(body: Data, edit: Data) -> Data | None:
    """An object after an edit; None where it has no such list."""
    after = copy.deepcopy(body)
    try:
        for pointer, value in edit.items():
            _put(after, Pointer(pointer).parts, value)
    except (LookupError, ValueError):
        return None
    return after


def _put(body: Any, path: tuple[str, ...], value: Any) -> None:
    """Sets a value, with the mappings above it; None takes it out."""
    *above, last = path
    for key in above:
        if isinstance(body, list):
            body = body[int(key)]
        elif key.isdigit() and key not in body:
            raise LookupError(key)
        else:
            body = body.setdefault(key, {})
    if value is None:
        body.pop(last, None)
    elif isinstance(body, list):
        body[int(last)] = value
    else:
        body[last] = value
