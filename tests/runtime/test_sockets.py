"""Connections of this process, found and ended from outside of the code that made them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainwright_runtime.elastic import sockets
from trainwright_runtime.launch.machine import free_port


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
        with one, other:
            yield one, other


def descriptors() -> set[int]:
    return {item.descriptor for item in sockets.connected()}


def test_only_tcp_connections_are_seen(pair: tuple[socket.socket, socket.socket]) -> None:
    read, write = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as lonely:
        one, other = socket.socketpair()
        with one, other, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            datagrams.connect(server.getsockname())
            seen = descriptors()
            assert {end.fileno() for end in pair} <= seen
            unseen = {read, write, *(s.fileno() for s in (server, lonely, one, other, datagrams))}
            assert not unseen & seen
    os.close(read)
    os.close(write)


def test_who_looks_at_them_at_the_same_time_sees_no_others(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    known = descriptors()
    with ThreadPoolExecutor() as threads:
        looks = [threads.submit(descriptors) for _ in range(1000)]
    assert all(look.result() == known for look in looks)


def test_both_ends_learn_that_it_is_over(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    mine = [item for item in sockets.connected() if item.descriptor == one.fileno()]
    sockets.shut(mine)
    other.settimeout(60)
    assert other.recv(1) == b""
    assert one.recv(1) == b""
    one.close()
    assert other.fileno() >= 0


def test_a_descriptor_that_stands_for_something_else_by_now_is_left_alone(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    one, other = pair
    old = next(item for item in sockets.connected() if item.descriptor == one.fileno())
    with socket.create_server(("127.0.0.1", 0)) as server:
        new = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
        os.dup2(new.fileno(), one.fileno())
        sockets.shut([old])
        new.sendall(b"alive")
        peer.settimeout(60)
        assert peer.recv(5) == b"alive"
        new.close()
        peer.close()
    assert other.recv(1) == b""


def test_shutting_what_is_gone_is_no_error(pair: tuple[socket.socket, socket.socket]) -> None:
    known = sockets.connected()
    for end in pair:
        end.close()
    sockets.shut(known)


def test_only_connections_that_a_member_has_the_other_end_of_are_the_group_s(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """A stream that a dataset opened meanwhile is left alone when a step is given up."""
    one, other = pair
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = socket.create_connection(server.getsockname())
        opened = sockets.connected()
        theirs = [item.ends for item in opened if item.descriptor == other.fileno()]
        kept = sockets.between(opened, theirs)
        assert {item.descriptor for item in kept} == {one.fileno()}
        stream.close()


def test_a_port_is_listened_at_while_it_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port in sockets.listening()
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert client.getsockname()[1] not in sockets.listening()
    assert port not in sockets.listening()


def test_no_process_gets_a_free_port_by_chance() -> None:
    """Who asked for it listens there a second later."""
    given = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    first, last = map(int, given)
    ports = {free_port() for _ in range(50)}
    assert len(ports) > 40
    assert not [port for port in ports if first <= port <= last]
