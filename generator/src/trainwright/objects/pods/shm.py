"""How large /dev/shm is."""

from __future__ import annotations

from trainwright.datatypes import quantity
from trainwright.datatypes.job import Job

_DEFAULT = "1Gi"  # when no memory is asked for there is nothing to take half of


def size(job: Job) -> str:
    """Return the size of a job's /dev/shm, or "" if none is mounted.

    Data loader workers and NCCL die with the default 64 MB, and Ray keeps its objects there. What
    is stored there counts towards the container's memory limit, so `auto` takes half of that.
    """
    if job.shm == "none":
        return ""
    if job.shm != "auto":
        return job.shm
    memory = job.resources.limits["memory"] or job.resources.requests["memory"]
    return half(memory) if memory else _DEFAULT


def half(memory: str) -> str:
    """Return half of a quantity of bytes."""
    return quantity.format_binary(max(1, int(quantity.parse(memory)) // 2))
