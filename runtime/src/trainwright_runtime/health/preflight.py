"""Checks of this node before the training processes start: they take seconds, and may save hours.

A node that fails one ends with an exit code of its own, which requests a retry: the pod is
recreated, and may be scheduled to a node that is fit.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainwright_runtime.coordination.addresses import is_loopback
from trainwright_runtime.failures.errors import NodeUnfit
from trainwright_runtime.health import slow_nodes
from trainwright_runtime.launch import cgroup
from trainwright_runtime.launch.launchers import Placement
from trainwright_runtime.launch.layout import Layout
from trainwright_runtime.launch.options import DEFAULT_CHECKS, Options
from trainwright_runtime.launch.rendezvous import resolve
from trainwright_runtime.observe import logs

_log = logging.getLogger(f"{logs.ROOT}.entrypoint")

_PATIENCE = 30.0  # seconds for one check: a file system that hangs is unfit too
_PROBE = bytes(64 << 10)
_LEAST_SHM, _LEAST_DISK = 1 << 20, 16 << 20  # bytes, where no minimum is given
_SHM = Path("/dev/shm")  # noqa: S108 - it is what is checked


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """What the checks examine."""

    placement: Placement
    environ: Mapping[str, str]
    coordinator_port: int | None  # where this node runs one at a given port
    timeout: float  # seconds for names to resolve

    @property
    def checkpoints(self) -> Path | None:
        """The folder that checkpoints go to, if the manifest sets one."""
        folder = self.environ.get("TRAINWRIGHT_CHECKPOINT_DIR")
        return Path(folder) if folder and not self.store else None

    @property
    def store(self) -> str | None:
        """The URL that checkpoints go to, if the manifest sets one: it is not a folder to probe."""
        location = self.environ.get("TRAINWRIGHT_CHECKPOINT_DIR", "")
        return location if "://" in location else None


def run(layout: Layout, options: Options, environ: Mapping[str, str]) -> None:
    """Run the enabled checks. Raise NodeUnfit with everything that is wrong."""
    began = time.monotonic()
    site = _Site(
        placement=layout.placement,
        environ=environ,
        coordinator_port=options.coordinator_port if options.recovery == "live" else None,
        timeout=options.rendezvous_timeout,
    )
    enabled = dict(options.preflight)
    if site.store and "checkpoint" in enabled:
        del enabled["checkpoint"]
        _log.info("preflight: no check of checkpoints, which go to %s", site.store)
    checks = {name: least for name, least in enabled.items() if name in _CHECKS}
    problems = [f"{name}: {problem}" for name, problem in _problems(checks, site)]
    if problems:
        raise NodeUnfit(f"preflight: {'; '.join(problems)}")
    if "collective" in enabled:
        slow_nodes.check(layout, options, environ, enabled["collective"])
    if options.preflight != DEFAULT_CHECKS and enabled:
        names, took = ", ".join(enabled), time.monotonic() - began
        _log.info("preflight: %s passed in %.1f s", names, took)


def _problems(checks: Mapping[str, float | None], site: _Site) -> Iterator[tuple[str, str]]:
    for name, least in checks.items():
        patience = site.timeout + _PATIENCE if name == "names" else _PATIENCE
        problem = _within(partial(_CHECKS[name], site, least), patience)
        if problem:
            yield name, problem


def _within(check: Callable[[], str], patience: float) -> str:
    """Return what a check reports, or that it hangs: calls to a dead file server never return."""
    answers: list[str] = []

    def look() -> None:
        try:
            answers.append(check())
        except OSError as error:
            answers.append(_in_words(error))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(patience)
    return answers[0] if answers else f"no answer within {patience:g} s"


def _in_words(error: OSError) -> str:
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}"


# --- the checks: what is wrong, or nothing -------------------------------------------------------


def _shm(site: _Site, least: float | None) -> str:
    """Check the room in /dev/shm, and that it can be written."""
    if not _SHM.is_dir():
        return "" if least is None else "there is no /dev/shm"
    problem = _too_little(_SHM, least, _LEAST_SHM)
    if problem:
        return problem
    _probe(_SHM)
    return ""


def _memory(site: _Site, least: float | None) -> str:
    """Check that the container's memory is there on the node, or the minimum of it."""
    limit, used = cgroup.memory_limit(), cgroup.memory_used()
    available = cgroup.memory_available()
    if least is not None and limit is not None and limit < least:
        return f"the container's limit is {_size(limit)}, {_size(least)} expected"
    if least is None:  # what the limit promises
        least = max(0, limit - (used or 0)) if limit is not None else 0
    if available is not None and available < least:
        return f"{_size(available)} are available on the node, {_size(least)} expected"
    return ""


def _disk(site: _Site, least: float | None) -> str:
    if site.checkpoints is None and least is None:
        return ""
    folder = site.checkpoints or Path.cwd()
    existing = next((f for f in (folder, *folder.parents) if f.exists()), Path.cwd())
    return _too_little(existing, least, _LEAST_DISK)


def _checkpoint(site: _Site, least: float | None) -> str:
    folder = site.checkpoints
    if folder is None:
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    _probe(folder)
    return ""


def _ports(site: _Site, least: float | None) -> str:
    """Check that the ports that this node is to listen at are free."""
    placement = site.placement
    ports = [site.coordinator_port] if site.coordinator_port else []
    # Nodes of an elastic job on one machine share the address: only the first listens there.
    if (
        placement.hosts
        and placement.master_port
        and not (placement.elastic and is_loopback(placement.master_addr))
    ):
        ports.append(placement.master_port)
    taken = [str(port) for port in ports if not _is_free(port)]
    return f"in use: {', '.join(taken)}" if placement.hosts and taken else ""


def _names(site: _Site, least: float | None) -> str:
    return resolve(site.placement.master_addr, site.timeout) or ""


_CHECKS: Mapping[str, Callable[[_Site, float | None], str]] = {
    "shm": _shm,
    "memory": _memory,
    "disk": _disk,
    "ports": _ports,
    "names": _names,
    "checkpoint": _checkpoint,
}


def _too_little(folder: Path, least: float | None, otherwise: int) -> str:
    free = shutil.disk_usage(folder).free
    least = otherwise if least is None else least
    return "" if free >= least else f"{folder} has {_size(free)} free, {_size(least)} expected"


def _probe(folder: Path) -> None:
    """Write, move and read back a file, as a checkpoint does."""
    path = folder / f".preflight-{socket.gethostname()}-{os.getpid()}"
    moved = path.with_name(path.name + "-moved")
    try:
        with path.open("wb") as file:
            file.write(_PROBE)
            file.flush()
            os.fsync(file.fileno())
        path.replace(moved)
        if moved.read_bytes() != _PROBE:
            raise OSError(f"{folder} does not give back what was written")
    finally:
        for each in (path, moved):
            with suppress(OSError):
                each.unlink()


def _is_free(port: int) -> bool:
    """Whether nothing listens at a port of this machine."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("", port))
            server.listen()
        except OSError:
            return False
    return True


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
