"""The RBAC roles that the verbs need, for every workload kind and the objects beside it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from trainwright.kinds import OTHERS, SERVED
from trainwright.kinds.kind import Kind

# Of the roles that read workloads.
_VERBS = {"read": "[get, list, watch]", "dry-run": "[get, patch, create]"}
_HERE = "  # Those of each workload kind are added here.\n"


def manifest(role: str) -> str:
    """Return a role as YAML, with comments that say how to bind it."""
    written = (files(__name__) / f"{role}.yaml").read_text(encoding="utf-8")
    if role not in _VERBS:
        return written
    adopted = OTHERS.values() if role == "read" else ()  # whose status is read, too
    return written.replace(_HERE, _own((*SERVED.values(), *adopted), _VERBS[role]))


def _own(kinds: Iterable[Kind], verbs: str) -> str:
    return "".join(
        f"  - apiGroups: [{kind.group}]\n    resources: [{kind.plural}]\n    verbs: {verbs}\n"
        for kind in kinds
    )
