"""Choices in writing the spec of a run: each is tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.environment import Environment, Pool
from trainwright.datatypes.frozen import dataclass
from trainwright.kinds.reading import ImportingError
from trainwright.objects.pods.launching import options
from trainwright.objects.pods.pod import Pod
from trainwright.objects.pods.template import Container


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several ways to write a spec: its pool, and whether its command is split up."""

    pool: Pool | None
    apart: bool


def choices(environment: Environment, pod: Pod, wanted: str) -> Iterator[Choice]:
    """Yield the choices worth trying, best first; only those of the wanted pool if there is one."""
    refuse_unknown(environment, wanted)
    requested = {**pod.resources.get("requests", {}), **pod.resources.get("limits", {})}
    if not wanted:
        _refuse_uncounted(environment, requested)
    pools: list[Pool | None] = [p for p in environment.pools.values() if p.resource in requested]
    if "all" in requested.values():  # as many as the processes that are started
        started = options(Container("", {"command": list(pod.argv)})).get("nproc-per-node")
        pools.sort(key=lambda pool: pool is None or str(pool.gpus_per_node) != started)
    pools += [p for p in environment.pools.values() if not p.resource]
    for pool in [environment.pools[wanted]] if wanted else [*pools, None]:
        for apart in (True, False):
            yield Choice(pool=pool, apart=apart)


def refuse_unknown(environment: Environment, wanted: str) -> None:
    """Raise ImportingError for a pool that an environment does not have."""
    if wanted and wanted not in environment.pools:
        names = ", ".join(environment.pools) or "none"
        raise ImportingError(f'{environment.name} has no pool "{wanted}"; its pools: {names}')


def _refuse_uncounted(environment: Environment, requested: Mapping[str, str]) -> None:
    """Raise ImportingError for a job that takes all accelerators of its machine: it would get none.

    A job passes if a pool has the number of its accelerators, or if a pool was chosen.
    """
    counted = {pool.resource for pool in environment.pools.values()}
    for resource in (name for name, count in requested.items() if count == "all"):
        if resource not in counted:
            file = f"environments/{environment.name}/environment.yaml"
            raise ImportingError(
                f"it takes all {resource} of its machine, and no pool of {environment.name} says "
                f"how many these are: write one into {file}, such as `pools: {{gpus: {{resource: "
                f"{resource}, gpusPerNode: 8}}}}`, and import it again with --pool gpus; or give "
                "their number instead of all"
            )
