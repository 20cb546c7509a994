"""What a container may use of this machine: GPUs, cores, addresses and ports."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

# What a GPU's driver shows of itself: NVIDIA, NVIDIA under WSL, NVIDIA Jetson, AMD.
_DEVICES = ("nvidia[0-9]*", "dxg", "nvgpu", "nvhost-gpu", "kfd")


def has_gpu_driver() -> bool:
    """Whether this machine has a GPU's device file; importing torch to know would take 1 s."""
    return any(next(Path("/dev").glob(pattern), None) for pattern in _DEVICES)


def gpus() -> int:
    """Return how many GPUs a training process would see, by CUDA_VISIBLE_DEVICES and the like."""
    if not has_gpu_driver():
        return 0
    import torch

    return torch.cuda.device_count()


def cores() -> int:
    """Return how many cores this process may use, by its affinity and the container's CPU limit."""
    affinity = _affinity()
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):  # cgroup v1, or none
        return affinity
    return affinity if quota == "max" else max(1, min(affinity, int(quota) // int(period)))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS, where jobs are rehearsed, does not report it


# Nothing reserves a free port until a socket listens there, and the system gives the ports above
# to any socket that requests none: /proc/sys/net/ipv4/ip_local_port_range begins at 32768.
# https://docs.kernel.org/networking/ip-sysctl.html
_PORTS = range(10_000, 32_768)


def free_port() -> int:
    """Return a port at which no process listens, and that the system assigns to none by chance."""
    while True:
        port = secrets.choice(_PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
