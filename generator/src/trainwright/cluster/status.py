"""The state of runs in git next to their state in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trainwright.cluster import kueue, observe
from trainwright.cluster.client import EVENTS, PODS, Cluster, Resource
from trainwright.cluster.drift import drift
from trainwright.cluster.errors import ClusterError, NoKind, Unknown
from trainwright.cluster.intent import DesiredRun, DesiredState
from trainwright.cluster.logs import GONE
from trainwright.cluster.observe import POD_GROUP, Notice, Observation, current, is_unexplained
from trainwright.cluster.pods import RUN_LABEL, LivePod, assign_slots, clean, pod_slots, read
from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import ValueChange
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest
from trainwright.findings.credentials import redact
from trainwright.kinds.kind import Kind
from trainwright.kinds.state import Phase, State
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.runs.workspace import RunState

JOB_LABEL = "app.kubernetes.io/name"
BROKEN = (Phase.FAILED, Phase.RESTARTING)
_LAST_LINES = 10
_NAMES = 100  # in one selector, which is part of a URL
_MANAGED_BY = "app.kubernetes.io/managed-by"
_OURS = f"{_MANAGED_BY}=trainwright,trainwright.io/environment="


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


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object of the cluster and its kind."""

    kind: Kind
    body: Mapping[str, Data]

    @property
    def name(self) -> str:
        value: str = self.body["metadata"]["name"]
        return value

    @property
    def job(self) -> str:
        """The job that it is a run of, by the labels that the chart gives it; else empty."""
        return _label(self.body, JOB_LABEL) if _is_rendered(self.body) else ""


def run_statuses(cluster: Cluster, place: DesiredState, namespace: str) -> tuple[RunStatus, ...]:
    """Return the runs of an environment: one of each selected job, then older and orphaned ones.

    It requests one list of each kind, of pods and, if Kueue is used, of Workloads; and events
    only if nothing else explains why a run has no pods.
    """
    selector = f"{_OURS}{place.environment.name}"
    live = {
        (live_object.kind.kind, live_object.name): live_object
        for live_object in _objects(cluster, place, namespace, selector)
    }
    live |= {
        (live_object.kind.kind, live_object.name): live_object
        for live_object in _unlabelled(cluster, place, namespace)
    }
    shown = [*_of_git(place, live), *_strays(place, live)]
    sights = _sights(
        cluster,
        place,
        namespace,
        selector,
        [live_object for _, live_object in shown if live_object],
    )
    return tuple(
        _run(
            place,
            intent,
            live_object,
            sights[live_object.kind.kind, live_object.name] if live_object else None,
        )
        for intent, live_object in shown
    )


def _of_git(
    place: DesiredState, live: Mapping[tuple[str, str], LiveObject]
) -> Iterator[tuple[DesiredRun | None, LiveObject | None]]:
    for intent in place.intents:
        applied = intent.manifest and live.get((intent.manifest.kind, intent.manifest.name))
        left = _left(intent, live) if intent.desired.is_over else ()
        for live_object in left or (applied or None,):
            yield intent, live_object


def _left(intent: DesiredRun, live: Mapping[tuple[str, str], LiveObject]) -> tuple[LiveObject, ...]:
    """Return the objects of a job that git has ended, and that the cluster still has."""
    return tuple(
        live_object for _, live_object in sorted(live.items()) if live_object.job == intent.job.name
    )


def _strays(
    place: DesiredState, live: Mapping[tuple[str, str], LiveObject]
) -> Iterator[tuple[DesiredRun | None, LiveObject | None]]:
    """Yield what the cluster has and git does not: older runs, and runs of jobs that are gone."""
    wanted = {(i.manifest.kind, i.manifest.name) for i in place.intents if i.manifest}
    current_jobs = {i.job.name for i in place.intents if not i.desired.is_over} | place.elsewhere
    for key, live_object in sorted(live.items(), key=lambda item: (item[1].job, item[0])):
        gone = place.whole and live_object.job not in place.jobs
        if key not in wanted and (live_object.job in current_jobs or gone):
            yield None, live_object


def find(
    cluster: Cluster, place: DesiredState, intent: DesiredRun, namespace: str, name: str
) -> LiveObject | None:
    """Return an object by name, or None: git's own by its kind, an older run by trying all."""
    is_wanted = intent.manifest is not None and intent.manifest.name == name
    for kind in (intent.kind,) if is_wanted and intent.kind else place.kinds:
        try:
            body = cluster.get(resource_of(kind), namespace, name)
        except NoKind:
            if is_wanted:
                raise
            continue
        if body is not None:
            return LiveObject(kind, body)
    return None


