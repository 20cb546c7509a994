"""The layers of a job's spec. The topmost one that has a value wins; lowest first, by label:

built-in                 Trainwright's own defaults.yaml
only target              what an environment's `targets` has, where it is one
defaults                 environments/defaults.yaml
environment              `defaults` in environment.yaml
fabric <name> of pool …  what the network between the nodes of the job's pool needs
pool <name>              `defaults` of the job's pool
base                     the specs that the job extends, the nearest one last
job                      its own file

Those of a role are the same, and over them what each says of the role.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from trainwright.datatypes.model import Data
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.yamlio import Document, parse
from trainwright.specs import fabrics
from trainwright.specs.merge import (
    BASE,
    BUILT_IN,
    DEFAULTS,
    ENVIRONMENT,
    JOB,
    ONLY_TARGET,
    Layer,
    Layered,
    merge,
    stack,
)

_PARTIAL = Pointer("/defaults")  # where such a file has the partial spec


def stacked(below: Sequence[Layer], above: Sequence[Layer]) -> Layered:
    """A job as it is merged, lowest first: `below` are the layers of its environment, `above` its
    bases and its own file. Those of its pool lie in between.
    """
    pool = chosen_pool(*(layer.data for layer in (*below, *above)))
    return stack((*below, *of_pool(below, pool), *above))


def of_environment(
    built_in: Layer, defaults: Document | None, environment: Document | None
) -> tuple[Layer, ...]:
    """What lies below each job of an environment; a file may be missing or not usable."""
    files = {DEFAULTS: defaults, ENVIRONMENT: environment}
    written = (Layer(name, found, _PARTIAL) for name, found in files.items() if found)
    return (built_in, *_only_target(environment, built_in), *written)


def _only_target(environment: Document | None, built_in: Layer) -> Iterator[Layer]:
    """A job of an environment with one target becomes that, unless something says otherwise."""
    targets = environment.data.get("targets") if environment else None
    if environment and isinstance(targets, Mapping) and len(targets) == 1:
        (name,) = targets
        if name == built_in.data["target"]:
            return
        yield Layer(ONLY_TARGET, _target(str(name)), by=(environment, Pointer.of("targets", name)))


@cache
def _target(name: str) -> Document:
    document = parse("targets", f"target: {json.dumps(name)}\n".encode())
    assert isinstance(document, Document)
    return document


def of_job(documents: Sequence[Document]) -> tuple[Layer, ...]:
    """What lies above: a job's own file, given first, and each one that the file before extends."""
    own, bases = documents[:1], documents[1:]
    return *(Layer(BASE, found) for found in reversed(bases)), *(Layer(JOB, d) for d in own)


def chosen_pool(*data: Mapping[str, Data]) -> str:
    """The pool that partial specs choose, lowest first; empty for none."""
    wrote = (spec["pool"] for spec in reversed(data) if "pool" in spec)
    pool = next(wrote, None)
    return pool if isinstance(pool, str) else ""


def of_pool(below: Sequence[Layer], pool: str) -> tuple[Layer, ...]:
    """The layers of a pool, lowest first, as the environment's own file has them."""
    environment = next((layer for layer in below if layer.label == ENVIRONMENT), None)
    if not pool or environment is None:
        return ()
    document, at = environment.document, Pointer.of("pools", pool)
    own = Layer(f"pool {pool}", document, at / "defaults")
    named = fabrics.profile(str(lookup(document.data, at / "fabric") or ""))
    fabric = named.layer(pool, (document, at / "fabric")) if named else None
    return tuple(layer for layer in (fabric, own) if layer and layer.data)


# What a role has of its own: what runs in it and how often, and what keeps a training's state.
_NOT_INHERITED = frozenset(
    "entrypoint launcher launcherOptions flags flagStyle nodes procsPerNode backend elastic"
    " checkpoint preflight metrics tracking lattice podPatch livenessProbe readinessProbe"
    " startupProbe lifecycle roles".split()
)
# What is asked of the machines of one pool means nothing on those of another.
_OF_A_POOL = frozenset({"resources", "resourceClaims", "shm", "topology"})
_SERVING = frozenset({"port", "ready"})  # of a role, and of no job
_USUAL = b"launcher: python\nnodes: 1\nprocsPerNode: 1\n"  # each pod serves by itself


@cache
def _usual() -> Layer:
    document = parse(BUILT_IN, _USUAL)
    assert isinstance(document, Document)
    return Layer(BUILT_IN, document)


def is_serving(path: str) -> bool:
    """Whether a dotted path in a role is of what only roles have."""
    return path.partition(".")[0] in _SERVING


def of_role(spec: Layered, name: str) -> Layered:
    """The spec of a role, as that of a job by itself: what the role says, over the job's."""
    said = spec.data["roles"][name]
    own = {key: value for key, value in said.items() if key not in _SERVING}
    without = _NOT_INHERITED | (_OF_A_POOL if "pool" in own else frozenset())
    inherited = {key: value for key, value in spec.data.items() if key not in without}
    at = Pointer.of("roles", name)
    layers = (
        *(replace(layer, without=without) for layer in spec.layers),
        _usual(),
        *(
            replace(layer, root=Pointer(layer.root + at), without=_SERVING)
            for layer in spec.layers
            if isinstance(lookup(layer.data, at), Mapping)
        ),
    )
    return replace(spec, data=merge({**inherited, **_usual().data}, own), layers=layers)
