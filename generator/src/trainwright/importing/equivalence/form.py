"""The normal form of a run: what its manifests have in common with other kinds of workloads.

It is computed from the objects alone, through `operators`. Two runs with the same normal form
train the same: as many processes with the same ranks, which start the same program with the same
environment, resources and files, and are started again under the same conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, fields, replace
from typing import Literal

from trainwright.datatypes.data import Data, dig, text, texts
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import CONFIGMAP, NETWORKPOLICY, PODGROUPS, RUNTIMES, SERVICE
from trainwright.datatypes.manifest import Manifest
from trainwright.importing.equivalence import containers, programs
from trainwright.importing.equivalence.programs import Process, Program
from trainwright.kinds import operators
from trainwright.objects.kueue import GROUP, PRIORITY_LABEL, QUEUE_LABEL
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.pod import DOMAIN, Awaited, Configs, Workload
from trainwright.objects.pods.pod import Pod as OperatedPod


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What happens when a pod fails: it is started anew `limit` times at most.

    `together` is whether all pods are restarted with it, `final` the exit codes after which none is
    ("1-127"). `keeps` are the paths of the pod's own volumes whose contents survive a restart of
    the container, but which are empty in a new pod.
    """

    limit: int | Literal["unlimited"]
    together: bool = False
    final: str = ""
    keeps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """What is mounted at a path. `source` is a Kubernetes volume source, with sizes in bytes.

    `shared` are the other places of a volume that is made for the pod.
    """

    source: Mapping[str, Data]
    folder: str = ""  # inside the volume
    read_only: bool = False
    more: Mapping[str, Data] = field(default_factory=dict)
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod, without the name that its operator gives it. The first pod is the one with rank 0.

    `secrets` and `fields` are variables whose values only the cluster has, with their sources.
    `files` are those whose text is in the manifests, `modes` their permissions. `resources` are
    in cores, bytes and counts. `init` are the containers that run before, in order; `sidecars`
    those that run alongside the training until it ends.
    """

    processes: tuple[Process, ...]
    program: Program
    image: str
    pull_policy: str
    pull_secrets: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mounts: Mapping[str, Mount] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    security: Mapping[str, Data] = field(default_factory=dict)
    restart: Restart
    grace_period: int
    ports: tuple[int, ...] = ()  # without that of the rendezvous
    placement: Mapping[str, Data] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    service_account: str = ""
    token: bool = False
    env_from: tuple[Mapping[str, Data], ...] = ()
    init: tuple[Mapping[str, Data], ...] = ()
    sidecars: Mapping[str, Data] = field(default_factory=dict)
    rest: Mapping[str, Data] = field(default_factory=dict)  # other fields of pod and container


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The pods that serve a run in one role, and what the training waits for before it starts."""

    nodes: int
    awaited: Awaited
    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalForm:
    """A whole run. Of an elastic one only the first pod is known: the others come and go.

    `pods` are those that train together; `roles`, by name, those that serve them and end with them.
    `success` is which pods have to succeed. `labels` and `annotations` are those of the object.
    `beside` are the objects that accompany the run, by kind and name; `own` are settings that
    only one operator has.
    """

    nodes: int  # to start with
    elastic: tuple[int, int] | None = None  # fewest and most nodes
    pods: tuple[Pod, ...]
    roles: Mapping[str, Role] = field(default_factory=dict)
    success: Literal["all", "any", "rank 0", "some"] = "all"
    deadline: int | None = None  # seconds
    deadline_of: Literal["", "run", "attempt"] = ""
    suspended: bool = False
    queue: str = ""
    queue_priority: str = ""
    gang: int | None = None  # members
    isolated: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, Data] = field(default_factory=dict)
    own: Mapping[str, Data] = field(default_factory=dict)


# Objects that the workload's own operator reads, so that their effect is already in the pods.
_PART_OF_THE_WORKLOAD = frozenset((SERVICE, *PODGROUPS, *RUNTIMES))
# Labels and annotations that name the group a pod starts or is placed with: `gang` and the topology
# have that already.
_MEMBERSHIP = frozenset({"scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group", GROUP})


def renamed(manifests: tuple[Manifest, ...], name: str) -> tuple[Manifest, ...]:
    """Return a run's objects with "run" in place of its name, wherever a text contains it."""
    return tuple(Manifest(body=_renamed(m.body, name), path=m.path) for m in manifests)