def run_status(
    cluster: Cluster,
    place: DesiredState,
    intent: DesiredRun,
    namespace: str,
    live_object: LiveObject,
) -> RunStatus:
    """Return the status of one run, asking the cluster about that run alone."""
    sights = _sights(cluster, place, namespace, f"{RUN_LABEL}={live_object.name}", [live_object])
    is_wanted = intent.manifest is not None and intent.manifest.name == live_object.name
    return _run(
        place,
        intent if is_wanted else None,
        live_object,
        sights[live_object.kind.kind, live_object.name],
    )


def others(
    cluster: Cluster, place: DesiredState, intent: DesiredRun, namespace: str
) -> tuple[str, ...]:
    """Return the names of all runs of a job that are in the cluster."""
    selector = f"{_OURS}{place.environment.name},{JOB_LABEL}={intent.job.name}"
    return tuple(
        sorted(live_object.name for live_object in _objects(cluster, place, namespace, selector))
    )


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


def resource_of(kind: Kind) -> Resource:
    return Resource(api_version=kind.api_version, plural=kind.plural)


# --- asking the cluster --------------------------------------------------------------------------


def _objects(
    cluster: Cluster, place: DesiredState, namespace: str, selector: str
) -> Iterator[LiveObject]:
    needed = {intent.kind for intent in place.intents}
    for kind in place.kinds:
        try:
            bodies = cluster.all(resource_of(kind), namespace, label_selector=selector)
        except NoKind:
            if kind in needed:
                raise
            continue
        # An object that another one made, such as a TrainJob's JobSet, is not a run of its own.
        yield from (LiveObject(kind, body) for body in bodies if not _controlled(body))


def _unlabelled(cluster: Cluster, place: DesiredState, namespace: str) -> Iterator[LiveObject]:
    """Yield the objects of git that have not our labels, since they were adopted as they were."""
    for intent in place.intents:
        manifest, kind = intent.manifest, intent.kind
        if manifest is None or kind is None or _is_rendered(manifest.body):
            continue
        body = cluster.get(resource_of(kind), namespace, manifest.name)
        if body is not None:
            yield LiveObject(kind, body)


def _is_rendered(body: Mapping[str, Data]) -> bool:
    """Whether the chart made an object: others set the label of the app's name, too."""
    return _label(body, _MANAGED_BY) == "trainwright"


def _controlled(body: Mapping[str, Data]) -> bool:
    return any(o.get("controller") for o in body["metadata"].get("ownerReferences") or ())


def _sights(
    cluster: Cluster, place: DesiredState, namespace: str, selector: str, live: Sequence[LiveObject]
) -> dict[tuple[str, str], Observation]:
    if not live:
        return {}
    pods = _pods(cluster, namespace, selector, live)
    queued = any(_label(live_object.body, QUEUE_LABEL) for live_object in live)
    workloads = kueue.workloads(cluster, namespace) if queued else []
    beside = {i.manifest.name: i.beside for i in place.intents if i.manifest}
    sights = {}
    for live_object in live:
        own = [read(pod, live_object.kind) for pod in pods.get(live_object.name, ())]
        places = pod_slots(live_object.kind, live_object.body, beside.get(live_object.name, ()))
        sights[live_object.kind.kind, live_object.name] = Observation(
            body=live_object.body,
            pods=assign_slots(own, places),
            workload=kueue.workload_for(live_object.body, workloads),
            workloads=workloads,
        )
    return _explained(cluster, namespace, live, sights)


def _pods(
    cluster: Cluster, namespace: str, selector: str, live: Sequence[LiveObject]
) -> dict[str, list[Data]]:
    """Return the pods of each run, by the object's name."""
    by_run: dict[str, list[Data]] = {}
    for pod in cluster.all(PODS, namespace, label_selector=selector):
        by_run.setdefault(_label(pod, RUN_LABEL), []).append(pod)
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
            for pod in cluster.all(PODS, namespace, label_selector=selected):
                owner, name = objects.get(_label(pod, label), ""), pod["metadata"].get("name")
                if (owner, name) not in seen:
                    by_run.setdefault(owner, []).append(pod)
                    seen.add((owner, name))
    return by_run


def _pod_labels(live_object: LiveObject) -> Iterator[tuple[str, str]]:
    """Yield labels, and their values, of the object's pods that may lack our labels."""
    kind = live_object.kind
    adopted = kind.name_labels[:1] if not live_object.job else ()
    if label := kind.carrier or "".join(adopted):
        yield label, live_object.name
    if not live_object.job:
        yield from kind.status.pod_labels(live_object.body)


