"""What the status of an object of any kind means, by the words that most controllers share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, amount, dig, integer, mapping, text
from trainwright.kinds.state import Phase, State, Status, first, holding, status_of, suspended

_CONDITIONS = (
    ("Failed", Phase.FAILED),
    ("Succeeded", Phase.SUCCEEDED),
    ("Completed", Phase.SUCCEEDED),
    ("Complete", Phase.SUCCEEDED),
)
_LASTING = (("Restarting", Phase.RESTARTING), ("Running", Phase.RUNNING))
# In small letters: of KubeRay, Volcano and AppWrapper.
_WORDS: Mapping[str, Phase] = {
    **dict.fromkeys(("succeeded", "complete", "completed"), Phase.SUCCEEDED),
    **dict.fromkeys(("failed", "aborted", "terminated", "stopped"), Phase.FAILED),
    **dict.fromkeys(("suspended", "suspending"), Phase.SUSPENDED),
    **dict.fromkeys(("running", "ready"), Phase.RUNNING),
    **dict.fromkeys(("restarting", "retrying", "resetting"), Phase.RESTARTING),
}
_ENDED = (Phase.SUCCEEDED, Phase.FAILED)


def _state_of(body: Mapping[str, Data]) -> State:
    spec, status = mapping(body.get("spec")), status_of(body)
    ready = integer(status.get("readyReplicas"))
    counted = State(
        phase=Phase.RUNNING if ready else Phase.PENDING,
        ready=ready,
        total=None if ready is None else amount(spec.get("replicas")),
    )
    held = holding(status.get("conditions"))
    reported = replace(
        counted,
        reason=text(status.get("reason")),
        message=text(status.get("message")),
        since=text(status.get("endTime")),
    )
    phases = [_WORDS[word] for word in _words(status) if word in _WORDS]
    over = next((phase for phase in phases if phase in _ENDED), None)
    if ended := first(held, _CONDITIONS, counted):
        return ended
    if over:
        return replace(reported, phase=over)
    if spec.get("suspend") or dig(spec, "runPolicy", "suspend"):
        return suspended(held, counted)
    if lasting := next((phase for phase in phases if phase not in _ENDED), None):
        return replace(counted, phase=lasting)
    return first(held, _LASTING, counted) or counted


def _words(status: Mapping[str, Data]) -> Iterator[str]:
    """Yield the one-word states of the whole object in lower case, the most conclusive first."""
    state = status.get("state")
    texts = (
        status.get("phase"),
        dig(state, "phase") if isinstance(state, Mapping) else state,
    )
    yield from (word.lower() for word in map(text, texts) if word)


STATUS = Status(state_of=_state_of)
