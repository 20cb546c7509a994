"""A recorded run with another state or other operational fields, and nothing else changed.

What the edit changes in today's rendering is laid onto the recorded bytes: a three-way merge whose
base is rendered from the record, one side from the record with the edit, and whose other side is
the recorded files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import ORDERED, Job
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.same import differences
from trainwright.documents import editing, yamlio
from trainwright.files.filetree import digest
from trainwright.helm.engines import ChartRefusal
from trainwright.kinds import ADOPTED
from trainwright.kinds.capabilities import unsupported
from trainwright.runs import identity, threeway
from trainwright.runs.decision import Sources
from trainwright.runs.record import VALUES_FILE
from trainwright.runs.recorded_job import CannotAdjust, RecordedJob, edited_job, edited_operation

Texts = Mapping[str, str]
Render = Callable[[Job, Environment, str], Texts]  # a job as files by name, for an object's name
Untaken = Callable[[Texts, Texts], str]  # why live objects do not take an edit; empty if they do


def restored(recorded: RecordedJob, render: Render) -> Texts | None:
    """Return the recorded files rendered again, or None if this version renders other bytes."""
    texts = render(recorded.job, recorded.environment, recorded.record.object)
    if not recorded.record.files:
        return texts  # what is rendered elsewhere, from the same sources
    same = {name: digest(text) for name, text in texts.items()} == recorded.record.files
    return texts if same else None


@dataclass(frozen=True, slots=True)
class Adjusted:
    """The texts of a run after edits, and why some fields of operation wait for the next run."""

    texts: Texts
    held: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Adjusting:
    """The recorded texts of a run, and how to lay edits onto them."""

    found: RecordedJob
    texts: Texts
    sources: Sources
    render: Render
    untaken: Untaken

    def adjusted(self, state: str) -> Adjusted:
        """Apply a state, and the job's own edits of operational fields, to the recorded texts.

        Raise CannotAdjust if the texts do not take the state. An edit of operation that they or the
        live objects do not take is held.
        """
        job = replace(self.found.job, state="suspended" if state == "suspended" else "active")
        texts = self._laid(job)
        taken: tuple[str, ...] = ()
        held: dict[str, str] = {}
        for name in edited_operation(self.found.record, self.sources):
            try:
                edited = edited_job(self.found, self.sources, (*taken, name))
                edited = replace(edited, state=job.state)
                texts = self._operated(job, edited)
            except (CannotAdjust, ChartRefusal) as error:
                held[name] = str(error)
            else:
                job, taken = edited, (*taken, name)
        return Adjusted(texts, held)

    def _operated(self, job: Job, edited: Job) -> Texts:
        """Return the texts of a run that is operated as another job. Raise CannotAdjust."""
        if job.target == ADOPTED.name:
            raise CannotAdjust("of an object that was adopted as it is, only the state is edited")
        then, today = self.found.environment, self.sources.environment
        already_unsupported = set(unsupported(job, then))
        for problem in unsupported(edited, then):
            if problem not in already_unsupported:
                raise CannotAdjust(problem.message)
        was, now = (identity.facts(version, today) for version in (job, edited))
        for path, _, _ in differences(was, now, ORDERED):
            changed = f"it changes what the run takes from environment.yaml: {path.dotted}"
            raise CannotAdjust(changed)
        texts = self._laid(edited)
        if why := self.untaken(self.texts, texts):
            raise CannotAdjust(why)
        return texts

    def _laid(self, edited: Job) -> Texts:
        """Return the recorded texts with the difference between the recorded job and another.

        Raise CannotAdjust if files would be added or removed.
        """
        recorded, name = self.found, self.found.record.object
        before = self.render(recorded.job, recorded.environment, name)
        after = self.render(edited, recorded.environment, name)
        if before == self.texts:
            return after
        files = {file for file in {*before, *after} if before.get(file) != after.get(file)}
        if recorded.record.adopted:  # whose object was made of no values
            files.discard(VALUES_FILE)
        if not files <= before.keys() & after.keys() & self.texts.keys():
            raise CannotAdjust(f"the edit adds or removes files of {name}")
        lay = _laid_onto_adopted if recorded.record.adopted else _laid
        return {
            file: lay(file, text, before[file], after[file]) if file in files else text
            for file, text in self.texts.items()
        }


def _laid_onto_adopted(file: str, recorded: str, before: str, after: str) -> str:
    """Return an adopted object with the values that differ between two texts. Raise CannotAdjust if
    more than these would change, or a list, in which our items and the object's own cannot be told
    apart.
    """
    wanted = _between(before, after)
    lists = any(isinstance(value, list) for pair in wanted.values() for value in pair)
    merged = None if lists else _edited(file, recorded, before, after)
    made = _between(recorded, merged) if merged is not None else {}
    if merged is None or any(
        path not in wanted or value[1] != wanted[path][1] for path, value in made.items()
    ):
        raise CannotAdjust(f"{file} is an adopted object, which does not take the edit alone")
    return merged


def _between(before: str, after: str) -> dict[Pointer, tuple[Data, Data]]:
    """Return the values that differ between the first objects of two texts, by their pointers."""
    was, now = yamlio.load_rendered(before)[0], yamlio.load_rendered(after)[0]
    return {path: (old, new) for path, old, new in differences(was, now, ORDERED)}


def _laid(file: str, recorded: str, before: str, after: str) -> str:
    """Return the recorded text with the edit from `before` to `after` and no other change. Raise
    CannotAdjust if there is no such text.
    """
    for merged in (threeway.merge(before, after, recorded), _edited(file, recorded, before, after)):
        if merged is not None and threeway.same_edit(before, after, recorded, merged):
            return merged
    raise CannotAdjust(
        f"{file} was rendered by another version of Trainwright, and this one would change more of "
        "it than was requested"
    )


def _edited(file: str, recorded: str, before: str, after: str) -> str | None:
    """Return the recorded text with the edit from `before` to `after` made key by key, wherever the
    lines are now, or None if that fails.
    """
    was, now = yamlio.load_rendered(before), yamlio.load_rendered(after)
    if len(was) != 1 or len(now) != 1:
        return None
    raw = recorded.encode()
    try:
        for pointer, _, value in differences(was[0], now[0], ORDERED):
            if value is not None:
                raw = editing.put(file, raw, pointer, value)
            elif lookup(yamlio.load_rendered(raw.decode())[0], pointer) is not None:
                raw = editing.drop(file, raw, pointer)
    except editing.EditError:
        return None
    return raw.decode()