def _label(body: Mapping[str, Data], name: str) -> str:
    return (body["metadata"].get("labels") or {}).get(name) or ""


def _may_lack(live_object: LiveObject, pods: Mapping[str, Sequence[Data]]) -> bool:
    """Whether a run may have pods that the labels of git did not find."""
    without = (Phase.SUCCEEDED, Phase.SUSPENDED)
    return (
        live_object.name not in pods
        and live_object.kind.status.state_of(live_object.body).phase not in without
    )


def _explained(
    cluster: Cluster,
    namespace: str,
    live: Sequence[LiveObject],
    sights: dict[tuple[str, str], Observation],
) -> dict[tuple[str, str], Observation]:
    """Add the warnings about runs that lack pods, or whose pods give no reason for waiting.

    They are about the object itself, or about what it makes its pods through.
    """
    about: dict[tuple[str, str], tuple[GroupKind, tuple[str, str]]] = {}
    for live_object in live:
        key = (live_object.kind.kind, live_object.name)
        if _is_unexplained(live_object, sights[key]):
            own, group = (
                (live_object.kind.group_kind, live_object.name),
                (GroupKind("", POD_GROUP), live_object.name),
            )
            for kind, name in (own, *live_object.kind.status.makes(live_object.body), group):
                about[kind.kind, name] = kind, key
    events = cluster.all(EVENTS, namespace, field_selector="type=Warning") if about else []
    for event in sorted(events, key=_happened):
        object_ = event.get("involvedObject") or {}
        subject = about.get((object_.get("kind", ""), object_.get("name", "")))
        if subject and _is_of(object_, subject[0]):
            run = subject[1]
            message = clean(event.get("message") or "")
            notice = Notice(object_["kind"], event.get("reason") or "Warning", message)
            sights[run] = replace(sights[run], notices=(*sights[run].notices, notice))
    return sights


def _is_of(reference: Mapping[str, Data], kind: GroupKind) -> bool:
    """Whether an event is about an object of this kind, not its namesake in another API group."""
    written = str(reference.get("apiVersion", ""))
    return not written or kind.kind == POD_GROUP or GroupKind.of(written, kind.kind) == kind


def _is_unexplained(live_object: LiveObject, observation: Observation) -> bool:
    state = live_object.kind.status.state_of(live_object.body)
    waits = state.phase in (Phase.PENDING, Phase.RUNNING, Phase.RESTARTING)
    return waits and is_unexplained(state.total, current(observation.pods))


def _happened(event: Mapping[str, Data]) -> str:
    """Return when an event was last seen; events of the newer API have it in another field."""
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return next((time for time in times if time), "")


# --- one run -------------------------------------------------------------------------------------


def _run(
    place: DesiredState,
    intent: DesiredRun | None,
    live_object: LiveObject | None,
    observation: Observation | None,
) -> RunStatus:
    environment = place.environment.name
    manifest = intent.manifest if intent else None
    if live_object is None or observation is None:
        assert intent is not None
        return RunStatus(
            environment=environment,
            job=intent.job.name,
            object=manifest.name if manifest else "",
            kind=manifest.kind if manifest else "",
            desired=intent.desired,
            state=State(phase=Phase.DELETED if intent.desired.is_over else Phase.ABSENT),
            held=intent.held,
        )
    return RunStatus(
        environment=environment,
        job=intent.job.name if intent else live_object.job,
        object=live_object.name,
        kind=live_object.kind.kind,
        namespace=live_object.body["metadata"].get("namespace", ""),
        desired=_desired(place, intent, live_object),
        state=observe.state_of(live_object.kind, observation),
        drift=drift(_placed(manifest, live_object), live_object.body) if manifest else (),
        pods=observation.pods,
        held=intent.held if intent else (),
    )


def _desired(place: DesiredState, intent: DesiredRun | None, live_object: LiveObject) -> RunState:
    if live_object.name in place.retired:
        return RunState.RETIRED
    return intent.desired if intent is not None else RunState.NOT_IN_GIT


def _placed(manifest: Manifest, live_object: LiveObject) -> dict[str, Data]:
    """Return git's object, in the namespace of the live one."""
    metadata = {
        **manifest.body["metadata"],
        "namespace": live_object.body["metadata"].get("namespace"),
    }
    return {**manifest.body, "metadata": metadata}
