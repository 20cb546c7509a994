"""The layers of a job's spec. The topmost one that has a value wins; lowest first, by label:

built-in                 Trainwright's own defaults.yaml
only target              the environment's target, if its `targets` has just one
defaults                 environments/defaults.yaml
environment              `defaults` in environment.yaml
fabric <name> of pool …  what the network between the nodes of the job's pool needs
pool <name>              `defaults` of the job's pool
base                     the specs that the job extends, the nearest one last
job                      its own file

The layers of a role are the same, below what each of them sets for the role itself. A role that
names a pool has the layers of that pool. Whatever it then inherits that differs from its job is a
layer as well, the lowest, so that the merged spec and the record of a run are complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.same import identical
from trainwright.documents.yamlio import Document, parse
from trainwright.specs import fabrics
from trainwright.specs.fields import field
from trainwright.specs.merge import (
    BASE,
    BUILT_IN,
    DEFAULTS,
    ENVIRONMENT,
    JOB,
    ONLY_TARGET,
    ROLES,
    Layer,
    Layered,
    merge,
    stack,
)

_PARTIAL = Pointer("/defaults")  # where such a file has the partial spec


def stacked(below: Sequence[Layer], above: Sequence[Layer]) -> Layered:
    """Return a job's merged spec. `below` are the layers of its environment, `above` its bases and
    its own file, lowest first; the layers of its pool go in between.
    """
    pool = chosen_pool(*(layer.data for layer in (*below, *above)))
    found = stack((*below, *of_pool(below, pool), *above))
    placed = tuple(_placed(found))
    return stack((*placed, *found.layers)) if placed else found


def of_environment(
    built_in: Layer, defaults: Document | None, environment: Document | None
) -> tuple[Layer, ...]:
    """Return the layers below each job of an environment; a missing or unusable file is None."""
    files = {DEFAULTS: defaults, ENVIRONMENT: environment}
    written = (Layer(name, document, _PARTIAL) for name, document in files.items() if document)
    return (built_in, *_only_target(environment, built_in), *written)


def of_gitops(below: Sequence[Layer]) -> Layered:
    """Return the `gitops` of an environment with the line that set each of its values."""
    files = (layer for layer in below if layer.label in (DEFAULTS, ENVIRONMENT))
    return stack(tuple(Layer(it.label, it.document, Pointer("/gitops")) for it in files))


def _only_target(environment: Document | None, built_in: Layer) -> Iterator[Layer]:
    """Yield a layer that makes the only target of an environment the default of its jobs, unless it
    is the built-in default.
    """
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
    """Return the layers of a job's own file and its bases, lowest first. The documents start with
    the job's own; each extends the one that follows.
    """
    own, bases = documents[:1], documents[1:]
    return *(Layer(BASE, document) for document in reversed(bases)), *(Layer(JOB, d) for d in own)


def chosen_pool(*data: Mapping[str, Data]) -> str:
    """Return the pool that partial specs, lowest first, choose; "" if none does."""
    wrote = (spec["pool"] for spec in reversed(data) if "pool" in spec)
    pool = next(wrote, None)
    return pool if isinstance(pool, str) else ""


def environment_file(layers: Iterable[Layer]) -> Document | None:
    """Return the environment.yaml that is among the layers of a spec."""
    return next((layer.document for layer in layers if layer.label == ENVIRONMENT), None)


def of_pool(below: Sequence[Layer], pool: str) -> tuple[Layer, ...]:
    """The layers of a pool, lowest first, as the environment's own file has them."""
    document, at = environment_file(below), Pointer.of("pools", pool)
    if not pool or document is None:
        return ()
    own = Layer(f"pool {pool}", document, at / "defaults")
    named = fabrics.profile(str(lookup(document.data, at / "fabric") or ""))
    fabric = named.layer(pool, (document, at / "fabric")) if named else None
    return tuple(layer for layer in (fabric, own) if layer and layer.data)


# Fields that a role sets for itself: what runs in it, how many times, and how state is kept.
_NOT_INHERITED = frozenset(
    "entrypoint launcher launcherOptions flags flagStyle nodes procsPerNode backend elastic"
    " checkpoint preflight metrics tracking lattice podPatch livenessProbe readinessProbe"
    " startupProbe lifecycle roles".split()
)
# Requests to the machines of one pool mean nothing on those of another.
_OF_A_POOL = frozenset({"resources", "resourceClaims", "shm", "topology"})
_SERVING = frozenset({"port", "ready"})  # only roles have these fields
_USUAL = b"launcher: python\nnodes: 1\nprocsPerNode: 1\n"  # each pod serves by itself


