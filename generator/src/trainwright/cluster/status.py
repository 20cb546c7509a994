"""The state of runs in git next to their state in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from trainwright.cluster import kueue, observe
from trainwright.cluster.client import EVENTS, PODS, Cluster, Resource
from trainwright.cluster.drift import drift
from trainwright.cluster.errors import ClusterError, NoKind, Unknown
from trainwright.cluster.intent import DesiredRun, DesiredState
from trainwright.cluster.logs import GONE
from trainwright.cluster.observe import POD_GROUP, Notice, Observation, current, is_unexplained
from trainwright.cluster.pods import LivePod, assign_slots, clean, pod_slots, read
from trainwright.datatypes.data import Data, text
from trainwright.datatypes.finding import ValueChange
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest, ObjectBody
from trainwright.findings.credentials import redact
from trainwright.kinds.kind import Kind
from trainwright.kinds.state import Phase, State
from trainwright.objects import own_labels
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.own_labels import is_ours
from trainwright.runs.workspace import RunState

BROKEN = (Phase.FAILED, Phase.RESTARTING)
_LAST_LINES = 10
_NAMES = 100  # in one selector, which is part of a URL
Key: TypeAlias = tuple[str, str]  # kind and name
Shown: TypeAlias = "tuple[DesiredRun | None, LiveObject | None]"  # a run by either side


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """One run: its desired state in git, its state in the cluster, and where the two differ.

    `desired` is its state in git: retired or not in it for a run that only the cluster has.
    `drift` are JSON pointers of values in which the object differs from git, `held` the changes
    that git's own run does not have. `namespace` is empty if there is no object.
    """

    environment: str
    job: str
    object: str
    kind: str
    desired: RunState
    state: State
    namespace: str = ""
    drift: tuple[str, ...] = ()
    pods: tuple[LivePod, ...] = ()
    held: tuple[ValueChange, ...] = ()

    def __str__(self) -> str:
        return f"{self.environment}/{self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A namespace whose runs could not be read, and why."""

    environment: str
    namespace: str
    error: ClusterError

    def __str__(self) -> str:
        return f"{self.environment}: namespace {self.namespace} was not read: {self.error}"


@dataclass(frozen=True)
class LiveObject(ObjectBody):
    """An object of the cluster and its kind."""

    kind: Kind
    body: Mapping[str, Data]

    @property
    def name(self) -> str:
        return text(self.metadata.get("name"))

    @property
    def key(self) -> Key:
        return self.kind.kind, self.name

    @property
    def namespace(self) -> str:
        return text(self.metadata.get("namespace"))

    @property
    def job(self) -> str:
        """The job that it is a run of, by the labels that the chart gives it; else empty."""
        return _label(self, own_labels.JOB) if is_ours(self) else ""

    @property
    def state(self) -> State:
        """What its own status says, whatever its pods do."""
        return self.kind.status.state_of(self.body)