def normal_form(
    workload: Workload, manifests: tuple[Manifest, ...], *, sampled: bool = False
) -> NormalForm:
    """Return a workload's normal form, with all of its pods, or if `sampled` with a sample."""
    workload = _by_roles(workload)
    _, manifest = operators.find(manifests)
    configs = operators.configs(manifests)
    trains = workload.training
    shown = tuple(trains[at] for at in (sample(workload) if sampled else every(workload)))
    places = programs.processes(trains, shown, elastic=workload.sizes is not None)
    pods = tuple(_pods(shown, places, configs))
    roles = {name: _role(workload, name, configs) for name in workload.serving}
    metadata = manifest.metadata
    # A service of a compose file is both the object and the pod.
    labels = texts(metadata.get("labels")) or pods[0].labels
    deadline, gang = workload.deadline, workload.gang
    return NormalForm(
        nodes=len(trains),
        elastic=workload.sizes,
        pods=pods,
        roles=roles,
        success=_success(workload),
        deadline=deadline.seconds if deadline else None,
        deadline_of=("attempt" if deadline.attempt else "run") if deadline else "",
        suspended=workload.suspended,
        queue=labels.get(QUEUE_LABEL) or _scheduler_queue(workload),
        queue_priority=labels.get(PRIORITY_LABEL, ""),
        gang=gang.members if gang else None,
        isolated=workload.isolated or any(m.group_kind == NETWORKPOLICY for m in manifests),
        labels={k: value for k, value in labels.items() if k not in (QUEUE_LABEL, PRIORITY_LABEL)},
        annotations=texts(metadata.get("annotations")),
        beside=dict(_beside(manifest, manifests, workload)),
        own=workload.own,
    )


def _by_roles(workload: Workload) -> Workload:
    """Return a workload whose pods name those that serve them by role and number, on any target."""
    serving = workload.pods.where(workload.serving.__contains__)
    if not serving:
        return workload
    named = ((name, pod) for pod in reversed(serving) for name in (*pod.aliases, pod.hostname))
    hosts = {name: f"{pod.role}-{pod.index}" for name, pod in named}
    longest = sorted(hosts, key=len, reverse=True)
    host_pattern = re.compile("|".join(f"({called(name)})" for name in longest))

    def plain(text: str) -> str:
        return host_pattern.sub(lambda match: hosts[longest[(match.lastindex or 1) - 1]], text)

    def by_role(pod: OperatedPod) -> OperatedPod:
        declared = tuple(
            replace(variable, value=plain(variable.value)) for variable in pod.declared
        )
        return replace(pod, command=tuple(map(plain, pod.command)), declared=declared)

    return replace(workload, pods=workload.pods.mapped(by_role))


def called(name: str) -> str:
    """Return a pattern of a pod's name in a text, with the domain of the cluster or without.

    A name without a domain may be any word, and is a host in an address only.
    """
    if "." in name:
        return rf"(?<![\w.-]){re.escape(name)}(?:{DOMAIN})?(?![\w-]|\.\w)"
    return rf"(?<![\w.-]){re.escape(name)}(?:(?=:\d)|(?<=://{re.escape(name)})(?![\w.-]))"


def _role(workload: Workload, name: str, configs: Configs) -> Role:
    """Return a role, each of whose pods serves by itself."""
    pods = workload.of_role(name)
    alone = ((pod, Pods.of((pod,))) for pod in pods)
    places = [
        programs.processes(group, (pod,), elastic=False).get(pod.name, ()) for pod, group in alone
    ]
    return Role(
        nodes=len(pods),
        awaited=workload.serving[name],
        pods=tuple(_pod(pod, own, configs) for pod, own in zip(pods, places, strict=True)),
    )


def every(workload: Workload) -> tuple[int, ...]:
    """Return the numbers of the training pods in a normal form: only the first if it is elastic."""
    return tuple(range(1 if workload.sizes else len(workload.training)))


def sample(workload: Workload) -> tuple[int, ...]:
    """Return the numbers of pods that represent all: those of a role differ only in number."""
    numbers = every(workload)
    groups = workload.training.groups
    others = {group.role for group in groups[len(groups[0].names) == 1 :]}
    return (*numbers[:2], numbers[-1]) if len(others) == 1 and len(numbers) > 3 else numbers


def _scheduler_queue(workload: Workload) -> str:
    """Return the gang scheduler's queue; empty for Volcano's default queue."""
    queue = workload.gang.queue if workload.gang else ""
    return "" if queue == "default" else queue


