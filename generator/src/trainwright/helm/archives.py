"""Chart archives in memory: their files are never written to disk, so no name can escape a folder.

`tarfile` unpacks safely only on some of the Python versions that this runs on.
https://docs.python.org/3/library/tarfile.html#extraction-filters
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import PureWindowsPath


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return the .tgz of files by their names.

    Stored: it goes from memory to memory, where compressing and the reverse take half the time.
    """
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=0) as archive:
        for name, content in files.items():  # without owners, which `add` asks the system for
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    return buffer.getvalue()


def files(content: bytes) -> dict[str, bytes]:
    """Return the files of an archive by their names. Raise ValueError for anything else in it."""
    try:
        with tarfile.open(fileobj=BytesIO(content)) as archive:
            members = archive.getmembers()
            for member in members:
                _refuse_hazard(member)
            return {
                member.name: file.read()
                for member in members
                if (file := archive.extractfile(member))
            }
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise ValueError(f"the archive is damaged: {error}") from error


def leads_out(name: str) -> bool:
    """Whether a file's name in an archive leads out of the folder that it belongs in."""
    path = PureWindowsPath(name)  # takes both / and \\ for separators, and knows drives
    return bool(path.anchor) or ".." in path.parts


def _refuse_hazard(member: tarfile.TarInfo) -> None:
    if member.issym() or member.islnk():
        raise ValueError(f"{member.name!r} in it is a link")
    if not (member.isfile() or member.isdir()):
        raise ValueError(f"{member.name!r} in it is neither a file nor a folder")
    if leads_out(member.name):
        raise ValueError(f"{member.name!r} leads out of its folder")
