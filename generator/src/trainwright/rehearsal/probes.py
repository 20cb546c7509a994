"""The probe that tells the kubelet when a pod is ready, tried on this machine."""

from __future__ import annotations

import http.client
import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from trainwright.datatypes.data import dig, integer, mapping, sequence, text
from trainwright.datatypes.frozen import dataclass
from trainwright.objects.pods.pod import Pod
from trainwright.objects.pods.probes import patience
from trainwright.rehearsal.names import LOOPBACK

# Longer than the kubelet's second: a machine that trains on CPU answers later than a cluster.
_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What is tried until a process is ready: a command, an HTTP request or a connection.

    `within` is how many seconds the first success may take.
    """

    command: tuple[str, ...] = ()
    path: str = ""
    port: int = 0
    within: int

    def __str__(self) -> str:
        if self.command:
            return shlex.join(self.command)
        where = f"{LOOPBACK}:{self.port}"
        return f"GET http://{where}{self.path}" if self.path else f"a connection to {where}"


def of(
    pod: Pod, port: Callable[[int], int], command: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> Probe | None:
    """Return the probe that tells when a pod is ready, with its local port and command.

    None if the pod is ready as soon as its container runs.
    """
    container = pod.rest.get("container", {})
    started, ready = (
        mapping(container.get("startupProbe")),
        mapping(container.get("readinessProbe")),
    )
    written = ready or started
    if not written:
        return None
    within = patience(started)
    words = sequence(dig(written, "exec", "command"))
    if words:
        return Probe(command=command(tuple(map(text, words))), within=within)
    http = mapping(written.get("httpGet"))
    number = integer(http.get("port")) or integer(dig(written, "tcpSocket", "port")) or 0
    path = text(http.get("path")) or "/" if http else ""
    return Probe(path=path, port=port(number), within=within)


def attempt(probe: Probe, env: Mapping[str, str], folder: Path) -> str:
    """Return why a process is not ready yet, or "" once it is."""
    if probe.command:
        return _command(probe.command, env, folder)
    try:
        return _http(probe) if probe.path else _connection(probe)
    except (OSError, http.client.HTTPException) as error:
        return _in_words(error)


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {_TIMEOUT:.0f} s"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


def _connection(probe: Probe) -> str:
    with socket.create_connection((LOOPBACK, probe.port), timeout=_TIMEOUT):
        return ""


def _http(probe: Probe) -> str:
    """Return why an HTTP probe fails, or "".

    Like the kubelet, accept a redirection, which it does not follow to another host.
    """
    connection = http.client.HTTPConnection(LOOPBACK, probe.port, timeout=_TIMEOUT)
    try:
        connection.request("GET", probe.path)
        code = connection.getresponse().status
    finally:
        connection.close()
    return "" if code in range(200, 400) else f"HTTP {code}"


def _command(command: tuple[str, ...], env: Mapping[str, str], folder: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - an argument list, and no shell
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end in {_TIMEOUT:.0f} s"
    except OSError as error:
        return _in_words(error)
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return f"exit code {done.returncode}{last and f', {last}'}" if done.returncode else ""
