"""Removal of secrets from text that leaves the container's log: messages, metrics, reports."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainwright_runtime.observe import credentials

HIDDEN = "[redacted]"

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|_KEY$|^KEY$"
    r"|_AUTH$|_PAT$|_DSN$|CONNECTION_STRING|_SAS$|COOKIE",
    re.IGNORECASE,
)
_SHORTEST = 6  # characters: shorter values would be found inside ordinary words


def redact(text: str, environ: Mapping[str, str]) -> str:
    """Return the text with credentials and the values of variables with a secret's name hidden."""
    secrets = {
        line
        for name, value in environ.items()
        if _SECRET_NAME.search(name)
        for line in value.splitlines()
        if len(line.strip()) >= _SHORTEST
    }
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return credentials.redact(text, HIDDEN)
