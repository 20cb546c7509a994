"""Health checks of JobSets for Argo CD (Lua) and Flux (CEL)."""

from __future__ import annotations

from trainwright.kinds.health import Health, holds, script, unseen

HEALTH = Health(
    lua=script(__file__),
    in_progress=unseen("status.conditions", "status.replicatedJobsStatus"),
    failed=holds("status.conditions", "Failed"),
    current=f"has(status.replicatedJobsStatus) || "
    f"({holds('status.conditions', 'Suspended', 'Completed')})",
)
