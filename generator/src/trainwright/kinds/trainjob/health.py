"""Health checks of TrainJobs for Argo CD (Lua) and Flux (CEL)."""

from __future__ import annotations

from trainwright.kinds.health import Health, holds, script, unseen

HEALTH = Health(
    lua=script(__file__),
    in_progress=unseen("status.conditions", "status.jobsStatus"),
    failed=holds("status.conditions", "Failed"),
    current=f"has(status.jobsStatus) || ({holds('status.conditions', 'Suspended', 'Complete')})",
)
