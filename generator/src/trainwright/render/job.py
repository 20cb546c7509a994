"""One job's whole pipeline, from merged spec to texts and findings, without clock and disk."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

from trainwright.datatypes.data import mapping
from trainwright.datatypes.environment import Environment, Waiver
from trainwright.datatypes.finding import Finding, Location, Related
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import CONTAINERS, Job, Role
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.validation import schema
from trainwright.documents.validation.violation import show
from trainwright.files.filetree import digest
from trainwright.findings import diagnostics as dx
from trainwright.helm.engines import ChartRefusal, Engine, Release
from trainwright.kinds import ADOPTED, TARGETS
from trainwright.kinds.capabilities import left_to_flavor
from trainwright.kinds.subjects import subject_of
from trainwright.kinds.target import Unsupported
from trainwright.objects.pods.flags import flag_words, is_ambiguous
from trainwright.render import dropped, objects, permitted
from trainwright.rule_model.rule import Rule
from trainwright.rule_model.subject import Hit
from trainwright.rules import deception, families, secrets
from trainwright.rules.gitops import ttl_set
from trainwright.runs import meaning, outgrown
from trainwright.runs import record as records
from trainwright.runs.adopted import Adopted, elsewhere, without_place
from trainwright.runs.adopted import path as path_of_adopted
from trainwright.runs.begin import begun
from trainwright.runs.decide import begun_after, begun_name, settled
from trainwright.runs.decision import Decision, Sources, Step
from trainwright.runs.kustomization import RENDERED_FROM
from trainwright.runs.record import VALUES_FILE, Record, Recorded
from trainwright.runs.recorded_job import CannotAdjust, edited_operation, recorded_job
from trainwright.runs.workspace import ResolvedJob, decided
from trainwright.specs import authored, files, layers, ledger, redundant
from trainwright.specs.contradictions import in_role
from trainwright.specs.demand import NOTHING, Demand
from trainwright.specs.ledger import EMPTY, Ledger
from trainwright.specs.merge import BUILT_IN, Layered

if TYPE_CHECKING:
    from trainwright.render.patched import Patched
    from trainwright.runs.adjust import Adjusted

_MAX_OVERRIDDEN = 3  # positions of overridden values shown with a finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """One job rendered: the files to write by name, and every finding.

    `usable` is false if findings prevent a decision. There are `files` for a new run, for one that
    is changed in place, and for one whose files on disk are not what was rendered. `record` is what
    has to be recorded about the run, and `demand` what that requests. `inputs` are the files that
    decide it, whether they exist or not.
    """

    file: JobFile
    usable: bool
    decision: Decision | None = None
    record: Record | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    inputs: tuple[str, ...] = ()
    demand: Demand = NOTHING

    @property
    def name(self) -> str:
        """The name of the job's object; empty if there is none."""
        return self.decision.name if self.decision else ""

    @property
    def target(self) -> str:
        return self.record.target if self.record else ""

    @property
    def begins(self) -> bool:
        return self.decision is not None and self.decision.step is Step.BEGIN

    @property
    def is_checked(self) -> bool:
        """Whether a check of the run as recorded now would add nothing to the findings."""
        step = self.decision.step if self.decision and self.usable else None
        return step in (Step.BEGIN, Step.END)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The context to render a job in.

    With `check_next_runs` the next run is checked even if the present one stays; `new_runs` lets
    runs begin although an unrecorded one may exist; `replaces` is the object that a new run
    replaces, if not that of the present one.
    """

    engine: Engine
    ledger: Ledger = EMPTY
    check_next_runs: bool = True
    new_runs: bool = False
    replaces: str | None = None


# Yields what Helm has to render of the next run, and returns what the job is rendered to.
Steps: TypeAlias = Generator[Release, dict[str, str] | ChartRefusal, Rendered]


def header(file: JobFile, source: str = "") -> str:
    """Return the comment that opens every rendered file; `source` is by default the job's file."""
    return (
        f"{RENDERED_FROM} {source or file.path}. Do not edit this file:\n"
        f"# change the source and run `trainwright render {file}`.\n"
    )


