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
    """The metadata of a field that is not simply written under its own name, as JSON spells it.

    `keys` lead to it, `whole` is all of the mapping around it, and `read` makes its value.
    `derived` says whether two that are written may come to the same. `pod` names the field of a pod
    spec that takes the value as it is, and `container` that of its container. `ordered` says
    whether the order of a mapping's keys means something.
    """
    how = {"keys": () if whole else keys or None, "read": read}
    marks = {"derived": derived, "ordered": ordered}
    return {**how, **marks, "pod": pod, "container": container}


NOT_WRITTEN = {"unwritten": True}  # known by where the rest is written


def spelled(name: str) -> str:
    """The name of a field as JSON has it: `node_selector` is nodeSelector."""
    first, *rest = name.split("_")
    return first + "".join(p.upper() if p in _ACRONYMS else p.capitalize() for p in rest)


_ACRONYMS = frozenset({"ipc", "pid"})  # which Kubernetes spells so: hostIPC
