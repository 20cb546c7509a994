"""The fabrics that pools name: what a network needs from pods, as data with its sources.

A profile is a file of this package: a partial job spec, what it needs from nodes, and the sources
of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache, lru_cache
from math import prod
from pathlib import Path

from trainwright.datatypes.environment import Pool
from trainwright.datatypes.fields import NOT_WRITTEN
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.yamlio import Document, parse
from trainwright.specs import convert
from trainwright.specs.merge import Layer

FOLDER = Path(__file__).parent
_JOB = Pointer("/job")
_SHAPE = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a profile needs of a pool: `nics` by extended resource, labels in its `node_selector`,
    and the `topology` label, the shape of a slice (4x4) that a job takes whole. `targets` is empty
    if all support it; `installed` is for people.
    """

    resource: str = ""
    gpus_per_node: int | None = None
    nics: Mapping[str, int] = field(default_factory=dict)
    node_selector: tuple[str, ...] = ()
    topology: str = ""
    targets: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()

    def unmet(self, pool: Pool) -> Iterator[tuple[str, str]]:
        """Yield each need that the pool contradicts, and what the pool has instead."""
        gpus, nics, selected = pool.gpus_per_node, pool.node.nics, pool.node_selector
        if self.resource and self.resource != pool.resource:
            yield f"the resource {self.resource}", pool.resource or "none"
        if gpus and self.gpus_per_node and self.gpus_per_node != gpus:
            yield f"gpusPerNode {self.gpus_per_node}", str(gpus)
        for nic, count in self.nics.items():
            if nics is not None and nics < count:
                yield f"{count} {nic} per node", str(nics)
        for label in self.node_selector:
            if label not in selected:
                yield f"a nodeSelector for {label}", ", ".join(selected) or "none"

    def slice(self, pool: Pool) -> tuple[str, int] | None:
        """Return the topology of a pool's slices and the accelerators in each, if it has slices."""
        shape = pool.node_selector.get(self.topology, "")
        return (shape, prod(map(int, shape.split("x")))) if _SHAPE.fullmatch(shape) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """A profile. `allow` names what the environment has to allow its pods, `objects` is the YAML of
    the objects that its namespace needs beside the runs.
    """

    name: str = field(metadata=NOT_WRITTEN)
    document: Document = field(metadata=NOT_WRITTEN)
    summary: str
    sources: tuple[str, ...]
    needs: Needs = Needs()
    allow: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    objects: str = ""

    def layer(self, pool: str, by: tuple[Document, Pointer]) -> Layer:
        """The profile as a layer of a pool, which names it in a line of a document."""
        return Layer(f"fabric {self.name} of pool {pool}", self.document, _JOB, by)


@cache
def names() -> tuple[str, ...]:
    """The profiles there are."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def profile(name: str) -> Fabric | None:
    """Return the profile of this name, or None if there is none."""
    if name not in names():
        return None
    document = parse(f"fabrics/{name}.yaml", (FOLDER / f"{name}.yaml").read_bytes())
    assert isinstance(document, Document)
    return convert.value(Fabric, document.data, name=name, document=document)


# How device plugins name RDMA cards.
_CARD = re.compile(
    r"rdma|infiniband|(?:^|[/_.-])(?:hca|ib)(?:[/_.-]|\d|$)|roce|mlnx|hostdev", re.IGNORECASE
)


@lru_cache(maxsize=256)
def is_rdma(resource: str) -> bool:
    """Whether a resource counts network cards that read and write memory by themselves."""
    return _CARD.search(resource) is not None


@cache
def nics() -> frozenset[str]:
    """The extended resources that count network interfaces."""
    profiles = (profile(name) for name in names())
    return frozenset(nic for fabric in profiles if fabric for nic in fabric.needs.nics)
