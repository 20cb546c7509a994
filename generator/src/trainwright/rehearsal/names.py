"""Names and ports of pods into addresses of this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from trainwright.objects.pods.pod import DOMAIN, Pod
from trainwright.rehearsal import RehearsalError

LOOPBACK = "127.0.0.1"
_RENDEZVOUS = "PET_RDZV_ENDPOINT"
_BOUND = re.compile(r"^((?:0\.0\.0\.0|127\.0\.0\.1|localhost|\[::1?\])?:)(\d{1,5})$")
# The same in a text, as the command of a probe has it: http://127.0.0.1:8000/health.
_WITHIN = re.compile(r"((?<![\w.-])(?:0\.0\.0\.0|127\.0\.0\.1|localhost|\[::1?\]):)(\d{1,5})(?!\d)")
_OPTION = re.compile(r"--[A-Za-z][\w.-]*")
# How the host of a port is called that is not the pod's own: VLLM_SERVER_HOST, MAIN_PROCESS_IP.
_HOSTS = ("ADDR", "ADDRESS", "HOST", "HOSTS", "HOSTNAME", "IP")


class Names:
    """The mapping of the pods' names and ports to free ports of this machine.

    On the cluster every pod has an address of its own, so all may use the same port. Here each
    pair of pod and port gets a free port of its own when it is first needed.
    """

    def __init__(
        self,
        pods: Sequence[Pod],
        machine: str,
        free_port: Callable[[], int],
        serving: Collection[str] = (),  # roles, whose own port may be any word of their command
    ):
        self._serving = serving
        self._machine = machine
        self._free_port = free_port
        self._ports: dict[tuple[str, int], int] = {}
        self._pods = {pod.hostname: pod for pod in pods}
        for pod in pods:  # behind them, since they are numbered
            for name in pod.aliases:
                self._pods.setdefault(name, pod)
        self._hosts = re.compile(
            r"(?<![\w.-])("
            + "|".join(map(re.escape, sorted(self._pods, key=len, reverse=True)))
            + rf")(?:{DOMAIN})?(?::(\d+))?(?![\w.-])"
        )

    def env(self, pod: Pod, env: Mapping[str, str]) -> dict[str, str]:
        """Return a pod's env with names and ports of pods replaced."""
        return {name: self._value(pod, name, value, env) for name, value in env.items()}

    def argv(self, pod: Pod, argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
        """Return a command line with names and ports of pods replaced."""
        flags = {at: (prefix, name, value) for at, prefix, name, value in _flags(argv)}
        around = {**env, **{name: value for _, name, value in flags.values()}}
        words = []
        for at, word in enumerate(argv):
            prefix, name, value = flags.get(at, ("", "", word))
            words.append(prefix + self._value(pod, name, value, around))
        return tuple(words)

    def probe(self, pod: Pod, argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the command line of a probe, which runs in the pod and connects locally."""
        return self.argv(pod, tuple(self._bound(pod, word, _WITHIN) for word in argv), env)

    def hostname(self, pod: Pod, env: Mapping[str, str]) -> str:
        """Return the hostname that the pod sees as its own.

        Nodes that meet in a rendezvous tell each other these names, so they have to resolve to this
        machine: its own name for the pod that hosts the rendezvous, a loopback address for each
        other pod.
        """
        host = env.get(_RENDEZVOUS, "").rpartition(":")[0]
        if host not in self._pods:
            return pod.hostname.partition(".")[0]
        if host == pod.hostname:
            return self._machine
        number = list(self._pods).index(pod.hostname) + 2
        return f"127.0.{number // 256}.{number % 256}"

    def _value(self, pod: Pod, name: str, value: str, around: Mapping[str, str]) -> str:
        if value in self._pods and name.rpartition("_")[2] in _HOSTS:
            return LOOPBACK
        if name == _RENDEZVOUS:
            # A node tells by this name whether it is the host; a loopback address would be every
            # node's own.
            return self._addresses(value).replace(LOOPBACK, self._machine)
        serves = pod.role in self._serving
        if value.isdigit() and (name.endswith("PORT") or (serves and not name)):
            return self._port_of(pod, name, int(value), around)
        address = self._addresses(value)
        return self._bound(pod, address) if serves else address

    def _bound(self, pod: Pod, text: str, at: re.Pattern[str] = _BOUND) -> str:
        """Return a text with the address where a pod of a role listens: 0.0.0.0:8000, or :8000."""
        own = {port.number for port in pod.ports}

        def local(match: re.Match[str]) -> str:
            port = int(match[2])
            return f"{match[1]}{self.port(pod.hostname, port)}" if port in own else match.group()

        return at.sub(local, text)

    def _port_of(self, pod: Pod, name: str, port: int, around: Mapping[str, str]) -> str:
        """Return the local port for one without a host: the master's, or one the pod listens on."""
        hosts = [around.get(name.removesuffix("PORT") + word, "") for word in _HOSTS]
        if name.endswith("MASTER_PORT"):
            hosts.append(around.get("MASTER_ADDR", ""))
        host = next(filter(None, hosts), "")
        if pods := [hostname for hostname in host.split(",") if hostname in self._pods]:
            return self._port_at(name, pods, port)
        if host and name.endswith("MASTER_PORT"):
            return str(port)
        listens = name.startswith("TRAINWRIGHT_") or port in {p.number for p in pod.ports}
        return str(self.port(pod.hostname, port)) if listens else str(port)

    def _port_at(self, name: str, pods: list[str], port: int) -> str:
        if len(pods) > 1:
            raise RehearsalError(
                f"{name} is {port} for {' and '.join(pods)}, and here each of them has another "
                "port: use ${{ roles.NAME.urls }} instead of hosts and a port"
            )
        return str(self.port(pods[0], port))

    def _addresses(self, text: str) -> str:
        def local(match: re.Match[str]) -> str:
            host, port = match.groups()
            if port:
                return f"{LOOPBACK}:{self.port(host, int(port))}"
            # A compose service may be called by a common word, which means no host by itself.
            return LOOPBACK if re.search(r"-\d", host) else match.group()

        return self._hosts.sub(local, text) if self._pods else text

    def listening(self, pod: Pod, argv: tuple[str, ...], env: Mapping[str, str]) -> set[int]:
        """Return the ports of a pod that its own command line or env has."""
        self.argv(pod, argv, env)
        self.env(pod, env)
        return {port for host, port in self._ports if host == pod.hostname}

    def keep(self, pod: Pod, port: int) -> None:
        """Let a port of a pod be that of this machine."""
        self._ports[pod.hostname, port] = port

    def port(self, host: str, port: int) -> int:
        """Return the local port that replaces a port of a pod."""
        named = self._pods[host].hostname if host in self._pods else host
        if (named, port) not in self._ports:
            self._ports[named, port] = self._free_port()
        return self._ports[named, port]

    def notes(self) -> Iterator[str]:
        """Yield which local address replaces each address that was requested."""
        for (host, port), local in sorted(self._ports.items()):
            yield f"address: {host}:{port} is {LOOPBACK}:{local}"


def _flags(argv: tuple[str, ...]) -> Iterator[tuple[int, str, str, str]]:
    """Yield (index, prefix, name, value) for the value of each long option in a command line.

    The names are spelled like those of variables: --master-port is MASTER_PORT.
    """
    for at, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if not _OPTION.fullmatch(option):
            continue
        name = re.sub("[.-]", "_", option.removeprefix("--")).upper()
        if equals:
            yield at, f"{option}=", name, value
        elif at + 1 < len(argv) and not argv[at + 1].startswith("-"):
            yield at + 1, "", name, argv[at + 1]
