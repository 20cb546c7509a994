"""The roles that the verbs need, for every workload kind and what is beside it."""

from __future__ import annotations

from importlib.resources import files

from trainwright.kinds import SERVED

# Of the roles that read workloads.
_VERBS = {"read": "[get, list, watch]", "dry-run": "[get, patch, create]"}
_HERE = "  # Those of each workload kind are added here.\n"


def manifest(role: str) -> str:
    """A role as YAML, with what says how it is bound."""
    written = (files(__name__) / f"{role}.yaml").read_text(encoding="utf-8")
    return written.replace(_HERE, _own(_VERBS[role])) if role in _VERBS else written


def _own(verbs: str) -> str:
    return "".join(
        f"  - apiGroups: [{kind.group}]\n    resources: [{kind.plural}]\n    verbs: {verbs}\n"
        for kind in SERVED.values()
    )
