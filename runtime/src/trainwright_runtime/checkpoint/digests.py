"""Digests that show whether the files of a checkpoint are as they were written.

They are XXH3 of 128 bits, which detects damage by a disk or a network in a tenth of the time of
SHA-256, a thirtieth on processors without instructions for that. SHA-256 would not protect from
people who can write to the volume either: they can write the list of digests too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, Any

import xxhash

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright_runtime.checkpoint.objects import ObjectPath

# Lines of "digest  name", so that `xxh128sum -c XXH128SUMS` can be run by hand.
DIGESTS = "XXH128SUMS"
LISTS = (DIGESTS, "SHA256SUMS")
"""A checkpoint has one of these; those of earlier versions have the second."""

Digest = xxhash.xxh3_128
_LINE = re.compile(r"([0-9a-f]{32}|[0-9a-f]{64})  (\S.*)")
_KINDS: dict[int, tuple[str, Callable[[], Any]]] = {
    32: ("XXH128", Digest),
    64: ("SHA-256", hashlib.sha256),
}  # by the digits of a digest


def digest_of(content: bytes | bytearray) -> str:
    """Return the digest of the content of a file."""
    return Digest(content).hexdigest()


def difference(file: IO[bytes], digest: str) -> str | None:
    """Return why a file does not have a digest, or None if it has."""
    kind, begin = _KINDS[len(digest)]
    if hashlib.file_digest(file, begin).hexdigest() == digest:  # type: ignore[arg-type]
        return None
    return f"is not what was written: its {kind} differs"


def list_of(checkpoint: Path | ObjectPath) -> tuple[str, dict[str, str]]:
    """Return the name of a checkpoint's digest list and its digests by file name.

    Raise FileNotFoundError if there is no list, ValueError if it is damaged.
    """
    newest, *former = LISTS
    try:
        return newest, listed_digests((checkpoint / newest).read_bytes(), newest)
    except FileNotFoundError as missing:
        for name in former:
            try:
                return name, listed_digests((checkpoint / name).read_bytes(), name)
            except FileNotFoundError:
                continue
        raise missing from None


def sums(digests: Mapping[str, str]) -> bytes:
    """Return the content of DIGESTS."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()


def listed_digests(content: bytes, name: str = DIGESTS) -> dict[str, str]:
    """Return the digests in a list by file name. Raise ValueError if the list is damaged."""
    digests = {}
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{name} is damaged in line {number}")
        digests[match[2]] = match[1]
    if not digests:
        raise ValueError(f"{name} is empty")
    return digests
