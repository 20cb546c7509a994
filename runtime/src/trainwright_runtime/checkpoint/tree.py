"""A state as its tensors, by name, and everything else as JSON.

`torch.distributed.checkpoint` shards and reshards the tensors. Everything else is text: people can
read it, and loading it cannot run code, as unpickling can.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import TypeAlias

from torch import Tensor

from trainwright_runtime.checkpoint.errors import CheckpointError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def encode(value: object, name: str, tensors: dict[str, Tensor]) -> Json:  # noqa: PLR0911
    """Return a value as JSON; its tensors are put into `tensors`, named by their path below `name`.

    Each JSON object has one key, which names the type.
    """
    match value:
        case None | bool() | str():
            return value
        case Tensor():
            if name in tensors:
                raise CheckpointError(f"two tensors of the state are both called {name!r}")
            tensors[name] = value
            return {"tensor": name}
        case Integral():  # numpy's numbers too
            return int(value)
        case Real():
            return float(value)
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case list() | tuple():
            items: list[Json] = [
                encode(item, f"{name}/{index}", tensors) for index, item in enumerate(value)
            ]
            return {"tuple": items} if isinstance(value, tuple) else items
        case Mapping():
            return _encode_mapping(value, name, tensors)
    raise CheckpointError(
        f"a {type(value).__name__} cannot be saved: found at {name!r} of the state, where tensors, "
        "numbers, text, bytes and lists, tuples and dicts of them can; convert it, or give the "
        "object that holds it state_dict() and load_state_dict()"
    )


def _encode_mapping(value: Mapping[object, object], name: str, tensors: dict[str, Tensor]) -> Json:
    items = [(key, encode(item, f"{name}/{key}", tensors)) for key, item in value.items()]
    if isinstance(value, Counter):  # MultiStepLR keeps its milestones in one
        return {"counter": [[encode(key, name, {}), item] for key, item in items]}
    if all(isinstance(key, str) for key, _ in items):
        return {"dict": {str(key): item for key, item in items}}
    return {"items": [[encode(key, name, {}), item] for key, item in items]}


def decode(tree: Json, tensor: Callable[[str], Tensor]) -> object:  # noqa: PLR0911
    """Return the value that was encoded, with the tensors that `tensor` returns for their names."""
    if isinstance(tree, list):
        return [decode(item, tensor) for item in tree]
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"tensor": str(name)}:
            return tensor(name)
        case {"bytes": str(text)}:
            return base64.b64decode(text)
        case {"tuple": list(items)}:
            return tuple(decode(item, tensor) for item in items)
        case {"dict": dict(members)}:
            return {key: decode(item, tensor) for key, item in members.items()}
        case {"counter": list(pairs)}:
            return Counter(dict(_pairs(pairs, tensor)))
        case {"items": list(pairs)}:
            return dict(_pairs(pairs, tensor))
    raise CheckpointError(f"a value of an unknown kind: {', '.join(tree) or 'nothing'}")


def _pairs(pairs: list[Json], tensor: Callable[[str], Tensor]) -> list[tuple[object, object]]:
    return [
        (decode(pair[0], tensor), decode(pair[1], tensor))
        for pair in pairs
        if isinstance(pair, list)
    ]


def names(tree: Json) -> set[str]:
    """Return the names of the tensors in a tree."""
    tensor_names: set[str] = set()

    def note(name: str) -> Tensor:
        tensor_names.add(name)
        return _NOTHING

    decode(tree, note)
    return tensor_names


_NOTHING = Tensor()


def union(mine: Json, theirs: Json) -> Json:
    """Return a tree with the keys of both, since a rank may hold keys that no other rank has.

    Where both hold a value, mine stays.
    """
    if not isinstance(mine, dict) or not isinstance(theirs, dict):
        return mine
    match mine, theirs:
        case {"dict": dict(left)}, {"dict": dict(right)}:
            return {"dict": {**right, **{key: union(left[key], right.get(key)) for key in left}}}
    return mine
