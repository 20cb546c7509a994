"""What the states of a Toy mean to Argo CD (Lua) and to Flux (CEL)."""

from trainwright.kinds.health import Expressions, Health, script

HEALTH = Health(
    lua=script(__file__),
    flux=Expressions(
        in_progress="!has(status.ready)", failed="status.broken > 0", current="has(status.ready)"
    ),
)
