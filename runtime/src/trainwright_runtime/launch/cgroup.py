"""The memory of this container's control group, by version 2 or version 1.

https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_SELF = Path("/proc/self/cgroup")

_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)

_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)


def oom_kills(mount: Path = _MOUNT, membership: Path = _SELF) -> int:
    """Return how many processes of this container the kernel has killed for want of memory.

    Return 0 if that is unknown. The kill of a group (memory.oom.group, Kubernetes 1.28 and later)
    ends the entrypoint as well.
    """
    for text in _texts(mount, membership, "memory.events", "memory.oom_control"):
        if match := _KILLS.search(text):
            return int(match[1])
    return 0


def memory_limit(mount: Path = _MOUNT, membership: Path = _SELF) -> int | None:
    """Return the bytes that this container may use, or None if unknown."""
    return _bytes(mount, membership, "memory.max", "memory.limit_in_bytes")


def memory_used(mount: Path = _MOUNT, membership: Path = _SELF) -> int | None:
    """Return the bytes that this container uses, or None if unknown."""
    return _bytes(mount, membership, "memory.current", "memory.usage_in_bytes")


def memory_available() -> int | None:
    """Return the bytes that are available on the whole machine, or None if unknown."""
    with suppress(OSError):
        if match := _AVAILABLE.search(Path("/proc/meminfo").read_text()):
            return int(match[1]) << 10
    return None


def _bytes(mount: Path, membership: Path, v2: str, v1: str) -> int | None:
    for text in _texts(mount, membership, v2, v1):
        # No limit is "max" in version 2 and a number near 2^63 in version 1.
        if text.strip().isdecimal() and int(text) < 1 << 60:
            return int(text)
    return None


def _texts(mount: Path, membership: Path, v2: str, v1: str) -> Iterator[str]:
    """Yield the contents of the files `v2` or `v1`: those of this process's cgroup first,
    then those of the cgroup root as a container sees it."""
    with suppress(OSError):
        for line in membership.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from _text(mount / path.lstrip("/") / v2)
            elif "memory" in controllers.split(","):
                yield from _text(mount / "memory" / path.lstrip("/") / v1)
    yield from _text(mount / v2)
    yield from _text(mount / "memory" / v1)


def _text(path: Path) -> Iterator[str]:
    with suppress(OSError):
        yield path.read_text()