@dataclass(frozen=True, slots=True)
class LiveNamespace:
    """One namespace of a cluster, and what git wants there."""

    cluster: Cluster
    place: DesiredState
    namespace: str

    def runs(self) -> tuple[RunStatus, ...]:
        """Return the runs: one of each selected job, then older and orphaned ones.

        It requests one list of each kind, of pods and, if Kueue is used, of Workloads; and events
        only if nothing else explains why a run has no pods.
        """
        found = (*self._objects(self._selector), *self._unlabelled())
        live = {live_object.key: live_object for live_object in found}
        shown = [*_of_git(self.place, live), *_strays(self.place, live)]
        observed = self._observed(self._selector, [live_object for _, live_object in shown])
        return tuple(
            self._status(intent, live_object, observed[live_object.key])
            if live_object
            else _absent(self.place, intent)
            for intent, live_object in shown
        )

    def find(self, intent: DesiredRun, name: str) -> LiveObject | None:
        """Return an object by name, or None: git's own by its kind, an older run by trying all."""
        is_wanted = intent.manifest is not None and intent.manifest.name == name
        for kind in (intent.kind,) if is_wanted and intent.kind else self.place.kinds:
            try:
                body = self.cluster.get(resource_of(kind), self.namespace, name)
            except NoKind:
                if is_wanted:
                    raise
                continue
            if body is not None:
                return LiveObject(kind, body)
        return None

    def run(self, intent: DesiredRun, live_object: LiveObject) -> RunStatus:
        """Return the status of one run, asking the cluster about that run alone."""
        observed = self._observed(f"{own_labels.RUN}={live_object.name}", [live_object])
        is_wanted = intent.manifest is not None and intent.manifest.name == live_object.name
        wanted = intent if is_wanted else None
        return self._status(wanted, live_object, observed[live_object.key])

    def others(self, intent: DesiredRun) -> list[str]:
        """Return the names of all runs of a job that are in the cluster."""
        objects = self._objects(f"{self._selector},{own_labels.JOB}={intent.job.name}")
        return sorted(live_object.name for live_object in objects)

    # --- asking the cluster ----------------------------------------------------------------------

    @property
    def _selector(self) -> str:
        names = ",".join((self.place.environment.name, *self.place.former))
        return f"{own_labels.MANAGED_BY}={own_labels.OURS},{own_labels.ENVIRONMENT} in ({names})"

    def _objects(self, selector: str) -> Iterator[LiveObject]:
        needed = {intent.kind for intent in self.place.intents}
        for kind in self.place.kinds:
            resource = resource_of(kind)
            try:
                bodies = self.cluster.all(resource, self.namespace, label_selector=selector)
            except NoKind:
                if kind in needed:
                    raise
                continue
            # An object that another one made, such as a TrainJob's JobSet, is no run of its own.
            yield from (LiveObject(kind, body) for body in bodies if not _controlled(body))

    def _unlabelled(self) -> Iterator[LiveObject]:
        """Yield the objects of git without our labels, since they were adopted as they were."""
        for intent in self.place.intents:
            manifest, kind = intent.manifest, intent.kind
            if manifest is None or kind is None or is_ours(manifest):
                continue
            body = self.cluster.get(resource_of(kind), self.namespace, manifest.name)
            if body is not None:
                yield LiveObject(kind, body)

    def _observed(
        self, selector: str, shown: Sequence[LiveObject | None]
    ) -> dict[Key, Observation]:
        """Return what the cluster reports about some objects."""
        live = [live_object for live_object in shown if live_object]
        if not live:
            return {}
        pods = self._pods(selector, live)
        queued = any(_label(live_object, QUEUE_LABEL) for live_object in live)
        workloads = kueue.workloads(self.cluster, self.namespace) if queued else []
        supporting = {i.manifest.name: i.supporting for i in self.place.intents if i.manifest}
        observed = {}
        for live_object in live:
            kind, body, name = live_object.kind, live_object.body, live_object.name
            own = [read(pod, kind) for pod in pods.get(name, ())]
            observed[live_object.key] = Observation(
                body=body,
                pods=assign_slots(own, pod_slots(kind, body, supporting.get(name, ()))),
                workload=kueue.workload_for(body, workloads),
                workloads=workloads,
            )
        unexplained = [one for one in live if _is_unexplained(one, observed[one.key])]
        for key, notice in self._notices(unexplained):
            observation = observed[key]
            observed[key] = replace(observation, notices=(*observation.notices, notice))
        return observed

    def _pods(self, selector: str, live: Sequence[LiveObject]) -> dict[str, list[Data]]:
        """Return the pods of each run, by the object's name."""
        by_run: dict[str, list[Data]] = {}
        for pod in self.cluster.all(PODS, self.namespace, label_selector=selector):
            by_run.setdefault(text(_labels(pod).get(own_labels.RUN)), []).append(pod)
        lacking = [live_object for live_object in live if _may_lack(live_object, by_run)]
        named: dict[str, dict[str, str]] = {}  # names of objects by the label and its value
        seen: set[tuple[str, Data]] = set()  # of an object, by each of its labels
        for live_object in lacking:
            for label, value in _pod_labels(live_object):
                named.setdefault(label, {})[value] = live_object.name
        for label, objects in named.items():
            values = [*objects]
            for start in range(0, len(values), _NAMES):
                selected = f"{label} in ({','.join(values[start : start + _NAMES])})"
                for pod in self.cluster.all(PODS, self.namespace, label_selector=selected):
                    owner = objects.get(text(_labels(pod).get(label)), "")
                    name = pod["metadata"].get("name")
                    if (owner, name) not in seen:
                        by_run.setdefault(owner, []).append(pod)
                        seen.add((owner, name))
        return by_run

    def _notices(self, unexplained: Sequence[LiveObject]) -> Iterator[tuple[Key, Notice]]:
        """Yield the warnings about objects that lack pods, or whose pods give no reason for
        waiting: about the object itself, or about what it makes its pods through.
        """
        about: dict[Key, tuple[GroupKind, LiveObject]] = {}
        for live_object in unexplained:
            kind, name = live_object.kind, live_object.name
            makes = kind.status.makes(live_object.body)
            group = GroupKind("", POD_GROUP), name
            for group_kind, made in ((kind.group_kind, name), *makes, group):
                about[group_kind.kind, made] = group_kind, live_object
        if not about:
            return
        events = self.cluster.all(EVENTS, self.namespace, field_selector="type=Warning")
        for event in sorted(events, key=_happened):
            object_ = event.get("involvedObject") or {}
            subject = about.get((object_.get("kind", ""), object_.get("name", "")))
            if subject and _is_of(object_, subject[0]):
                message = clean(event.get("message") or "")
                notice = Notice(object_["kind"], event.get("reason") or "Warning", message)
                yield subject[1].key, notice

    def _status(
        self, intent: DesiredRun | None, live_object: LiveObject, observation: Observation
    ) -> RunStatus:
        manifest = intent.manifest if intent else None
        desired = intent.desired if intent else RunState.NOT_IN_GIT
        retired = live_object.name in self.place.retired
        return RunStatus(
            environment=self.place.environment.name,
            job=intent.job.name if intent else live_object.job,
            object=live_object.name,
            kind=live_object.kind.kind,
            namespace=live_object.namespace,
            desired=RunState.RETIRED if retired else desired,
            state=observe.state_of(live_object.kind, observation),
            drift=drift(_placed(manifest, live_object), live_object.body) if manifest else (),
            pods=observation.pods,
            held=intent.held if intent else (),
        )


