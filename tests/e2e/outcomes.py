"""What was tried and its outcome, as a table that two clusters can be compared by."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


class Result(enum.StrEnum):
    HELD = "held"
    DIFFERED = "did not hold"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one step of one target; `details` is why, or what was counted."""

    target: str
    step: str
    result: Result
    details: str = ""


@dataclass(frozen=True)
class EditOutcome:
    """One edit of a live object: what the table of edits has, and the server's answer."""

    target: str
    state: str
    edit: str
    row: str
    expected: str
    answer: str
    result: Result


@dataclass
class Outcomes:
    """All of a session, in the order in which it happened."""

    cluster: Mapping[str, str]
    steps: list[Outcome] = field(default_factory=list)
    edits: list[EditOutcome] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return any(step.result is Result.DIFFERED for step in self.steps)

    def of(self, target: str, step: str) -> Outcome | None:
        return next((s for s in self.steps if (s.target, s.step) == (target, step)), None)

    def json(self) -> str:
        data = {
            "apiVersion": "trainwright.io/v1alpha1",
            "kind": "Conformance",
            "cluster": dict(self.cluster),
            "steps": [asdict(step) for step in self.steps],
            "edits": [asdict(edit) for edit in self.edits],
        }
        return json.dumps(data, indent=2) + "\n"

    def markdown(self) -> str:
        return "\n".join((*self._versions(), *self._table(), *self._details(), *self._edits()))

    def _versions(self) -> list[str]:
        found = [f"| {name} | {version} |" for name, version in self.cluster.items()]
        return ["| part | version |", "|---|---|", *found, ""]

    def _table(self) -> list[str]:
        targets = list(dict.fromkeys(step.target for step in self.steps))
        steps = list(dict.fromkeys(step.step for step in self.steps))
        head = f"| step | {' | '.join(targets)} |"
        lines = [head, f"|---|{'---|' * len(targets)}"]
        for step in steps:
            cells = [self._cell(self.of(target, step)) for target in targets]
            lines.append(f"| {step} | {' | '.join(cells)} |")
        return [*lines, ""]

    @staticmethod
    def _cell(outcome: Outcome | None) -> str:
        if outcome is None:
            return ""
        return f"**{outcome.result}**" if outcome.result is Result.DIFFERED else outcome.result

    def _details(self) -> list[str]:
        """Why, of all that did not simply hold; what several targets share is one line."""
        shared: dict[tuple[str, str, str], list[str]] = {}
        for step in self.steps:
            if step.details:
                shared.setdefault((step.result, step.step, step.details), []).append(step.target)
        order = {Result.DIFFERED: 0, Result.SKIPPED: 1, Result.HELD: 2}
        lines = ["| result | step | targets | details |", "|---|---|---|---|"]
        for (result, step_name, details), targets in sorted(
            shared.items(), key=lambda item: order[Result(item[0][0])]
        ):
            words = _one_line(details)
            lines.append(f"| {result} | {step_name} | {', '.join(targets)} | {words} |")
        return [*lines, ""]

    def _edits(self) -> list[str]:
        if not self.edits:
            return []
        head = "| target | state | edit | expected | answer | result |"
        rows = [
            f"| {e.target} | {e.state} | {_one_line(e.edit)} | {e.expected} "
            f"| {_one_line(e.answer)} | {e.result} |"
            for e in self.edits
        ]
        return [head, "|---|---|---|---|---|---|", *rows, ""]


def _one_line(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())[:400]
