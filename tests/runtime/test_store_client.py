"""The store by which processes find each other keeps what torch's own would."""

from __future__ import annotations

from datetime import timedelta

import pytest

from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.coordination.store_client import StoreClient
from trainwright_runtime.launch.machine import free_port


@pytest.mark.parametrize("value", ["plain", "caf\u00e9", "\u20ac 5", b"\x00\xff", b""])
def test_a_value_comes_back_as_its_bytes(value: str | bytes) -> None:
    kept = value.encode() if isinstance(value, str) else value
    port = free_port()
    registry = Registry(port, recovery=0, silence=60)
    client = StoreClient(f"127.0.0.1:{port}", "group", timedelta(seconds=20))
    try:
        client.set("set", value)
        assert client.get("set") == kept
        assert client.compare_set("set", value, b"other") == b"other"
        assert client.compare_set("new", "", value) == kept
    finally:
        client.close()
        registry.close()
