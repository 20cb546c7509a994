"""Takes secrets out of text that leaves the container's log: messages, metrics, reports."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "[redacted]"

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY|_KEY$|^KEY$"
    r"|_AUTH$|_PAT$|_DSN$|CONNECTION_STRING|_SAS$|COOKIE",
    re.IGNORECASE,
)
_SHORTEST = 6  # characters: shorter values would be found inside of ordinary words

_PATTERNS = (
    # user:password@ of an address
    (re.compile(r"(?<=://)[^\s/@]+(?=@)"), HIDDEN),
    # Bearer and Basic of an HTTP header
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    # key=value and "key": "value", as in addresses, headers and printed dictionaries
    (
        re.compile(
            r"""(?ix) ([\w.-]*(?:token|secret|passw(?:or)?d|passphrase|credential|signature|sig
            |api[_-]?key|access[_-]?key|account[_-]?key|authorization)[\w.-]*["']?\s*[=:]\s*["']?)
            (?!\[redacted\])[^\s"'&,;)}\]]{3,}"""
        ),
        rf"\1{HIDDEN}",
    ),
    # Tokens that are known by their form.
    (
        re.compile(
            r"\b(?:hf_\w{10,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
            r"|sk-[\w-]{16,}|A(?:KIA|SIA)[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
        ),
        HIDDEN,
    ),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END|\Z)", re.DOTALL), HIDDEN),
)


def redact(text: str, environ: Mapping[str, str]) -> str:
    """The text without values of variables that are secret by name, and without known tokens."""
    secrets = {
        line
        for name, value in environ.items()
        if _SECRET_NAME.search(name)
        for line in value.splitlines()
        if len(line.strip()) >= _SHORTEST
    }
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
