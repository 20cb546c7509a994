"""Write docs/pools.md: pools, what their jobs inherit, and the fabrics that are shipped.

python scripts/fabric_page.py [--check]
"""

from __future__ import annotations

from collections.abc import Iterator

from generated import ROOT, main

from trainwright.documents import yamlio
from trainwright.specs import fabrics
from trainwright.specs.fabrics import Fabric

PAGE = ROOT / "docs" / "pools.md"
COMMAND = "python scripts/fabric_page.py"
_HEAD = f"""\
<!-- Generated from the fabrics by `{COMMAND}`. Do not edit. -->
# Pools and fabrics

A pool is a group of nodes that jobs name. What the nodes need of every pod is written
there, once, and a job has `pool: p5`:

```yaml
# environments/prod/environment.yaml
pools:
  p5:
    resource: nvidia.com/gpu
    gpusPerNode: 8
    capacity: 64
    node: {{cpu: "191", memory: 1950Gi, ephemeralStorage: 7Ti, nics: 32}}
    nodeSelector: {{node.kubernetes.io/instance-type: p5.48xlarge}}
    fabric: efa-p5
    defaults:
      shm: 256Gi
      env: {{NCCL_DEBUG: WARN}}
```

* `resource`, `nodeSelector` and `tolerations` set where the pods go, and which accelerators
  `resources.gpu` counts.
* `gpusPerNode`, `capacity` and `node` are what one node and the pool have: a request that none
  holds is found before it stays Pending ([TW722](rules/TW722.md), [TW728](rules/TW728.md),
  [TW729](rules/TW729.md)).
* `fabric` is the network between the nodes: a shipped profile, below.
* `defaults` is a partial job spec for every job of the pool.
* `pricePerGpuHour` and `spot` are for what a plan costs, and whether nodes may go away.

## The layers of a pool

Lowest first: `environments/defaults.yaml`, the `defaults` of the environment, the pool's fabric,
the pool's `defaults`, what the job extends, the job. Maps merge, scalars and lists replace, null
removes. The effective `pool` of a job chooses them, whichever layer sets it but a pool's own.
`trainwright explain ENV/JOB` names the pool, or the fabric and the line that names that.

`defaults` may hold every field of a job but `name`, `description`, `extends`, `target`, `pool`,
`run` and `state`. An edit of a pool holds the runs that there are, as any shared edit does; another
`pool` in a job's spec begins a new run with what the other pool brings.

`node` is what a node has for pods, its *allocatable* in `kubectl describe node`. A pod's requests
are summed as the scheduler sums them: sidecars run beside the init containers behind them and
beside the containers.

## Fabrics

What an environment's file names is allowed by that: a fabric that needs `hostNetwork` or
`privileged` needs no entry in `allow`, though pod security has to agree. Values of a profile change
with a version of Trainwright; a run keeps those it began with.

| `fabric` | for | a node has | allows |
|---|---|---|---|
"""


def page() -> str:
    """The whole text."""
    profiles = [profile for name in fabrics.names() if (profile := fabrics.profile(name))]
    rows = [_row(fabric) for fabric in profiles]
    return _HEAD + "\n".join([*rows, *(line for f in profiles for line in _section(f))]) + "\n"


def _row(fabric: Fabric) -> str:
    needs, allowed = fabric.needs, ", ".join(f"`{name}`" for name in fabric.allow)
    gpus = f"{needs.gpus_per_node} " if needs.gpus_per_node else ""
    has = [f"{gpus}`{needs.resource}`"] if needs.resource else []
    has += [f"{count} `{name}`" for name, count in needs.nics.items()]
    has += [f"the label `{label}`" for label in needs.node_selector]
    has += [f"targets {', '.join(needs.targets)}"] if needs.targets else []
    return (
        f"| [`{fabric.name}`](#{fabric.name}) | {fabric.summary} | {', '.join(has)} | {allowed} |"
    )


def _section(fabric: Fabric) -> Iterator[str]:
    yield from ("", f"### {fabric.name}", "", f"{fabric.summary}.", "")
    yield from (f"* Needs {what}." for what in fabric.needs.installed)
    yield from (f"* {note}" for note in fabric.notes)
    yield from (f"* Source: {source}" for source in fabric.sources)
    yield from ("", "```yaml", yamlio.dump(dict(fabric.document.data["job"])).strip(), "```")
    if fabric.objects:
        yield from ("", "In the [objects](objects.md) of the environment:", "")
        yield from ("```yaml", fabric.objects.strip(), "```")


if __name__ == "__main__":
    main(__doc__, PAGE, page(), COMMAND)
