"""The roles that the verbs need, for every workload kind and what is beside it."""

from __future__ import annotations

from importlib.resources import files

from trainwright.kinds import SERVED

_VERBS = {"read": "[get, list, watch]", "dry-run": "[get, patch, create]"}
_HERE = "  # Those of each workload kind are added here.\n"


def manifest(role: str) -> str:
    """A role as YAML, with what says how it is bound."""
    own = "".join(
        f"  - apiGroups: [{kind.group}]\n"
        f"    resources: [{kind.plural}]\n"
        f"    verbs: {_VERBS[role]}\n"
        for kind in SERVED.values()
    )
    written = (files(__name__) / f"{role}.yaml").read_text(encoding="utf-8")
    return written.replace(_HERE, own)
