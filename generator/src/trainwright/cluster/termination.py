"""The termination message of a training container: JSON from the runtime, or any other text.

docs/failures.md describes the keys. The generator's version and the image's may differ, and any
program may write the file, so anything else is taken as text.
"""

from __future__ import annotations

import json

from trainwright.datatypes.frozen import dataclass
from trainwright.findings.credentials import redact


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """What the runtime reports of the rank that failed first on its node."""

    message: str  # one sentence: rank, node, error, cause, what to do
    cause: str = ""
    follows: bool = False  # caused by the failure of a rank on another node
    time: str = ""


def parse(text: str) -> RankFailure | None:
    """Return the runtime's failure report, or None if another program wrote the text."""
    if not text.startswith("{"):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    message = data.get("message") if isinstance(data, dict) else None
    if not isinstance(message, str) or not message.strip():
        return None
    return RankFailure(
        message=redact(" ".join(message.split())),
        cause=_text(data.get("cause")),
        follows=data.get("follows") is True,
        time=_text(data.get("time")),
    )


def _text(value: object) -> str:
    return redact(value) if isinstance(value, str) else ""
