"""A `trainwright` whose processes are forked from one that has imported it, where how it starts is
not the point: most commands over a small repository take less time than their imports.

The executable hands its arguments, environment, folder and standard files to that process, and ends
with the exit code that comes back. https://docs.python.org/3/library/socket.html#socket.send_fds
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

# Without `site` and with few modules, Python starts in a fraction of what an import of click takes.
_CLIENT = """\
#!{python} -ISE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"."], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.recv(8)))
"""


@contextmanager
def serving(*more: str) -> Iterator[Path]:
    """The executable, which works until the block ends, as does what it started.

    `more` are packages that are imported as well, with all that is in them.
    """
    with TemporaryDirectory(prefix="trainwright-") as folder:  # the path of a socket has 107 bytes
        address, executable = f"{folder}/socket", Path(folder, "bin/trainwright")
        executable.parent.mkdir()
        executable.write_text(_CLIENT.format(python=sys.executable, address=address))
        executable.chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen(64)
            server = subprocess.Popen(
                [sys.executable, __file__, str(listening.fileno()), *more],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=folder,
                pass_fds=[listening.fileno()],
                start_new_session=True,
            )
        try:
            yield executable
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _serve(listening: socket.socket, more: list[str]) -> None:
    """Wait for clients; it returns in a process for each of them, which is now the command."""
    for name in ("trainwright", *more):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    assert threading.active_count() == 1, "a fork has no other threads"
    while True:
        client, _ = listening.accept()
        if not os.fork():
            break
        client.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    listening.close()
    if command := os.fork():
        _, status = os.waitpid(command, 0)
        client.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    _take_over(client)


def _take_over(client: socket.socket) -> None:
    """The standard files, the folder, the environment and the arguments of a client."""
    with client, client.makefile("rb") as request:
        _, files, _, _ = socket.recv_fds(client, 1, 3)
        arguments, folder, environ = json.load(request)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["trainwright", *arguments]


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
    importlib.import_module("trainwright.__main__").main()
