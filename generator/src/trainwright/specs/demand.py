"""What jobs ask of a pool: accelerators at once, accelerator-hours, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from operator import add, sub

from trainwright.datatypes.data import Data, is_accelerator
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job

_HOUR = 3600  # seconds


@dataclass(frozen=True, slots=True)
class Range:
    """From the least to the most; the two differ for elastic jobs."""

    low: float = 0
    high: float = 0

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return Range(self.low - other.low, self.high - other.high)

    def __mul__(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)

    def __bool__(self) -> bool:
        return bool(self.low or self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one job or many together ask for, or the difference between two such demands.

    `nodes` and `gpus` are held at once. `hours` are GPU-hours, with every attempt that has its own
    deadline counted in full: a bound, not a forecast. `cost` is in the currency of the pools'
    prices. Jobs of unbounded hours, and those whose pool has no price, are not in these sums, but
    counted in `unbounded` and `unpriced`. `pools` has the same for each pool ("" for no pool).
    """

    nodes: Range = Range()
    gpus: Range = Range()
    hours: Range = Range()
    cost: Range = Range()
    unbounded: int = 0
    unpriced: int = 0
    pools: Mapping[str, Demand] = field(default_factory=dict, hash=False)

    def __add__(self, other: Demand) -> Demand:
        return self._with(other, add)

    def __sub__(self, other: Demand) -> Demand:
        return self._with(other, sub)

    def _with(self, other: Demand, how: Callable[[Data, Data], Data]) -> Demand:
        """Return two demands combined number by number, also those of their pools."""
        both = {
            name: self.of(name)._with(other.of(name), how) for name in {**self.pools, **other.pools}
        }
        return Demand(
            nodes=how(self.nodes, other.nodes),
            gpus=how(self.gpus, other.gpus),
            hours=how(self.hours, other.hours),
            cost=how(self.cost, other.cost),
            unbounded=how(self.unbounded, other.unbounded),
            unpriced=how(self.unpriced, other.unpriced),
            pools={name: demand for name, demand in both.items() if demand != NOTHING},
        )

    def of(self, pool: str) -> Demand:
        """Return the part of the demand on one pool."""
        return self.pools.get(pool, NOTHING)

    def holding(self, other: Demand) -> Demand:
        """The same hours, with the nodes and GPUs of another demand."""
        pools = {
            name: self.of(name).holding(other.of(name)) for name in {**self.pools, **other.pools}
        }
        return replace(self, nodes=other.nodes, gpus=other.gpus, pools=pools)


NOTHING = Demand()


def demand_of_job(job: Job, attempts: int) -> Demand:
    """Return what a job asks for, with its roles; nothing unless it is active.

    GPU-hours are nodes times GPUs a node times maxDuration, for the least and the most nodes that
    an elastic job has; `attempts` is how often each of them may take all of that. Roles are there
    as long as the job, and as often.
    """
    if job.state != "active":
        return NOTHING
    groups: dict[str, list[Demand]] = {}
    for group in job.groups:
        pool = group.pool.name if group.pool else ""
        groups.setdefault(pool, []).append(_of_group(group, attempts))
    pools = {pool: _as_one(demands) for pool, demands in groups.items()}
    return replace(_as_one([*pools.values()]), pools=pools)


def _as_one(demands: Sequence[Demand]) -> Demand:
    """Return the sum of one job's group demands; if unbounded or unpriced, the job counts once."""
    if len(demands) == 1:
        return demands[0]
    return replace(
        total(demands),
        unbounded=max(demand.unbounded for demand in demands),
        unpriced=max(demand.unpriced for demand in demands),
    )


def nodes_of(group: Job) -> Range:
    """Return how many nodes a job without its roles, or a role, has: its pods, one per node."""
    elastic = group.elastic
    if elastic:
        return Range(elastic.min_nodes, elastic.max_nodes)
    return Range(group.nodes, group.nodes)


def _of_group(job: Job, attempts: int) -> Demand:
    """Return what the pods of a job or of a role request, over all attempts."""
    nodes = nodes_of(job)
    gpus = nodes * (job.resources.gpu + _outside_of_pools(job))
    if not gpus:
        return Demand(nodes=nodes)
    if job.max_duration is None:
        return Demand(nodes=nodes, gpus=gpus, unbounded=1)
    hours = gpus * (job.max_duration / _HOUR * attempts)
    price = job.pool.price_per_gpu_hour if job.pool else None
    if price is None:
        return Demand(nodes=nodes, gpus=gpus, hours=hours, unpriced=1)
    return Demand(nodes=nodes, gpus=gpus, hours=hours, cost=hours * price)


def _outside_of_pools(job: Job) -> int:
    """Return how many whole accelerators a node takes that no pool counts."""
    extended = job.resources.extended.items()
    return sum(n for name, n in extended if is_accelerator(name) and "/mig-" not in name)


def total(demands: Iterable[Demand]) -> Demand:
    """The sum of many demands."""
    every = [demand for demand in demands if demand is not NOTHING]
    if len(every) == 1:
        return every[0]
    names = dict.fromkeys(name for demand in every for name in demand.pools)
    pools = {name: total(demand.of(name) for demand in every) for name in names}
    return Demand(
        nodes=_sum(demand.nodes for demand in every),
        gpus=_sum(demand.gpus for demand in every),
        hours=_sum(demand.hours for demand in every),
        cost=_sum(demand.cost for demand in every),
        unbounded=sum(demand.unbounded for demand in every),
        unpriced=sum(demand.unpriced for demand in every),
        pools={name: demand for name, demand in pools.items() if demand != NOTHING},
    )


def priced(demand: Demand, prices: Mapping[str, float | None]) -> Demand:
    """Return what one job asks for at other prices of its pools; that of a pool which is not among
    them costs what it did.
    """
    if not prices.keys() & demand.pools.keys():
        return demand
    pools = {name: _at(part, prices, name) for name, part in demand.pools.items()}
    cost = _sum(part.cost for part in pools.values())
    unpriced = max(part.unpriced for part in pools.values())
    return replace(demand, cost=cost, unpriced=unpriced, pools=pools)


def _at(part: Demand, prices: Mapping[str, float | None], pool: str) -> Demand:
    if pool not in prices or not part.hours:
        return part
    price = prices[pool]
    if price is None:
        return replace(part, cost=Range(), unpriced=1)
    return replace(part, cost=part.hours * price, unpriced=0)


def _sum(ranges: Iterable[Range]) -> Range:
    low: float = 0
    high: float = 0
    for each in ranges:
        low += each.low
        high += each.high
    return Range(low, high)
