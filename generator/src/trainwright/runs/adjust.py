"""A recorded run with another `state` or `maxDuration`, and nothing else of today in it.

What the edit changes under today's tool is laid onto the recorded bytes: a three-way merge whose
base and one side are rendered from what the record says, and whose other side is the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from trainwright.datatypes.model import Environment, Job
from trainwright.datatypes.pointer import Pointer
from trainwright.runs import meaning, threeway
from trainwright.runs.recorded_job import CannotAdjust, RecordedJob
from trainwright.specs import editing, yamlio
from trainwright.specs.filetree import digest

Texts = Mapping[str, str]
Render = Callable[[Job, Environment, str], Texts]  # a job as files by name, for an object's name


def restored(found: RecordedJob, render: Render) -> Texts | None:
    """The recorded files rendered again; None where this version renders other bytes."""
    texts = render(found.job, found.environment, found.record.object)
    if not found.record.files:
        return texts  # what is rendered elsewhere, from the same sources
    same = {name: digest(text) for name, text in texts.items()} == found.record.files
    return texts if same else None


def adjusted(
    found: RecordedJob, texts: Texts, state: str, max_duration: int | None, render: Render
) -> dict[str, str]:
    """The recorded texts in another state, or with another deadline (seconds).

    Raises CannotAdjust.
    """
    name = found.record.object
    suspended = state == "suspended"
    edited = replace(
        found.job, state="suspended" if suspended else "active", max_duration=max_duration
    )
    before = render(found.job, found.environment, name)
    after = render(edited, found.environment, name)
    if before == texts:
        return dict(after)
    files = {file for file in {*before, *after} if before.get(file) != after.get(file)}
    if not files <= before.keys() & after.keys() & texts.keys():
        raise CannotAdjust(f"the edit adds or removes files of {name}")
    return {
        file: _laid(file, text, before[file], after[file]) if file in files else text
        for file, text in texts.items()
    }


def _laid(file: str, recorded: str, before: str, after: str) -> str:
    """What differs between two texts, in a third one, and nothing else."""
    for merged in (threeway.merge(before, after, recorded), _edited(file, recorded, before, after)):
        if merged is not None and threeway.same_edit(before, after, recorded, merged):
            return merged
    raise CannotAdjust(
        f"{file} was rendered by another version of Trainwright, and this one would change more of "
        "it than was asked for"
    )


def _edited(file: str, recorded: str, before: str, after: str) -> str | None:
    """The same by keys, wherever their lines are now."""
    was, now = yamlio.load_rendered(before), yamlio.load_rendered(after)
    if len(was) != 1 or len(now) != 1:
        return None
    raw = recorded.encode()
    try:
        for path, _, value in meaning.differences(was[0], now[0]):
            pointer = Pointer.of(*path)
            if value is None:
                raw = editing.drop(file, raw, pointer)
            else:
                raw = editing.put(file, raw, pointer, value)
    except editing.EditError:
        return None
    return raw.decode()