def alone(resolved: ResolvedJob, context: Context, present: Recorded | None = None) -> Rendered:
    """Render and check one job, whose next run Helm renders by itself."""
    steps = job(resolved, context, present)
    try:
        steps.send(context.engine.render_all([next(steps)])[0])
    except StopIteration as end:
        rendered: Rendered = end.value
        return rendered
    raise AssertionError("a job has one next run")


def job(resolved: ResolvedJob, context: Context, present: Recorded | None = None) -> Steps:
    """Render and check one job without looking at any other.

    `present` is the run that it has, if any. What Helm has to render of its next run is yielded
    once, if that is checked, so that this is done for many jobs at once.
    """
    loaded = resolved.loaded
    failed = Rendered(file=loaded.file, usable=False, findings=loaded.findings, inputs=loaded.files)
    if loaded.spec is None:
        return failed
    done = yield from _rendered(failed, resolved, context, present)
    subject = str(loaded.file)
    findings = tuple(f if f.subject else replace(f, subject=subject) for f in done.findings)
    return replace(done, findings=findings)


def _rendered(
    failed: Rendered, resolved: ResolvedJob, context: Context, present: Recorded | None
) -> Steps:
    """Render and check a job that has a merged spec. Findings without a subject are about it."""
    loaded, record = resolved.loaded, present.record if present else None
    beside = decided(resolved, record, context.ledger)
    sources, decision, findings = beside.sources, beside.decision, beside.findings
    if sources is None or decision is None:
        return replace(failed, findings=findings)
    if context.replaces is not None and (decision.step is Step.BEGIN or record is None):
        decision = begun_after(context.replaces, decision, sources)
    done = replace(failed, usable=True, decision=decision)
    work = _Work(sources, decision, context, loaded.file, loaded.source, present)
    # Always if it begins now, and never that of a finished job.
    if decision.step is Step.BEGIN or (context.check_next_runs and decision.step is not Step.END):
        done = yield from _next_run(replace(done, waivers=sources.job.waivers), work)
        done = _outgrown(done, findings[len(loaded.findings) :], work)
    if decision.step is Step.BEGIN:
        return _begun(done, work)
    done = replace(done, files={}, record=None)
    if decision.step is Step.ADOPT and done.usable:
        return _adopted(done, work)
    if decision.step is Step.END:
        findings = tuple(_in_text(sources.spec))
        waivers = _waivers_of(sources, findings)
        done = replace(done, findings=findings, waivers=waivers)
    if present is None:
        return replace(done, record=_record(work, {}, ()))
    if decision.step is not Step.END and (own_findings := _still_said(work)):
        done = replace(
            done,
            findings=(*done.findings, *own_findings),
            waivers=done.waivers or _waivers_of(sources, own_findings),
        )
    return _continued(done, work)


def _begun(done: Rendered, work: _Work) -> Rendered:
    """Return the new run; a finding if no line of the job's own file requests it: it only begins
    since the ledger lost a finished one.
    """
    if work.context.new_runs or not work.decision.unasked or work.present is None:
        return done
    file, path = work.file, ledger.path(work.file.environment)
    finding = dx.UNRECORDED.at(
        Location(file.path),
        f"{work.was.object} has finished, and {path} does not list it any more: {done.name} would "
        "begin",
        remedy=f"Take its line from a commit that has it (`git checkout COMMIT -- {path}`), or "
        f"retire it again with `trainwright retire {file}`. `trainwright rerun {file}` begins "
        "another run.",
    )
    findings = (*done.findings, finding)
    return replace(done, usable=False, findings=findings, files={}, record=None)


