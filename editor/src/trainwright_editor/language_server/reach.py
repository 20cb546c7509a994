"""What a change of a shared value does to the runs of its jobs: known without rendering any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.listing import plural
from trainwright.runs.decision import Step
from trainwright.runs.record import ENDED

if TYPE_CHECKING:
    from trainwright.authoring.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How many jobs a shared value reaches, how many of their runs a change leaves as they are
    (`held`), and how many it starts. A run that is over is neither.
    """

    jobs: int
    held: int
    started: int

    @property
    def consequence(self) -> str:
        """What a change of the value does, in words; empty if it affects no run."""
        parts = []
        if self.held:
            parts.append(f"outdates {plural(self.held, 'run')}")
        if self.started:
            parts.append(f"starts {plural(self.started, 'run')}")
        return f"a change {' and '.join(parts)}" if parts else ""

    def after(self, reached: str) -> str:
        """Return a sentence: how far the value reaches, and then what a change of it does."""
        return f"{reached}: {self.consequence}" if self.consequence else reached


def reach(session: Session, files: Collection[JobFile]) -> Reach:
    """Return what a change of a value that these jobs share does to their runs."""
    steps = Counter(_step(session, file) for file in files)
    return Reach(jobs=len(files), held=steps[Step.KEEP], started=steps[Step.BEGIN])


def _step(session: Session, file: JobFile) -> Step | None:
    """Return what a change around a job does to its run, or None if it has no run or is broken."""
    checked = session.check.checked(file)
    environment = session.workspace.sound(file.environment)
    if checked is None or checked.record is None or environment is None:
        return None
    if checked.record.state in ENDED:
        return Step.END
    present = session.workspace.record(file)
    goes_on = present is not None and present.object == checked.record.object
    return Step.KEEP if goes_on and environment.shared_changes == "hold" else Step.BEGIN
