"""What a pool adds to the specs of its jobs: layers that a job's effective `pool` chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.model import Data
from trainwright.pointer import Pointer, lookup
from trainwright.specs import fabrics
from trainwright.specs.merge import Layer, Layered, stack

ENVIRONMENT = "environment"  # the label of the layer in whose file the pools are


def stacked(below: Sequence[Layer], above: Sequence[Layer]) -> Layered:
    """A job as it is merged, lowest first: `below` are the layers of its environment, `above` its
    bases and its own file. Those of its pool lie in between.
    """
    pool = chosen(*(layer.data for layer in (*below, *above)))
    return stack((*below, *layers(below, pool), *above))


def chosen(*data: Mapping[str, Data]) -> str:
    """The pool that partial specs choose, lowest first; empty for none."""
    wrote = (spec["pool"] for spec in reversed(data) if "pool" in spec)
    pool = next(wrote, None)
    return pool if isinstance(pool, str) else ""


def layers(below: Sequence[Layer], pool: str) -> tuple[Layer, ...]:
    """The layers of a pool, lowest first, as the environment's own file has them."""
    environment = next((layer for layer in below if layer.label == ENVIRONMENT), None)
    if not pool or environment is None:
        return ()
    document, at = environment.document, Pointer.of("pools", pool)
    own = Layer(f"pool {pool}", document, at / "defaults")
    named = fabrics.profile(str(lookup(document.data, at / "fabric") or ""))
    fabric = named.layer(pool, (document, at / "fabric")) if named else None
    return tuple(layer for layer in (fabric, own) if layer and layer.data)
