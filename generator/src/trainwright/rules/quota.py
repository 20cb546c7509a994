"""Whether a job fits what it is sent to: a pool, a queue of Kueue, the quota of its namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from trainwright.datatypes import quantity
from trainwright.datatypes.groupkind import CLUSTERQUEUE, LOCALQUEUE, RESOURCEFLAVOR, RESOURCEQUOTA
from trainwright.datatypes.model import Data, Manifest, Pool
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.datatypes.tolerant import dig, mapping, mappings, text
from trainwright.kinds import TRAINING
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.pods.template import PodTemplate
from trainwright.rule_model.rule import defined_in, error, pod, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs.capacity import nodes, pool_shortages, shortage
from trainwright.specs.upstream import upstream

_GPU = "resources: {limits: {nvidia.com/gpu: %d}}"


def asked(subject: Subject) -> dict[str, int]:
    """How many of each accelerator all pods of an object hold at once."""
    held: Counter[str] = Counter()
    for template in subject.templates:
        held.update({name: n * template.replicas for name, n in template.accelerators.items()})
    return held


# --- pools ---------------------------------------------------------------------------------------


def candidates(subject: Subject, template: PodTemplate) -> list[Pool]:
    """The pools that the pods can run in, as far as resources and node selectors tell."""
    if subject.job is not None:
        return [subject.job.pool] if subject.job.pool else []
    wanted = set(template.accelerators)
    selector = mapping(template.spec.get("nodeSelector"))
    fitting = []
    for pool in subject.environment.pools.values():
        has = wanted <= {pool.resource} if wanted else not pool.resource
        meant = all(selector.get(k, v) == v for k, v in pool.node_selector.items())
        if has and meant:
            fitting.append(pool)
    return fitting


@error(
    id="TW722",
    summary="All pods of a job fit into a pool together.",
    effect="Some pods stay Pending for ever, while the others hold their GPUs and wait.",
    remedy="Ask for less, choose a larger pool, or correct its capacity in environment.yaml.",
    kinds=TRAINING,
    spec=Pointer("/pool"),
    source="https://kubernetes.io/docs/concepts/scheduling-eviction/",
    passes=pod(_GPU % 4, replica="replicas: 2, "),
    passes_in="pools: {h100: {resource: nvidia.com/gpu, capacity: 8}}",
    fails=pod(_GPU % 8, replica="replicas: 2, "),
    fails_in="pools: {h100: {resource: nvidia.com/gpu, capacity: 8}}",
)
def pool_exceeded(subject: Subject) -> Iterator[Hit]:
    total = asked(subject) if subject.job or subject.environment.pools else {}
    for template in subject.templates if total else ():
        pools = candidates(subject, template)
        for resource, number in template.accelerators.items():
            short = [_short(total[resource], number, pool) for pool in pools]
            if pools and all(short):
                yield Hit(f"{template.pointer}/spec", min(short, key=len))
                return


def _short(total: int, per_node: int, pool: Pool) -> str:
    """Why a pool is too small, or nothing."""
    for short in pool_shortages(pool, per_node, total):
        where = " a node" if short.per_node else ""
        return (
            f"needs {short.need} GPUs{where}, pool {pool.name} has {short.has}: "
            f"short by {short.missing}"
        )
    return ""


# --- queues --------------------------------------------------------------------------------------


def _cluster_queue(subject: Subject) -> Manifest | None:
    name = text(subject.labels.get(QUEUE_LABEL))
    local = subject.around.named(LOCALQUEUE, name, subject.manifest.namespace) if name else None
    if local is None:
        return None
    return subject.around.named(CLUSTERQUEUE, text(local.spec.get("clusterQueue")))


def _flavors(queue: Manifest) -> Iterator[tuple[str, Mapping[str, Data]]]:
    """Each flavor of a ClusterQueue: its name, and its quota by resource."""
    for group in mappings(queue.spec.get("resourceGroups")):
        for flavor in mappings(group.get("flavors")):
            resources = mappings(flavor.get("resources"))
            yield text(flavor.get("name")), {text(r.get("name")): r for r in resources}


_LOCAL = "\n---\nkind: LocalQueue\nmetadata: {name: team}\nspec: {clusterQueue: all}"


_CLUSTER = (
    "\n---\nkind: ClusterQueue\nmetadata: {name: all}\nspec: {resourceGroups: [{flavors: "
    "[{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]}]}"
)


_FLAVOR = (
    "\n---\nkind: ResourceFlavor\nmetadata: {name: h100}\nspec: {nodeLabels: {agentpool: h100}}"
)


def _placed(pool: str) -> str:
    template = f"{{spec: {{nodeSelector: {{agentpool: {pool}}}}}}}"
    return f"{QUEUE_LABELD}{{pytorchReplicaSpecs: {{Worker: {{template: {template}}}}}}}"


QUEUE_LABELD = "kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: team}}\nspec: "


@warning(
    id="TW608",
    summary="A queued job's nodeSelector agrees with a flavor of its queue.",
    effect="Kueue cannot put the flavor's labels into the pods, and the job never starts.",
    remedy="Leave out what the ResourceFlavor selects, or choose the queue that has such nodes.",
    kinds=TRAINING,
    spec=Pointer("/nodeSelector"),
    source=upstream("kueue/writes-placement").source,
    per_pod=True,
    passes=_placed("h100") + _LOCAL + _CLUSTER + _FLAVOR,
    fails=_placed("a100") + _LOCAL + _CLUSTER + _FLAVOR,
)
def flavor_conflict(subject: Subject) -> Iterator[Hit]:
    queue = _cluster_queue(subject)
    if queue is None:
        return
    named = [name for name, _ in _flavors(queue)]
    flavors = [subject.around.named(RESOURCEFLAVOR, name) for name in named]
    for template in subject.templates:
        selector = mapping(template.spec.get("nodeSelector"))
        against = [_contradicts(selector, flavor) for flavor in flavors if flavor is not None]
        if against and len(against) == len(named) and all(against):
            message = f"no flavor of {queue.name} agrees with the nodeSelector: {against[0]}"
            yield Hit(f"{template.pointer}/spec", message)


def _contradicts(selector: Mapping[str, Data], flavor: Manifest) -> str:
    for key, value in mapping(flavor.spec.get("nodeLabels")).items():
        if selector.get(key, value) != value:
            return f"{key} is {selector[key]!r}, in {flavor.name} it is {value!r}"
    return ""


def _queued(gpus: int) -> str:
    template = f"{{spec: {{containers: [{{{_GPU % gpus}}}]}}}}"
    return f"{QUEUE_LABELD}{{pytorchReplicaSpecs: {{Worker: {{template: {template}}}}}}}"


@error(
    id="TW609",
    summary="A job requests no more than its queue ever has.",
    effect="Kueue never admits the job: it waits for quota that does not exist.",
    remedy="Ask for less, choose another queue, or raise the quota of the ClusterQueue.",
    kinds=TRAINING,
    spec=Pointer("/queue"),
    source="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/",
    passes=_queued(8) + _LOCAL + _CLUSTER,
    fails=_queued(16) + _LOCAL + _CLUSTER,
)
def queue_quota_exceeded(subject: Subject) -> Iterator[Hit]:
    queue = _cluster_queue(subject)
    if queue is None:
        return
    cohort = queue.spec.get("cohortName") or queue.spec.get("cohort")
    flavors = tuple(_flavors(queue))
    for resource, number in asked(subject).items():
        limits = [_most(quota[resource], bool(cohort)) for _, quota in flavors if resource in quota]
        known = [limit for limit in limits if limit is not None]
        if not known or len(known) < len(limits):
            continue
        missing = shortage(number, max(known))
        if missing:
            has = f"{queue.name} has {max(known)}"
            message = f"needs {number} {resource}, {has}: short by {missing}"
            yield Hit(Pointer.of("metadata", "labels", QUEUE_LABEL), message)


def _most(quota: Mapping[str, Data], cohort: bool) -> int | None:
    """The most of a flavor that one job gets; None when its cohort may lend without a limit."""
    nominal = count(quota.get("nominalQuota")) or 0
    lent = quantity.read(quota.get("borrowingLimit"))
    if not cohort:
        return nominal
    return None if lent is None else nominal + int(lent)


# --- namespaces ----------------------------------------------------------------------------------


_HARD = (
    "\n---\nkind: ResourceQuota\nmetadata: {name: gpus}\nspec: {hard: {requests.nvidia.com/gpu: 8}}"
)


@error(
    id="TW723",
    summary="A job requests no more than the quota of its namespace.",
    effect="The last pods are refused, while the others hold their GPUs and wait for them.",
    remedy="Ask for less, or raise the ResourceQuota.",
    kinds=TRAINING,
    spec=Pointer("/resources/gpu"),
    source="https://kubernetes.io/docs/concepts/policy/resource-quotas/",
    passes=pod(_GPU % 8) + _HARD,
    fails=pod(_GPU % 16) + _HARD,
)
def namespace_quota_exceeded(subject: Subject) -> Iterator[Hit]:
    namespace = subject.manifest.namespace
    quotas = subject.around.by_kind.get(RESOURCEQUOTA, ())
    total = asked(subject) if quotas else {}
    for quota in quotas:
        if quota.namespace != namespace or quota.spec.get("scopeSelector"):
            continue
        for resource, number in total.items():
            has = count(dig(quota.spec, "hard", f"requests.{resource}"))
            missing = shortage(number, has)
            if missing:
                what = f"the quota {quota.name} has {has}: short by {missing}"
                yield Hit("/spec", f"needs {number} {resource}, {what}")


# --- nodes ---------------------------------------------------------------------------------------

_HOST = "kubernetes.io/hostname"


_SPREAD = frozenset(("affinity", "topologySpreadConstraints"))


_APART = (
    "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {replicas: %d, template: {metadata: "
    "{labels: {app: a}}, spec: {affinity: {podAntiAffinity: "
    "{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, "
    "labelSelector: {matchLabels: {app: a}}}]}}}}}}}"
)


@warning(
    id="TW714",
    summary="The pool has a node for each pod that needs one of its own.",
    effect="The pods that find no node of their own stay Pending for ever.",
    remedy="Lower nodes, or make the anti-affinity preferred.",
    by_hand="Run fewer pods, or make the anti-affinity preferred.",
    kinds=TRAINING,
    spec=Pointer("/affinity"),
    source="https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/",
    passes=_APART % 4,
    passes_in="pools: {cpu: {capacity: 4}}",
    fails=_APART % 5,
    fails_in="pools: {cpu: {capacity: 4}}",
)
def not_enough_nodes(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if _SPREAD.isdisjoint(template.spec):
            continue
        apart, domains = _kept_apart(template), _domains(template)
        if not apart and not domains:
            continue
        available = [nodes(pool) for pool in candidates(subject, template)]
        known = [number for number in available if number is not None]
        wanted = max(subject.pods if apart else 0, domains)
        if known and len(known) == len(available) and wanted > max(known):
            message = f"{wanted} nodes are needed, one for each pod, but there are {max(known)}"
            yield Hit(f"{template.pointer}/spec", message)


def _kept_apart(template: PodTemplate) -> bool:
    """Whether no node may have two of the pods."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = mappings(dig(template.spec, "affinity", "podAntiAffinity", required))
    return any(
        term.get("topologyKey") == _HOST and _selects(mapping(term.get("labelSelector")), template)
        for term in terms
    )


def _domains(template: PodTemplate) -> int:
    """How many nodes the pods must at least spread over."""
    return max(
        (
            count(spread.get("minDomains")) or 0
            for spread in mappings(template.spec.get("topologySpreadConstraints"))
            if spread.get("whenUnsatisfiable") != "ScheduleAnyway"
            and spread.get("topologyKey") == _HOST
        ),
        default=0,
    )


def _selects(selector: Mapping[str, Data], template: PodTemplate) -> bool:
    wanted = mapping(selector.get("matchLabels"))
    return bool(wanted) and all(template.labels.get(k) == v for k, v in wanted.items())


RULES = defined_in(globals())