@cache
def _usual() -> Layer:
    document = parse(BUILT_IN, _USUAL)
    assert isinstance(document, Document)
    return Layer(BUILT_IN, document)


@cache
def _inheritable() -> frozenset[str]:
    """Return the fields that a role takes from its job if it does not set them; the others are the
    role's own, or belong to the run as a whole.
    """
    return frozenset(field("job", Pointer.of(ROLES, "any")).keys) - _NOT_INHERITED - _SERVING


def is_serving(path: str) -> bool:
    """Whether a dotted path in a role belongs to a field that jobs do not have."""
    return path.partition(".")[0] in _SERVING


def of_role(spec: Layered, name: str) -> Layered:
    """Return a role's spec as that of a job: what the role sets, over what it inherits."""
    said = spec.data[ROLES][name]
    own = {key: value for key, value in said.items() if key not in _SERVING}
    inherited = {k: v for k, v in spec.data.items() if k not in _left(own)}
    at = Pointer.of(ROLES, name)
    layers = (
        *_inherited(spec, own),
        _usual(),
        *(
            replace(layer, root=Pointer(layer.root + at), without=_SERVING)
            for layer in spec.layers
            if isinstance(lookup(layer.data, at), Mapping) and not _is_placed(layer)
        ),
    )
    return replace(spec, data=merge({**inherited, **_usual().data}, own), layers=layers)


def _left(role: Mapping[str, Data]) -> frozenset[str]:
    """Return the fields that a role does not inherit from its job."""
    return _NOT_INHERITED | (_OF_A_POOL if "pool" in role else frozenset())


def _inherited(spec: Layered, role: Mapping[str, Data]) -> Iterator[Layer]:
    """Yield a job's layers as a role inherits them, with those of the pool that the role names."""
    left, own_pool = _left(role), _of_own_pool(spec) if "pool" in role else frozenset()
    for layer in spec.layers:
        if layer.label in own_pool:
            yield replace(layer, without=left | _inheritable())
        elif not _is_placed(layer):
            yield replace(layer, without=left)
        if layer.label == ENVIRONMENT and "pool" in role:
            for one in of_pool(spec.layers, chosen_pool(role)):
                yield replace(one, without=frozenset(one.data) - _inheritable())


def _of_own_pool(spec: Layered) -> frozenset[str]:
    """Return the labels of the layers that come from the job's own pool."""
    return frozenset(layer.label for layer in of_pool(spec.layers, chosen_pool(spec.data)))


_PLACED = "role "  # starts the labels of the layers from `_placed`, and no others


def _is_placed(layer: Layer) -> bool:
    return layer.label.startswith(_PLACED)


def roles_on_pools(layers: Iterable[Layer]) -> Iterator[Layer]:
    """Return the layers with what roles inherit from the pools that they name."""
    return filter(_is_placed, layers)


def _placed(spec: Layered) -> Iterator[Layer]:
    """Yield a layer for each role that names a pool: what it inherits that differs from its job."""
    environment = environment_file(spec.layers)
    for name, role in mapping(spec.data.get(ROLES)).items() if environment else ():
        if not isinstance(role, Mapping) or "pool" not in role:
            continue
        here = {key: value for key, value in spec.data.items() if key not in _left(role)}
        there: Data = stack(tuple(_inherited(spec, role))).data
        if patch := dict(_turned(here, there, role)):
            assert environment is not None
            pool, data = chosen_pool(role), {ROLES: {name: patch}}
            places = dict.fromkeys(_pointers(data, Pointer()), (0, 0))
            document = Document("", data, places, places)
            by = (environment, Pointer.of("pools", pool))
            yield Layer(f"{_PLACED}{name} on pool {pool}", document, by=by)


def _turned(
    here: Mapping[str, Data], there: Mapping[str, Data], over: Mapping[str, Data]
) -> Iterator[tuple[str, Data]]:
    """Yield the entries of a patch that turns `here` into `there`, when `over` is laid over both.

    A mapping to be removed is removed key by key if `over` has a mapping in its place, since that
    has no nulls to remove those keys.
    """
    for key in dict.fromkeys((*here, *there)):
        old, new, above = here.get(key), there.get(key), over.get(key)
        if identical(old, new):
            continue
        if isinstance(old, Mapping) and (isinstance(new, Mapping) or isinstance(above, Mapping)):
            yield key, dict(_turned(old, mapping(new), mapping(above)))
        else:
            yield key, new


def _pointers(data: Data, at: Pointer) -> Iterator[str]:
    yield at
    for key, value in data.items() if isinstance(data, Mapping) else ():
        yield from _pointers(value, at / key)
