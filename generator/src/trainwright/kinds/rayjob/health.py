"""Health checks of RayJobs for Argo CD (Lua) and Flux (CEL)."""

from __future__ import annotations

from trainwright.kinds.health import Health, script, unseen

_WORD = "status.jobDeploymentStatus"

HEALTH = Health(
    lua=script(__file__),
    in_progress=f"{unseen(_WORD)} || {_WORD} == ''",
    failed=f"{_WORD} in ['Failed', 'ValidationFailed'] || "
    "(has(status.jobStatus) && status.jobStatus == 'STOPPED')",
    current=f"{_WORD} in ['Initializing', 'Waiting', 'Running', 'Complete', 'Retrying', "
    "'Suspending', 'Suspended']",
)
