"""Network addresses: "host:port" as text, and which addresses belong to this machine."""

from __future__ import annotations

import ipaddress
import logging
import socket
from contextlib import suppress

log = logging.getLogger(__name__)


def split(address: str) -> tuple[str, int]:
    """Return the host and the port of "host:port", in which an IPv6 address has brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def joined(host: str, port: int) -> str:
    """Return "host:port", with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def family(address: str) -> socket.AddressFamily:
    """Return the address family of an IP address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def is_ip(text: str) -> bool:
    """Whether a text is an IP address, and not a name."""
    with suppress(ValueError):
        return bool(ipaddress.ip_address(text))
    return False


def is_loopback(host: str) -> bool:
    """Whether a host name or address is always the machine that uses it."""
    return host == "localhost" or (is_ip(host) and ipaddress.ip_address(host).is_loopback)


def has_address(address: str) -> bool:
    """Whether an address is one of this machine's own."""
    with socket.socket(family(address)) as probe, suppress(OSError):
        probe.bind((address, 0))
        return True
    return False


def is_own(address: str) -> bool:
    """Whether this machine has an IP address at which it can serve other machines."""
    link_local = ipaddress.ip_address(address.partition("%")[0]).is_link_local
    return not link_local and has_address(address)


def own_addresses(*names: str) -> list[str]:
    """Return this machine's addresses for these names and its own name, and always 127.0.0.1.

    A pod's own name resolves to the pod's address. If the given names resolve to no address of
    this machine, return the wildcard address.
    """
    local = bool(names) and all(map(is_loopback, names))
    addresses = ["127.0.0.1"]
    for name in names if local else (*names, socket.gethostname()):
        with suppress(OSError, UnicodeError):
            infos = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            addresses += [str(info[4][0]) for info in infos]
    addresses = [address for address in dict.fromkeys(addresses) if is_own(address)]
    if names and not local and all(map(is_loopback, addresses)):
        log.warning(
            "no address of this machine is that of %s: listening at all", " or ".join(names)
        )
        return ["::" if socket.has_dualstack_ipv6() else "0.0.0.0"]  # noqa: S104 - see above
    return addresses


def own_address_towards(peer: str) -> str:
    """Return the IP address of this machine for others that can reach `peer` ("host:port").

    If the peer is on this machine, that is not loopback but what the host's name resolves to: in a
    pod, the pod's IP. Nothing is sent.
    """
    host, port = split(peer)
    *kind, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(*kind) as probe:
        probe.connect(target)
        address = str(probe.getsockname()[0])
    if not is_loopback(address):
        return address
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        return address
    return named if is_own(named) else address
