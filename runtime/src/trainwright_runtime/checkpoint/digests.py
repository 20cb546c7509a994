"""Digests that show whether the files of a checkpoint are as they were written.

They are XXH3 of 128 bits, which detects damage by a disk or a network in a tenth of the time of
SHA-256, a thirtieth on processors without instructions for that. SHA-256 would not protect from
people who can write to the volume either: they can write the list of digests too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright_runtime.checkpoint.objects import ObjectPath

# Lines of "digest  name", so that `xxh128sum -c XXH128SUMS` can be run by hand.
DIGESTS = "XXH128SUMS"
Digest = xxhash.xxh3_128
_LINE = re.compile(r"([0-9a-f]{32})  (\S.*)")


def digest_of(content: bytes | bytearray) -> str:
    """Return the digest of the content of a file."""
    return Digest(content).hexdigest()


def difference(file: IO[bytes], digest: str) -> str | None:
    """Return why a file does not have a digest, or None if it has."""
    if hashlib.file_digest(file, Digest).hexdigest() == digest:  # type: ignore[arg-type]
        return None
    return "is not what was written: its XXH128 differs"


def list_of(checkpoint: Path | ObjectPath) -> dict[str, str]:
    """Return the digests of a checkpoint's files by name.

    Raise FileNotFoundError if there is no list of them, ValueError if it is damaged.
    """
    return listed_digests((checkpoint / DIGESTS).read_bytes())


def sums(digests: Mapping[str, str]) -> bytes:
    """Return the content of DIGESTS."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()


def listed_digests(content: bytes) -> dict[str, str]:
    """Return the digests in a list by file name. Raise ValueError if the list is damaged."""
    digests = {}
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{DIGESTS} is damaged in line {number}")
        digests[match[2]] = match[1]
    if not digests:
        raise ValueError(f"{DIGESTS} is empty")
    return digests