@dataclass(frozen=True, slots=True)
class _Work:
    """A job being rendered: what is written about it, its present run, and what happens to that."""

    sources: Sources
    decision: Decision
    context: Context
    file: JobFile
    source: str  # the digest of the job's own file
    present: Recorded | None

    @property
    def was(self) -> Record:
        """The record of the present run."""
        assert self.present is not None
        return self.present.record

    def texts(self, job: Job, environment: Environment, name: str) -> dict[str, str]:
        """Render a job to files by name. Raise ChartRefusal, or CannotAdjust if it is adopted."""
        if job.target == ADOPTED.name:
            return self._as_it_is(job)
        return self.headed(objects.texts(job, environment, name, self.context.engine))

    def headed(self, texts: Mapping[str, str]) -> dict[str, str]:
        top = header(self.file)
        return {path: top + text for path, text in texts.items()}

    def _as_it_is(self, job: Job) -> dict[str, str]:
        """The adopted object as files, in the job's state. Raise CannotAdjust."""
        adopted, suspended = self.sources.adopted, job.state == "suspended"
        if adopted is None:
            raise CannotAdjust(f"{path_of_adopted(self.file)} is gone: `git checkout` it")
        if adopted.unstoppable and suspended != adopted.suspended:
            raise CannotAdjust(
                f"{adopted.manifest.title} was adopted as it is, and takes no other state: "
                f"{adopted.unstoppable}. End it by hand, and then `trainwright retire {self.file}`"
            )
        return _adopted_texts(self.file, adopted, job.target, suspended=suspended)


# --- a run that begins, or that would be next ----------------------------------------------------


def _next_run(done: Rendered, work: _Work) -> Steps:
    """Render and check the run that the sources describe now."""
    sources = work.sources
    job, environment = sources.job, sources.environment
    decision, record = work.decision, work.decision.record
    begins = decision.step is Step.BEGIN
    # What is found in the next run is in the present one too, where nothing differs.
    is_alike = decision.step is Step.KEEP and not (decision.held or (record and record.adopted))
    replaced = record.object if record else ""
    name = decision.name if begins or is_alike else begun_name(sources, replaced)
    has_none = job.target == ADOPTED.name and not begins
    problems = (*done.findings, *(() if has_none else _unfit(sources, name)))
    if problems:
        return replace(done, usable=False, findings=problems)
    linted = (*redundant.findings(sources.spec, job, environment), *_in_text(sources.spec))
    if job.state == "cancelled" or has_none:
        return replace(done, findings=linted)
    linted = (
        *linted,
        *_left_out(sources),
        *_unrequested(sources),
        *_ambiguous(sources),
    )
    if job.target == ADOPTED.name:
        texts = work.texts(job, environment, name)
    else:
        release = objects.release_of(job, environment, name)
        templates = yield release
        if isinstance(templates, ChartRefusal):
            message = f"the chart refuses the values: {templates}"
            finding = dx.CHART.at(sources.spec.origin("/name"), message)
            return replace(done, usable=False, findings=(*linted, finding))
        texts = work.headed(objects.with_values(job, release, templates))
    manifests = objects.manifests(texts, job.target)
    patched = _patched(work, manifests, name) if job.pod_patch else None
    problems = tuple(_dropped(work, manifests, patched))
    if problems:
        return replace(done, usable=False, findings=(*linted, *problems))
    findings = tuple(_check(manifests, sources, patched))
    said = {finding.path for finding in findings if finding.path}
    linted = tuple(f for f in linted if f.rule != dx.SAME_AS_INHERITED.id or f.path not in said)
    findings = (*linted, *(f for f in findings if not _is_said(f, linted)))
    return replace(done, findings=findings, files=texts, record=_record(work, texts, manifests))


def _outgrown(done: Rendered, oversized: tuple[Finding, ...], work: _Work) -> Rendered:
    """Return the next run's findings, those about a pool that became too small as warnings."""
    if not outgrown.goes_on(work.decision):
        return done
    findings = outgrown.of_rules(done.findings, work.sources, work.decision)
    return replace(done, findings=(*oversized, *findings))


def _patched(work: _Work, manifests: tuple[Manifest, ...], name: str) -> Patched:
    """Return the objects of a job, together with those that it has without its podPatch."""
    from trainwright.render.patched import Patched  # few jobs have a podPatch

    sources = work.sources
    job, environment = sources.job, sources.environment
    plain = work.texts(replace(job, pod_patch={}), environment, name)
    without = objects.manifests(plain, job.target)
    return Patched(job, sources.spec, environment, manifests, without)