def _renamed(data: Data, name: str) -> Data:
    if isinstance(data, str):  # first, as most values are
        return data.replace(name, "run")
    if isinstance(data, Mapping):
        return {_renamed(key, name): _renamed(value, name) for key, value in data.items()}
    return [_renamed(item, name) for item in data] if isinstance(data, list) else data


# Fields that depend on a pod's number; all others come from its template.
_BY_NUMBER = frozenset({"name", "hostname", "index", "declared", "before", "controller_labels"})
_OF_TEMPLATE = tuple(f.name for f in fields(OperatedPod) if f.name not in _BY_NUMBER)


def _pods(
    pods: tuple[OperatedPod, ...], places: Mapping[str, tuple[Process, ...]], configs: Configs
) -> Iterator[Pod]:
    """Yield each pod; those of one template share what does not depend on their number."""
    of_template: dict[tuple[int, ...], Pod] = {}
    for pod in pods:
        template = tuple(id(getattr(pod, name)) for name in _OF_TEMPLATE)
        shared, processes = of_template.get(template), places.get(pod.name, ())
        if shared is None:
            of_template[template] = made = _pod(pod, processes, configs)
            yield made
        else:
            env, secrets, downward = containers.environment(pod)
            yield replace(
                shared,
                processes=processes,
                program=programs.program(pod),
                env=env,
                secrets=secrets,
                fields=downward,
            )


def _pod(pod: OperatedPod, processes: tuple[Process, ...], configs: Configs) -> Pod:
    env, secrets, downward = containers.environment(pod)
    return Pod(
        processes=processes,
        program=programs.program(pod),
        image=containers.image(pod.image),
        pull_policy=containers.pull_policy(pod.pull_policy, pod.image),
        pull_secrets=pod.pull_secrets,
        env=env,
        secrets=secrets,
        fields=downward,
        resources=containers.resources(pod.resources),
        mounts={
            path: Mount(
                source=source,
                folder=mount.sub_path,
                read_only=mount.read_only,
                more=mount.more,
                shared=containers.shared(pod, mount.volume, path),
            )
            for path, source, mount in containers.mounts(pod, configs)
        },
        files=dict(containers.files(pod, configs)),
        modes=dict(containers.modes(pod, configs)),
        security=containers.security(
            pod.security.get("container", {}), pod.security.get("pod", {})
        ),
        restart=_restart(pod),
        grace_period=pod.grace_period,
        ports=containers.ports(pod),
        placement=pod.placement,
        labels={key: value for key, value in pod.labels.items() if key not in _MEMBERSHIP},
        annotations={k: value for k, value in pod.annotations.items() if k not in _MEMBERSHIP},
        service_account=pod.service_account,
        token=pod.has_token,
        env_from=pod.env_from,
        init=tuple(containers.init(pod)),
        sidecars=containers.sidecars(pod),
        rest=containers.rest(pod),
    )


def _restart(pod: OperatedPod) -> Restart:
    restart = pod.restart
    if restart.limit == 0:
        return Restart(limit=0)
    return Restart(
        limit="unlimited" if restart.limit is None else restart.limit,
        together=restart.gang,
        final=_ranges(sorted(restart.permanent)),
        keeps=containers.kept(pod) if restart.in_pod else (),
    )


def _ranges(codes: list[int]) -> str:
    """Return exit codes as ranges: "1-127,137"."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], code]
        else:
            ranges.append([code])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


def _success(workload: Workload) -> Literal["all", "any", "rank 0", "some"]:
    if workload.needs == "any":
        return "any"
    trains = workload.training.names
    if len(workload.deciding) == len(trains):
        return "all"
    return "rank 0" if workload.deciding == (trains[0],) else "some"


def _beside(
    manifest: Manifest, manifests: tuple[Manifest, ...], workload: Workload
) -> Iterator[tuple[str, Data]]:
    serving = workload.pods.where(workload.serving.__contains__)
    pods = (workload.training[0], *serving.first_of_each)
    mounted = {text(dig(m.source, "configMap", "name")) for pod in pods for m in pod.mounts}
    for other in manifests:
        shown = other.group_kind == CONFIGMAP and other.name in mounted
        if other is not manifest and other.group_kind not in _PART_OF_THE_WORKLOAD and not shown:
            yield f"{other.kind}/{other.name}", other.body
