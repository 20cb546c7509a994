"""What the status of a Toy means."""

from collections.abc import Mapping

from trainwright.datatypes.data import Data
from trainwright.kinds.state import Phase, State, Status, status_of


def _state_of(body: Mapping[str, Data]) -> State:
    status = status_of(body)
    phase = Phase.SUCCEEDED if status.get("broken") == 0 else Phase.RUNNING
    return State(phase=phase, ready=status.get("ready"), total=body["spec"]["size"])


STATUS = Status(state_of=_state_of)
