"""What was tried and its outcome, as a table that two clusters can be compared by."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

NEEDS = "needs "  # before the name of a step that did not hold


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

    def markdown(self, *, edits: bool = True) -> str:
        """Versions, the table, the reasons, and the edits one by one."""
        parts = (self._versions(), self._table(), self._details(), self._edits() if edits else ())
        return "\n".join(line for part in parts for line in part)

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
        if outcome.result is Result.DIFFERED:
            return f"**{outcome.result}**"
        short = outcome.result is Result.HELD or outcome.details.startswith(NEEDS)
        return ": ".join(filter(None, (outcome.result, outcome.details if short else "")))

    def _details(self) -> list[str]:
        """Why something did not hold or was skipped; what several targets share is one line."""
        shared: dict[tuple[Result, str, str], list[str]] = {}
        for step in self.steps:
            if step.result is not Result.HELD and not step.details.startswith(NEEDS):
                shared.setdefault((step.result, step.step, step.details), []).append(step.target)
        lines = ["| result | step | targets | details |", "|---|---|---|---|"]
        for result, step_name, details in sorted(shared, key=lambda key: key[0]):
            targets = ", ".join(shared[result, step_name, details])
            lines.append(f"| {result} | {step_name} | {targets} | {_one_line(details, 2000)} |")
        return [*lines, ""]

    def _edits(self) -> list[str]:
        if not self.edits:
            return []
        head = "| target | state | edit | expected | answer | result |"
        rows = [
            f"| {e.target} | {e.state} | {_one_line(e.edit, 160)} | {e.expected} "
            f"| {_one_line(e.answer, 160)} | {e.result} |"
            for e in self.edits
        ]
        return [head, "|---|---|---|---|---|---|", *rows, ""]


def _one_line(text: str, most: int) -> str:
    words = " ".join(text.split())
    return (words if len(words) <= most else f"{words[:most]}…").replace("|", "\\|")
