"""Kueue's Workload in Argo CD: its health, and the actions that people may run on it.

Facts: kubernetes-sigs/kueue v0.19.2.
"""

from __future__ import annotations

from pathlib import Path

from trainwright.kinds.health import script

NAME = "kueue.x-k8s.io_Workload"
# Only to what is not in git: self-healing would take back anything else.
ACTIONS = ("hold", "release")


def health() -> str:
    """Return Lua that reads `obj` and returns what Argo CD shows."""
    return script(_beside("health"))


def discovery() -> str:
    """Return Lua that lists the actions that are possible now."""
    return Path(_beside("discovery")).read_text(encoding="utf-8")


def action(name: str) -> str:
    """Return Lua that changes the object."""
    return Path(_beside(name)).read_text(encoding="utf-8")


def _beside(name: str) -> str:
    return str(Path(__file__).with_name(f"{name}.lua"))
