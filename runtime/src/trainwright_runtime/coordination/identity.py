"""Which run, and which attempt of it, this process belongs to: the key of all its connections.

The key is derived from the secret that the pods were given, so that one Secret of a namespace
serves all of its runs, and none of them can talk to another. Without a secret it is derived from
the name alone, which keeps out processes of other runs and what else connects by mistake, but not
an attacker who knows the name.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwright_runtime.failures.errors import EnvironmentMistake

RUN, ATTEMPT = "TRAINWRIGHT_RUN", "TRAINWRIGHT_ATTEMPT"
KEY, KEY_FILE = "TRAINWRIGHT_RUN_KEY", "TRAINWRIGHT_RUN_KEY_FILE"

SHORTEST = 16
"""Bytes of a secret: a shorter one can be guessed from a handshake that was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The run and the attempt of a process, and the key that their processes share."""

    run: str = ""
    attempt: str = ""
    key: bytes
    secret: bool
    """Whether the key is derived from a secret, and not from the name alone."""

    @property
    def name(self) -> str:
        """The name of this attempt, unique among all trainings."""
        return "/".join(filter(None, (self.run or "trainwright", self.attempt)))

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Identity:
        """Return the identity that the environment sets.

        Raise EnvironmentMistake for a secret that cannot be read, or that is too short.
        """
        run, attempt = environ.get(RUN, ""), environ.get(ATTEMPT, "")
        secret = _secret(environ)
        message = b"\0".join((b"trainwright run", _bytes(run), _bytes(attempt)))
        key = hmac.digest(secret, message, hashlib.sha256)
        return cls(run=run, attempt=attempt, key=key, secret=bool(secret))

    def __repr__(self) -> str:  # never the key
        attempt = f", attempt {self.attempt}" if self.attempt else ""
        return f"run {self.run or 'without a name'}{attempt}"

    def mac(self, *parts: bytes) -> bytes:
        """Return a MAC of the joined parts, which callers keep unambiguous by fixed lengths."""
        return hmac.digest(self.key, b"".join(parts), hashlib.sha256)


def ensured(environ: Mapping[str, str], meets: str, *, alone: bool) -> dict[str, str]:
    """Return the variables that identify the run to the processes of this node.

    A run without a name is named after the address where its nodes meet. If all processes are on
    this node (`alone`), a secret made here is enough.
    """
    variables = {RUN: environ.get(RUN) or meets}
    if alone and not {KEY, KEY_FILE} & environ.keys():
        variables[KEY] = secrets.token_hex(32)
    return variables


def _secret(environ: Mapping[str, str]) -> bytes:
    """Return the secret that the environment sets, or b"" if it sets none.

    Raise EnvironmentMistake if it cannot be read or is too short.
    """
    if path := environ.get(KEY_FILE):
        try:
            secret = Path(path).read_bytes().strip()
        except OSError as error:
            expected = f"a file with the run's secret: {error.strerror or error}"
            raise EnvironmentMistake(KEY_FILE, path, expected) from None
        name, shown = KEY_FILE, path
    elif KEY in environ:
        secret, name, shown = _bytes(environ[KEY].strip()), KEY, "of fewer"
    else:
        return b""
    if len(secret) < SHORTEST:
        raise EnvironmentMistake(name, shown, f"a secret of at least {SHORTEST} bytes")
    return secret


def _bytes(variable: str) -> bytes:
    """Return a variable as it is set, which need not be UTF-8: a secret may be any bytes."""
    return variable.encode(errors="surrogateescape")