def _dropped(
    work: _Work, manifests: tuple[Manifest, ...], patched: Patched | None
) -> Iterator[Finding]:
    """Yield findings about fields of the pods that an API server would silently drop."""
    sources = work.sources
    job, environment = sources.job, sources.environment
    for problem in dropped.refusals(manifests, job, environment, sources.spec.data, patched):
        yield _refused(sources, dx.UNSUPPORTED, problem)


def _record(work: _Work, texts: Mapping[str, str], manifests: tuple[Manifest, ...]) -> Record:
    """Return the record of a run that begins, or that ended before anything was recorded."""
    return replace(
        begun(work.sources, work.decision, work.source),
        objects=records.objects(manifests),
        files={name: digest(text) for name, text in texts.items()},
    )


# --- a run that was there before -----------------------------------------------------------------


def _adopted(done: Rendered, work: _Work) -> Rendered:
    """Render an adopted job: the object that the cluster has, as its file describes it."""
    sources, adopted = work.sources, work.sources.adopted
    assert adopted is not None
    findings = tuple(_unadoptable(sources, adopted))
    if findings:
        return replace(done, usable=False, findings=(*done.findings, *findings))
    texts = _adopted_texts(work.file, adopted, sources.job.target)
    manifests = objects.manifests(texts, sources.job.target)
    own_findings = tuple(_in_adopted(manifests[0], adopted, sources))
    done = replace(done, waivers=done.waivers or _waivers_of(sources, own_findings))
    record = _record(work, texts, manifests)
    return replace(done, findings=(*done.findings, *own_findings), files=texts, record=record)


def _waivers_of(sources: Sources, findings: tuple[Finding, ...]) -> tuple[Waiver, ...]:
    """Return the waivers of these findings; other rules were not run, so theirs are not unused."""
    broken = {finding.rule for finding in findings}
    return tuple(waiver for waiver in sources.job.waivers if waiver.rule in broken)


def _adopted_texts(
    file: JobFile, adopted: Adopted, target: str, *, suspended: bool | None = None
) -> dict[str, str]:
    top = header(file, adopted.path)
    return {
        VALUES_FILE: top + adopted.values(target),
        TARGETS[target].template: top + adopted.text(suspended=suspended),
    }


def _unadoptable(sources: Sources, adopted: Adopted) -> Iterator[Finding]:
    """Yield a finding wherever a job or its environment contradicts the object to adopt."""
    job = sources.job
    for pointer, message in elsewhere(adopted.manifest, sources.environment):
        yield dx.ADOPTED.at(adopted.document.place(pointer), message)
    if not adopted.fits(job.target):
        message = f"target is {job.target}, and the adopted object is a {adopted.manifest.kind}"
        yield dx.ADOPTED.at(sources.spec.authored(Pointer("/target")), message)
    if (job.state == "suspended") != adopted.suspended:
        actual = "is suspended" if adopted.suspended else "is not suspended"
        message = f"state is {job.state}, and the adopted object {actual}"
        remedy = "Commit the run as it was adopted, and edit its state then."
        yield dx.ADOPTED.at(sources.spec.authored(Pointer("/state")), message, remedy=remedy)


def _displaced(work: _Work) -> tuple[Finding, ...]:
    """Return the finding that nothing applies an adopted object any more, whose run goes on."""
    adopted = work.sources.adopted
    if adopted is None or not work.was.adopted:
        return ()
    remedy = f"Set mode: rendered, or `trainwright retire {work.file}` once its run is over."
    return tuple(
        dx.ADOPTED.at(adopted.document.place(pointer), message, remedy=remedy)
        for pointer, message in without_place(work.sources.environment)
    )


# The field is part of the object, which stays as it is.
_UNTIL_THEN = (
    "Retire the job (`trainwright retire`) before that time is up; or take the field out of the "
    "object in the cluster with `kubectl patch`, and adopt it again."
)


