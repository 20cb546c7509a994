"""How the fields of specs are written, where not simply under their own names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def written(
    *keys: str,
    whole: bool = False,
    read: Callable[[Any], Any] | None = None,
    derived: bool = False,
    pod: str = "",
    container: str = "",
    ordered: bool = False,
) -> dict[str, Any]:
    """Return the metadata of a field that is not simply written under its own JSON name.

    `keys` lead to it; with `whole` it is all of the mapping around it; and `read` makes its value.
    `derived` says whether two written values may mean the same. `pod` names the field of a pod
    spec that takes the value as it is, `container` that of its container. `ordered` says whether
    the order of a mapping's keys matters.
    """
    how = {"keys": () if whole else keys or None, "read": read}
    marks = {"derived": derived, "ordered": ordered}
    return {**how, **marks, "pod": pod, "container": container}


NOT_WRITTEN = {"unwritten": True}  # known by where the rest is written


def spelled(name: str) -> str:
    """Return the JSON name of a field: nodeSelector for `node_selector`."""
    first, *rest = name.split("_")
    return first + "".join(p.upper() if p in _ACRONYMS else p.capitalize() for p in rest)


_ACRONYMS = frozenset({"ipc", "pid"})  # which Kubernetes spells so: hostIPC