def _of_git(place: DesiredState, live: Mapping[Key, LiveObject]) -> Iterator[Shown]:
    """Yield each job with its object or, where git has ended it, those that are left."""
    for intent in place.intents:
        applied = intent.manifest and live.get((intent.manifest.kind, intent.manifest.name))
        left = [live[key] for key in sorted(live) if live[key].job == intent.job.name]
        for live_object in (left if intent.desired.is_over else ()) or (applied or None,):
            yield intent, live_object


def _strays(place: DesiredState, live: Mapping[Key, LiveObject]) -> Iterator[Shown]:
    """Yield what the cluster has and git does not: older runs, and runs of jobs that are gone."""
    wanted = {(i.manifest.kind, i.manifest.name) for i in place.intents if i.manifest}
    current_jobs = {i.job.name for i in place.intents if not i.desired.is_over} | place.elsewhere
    for key, live_object in sorted(live.items(), key=lambda item: (item[1].job, item[0])):
        gone = place.whole and live_object.job not in place.jobs
        if key not in wanted and (live_object.job in current_jobs or gone):
            yield None, live_object


def _absent(place: DesiredState, intent: DesiredRun | None) -> RunStatus:
    """Return the status of a job that has no object in the cluster."""
    assert intent is not None
    manifest = intent.manifest
    return RunStatus(
        environment=place.environment.name,
        job=intent.job.name,
        object=manifest.name if manifest else "",
        kind=manifest.kind if manifest else "",
        desired=intent.desired,
        state=State(phase=Phase.DELETED if intent.desired.is_over else Phase.ABSENT),
        held=intent.held,
    )