def _still_said(work: _Work) -> tuple[Finding, ...]:
    """Return the findings about an adopted object whose run goes on: that it deletes itself, and
    what its job waives.
    """
    adopted = work.sources.adopted
    if adopted is None or not work.was.adopted or work.was.object != adopted.name:
        return ()
    rules = {ttl_set.id, *(waiver.rule for waiver in work.sources.job.waivers)}
    findings = _in_adopted(adopted.manifest, adopted, work.sources)
    return tuple(finding for finding in findings if finding.rule in rules)


def _in_adopted(manifest: Manifest, adopted: Adopted, sources: Sources) -> Iterator[Finding]:
    """Yield findings about what no object may have; everything else is left as it is."""
    findings = []
    for rule, hit in permitted.of_adopted(manifest, sources.environment, sources.job):
        finding = _finding(rule, hit, manifest, sources.spec)
        finding = replace(finding, place=adopted.document.place(hit.pointer), related=())
        findings.append(replace(finding, remedy=_UNTIL_THEN) if rule is ttl_set else finding)
    yield from findings
    yield from deception.elsewhere(adopted.unseen, findings)


# --- a run that goes on, or has ended ------------------------------------------------------------


def _continued(done: Rendered, work: _Work) -> Rendered:
    """Return the recorded run in its present state, and operated as it is now."""
    sources, decision, was, present = work.sources, work.decision, work.was, work.present
    assert present is not None
    if decision.step is Step.END:
        kept = _attributed(work)
        return replace(done, record=replace(kept.ended(decision.state), object=decision.name))
    whole = present.intact and present.here
    resumed = decision.state != was.state
    names = (*edited_operation(was, sources), *(("state",) if resumed else ()))
    edited = {name.partition(".")[0] for name in names}
    if displaced := (*_displaced(work), *_refused_edits(done, work, edited)):
        return replace(done, usable=False, findings=(*done.findings, *displaced))
    if whole and not edited:
        return replace(done, record=_attributed(work))
    try:
        texts = _texts(work, present)
        adjusted = _adjusted(work, texts)
    except (CannotAdjust, ChartRefusal) as error:
        finding = dx.RUN.at(sources.spec.authored(Pointer("/state")), str(error))
        return replace(done, usable=False, findings=(*done.findings, finding))
    changed = resumed or adjusted.texts != texts
    decision = settled(decision, sources, adjusted.held, changed=changed)
    done = replace(done, decision=decision, findings=(*done.findings, *_held(work, decision)))
    kept = _attributed(work, adjusted.held)
    if whole and not changed:
        return replace(done, record=kept)
    manifests = objects.manifests(adjusted.texts, was.target)
    files = {name: digest(text) for name, text in adjusted.texts.items()}
    kept = replace(kept, files=files, objects=records.objects(manifests))
    return replace(done, record=kept, files=adjusted.texts)


def _refused_edits(done: Rendered, work: _Work, edited: Collection[str]) -> Iterator[Finding]:
    """Yield what the target refuses of edited fields, unless it is known from the next run."""
    for finding in _unfit(work.sources, work.decision.name) if edited else ():
        if finding.path.parts[0] in edited and finding not in done.findings:
            yield finding


def _attributed(work: _Work, held: Collection[str] = ()) -> Record:
    """Return the record of a run that goes on, or has ended, with the present spec's values."""
    sources, decision, was, entries = work.sources, work.decision, work.was, work.context.ledger
    job, inherited = meaning.attributed(was, sources.own, sources.spec.data, held)
    # Another run may have finished with the present values, if a base was changed and changed back.
    if decision.state != "finished" and entries.finished(
        work.file.name, meaning.digest(job, was.run)
    ):
        job, inherited = dict(was.job), dict(was.inherited)
    kept = replace(was, job=job, inherited=inherited, state=decision.state, held=tuple(held))
    pools = was.environment.get("pools")
    if pools and decision.step is not Step.END:
        named = meaning.pools_by_name(pools, was.spec, kept.spec)
        kept = replace(kept, environment={**was.environment, "pools": named})
    if kept != was:
        kept = replace(kept, source=work.source)
    return kept


