"""Names and ports of pods into addresses of this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from trainwright.pods.pod import Pod

LOOPBACK = "127.0.0.1"
_RENDEZVOUS = "PET_RDZV_ENDPOINT"
_OPTION = re.compile(r"--[A-Za-z][\w-]*")


class Names:
    """Which free port of this machine stands for which port of which pod.

    On the cluster every pod has an address of its own, so all may use the same port. Here each
    pair of pod and port gets a free one, when it is first asked for.
    """

    def __init__(self, pods: tuple[Pod, ...], machine: str, free_port: Callable[[], int]):
        self._machine = machine
        self._free_port = free_port
        self._ports: dict[tuple[str, int], int] = {}
        self._pods = {pod.hostname: pod for pod in pods}
        self._hosts = re.compile(
            r"(?<![\w.-])("
            + "|".join(map(re.escape, sorted(self._pods, key=len, reverse=True)))
            # The name may be followed by the namespace and the rest of the cluster's domain.
            + r")(?:\.[\w-]+\.svc(?:\.cluster\.local)?)?(?::(\d+))?(?![\w.-])"
        )

    def env(self, pod: Pod, env: Mapping[str, str]) -> dict[str, str]:
        """A pod's env with names and ports of pods replaced."""
        return {name: self._value(pod, name, value, env) for name, value in env.items()}

    def argv(self, pod: Pod, argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
        """A command line with names and ports of pods replaced."""
        flags = {at: (prefix, name, value) for at, prefix, name, value in _flags(argv)}
        around = {**env, **{name: value for _, name, value in flags.values()}}
        words = []
        for at, word in enumerate(argv):
            prefix, name, value = flags.get(at, ("", "", word))
            words.append(prefix + self._value(pod, name, value, around))
        return tuple(words)

    def hostname(self, pod: Pod, env: Mapping[str, str]) -> str:
        """What the pod calls itself.

        Nodes that meet by a rendezvous tell each other these names, so they have to lead here:
        this machine's own for the pod that is the host, a loopback address for each other one.
        """
        host = env.get(_RENDEZVOUS, "").rpartition(":")[0]
        if host not in self._pods:
            return pod.hostname.partition(".")[0]
        if host == pod.hostname:
            return self._machine
        number = list(self._pods).index(pod.hostname) + 2
        return f"127.0.{number // 256}.{number % 256}"

    def _value(self, pod: Pod, name: str, value: str, around: Mapping[str, str]) -> str:
        if name.endswith("MASTER_ADDR") and value in self._pods:
            return LOOPBACK
        if name == _RENDEZVOUS:
            # A node tells by this name whether it is the host; a loopback address would be every
            # node's own.
            return self._addresses(value).replace(LOOPBACK, self._machine)
        if value.isdigit() and name.endswith("PORT"):
            return self._port_of(pod, name, int(value), around)
        return self._addresses(value)

    def _port_of(self, pod: Pod, name: str, port: int, around: Mapping[str, str]) -> str:
        """A port without its host: the master's, or one that the pod itself listens on."""
        if name == "MAIN_PROCESS_PORT":  # accelerate's
            master = around.get("MAIN_PROCESS_IP", "")
            return str(self._port(master, port)) if master in self._pods else str(port)
        if name.endswith("MASTER_PORT"):
            own, any_other = name.replace("_PORT", "_ADDR"), "MASTER_ADDR"
            master = around.get(own) or around.get(any_other, "")
            return str(self._port(master, port)) if master in self._pods else str(port)
        listens = name.startswith("TRAINWRIGHT_") or port in {p.number for p in pod.ports}
        return str(self._port(pod.hostname, port)) if listens else str(port)

    def _addresses(self, text: str) -> str:
        def local(match: re.Match[str]) -> str:
            host, port = match.groups()
            if port:
                return f"{LOOPBACK}:{self._port(host, int(port))}"
            # A compose service may be called by a common word, which means no host by itself.
            return LOOPBACK if re.search(r"-\d", host) else match.group()

        return self._hosts.sub(local, text) if self._pods else text

    def _port(self, host: str, port: int) -> int:
        if (host, port) not in self._ports:
            self._ports[host, port] = self._free_port()
        return self._ports[host, port]

    def notes(self) -> Iterator[str]:
        """Which address stands for which, of those that were requested."""
        for (host, port), local in sorted(self._ports.items()):
            yield f"address: {host}:{port} is {LOOPBACK}:{local}"


def _flags(argv: tuple[str, ...]) -> Iterator[tuple[int, str, str, str]]:
    """Values of long options: where they stand, after which prefix, for which name, and what.

    The names are spelled like those of variables: --master-port is MASTER_PORT.
    """
    for at, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if not _OPTION.fullmatch(option):
            continue
        name = option.removeprefix("--").replace("-", "_").upper()
        if equals:
            yield at, f"{option}=", name, value
        elif at + 1 < len(argv) and not argv[at + 1].startswith("-"):
            yield at + 1, "", name, argv[at + 1]
