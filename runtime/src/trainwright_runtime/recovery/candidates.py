"""Which processes may be the coordinator of live recovery, and which of them is on this node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trainwright_runtime.coordination import coordinator
from trainwright_runtime.coordination.addresses import has_address, is_ip, is_loopback, split
from trainwright_runtime.coordination.lease import needed
from trainwright_runtime.failures.errors import EnvironmentMistake
from trainwright_runtime.launch.launchers import Placement, is_host
from trainwright_runtime.launch.layout import Layout
from trainwright_runtime.launch.machine import free_port
from trainwright_runtime.launch.options import Options

LIST = "TRAINWRIGHT_COORDINATORS"
_CANDIDATES = 3  # one of them may be lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Who may be the coordinator: "host:port" of each, the same list on all nodes."""

    addresses: tuple[str, ...]
    own: int | None
    """Which of them runs on this node."""

    @classmethod
    def of(cls, layout: Layout, options: Options, environ: Mapping[str, str]) -> Candidates:
        """Return the candidates that the environment lists, else the first nodes.

        Raise EnvironmentMistake for a list that is malformed.
        """
        placement = layout.placement
        if listed := environ.get(LIST):
            return cls._listed(listed, placement, environ)
        port = options.coordinator_port or (
            coordinator.DEFAULT_PORT if placement.master_port else free_port()
        )
        # Most of them have to be there: of three that is so on as few nodes as there may be.
        if len(placement.names) >= _CANDIDATES and layout.nodes.low >= needed(_CANDIDATES):
            names = placement.names[:_CANDIDATES]
            own = placement.number if placement.number in range(_CANDIDATES) else None
            return cls(addresses=tuple(f"{name}:{port}" for name in names), own=own)
        return cls(
            addresses=(f"{placement.master_addr}:{port}",), own=0 if placement.hosts else None
        )

    @classmethod
    def _listed(cls, listed: str, placement: Placement, environ: Mapping[str, str]) -> Candidates:
        """Return the candidates of a list such as "a:29511,b:29511"."""
        addresses = tuple(part.strip() for part in listed.split(","))
        for address in addresses:
            host, _, port = address.rpartition(":")
            if not (host and port.isdecimal() and 0 < int(port) < 65536):
                raise EnvironmentMistake(LIST, listed, "host:port, separated by commas")
        named = cls(addresses=addresses, own=None)
        return replace(
            named, own=_own([host for host, _ in named.hosts_and_ports], placement, environ)
        )

    @property
    def hosts_and_ports(self) -> list[tuple[str, int]]:
        return [split(address) for address in self.addresses]

    @property
    def seen_from_here(self) -> str:
        """The addresses for workers: a node reaches its own candidate before DNS knows its name."""
        return ",".join(
            f"127.0.0.1:{split(address)[1]}" if index == self.own else address
            for index, address in enumerate(self.addresses)
        )


def _own(hosts: Sequence[str], placement: Placement, environ: Mapping[str, str]) -> int | None:
    """Return the index of this node among the listed hosts, or None if it is not one of them.

    It is found by its name. Its number counts only among hosts that are addresses: among names it
    would take over the part that another process has for all other nodes.
    """
    indexes = [index for index, host in enumerate(hosts) if is_host(host, placement.node)]
    if indexes and placement.per_process and environ["LOCAL_RANK"] != "0":
        return None  # the launcher starts each process, and the first of the node runs it
    if len(indexes) == 1:
        return indexes[0]
    indexes = indexes or [i for i, host in enumerate(hosts) if is_ip(host) or is_loopback(host)]
    if placement.number not in indexes:
        return None
    if len(hosts) == 1 and hosts[0] != placement.master_addr and not has_address(hosts[0]):
        return None  # a coordinator on no node of this training
    return placement.number