def _held(work: _Work, decision: Decision) -> Iterator[Finding]:
    """Yield the edits of operation that the live objects do not take."""
    for held in decision.held:
        if held.note:
            message = f"{held.path.dotted} waits for the next run of {work.file}: {held.note}"
            yield dx.HELD.at(held.place, message, path=held.path)


def _texts(work: _Work, present: Recorded) -> Mapping[str, str]:
    """Return the recorded files. Raise CannotAdjust if they cannot be restored."""
    from trainwright.runs import adjust  # few runs are edited in place

    sources, was = work.sources, work.was
    if present.intact and was.files:
        return present.texts()  # else they are rendered elsewhere
    if was.adopted and sources.adopted is not None:
        return _readopted(work.file, sources.adopted, was)
    run = recorded_job(was, sources)
    texts = adjust.restored(run, work.texts)
    if texts is None:
        raise CannotAdjust(
            f"rendered files of {was.object} were edited: `trainwright render` restores them from "
            "the history of git; where that lacks them, `trainwright rerun` begins another run"
        )
    return texts


def _readopted(file: JobFile, adopted: Adopted, was: Record) -> Mapping[str, str]:
    """Return the files of an adopted run again. Raise CannotAdjust if its object is another now."""
    texts = _adopted_texts(file, adopted, was.target)
    if was.files and was.files != {name: digest(text) for name, text in texts.items()}:
        raise CannotAdjust(
            f"rendered files of {was.object} were edited, and {adopted.path} does not say what "
            "they said: `git checkout` them"
        )
    return texts


def _adjusted(work: _Work, texts: Mapping[str, str]) -> Adjusted:
    """Return the recorded files, adjusted to the state and operation that the sources request."""
    from trainwright.runs import adjust

    sources, was = work.sources, work.was
    if work.decision.state == was.state and not edited_operation(was, sources):
        return adjust.Adjusted(texts, {})
    return adjust.Adjusting(
        found=recorded_job(was, sources),
        texts=texts,
        sources=sources,
        render=work.texts,
        untaken=lambda old, new: objects.untaken(old, new, was.target, sources.environment),
    ).adjusted(work.decision.state)


def _unfit(sources: Sources, name: str) -> Iterator[Finding]:
    """Yield a finding for each value with which a job cannot be rendered under a name."""
    for kind, problem in objects.refusals(sources.job, sources.environment, name):
        yield _refused(sources, kind, problem)


def _refused(sources: Sources, kind: dx.Diagnostic, problem: Unsupported) -> Finding:
    """Return a finding about a value that the job's target refuses."""
    message = problem.message
    if kind is dx.UNSUPPORTED:
        message = f"{sources.job.target}: {message}"
    place, related = _meant(sources.spec, problem)
    as_written = "The program would get the text as it is written." * (kind is dx.REFERENCE)
    return kind.at(
        place,
        message,
        remedy=sources.spec.removing(problem.path, problem.remedy),
        effect=problem.effect or as_written,
        path=problem.path,
        related=related,
    )


def _meant(spec: Layered, problem: Unsupported) -> tuple[Location, tuple[Related, ...]]:
    """Return where a value that the target lacks is written: in the spec or a file it names."""
    at = problem.path
    if problem.within is None:
        return spec.authored(at), ()
    line, column = problem.within
    if source := files.source_of(spec, at):
        names = Related("from", f"names {source}", spec.origin(Pointer.of(*at.parts[:2], "from")))
        return Location(source, line + 1, column + 1), (names,)
    if "\n" in str(lookup(spec.data, at)):
        return spec.origin_in(at, line, column), ()
    return spec.authored(at), ()


def _left_out(sources: Sources) -> Iterator[Finding]:
    """Yield a finding on fields of the pool that are left to a ResourceFlavor, if there are any."""
    job = sources.job
    if job.pool:
        fields = {"nodeSelector": job.pool.node_selector, "tolerations": job.pool.tolerations}
        parts = left_to_flavor(job, sources.environment)
        left = " and ".join(part for part, value in fields.items() if value and part in parts)
        if left:
            message = f"{left} of the pool {job.pool.name} are left to the flavor of {job.queue}"
            at = Pointer("/pool")
            yield dx.PLACED_BY_FLAVOR.at(sources.spec.authored(at), message, path=at)


