"""Health checks of Jobs for Argo CD (Lua) and Flux (CEL)."""

from __future__ import annotations

from trainwright.kinds.health import Health, holds, script, unseen

HEALTH = Health(
    lua=script(__file__),
    in_progress=unseen("status.conditions", "status.startTime"),
    failed=holds("status.conditions", "Failed", "FailureTarget"),
    current=f"has(status.startTime) || ({holds('status.conditions', 'Suspended', 'Complete')})",
)
