"""Whether a pod fits a node of a pool, and all pods its nodes: CPU, memory, and local disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from trainwright.datatypes import quantity
from trainwright.datatypes.environment import Node, Pool
from trainwright.datatypes.job import AMOUNTS
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import TRAINING
from trainwright.objects.pods.requests import Amounts, pod_requests, requests
from trainwright.objects.pods.template import PodTemplate
from trainwright.rule_model.rule import defined_in, error
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.quota import candidates
from trainwright.specs.capacity import nodes
from trainwright.specs.fabrics import nics


def _known(subject: Subject) -> bool:
    """Whether the environment describes any nodes; most do not."""
    return any(pool.node != Node() for pool in subject.environment.pools.values())


def _has(pool: Pool) -> dict[str, Decimal]:
    """Return the known capacity of one node, by resource."""
    node = pool.node
    written = {"cpu": node.cpu, "memory": node.memory, "ephemeral-storage": node.ephemeral_storage}
    has = {name: quantity.parse(amount) for name, amount in written.items() if amount}
    return has if node.nics is None else {**has, **dict.fromkeys(nics(), Decimal(node.nics))}


def _amount(resource: str, amount: Decimal) -> str:
    """An amount as people write it: 9999 CPUs, 64Gi of memory."""
    if resource == "cpu":
        return f"{amount.normalize():f} CPUs"
    if resource not in AMOUNTS:
        return f"{amount.normalize():f} {resource}"
    what = "memory" if resource == "memory" else "local disk"
    return f"{quantity.format_binary(int(amount))} of {what}"


def _short(amounts: Amounts, pool: Pool) -> dict[str, str]:
    """Return a message for each resource of which a pod requests more than a node has."""
    return {
        name: f"a pod requests {_amount(name, amounts[name])}, a node of the pool {pool.name} has "
        f"{_plain(name, has)}: {_plain(name, amounts[name] - has)} too few"
        for name, has in _has(pool).items()
        if amounts.get(name, Decimal()) > has
    }


def _plain(resource: str, amount: Decimal) -> str:
    return _amount(resource, amount).partition(" ")[0]


@error("TW728", spec=Pointer("/resources/cpu"), per_pod=True)
def node_exceeded(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates if _known(subject) else ():
        amounts = pod_requests(template)
        short = [_short(amounts, pool) for pool in candidates(subject, template)]
        for name in sorted(set.intersection(*map(set, short))) if short else ():
            field = (AMOUNTS[name],) if name in AMOUNTS else ("extended", name)
            spec, note = Pointer.of("resources", *field), _parts(template, name)
            also = (Pointer.of("resources", "requests", *field),)
            yield Hit(f"{template.pointer}/spec", short[0][name], spec, note, also=also)


def _parts(template: PodTemplate, resource: str) -> str:
    """Who requests how much, where that are several."""
    asking = {c.name: requests(c.body).get(resource) for c in template.containers}
    shown = [f"{name} {_plain(resource, part)}" for name, part in asking.items() if part]
    return ", ".join(shown) if len(shown) > 1 else ""


@error("TW729", kinds=TRAINING, spec=Pointer("/resources/cpu"))
def pool_nodes_exceeded(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates if _known(subject) else ():
        amounts = pod_requests(template)
        alike = sum(t.replicas for t in subject.templates if pod_requests(t) == amounts)
        short = [_crowded(amounts, alike, pool) for pool in candidates(subject, template)]
        if short and all(short):
            yield Hit(f"{template.pointer}/spec", short[0])
            return


def _crowded(amounts: Amounts, pods: int, pool: Pool) -> str:
    """Return why the nodes of a pool cannot hold so many identical pods at once, or nothing."""
    has, there = _per_node(pool), nodes(pool)
    fitting = {name: int(has[name] // amounts[name]) for name in has if amounts.get(name)}
    if there is None or not fitting:
        return ""
    name = min(fitting, key=lambda name: fitting[name])
    least = fitting[name]
    if least == 0 or pods <= there * least or _counted(amounts, pods, pool):
        return ""
    needed = -(-pods // least)
    return (
        f"{pods} pods, of which a node holds {least} by {name}, need {needed} nodes; the pool "
        f"{pool.name} has {there}: {needed - there} too few"
    )


def _counted(amounts: Amounts, pods: int, pool: Pool) -> bool:
    """Whether the accelerators alone are too few, which another rule reports."""
    needed = amounts.get(pool.resource, Decimal()) * pods
    return bool(pool.resource and pool.capacity is not None and needed > pool.capacity)


def _per_node(pool: Pool) -> Mapping[str, Decimal]:
    gpus = {pool.resource: Decimal(pool.gpus_per_node)} if pool.gpus_per_node else {}
    return {**_has(pool), **gpus}


RULES = defined_in(globals())
