"""Choices in writing the spec of a run: each is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from trainwright.datatypes.environment import Environment, Pool
from trainwright.datatypes.frozen import dataclass
from trainwright.kinds.reading import ImportingError
from trainwright.objects.pods.launching import options
from trainwright.objects.pods.pod import ALL, Pod
from trainwright.objects.pods.template import Container


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several ways to write a spec: its pool, and whether its command is split up."""

    pool: Pool | None
    apart: bool


def choices(environment: Environment, pod: Pod, wanted: str) -> Iterator[Choice]:
    """Yield the choices worth trying, best first; only those of the wanted pool if there is one."""
    refuse_unknown(environment, wanted)
    requested = _requested(pod)
    pools: list[Pool | None] = [p for p in environment.pools.values() if p.resource in requested]
    pools += [p for p in environment.pools.values() if not p.resource]
    pools.sort(key=lambda pool: pool is not None and pool.spot)
    for pool in [environment.pools[wanted]] if wanted else [*pools, None]:
        for apart in (True, False):
            yield Choice(pool=pool, apart=apart)


def refuse_unknown(environment: Environment, wanted: str) -> None:
    """Raise ImportingError for a pool that an environment does not have."""
    if wanted and wanted not in environment.pools:
        names = ", ".join(environment.pools) or "none"
        raise ImportingError(f'{environment.name} has no pool "{wanted}"; its pools: {names}')


def _requested(pod: Pod) -> dict[str, str]:
    return {**pod.resources.get("requests", {}), **pod.resources.get("limits", {})}


def filled(environment: Environment, pods: Iterable[Pod], wanted: str) -> Pool | None:
    """Return the pool whose nodes a job fills that takes all accelerators of its machine; None for
    any other job.

    Raise ImportingError unless one pool fits, as the job has no number of its own.
    """
    taking = [(pod, name) for pod in pods for name, n in _requested(pod).items() if n == ALL]
    refuse_unknown(environment, wanted)
    if not taking or not wanted:
        return _only(environment, *taking[0]) if taking else None
    pool = environment.pools[wanted]
    return pool if pool.resource == taking[0][1] and pool.gpus_per_node else None


def _only(environment: Environment, pod: Pod, resource: str) -> Pool:
    pools = [p for p in environment.pools.values() if p.resource == resource and p.gpus_per_node]
    if not pools:
        file = f"environments/{environment.name}/environment.yaml"
        raise ImportingError(
            f"it takes all {resource} of its machine, and no pool of {environment.name} says "
            f"how many these are: write one into {file}, such as `pools: {{gpus: {{resource: "
            f"{resource}, gpusPerNode: 8}}}}`, and import it again with --pool gpus; or give "
            "their number instead of all"
        )
    started = options(Container("", {"command": list(pod.argv)})).get("nproc-per-node")
    better: tuple[Callable[[Pool], bool], ...] = (
        lambda pool: str(pool.gpus_per_node) == started,
        lambda pool: not pool.spot,
        lambda pool: not (pool.node_selector or pool.tolerations),
    )
    for is_better in better:
        pools = [*filter(is_better, pools)] or pools
    if len(pools) > 1 or pools[0].spot:
        names = " or ".join(f"--pool {pool.name}" for pool in pools)
        spot = ", whose nodes can be taken away" if pools[0].spot else ""
        raise ImportingError(f"it takes all {resource} of its machine: write {names}{spot}")
    return pools[0]
