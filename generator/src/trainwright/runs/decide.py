"""Deciding what happens to a job, from its sources and its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location, ValueChange
from trainwright.datatypes.job import ORDERED
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.same import ORDER, differences
from trainwright.kinds import TARGETS
from trainwright.kinds.facts import POD_SECURITY
from trainwright.runs import identity, meaning
from trainwright.runs.decision import Decision, Sources, Step
from trainwright.runs.fields import is_trained, operated, operation, with_operation
from trainwright.runs.record import ENDED, Record, State
from trainwright.runs.recorded_job import CannotAdjust, began_in, edited_operation, recorded_job
from trainwright.runs.same_spec import Surroundings, secured_alike
from trainwright.specs import files
from trainwright.specs.ledger import Ledger
from trainwright.specs.merge import DEFAULTS

# Who applies a run is not part of its name: a new run would have the same name as the current one.
_APPLYING = "gitops"


def decide(sources: Sources, record: Record | None, ledger: Ledger) -> Decision:
    """Return what happens to a job whose sources are valid."""
    job = sources.job
    adopted = sources.adopted.name if record is None and sources.adopted else ""
    if adopted and adopted not in ledger.runs:  # else it ended there, and counts as any other
        step = Step.END if job.state == "cancelled" else Step.ADOPT
        return Decision(step=step, name=adopted, state=job.state, record=None)
    requested = record is None or asks(sources, record)
    forgotten = record is not None and _is_forgotten(record, job.name, ledger)
    if record is not None and not (requested or forgotten):
        return _continued(sources, record, ledger)
    first = begun_name(sources, "")
    finished = ledger.finished(job.name, sources.digest, first) if ledger.runs else ""
    if finished:  # whatever ran in between
        return Decision(step=Step.END, name=finished, state="finished", record=record)
    replaced = record.object if record else adopted
    name = begun_name(sources, replaced) if replaced else first
    if job.state == "cancelled":
        # The run that was there, or the name of one that never began.
        if record is not None and not finished_as(record, job.name, ledger):
            name = record.object
        return Decision(step=Step.END, name=name, state="cancelled", record=record)
    return Decision(
        step=Step.BEGIN,
        name=name,
        state=job.state,
        record=record,
        unasked=not requested,
        replaces=replaced,
    )


def begun_after(replaced: str, decision: Decision, sources: Sources) -> Decision:
    """Return the decision for a run that began by replacing the given object, whatever is recorded
    now; the run may have ended.
    """
    if sources.adopted is not None and not replaced:
        return decision  # the first run, which replaces no other
    if decision.state == "finished":  # under a name that the ledger has
        return replace(decision, replaces=replaced)
    if decision.step is Step.ADOPT:
        decision = replace(decision, step=Step.BEGIN)
    return replace(decision, name=begun_name(sources, replaced), replaces=replaced)


def begun_name(sources: Sources, replaced: str) -> str:
    """Return the object name of a run that begins in place of the given object ("" for none)."""
    digest = identity.spec_hash(sources.job, sources.environment, replaced)
    return identity.object_name(sources.job, digest)


def unchanged(record: Record) -> Decision:
    """Return the decision for a job of which nothing has changed since its run began."""
    step = Step.END if record.state in ENDED else Step.KEEP
    return Decision(step=step, name=record.object, state=record.state, record=record)


def finished_as(record: Record, job: str, ledger: Ledger) -> str:
    """Return the object under which the ledger has the run of a record, or "" without such a run.

    Who retires a run that is published but not rendered may not know the object's name: the part of
    the job's own file that ran identifies it, too.
    """
    if not ledger.runs:  # for which no digest is needed
        return ""
    return ledger.finished(job, meaning.digest(record.job, record.run), record.object)


def _is_forgotten(record: Record, job: str, ledger: Ledger) -> bool:
    """Whether a run has finished, by its record, and the ledger has lost it."""
    return record.state == "finished" and not finished_as(record, job, ledger)


def asks(sources: Sources, record: Record) -> bool:
    """Whether a line of the job's own file requests another run than the recorded one."""
    own, spec = sources.own, sources.spec.data
    revived = record.state == "cancelled" and sources.job.state != "cancelled"
    if revived and own.get("state") != record.job.get("state"):
        return True
    if meaning.requests_new_run(record, own, sources.chosen(record), spec, _same(sources, record)):
        return True
    if sources.environment.shared_changes == "hold":
        return False
    paths = (held.path for held in _held(sources, record))
    return any(is_trained(path) and path.parts[0] != _APPLYING for path in paths)


def requesting(sources: Sources, record: Record) -> Iterator[ValueChange]:
    """Yield the changes of what is trained since a run began, the job's own file's first."""
    trained = (change for change in _held(sources, record) if is_trained(change.path))
    return iter(sorted(trained, key=lambda change: change.place.file != sources.job.source))


def overtakes(sources: Sources, record: Record) -> bool:
    """Return whether a line of the job's own file requests another run, or changes to this one.

    An uncommitted record is then ignored, because its run has not begun.
    """
    return asks(sources, record) or bool(edited_operation(record, sources))


def _same(sources: Sources, record: Record) -> meaning.Same:
    """Return a comparison of two effective specs in the environment that a run began in."""
    environment = began_in(record, sources.environment)
    return Surroundings(sources.spec, environment, sources.job.source).same


