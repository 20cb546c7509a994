"""What the states of a Toy mean to Argo CD (Lua) and to Flux (CEL)."""

from trainwright.kinds.health import Health, script

HEALTH = Health(
    lua=script(__file__),
    in_progress="!has(status.ready)",
    failed="status.broken > 0",
    current="has(status.ready)",
)
