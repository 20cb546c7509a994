"""Whether a job fits its pool, its Kueue queue, and the quota of its namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig, mapping, mappings, text
from trainwright.datatypes.environment import Pool
from trainwright.datatypes.groupkind import CLUSTERQUEUE, LOCALQUEUE, RESOURCEFLAVOR, RESOURCEQUOTA
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.kinds import TRAINING
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.pods.template import PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs.capacity import nodes, pool_shortages, shortage


def asked(subject: Subject) -> dict[str, int]:
    """Return how many of each accelerator all pods of an object hold at once."""
    held: Counter[str] = Counter()
    for template in subject.templates:
        held.update({name: n * template.replicas for name, n in template.accelerators.items()})
    return held


# --- pools ---------------------------------------------------------------------------------------


def candidates(subject: Subject, template: PodTemplate) -> list[Pool]:
    """The pools that the pods can run in, as far as resources and node selectors tell."""
    job = subject.job_of(template)
    if job is not None:
        return [job.pool] if job.pool else []
    wanted = set(template.accelerators)
    selector = mapping(template.spec.get("nodeSelector"))
    fitting = []
    for pool in subject.environment.pools.values():
        has = wanted <= {pool.resource} if wanted else not pool.resource
        meant = all(selector.get(k, v) == v for k, v in pool.node_selector.items())
        if has and meant:
            fitting.append(pool)
    return fitting


@error("TW722", kinds=TRAINING, spec=Pointer("/pool"))
def pool_exceeded(subject: Subject) -> Iterator[Hit]:
    total = asked(subject) if subject.job or subject.environment.pools else {}
    for template in subject.templates if total else ():
        pools = candidates(subject, template)
        for resource, number in template.accelerators.items():
            short = [_short(_from(pool, subject, total[resource]), number, pool) for pool in pools]
            if pools and all(short):
                yield Hit(f"{template.pointer}/spec", min(short, key=len))
                return


def _from(pool: Pool, subject: Subject, total: int) -> int:
    """Return how many of the `total` accelerators that an object holds are of the given pool."""
    if subject.job is None or not subject.job.roles:
        return total
    groups = [group for group in (subject.job, *subject.job.roles) if group.pool == pool]
    return sum(group.nodes * group.resources.gpu for group in groups)


def _short(total: int, per_node: int, pool: Pool) -> str:
    """Return why a pool is too small, or "" if it is not."""
    return next((short.message() for short in pool_shortages(pool, per_node, total)), "")


# --- queues --------------------------------------------------------------------------------------


def _cluster_queue(subject: Subject) -> Manifest | None:
    if LOCALQUEUE not in subject.around.by_kind:
        return None
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


@warning("TW608", kinds=TRAINING, about=(QUEUE_LABEL,), spec=Pointer("/nodeSelector"), per_pod=True)
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


@error("TW609", kinds=TRAINING, about=(QUEUE_LABEL,), spec=Pointer("/queue"))
def queue_quota_exceeded(subject: Subject) -> Iterator[Hit]:
    queue = _cluster_queue(subject)
    if queue is None:
        return
    cohort = queue.spec.get("cohortName") or queue.spec.get("cohort")
    flavors = tuple(_flavors(queue))
    for resource, number in asked(subject).items():
        limits = [_most(quota[resource], bool(cohort)) for _, quota in flavors if resource in quota]
        finite = [limit for limit in limits if limit is not None]
        if not finite or len(finite) < len(limits):
            continue
        missing = shortage(number, max(finite))
        if missing:
            has = f"{queue.name} has {max(finite)}"
            message = f"needs {number} {resource}, {has}: {missing} too few"
            yield Hit(Pointer.of("metadata", "labels", QUEUE_LABEL), message)


def _most(quota: Mapping[str, Data], cohort: bool) -> int | None:
    """Return the most of a flavor that one job can get, or None if it may borrow without limit."""
    nominal = count(quota.get("nominalQuota")) or 0
    lent = quantity.read(quota.get("borrowingLimit"))
    if not cohort:
        return nominal
    return None if lent is None else nominal + int(lent)


@warning("TW626", kinds=TRAINING, about=(QUEUE_LABEL,), spec=Pointer("/queue"))
def declared_quota_exceeded(subject: Subject) -> Iterator[Hit]:
    """The quota that environment.yaml declares leaves out what a cohort may lend."""
    name = text(subject.labels.get(QUEUE_LABEL))
    has = subject.environment.queues.get(name)
    if has is None or _cluster_queue(subject) is not None:
        return
    number = sum(asked(subject).values())
    if missing := shortage(number, has):
        message = f"needs {number} GPUs, the queue {name} has {has}: {missing} too few"
        yield Hit(Pointer.of("metadata", "labels", QUEUE_LABEL), message)


# --- namespaces ----------------------------------------------------------------------------------


@error("TW723", kinds=TRAINING, spec=Pointer("/resources/gpu"))
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
                what = f"the quota {quota.name} has {has}: {missing} too few"
                yield Hit("/spec", f"needs {number} {resource}, {what}")


# --- nodes ---------------------------------------------------------------------------------------

_HOST = "kubernetes.io/hostname"


_SPREAD = frozenset(("affinity", "topologySpreadConstraints"))


@warning("TW714", kinds=TRAINING, about=tuple(_SPREAD), spec=Pointer("/affinity"))
def not_enough_nodes(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if _SPREAD.isdisjoint(template.spec):
            continue
        apart, domains = _kept_apart(template), _domains(template)
        if not apart and not domains:
            continue
        available = [nodes(pool) for pool in candidates(subject, template)]
        counts = [number for number in available if number is not None]
        wanted = max(subject.pods if apart else 0, domains)
        if counts and len(counts) == len(available) and wanted > max(counts):
            message = f"{wanted} nodes are needed, one for each pod, but there are {max(counts)}"
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