def _continued(sources: Sources, record: Record, ledger: Ledger) -> Decision:
    state: State = sources.job.state
    name = record.object
    if finished := finished_as(record, sources.job.name, ledger):
        state, name = "finished", finished
    elif record.state == "cancelled":
        state = "cancelled"  # its objects are gone: only its own file starts it again
    if state in ENDED:
        return Decision(step=Step.END, name=name, state=state, record=record)
    # As far as is known without rendering, edits that are not held yet are laid onto the run.
    adjusted = state != record.state or not {*edited_operation(record, sources)} <= {*record.held}
    step = Step.ADJUST if adjusted else Step.KEEP
    held = _behind(sources, record, dict.fromkeys(record.held, ""))
    return Decision(step=step, name=name, state=state, record=record, held=held)


def settled(
    decision: Decision, sources: Sources, untaken: Mapping[str, str], *, changed: bool
) -> Decision:
    """Return the decision once it is known which operational fields a run does not take, and why.

    `changed` is whether any of the run's files is rendered differently.
    """
    assert decision.record is not None
    step = Step.ADJUST if changed else Step.KEEP
    return replace(decision, step=step, held=_behind(sources, decision.record, untaken))


def _behind(
    sources: Sources, record: Record, untaken: Mapping[str, str]
) -> tuple[ValueChange, ...]:
    """Return the changes that a run does not have, leaving out edits of operational fields in the
    job's own file that it takes.
    """
    edited = meaning.operated(record, sources.own)
    names = {path: operation(path) for path in edited}
    held = ((names.get(item.path, ""), item) for item in _held(sources, record))
    return tuple(
        replace(item, note=untaken[name]) if name else item
        for name, item in held
        if not name or name in untaken
    )


def _held(sources: Sources, record: Record) -> Iterator[ValueChange]:
    spec = sources.spec
    differing = tuple(meaning.held(record, spec.data))
    same = bool(differing) and _same(sources, record)(record.spec, spec.data)
    alike = _operated_alike(sources, record) if differing else frozenset()
    for path, before, after in differing:
        if (same and is_trained(path)) or operation(path) in alike:
            continue
        if path.last == ORDER:
            at = path.parent
            yield ValueChange(at, before, after, _ordered(sources, record, at))
        else:
            yield ValueChange(
                path, before, after, files.decided_by(spec, path) or spec.authored(path)
            )
    then, now = _facts(sources, record)
    if pools := then.get("pools"):  # of which at most the name is another
        named = meaning.pools_by_name(pools, record.spec, sources.spec.data)
        then = {**then, "pools": named}
    for path, before, after in differences(then, now, ORDERED):
        if _renders_alike(sources, record, path):
            continue
        written = sources.environment.pod_security if path == _POD_SECURITY else after
        yield ValueChange(path, before, written, _stated(sources, path))


def _renders_alike(sources: Sources, record: Record, path: Pointer) -> bool:
    """Whether a changed fact of the environment leaves the objects of a run as they are."""
    job, was, now = sources.job, began_in(record, sources.environment), sources.environment
    if path == _POD_SECURITY:
        return secured_alike(job, was, now)
    facts = (fact for fact in TARGETS[job.target].facts if Pointer.of(*fact.path) == path)
    return any(fact.alike(job, was, now) for fact in facts)


_POD_SECURITY = Pointer.of(*POD_SECURITY.path)


def _operated_alike(sources: Sources, record: Record) -> frozenset[str]:
    """Return the operational fields whose value is still the run's, however it is written.

    Return none if this version cannot interpret the record.
    """
    try:
        run = recorded_job(record, sources)
    except CannotAdjust:
        return frozenset()
    was, now = operated(run.job), operated(sources.job)
    return frozenset(name for name in was if was[name] == now[name])


def _ordered(sources: Sources, record: Record, at: Pointer) -> Location:
    """Return the line of the mapping whose order of keys changed.

    The order is that of the lowest layers which have the keys.
    """
    *below, own = sources.spec.layers
    was, now = (list(lookup(data, at) or ()) for data in (record.job, own.data))
    layers = below if was == now else (*below, own)
    written = (layer for layer in reversed(layers) if lookup(layer.data, at))
    return next(written, own).key_place(at)


def _facts(sources: Sources, record: Record) -> tuple[Mapping[str, Data], Mapping[str, Data]]:
    """Return the facts of a run, and those of today without what its record could not have."""
    job, environment = sources.job, sources.environment
    try:
        run = recorded_job(record, sources)
    except CannotAdjust:
        return record.environment, identity.facts(job, environment)
    unknown = identity.unrecorded_facts(record.environment, run.job, run.environment)
    then = identity.known_facts(record.environment, run.job)
    # An edit of the job's own operational fields is not a change in its surroundings.
    job = with_operation(job, operated(run.job))
    return then, identity.facts(job, environment, without=unknown)


def _stated(sources: Sources, pointer: Pointer) -> Location:
    """Return the line of environment.yaml that sets a value, or else the one of defaults.yaml."""
    shared = [layer.document for layer in sources.spec.layers if layer.label == DEFAULTS]
    writers = (d for d in (sources.document, *shared) if pointer in d.places)
    return next(writers, sources.document).place(pointer)