def _unrequested(sources: Sources) -> Iterator[Finding]:
    """Yield a finding where a pool of accelerators is named and none of them is requested.

    A job that wants none says so: `gpu: 0`.
    """
    job, spec = sources.job, sources.spec
    pool, resources = job.pool, mapping(spec.data.get("resources"))
    if pool is None or not pool.resource or "gpu" in resources or job.resource_claims:
        return
    vendor = pool.resource.partition("/")[0]  # whose slices of a GPU are extended resources
    others = any(name.startswith(f"{vendor}/") for name in job.resources.extended)
    if others or any(role.resources.gpu or role.resource_claims for role in job.roles):
        return
    at, many = Pointer("/pool"), pool.gpus_per_node or 1
    message = f'the pool "{pool.name}" has accelerators, and the job requests none of them'
    remedy = f"Write `resources: {{gpu: {many}}}`, how many one node uses; or gpu: 0 for none."
    yield dx.UNREQUESTED.at(spec.authored(at), message, path=at, remedy=remedy)


def _ambiguous(sources: Sources) -> Iterator[Finding]:
    """Yield a finding for each list in `flags` that could be passed in several ways."""
    job = sources.job
    for name, value in job.flags.items():
        if is_ambiguous(value, job.flag_style):
            at = Pointer.of("flags", name)
            passed = " ".join(flag_words(name, value, job.flag_style))
            message = f"{at.dotted} is a list, passed as {passed}"
            yield dx.FLAG_LIST.at(sources.spec.authored(at), message, path=at)


# --- findings about rendered objects -------------------------------------------------------------


def _check(
    manifests: tuple[Manifest, ...], sources: Sources, patched: Patched | None
) -> Iterator[Finding]:
    """Yield the findings in the objects; those that only a podPatch causes are at its lines."""
    pairs = _found(manifests, sources)
    if patched is None:
        yield from (finding for _, finding in pairs)
        return
    yield from patched.findings()
    unpatched_job = replace(sources.job, pod_patch={})
    plain = _found(patched.plain, replace(sources, job=unpatched_job))
    unpatched = {(finding.rule, finding.message) for _, finding in plain}
    for manifest, finding in pairs:
        at = patched.at(manifest, finding.pointer)
        if (finding.rule, finding.message) in unpatched:
            yield finding
        elif not patched.is_absent(at):  # of which the patch has a finding
            yield replace(finding, place=sources.spec.origin(at), path=at, related=())


def _found(manifests: Sequence[Manifest], sources: Sources) -> Iterator[tuple[Manifest, Finding]]:
    """Yield each finding in the objects, after the object that it is in."""
    spec, job, environment = sources.spec, sources.job, sources.environment
    reported = set()  # masters, workers and other objects are rendered from the same line
    groups = (None, *(role.role for role in job.roles))  # inherited values are the job's own
    for manifest in manifests:
        for finding in _against_schema(manifest, spec, environment):
            yield manifest, finding
        hits = families.run(subject_of(manifest, environment, job, manifests))
        placed = [(_group_of(hit.pointer, job), rule, hit) for rule, hit in hits]
        for role, rule, hit in sorted(placed, key=lambda each: groups.index(each[0])):
            own = layers.of_role(spec, role.name) if role else spec
            at = _in_container(hit, manifests, own)
            key = (rule.id, at or hit.spec, hit.message)
            if key not in reported:
                reported.add(key)
                own_finding = _finding(rule, hit, manifest, own, at)
                yield manifest, in_role(own_finding, spec, role)


def _group_of(pointer: str, job: Job) -> Role | None:
    """Return the role whose pods contain a pointer, or None if no role's pods do."""
    serving = TARGETS[job.target].serving
    for index, role in enumerate(job.roles):
        if serving and any(
            f"{pointer}/".startswith(f"{at}/") for at in serving.places(role, index)
        ):
            return role.role
    return None


