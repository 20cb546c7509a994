"""Which runs stay as they are, told without merging or rendering anything."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.model import Data, Environment, Finding
from trainwright.runs.decision import finished_as
from trainwright.runs.record import Record, Recorded
from trainwright.specs.ledger import Ledger
from trainwright.specs.load import JobFile, LoadedEnvironment, Reader


class Keeper:
    """Looks at the jobs of one environment: thousands cost little more than reading their files."""

    def __init__(
        self, reader: Reader, loaded: LoadedEnvironment, environment: Environment, ledger: Ledger
    ):
        self._reader = reader
        self._loaded = loaded
        self._environment = environment
        self._ledger = ledger
        self._inherited: dict[str, str] = {}

    def stays(self, file: JobFile, recorded: Recorded) -> bool:
        """Whether nothing is to be done for a job: its own file says what it said, and its state
        is what it was. False where that takes a closer look.
        """
        record = recorded.record
        if (
            not (recorded.files.intact and recorded.files.here)
            or self._environment.shared_changes != "hold"
        ):
            return False
        if self._reader.source(file.path) != record.source:
            return False
        finished = bool(finished_as(record, file.name, self._ledger))
        if finished != (record.state == "finished"):
            return False
        # What was cancelled or has finished stays so, whatever state others would give it.
        ended = record.state in ("cancelled", "finished")
        return ended or self._state(record) == record.state

    def _state(self, record: Record) -> str:
        """The effective state of a job whose own file is as recorded; empty when unknown."""
        own, extended = record.job.get("state"), record.job.get("extends", "")
        if extended not in self._inherited:
            self._inherited[extended] = self._below(extended)
        below = self._inherited[extended]
        return own if below and isinstance(own, str) else below

    def _below(self, extended: Data) -> str:
        """The state that a job inherits; empty when what it extends is not sound."""
        findings: list[Finding] = []
        layers: list[Mapping[str, Data]] = []
        if extended:
            folder, _, name = str(extended).partition("/")
            base = JobFile(folder, name)
            chain = self._reader.chain(base, findings)
            layers += [document.data for _, document in chain if document]
        layers += [layer.data for layer in reversed(self._loaded.layers)]
        if findings:
            return ""
        states = [layer["state"] for layer in layers if "state" in layer]
        return states[0] if states and isinstance(states[0], str) else ""
