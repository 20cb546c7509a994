"""Names that stay below a limit and still differ where the whole ones do."""

from __future__ import annotations

import hashlib

LABEL = 63  # an ApplicationSet's name becomes a label of its Applications


def bounded(name: str, limit: int = LABEL) -> str:
    """The name, or its beginning and eight digits of its hash where it is too long."""
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: limit - 9].rstrip('-.')}-{digest}"
