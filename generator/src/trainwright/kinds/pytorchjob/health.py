"""Health checks of PyTorchJobs for Argo CD (Lua) and Flux (CEL)."""

from __future__ import annotations

from trainwright.kinds.health import Health, holds, script, unseen

HEALTH = Health(
    lua=script(__file__),
    in_progress=unseen("status.conditions"),
    failed=holds("status.conditions", "Failed"),
    current=holds(
        "status.conditions", "Created", "Running", "Restarting", "Suspended", "Succeeded"
    ),
)