def _placed(manifest: Manifest, live_object: LiveObject) -> dict[str, Data]:
    """Return git's object, in the namespace of the live one."""
    metadata = {**manifest.metadata, "namespace": live_object.metadata.get("namespace")}
    return {**manifest.body, "metadata": metadata}


def resource_of(kind: Kind) -> Resource:
    return Resource(api_version=kind.api_version, plural=kind.plural)


def _labels(body: Mapping[str, Data]) -> Mapping[str, Data]:
    return body["metadata"].get("labels") or {}


def _label(holder: ObjectBody, name: str) -> str:
    return text(holder.labels.get(name))


def _controlled(body: Mapping[str, Data]) -> bool:
    return any(o.get("controller") for o in body["metadata"].get("ownerReferences") or ())


def _pod_labels(live_object: LiveObject) -> Iterator[tuple[str, str]]:
    """Yield labels, and their values, of the object's pods that may lack our labels."""
    kind = live_object.kind
    adopted = kind.name_labels[:1] if not live_object.job else ()
    if label := kind.carrier or "".join(adopted):
        yield label, live_object.name
    if not live_object.job:
        yield from kind.status.pod_labels(live_object.body)


def _may_lack(live_object: LiveObject, pods: Mapping[str, Sequence[Data]]) -> bool:
    """Whether a run may have pods that the labels of git did not find."""
    without = (Phase.SUCCEEDED, Phase.SUSPENDED)
    return live_object.name not in pods and live_object.state.phase not in without


def _is_of(reference: Mapping[str, Data], kind: GroupKind) -> bool:
    """Whether an event is about an object of this kind, not its namesake in another API group."""
    written = str(reference.get("apiVersion", ""))
    return not written or kind.kind == POD_GROUP or GroupKind.of(written, kind.kind) == kind


def _is_unexplained(live_object: LiveObject, observation: Observation) -> bool:
    state = live_object.state
    waits = state.phase in (Phase.PENDING, Phase.RUNNING, Phase.RESTARTING)
    return waits and is_unexplained(state.total, current(observation.pods))


def _happened(event: Mapping[str, Data]) -> str:
    """Return when an event was last seen; events of the newer API have it in another field."""
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return next((time for time in times if time), "")


# --- the last lines of a failed run --------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLines:
    """The last lines that a rank wrote, or why they cannot be read."""

    lines: tuple[str, ...] = ()
    missing: str = ""


def last_lines(cluster: Cluster, namespace: str, runs: Sequence[RunStatus]) -> LastLines:
    """Return the last lines of the rank that failed first in the first failed run; empty if the
    rank reported its failure itself.

    If a container's terminationMessagePolicy falls back to its log, its message has those lines,
    and outlives the pod's log. A log that cannot be read is reported in the answer, so that the
    rest is still shown.
    """
    failed = next((run for run in runs if run.state.phase in BROKEN), None)
    failure = observe.first_failure(failed.pods) if failed else None
    if failure is None or failure[1].report is not None:
        return LastLines()
    pod, ending = failure
    if ending.message:
        return LastLines(lines=tuple(ending.message.splitlines()[-_LAST_LINES:]))
    previous = {"previous": "true"} if ending is pod.before else {}
    options = {"container": pod.container, "tailLines": str(_LAST_LINES), **previous}
    try:
        log = cluster.log(namespace, pod.name, options)
        return LastLines(lines=tuple(redact(line) for _, line in log))
    except Unknown:
        return LastLines(missing=GONE)
    except ClusterError as error:
        return LastLines(missing=str(error))
