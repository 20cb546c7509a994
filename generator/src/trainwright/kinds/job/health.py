"""What the states of a Job mean to Argo CD (Lua) and to Flux (CEL)."""

from __future__ import annotations

from trainwright.kinds.health import Expressions, Health, holds, script

HEALTH = Health(
    lua=script(__file__),
    flux=Expressions(
        in_progress="!has(status.conditions) && !has(status.startTime)",
        failed=holds("status.conditions", "Failed", "FailureTarget"),
        current=f"has(status.startTime) || ({holds('status.conditions', 'Suspended', 'Complete')})",
    ),
)