def _in_container(hit: Hit, manifests: Sequence[Manifest], spec: Layered) -> Pointer | None:
    """Return where the spec of an init container or sidecar sets what a hit is about, or None."""
    if hit.spec.parts[:1] and hit.spec.parts[0] in CONTAINERS:
        return None
    return authored.of_container(hit.pointer, manifests, spec.data)


def _in_text(spec: Layered) -> Iterator[Finding]:
    """Yield findings about a spec's text, whether or not it ends up in an object."""
    for hit in secrets.in_spec(spec.data):  # which no rendered object shows
        yield _finding(secrets.inline_credential, hit, None, spec)
    deceptive = tuple(_deceptive(spec))
    yield from deceptive
    for hit in deception.in_spec(spec.data):
        finding = _finding(deception.deceptive_text, hit, None, spec)
        if not _is_said(finding, deceptive):
            yield finding


def _deceptive(spec: Layered) -> Iterator[Finding]:
    """Yield findings on hidden or misleading characters in a spec's files, comments too."""
    for document in {layer.document.file: layer.document for layer in spec.layers}.values():
        yield from deception.in_lines(document.unseen)


def _is_said(finding: Finding, linted: tuple[Finding, ...]) -> bool:
    """Whether a finding in a value or a rendered file was also made in the spec's own text."""
    for other in linted:
        if other.rule == finding.rule == secrets.CREDENTIAL and other.path.within(finding.path):
            return True
        if other.rule == finding.rule == deception.deceptive_text.id and (
            other.place.file,
            other.place.line,
        ) == (finding.place.file, finding.place.line):
            return True
    return False


def _against_schema(
    manifest: Manifest, spec: Layered, environment: Environment
) -> Iterator[Finding]:
    kind = schema.kind(manifest.kind, environment.kubernetes_version)
    for broken in kind.explain(manifest.body):
        dated = schema.dated(broken, kind.root, environment.kubernetes_version)
        yield dx.RENDERED_SCHEMA.at(
            spec.origin("/name"),
            dated.message,
            remedy=dated.remedy,
            manifest=manifest.title,
            pointer=broken.pointer,
        )


def _finding(
    rule: Rule, hit: Hit, manifest: Manifest | None, spec: Layered, at: Pointer | None = None
) -> Finding:
    """Return a finding at the position of the hit or else the rule, unless `at` overrides it."""
    path = at or _deciding_field(spec, hit.spec or rule.spec)
    return rule.at(
        spec.authored(path),
        hit.message,
        remedy=rule.by_hand if at else hit.remedy,
        effect=rule.effect_of(hit, manifest.group_kind) if manifest else "",
        path=path,
        note=hit.note,
        related=(*_sources(spec, () if at else hit.also), *_overridden(spec, path)),
        manifest=manifest.title if manifest else "",
        pointer=hit.pointer,
    )


def _deciding_field(spec: Layered, path: Pointer) -> Pointer:
    """Return the field that decides a value, which is the entrypoint for options that no layer
    writes among the flags.
    """
    of_program = path.within("/flags") and not any(layer.wrote(path) for layer in spec.layers)
    return Pointer("/entrypoint") if of_program else path


def _sources(spec: Layered, pointers: tuple[Pointer, ...]) -> Iterator[Related]:
    """Yield where the other values that a message mentions were written."""
    for pointer in pointers:
        value = lookup(spec.data, pointer)
        if value is not None and spec.setter(pointer).label != BUILT_IN:
            label = spec.setter(pointer).label
            yield Related(
                "from",
                f"{label} sets {pointer.dotted}: {show(value)}",
                spec.origin(pointer),
            )


def _overridden(spec: Layered, pointer: Pointer) -> Iterator[Related]:
    """Yield the values that the effective one overrides; the finding itself is at that one."""
    if not pointer or isinstance(lookup(spec.data, pointer), Mapping):
        return
    written = list(spec.history(pointer))
    for index, (layer, value) in enumerate(written[:_MAX_OVERRIDDEN]):
        if index and layer.label != BUILT_IN:
            message = f"{layer.label} sets {pointer.dotted}: {show(value)}"
            yield Related("overrides", message, layer.place(pointer))
