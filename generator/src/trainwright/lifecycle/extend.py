"""`set --max-duration`: more time for a run that is going on."""

from __future__ import annotations

from trainwright.datatypes.durations import clock, seconds
from trainwright.datatypes.errors import TrainwrightError
from trainwright.documents import editing
from trainwright.documents.validation import schema
from trainwright.lifecycle import unrendered
from trainwright.lifecycle.subject import Step, Subject

_FIELD = "/maxDuration"


def extend(subject: Subject, by: str) -> Step:
    """Raise maxDuration to a duration, or by one with a plus sign. The run keeps its name."""
    more = _seconds(by.removeprefix("+"))
    if refused := unrendered.edit(subject, "maxDuration") or unrendered.never(subject):
        return refused
    allowed = subject.value(_FIELD)
    if allowed is None:
        return Step(message="has no maxDuration: it runs as long as it takes", refused=True)
    if subject.is_over:
        return Step(message="is over: git has nothing of it to extend", refused=True)
    if not by.startswith("+"):
        if more == seconds(allowed):
            return unrendered.already(subject, f"may run {allowed} already", "maxDuration")
        if more < seconds(allowed):
            text = f"may run {allowed}, which is more than {by}; shorten it in {subject.file.path}"
            return Step(message=text, refused=True)
    units = "dhms" if "d" in allowed else "hms"
    wanted = clock(seconds(allowed) + more, units) if by[0] == "+" else by
    raw = editing.put(subject.file.path, subject.raw, _FIELD, wanted)
    text = f"may run {wanted} instead of {allowed}"
    return Step(message=text, files={subject.file.path: raw}, for_the_run="maxDuration")


def _seconds(duration: str) -> int:
    spec = {
        "apiVersion": "trainwright.io/v1alpha1",
        "kind": "JobSpec",
        "name": "any",
        "maxDuration": duration,
    }
    if not schema.job_file().accepts(spec):
        raise TrainwrightError(f'"{duration}" is not a duration; write 12h, 1h30m, or +6h for more')
    return seconds(duration)
