"""Health checks of TrainingJobs for Argo CD (Lua) and Flux (CEL)."""

from __future__ import annotations

from trainwright.kinds.health import Health, holds, script, unseen


def _ended(kind: str) -> str:
    return f"has(status.execStatus) && {holds('status.execStatus.conditions', kind)}"


HEALTH = Health(
    lua=script(__file__),
    in_progress=f"{unseen('status.stage')} || status.stage == ''",
    failed=f"status.stage in ['WrongConfiguration', 'Cancelled'] || {_ended('Failed')}",
    current=f"status.stage in ['Waiting', 'Running', 'RequeueCooldown'] || {_ended('Succeeded')}",
)
