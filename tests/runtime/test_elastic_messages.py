"""A message that no worker sends leaves nothing behind in the coordinator, whoever sent it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from workers import workers

from trainwright_runtime.coordination.channel import connected
from trainwright_runtime.coordination.messages import REPORT, REQUEST, checked
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.elastic.members import Callbacks
from trainwright_runtime.elastic.replica import Address, Replica

ASKED = {
    "replica_id": "z-1", "step": 0, "holds": False, "unreached": [], "view": 0,
    "lineage": "1/a-1", "group": 0, "position": "", "declared": "", "state": "",
}  # fmt: skip
HELD = {
    "worker": "z-1", "do": "step", "lineage": "1/z-1", "phase": "holds", "sure": True,
    "doing": "program", "steps": 0, "after": 0,
}  # fmt: skip
OF_NO_TYPE = (None, [], {}, 1.5, "x y", True)


def _mutated(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, value in message.items():
        yield {key: kept for key, kept in message.items() if key != name}
        yield from ({**message, name: o} for o in OF_NO_TYPE if type(o) is not type(value))


REPORTS = [
    *_mutated(HELD),
    *({**HELD, "do": "complete", "first": o} for o in (None, 1)),
    *({**HELD, "lineage": text} for text in ("", "x", "1", "-1/z", "1/", "/z", "1/z z")),
    {**HELD, "do": "erase"},
    {**HELD, "phase": "king"},
    {**HELD, "worker": ""},
    *({**HELD, "do": "await", "workers": o} for o in (None, "a", [1])),
]
REQUESTS = [
    *_mutated(ASKED),
    {**ASKED, "unreached": [1]},
    {**ASKED, "lineage": "x/z"},
]


def test_what_workers_send_is_accepted() -> None:
    checked(HELD, REPORT)
    checked({**HELD, "phase": "new", "lineage": ""}, REPORT)
    checked(ASKED, REQUEST)


@pytest.mark.parametrize("message", REPORTS)
def test_a_report_of_other_types_is_refused(message: object) -> None:
    with pytest.raises(ValueError, match=r"expected|lineage|Phase|worker"):
        checked(message, REPORT)


@pytest.mark.parametrize("message", REQUESTS)
def test_a_request_of_other_types_is_refused(message: object) -> None:
    with pytest.raises(ValueError, match=r"expected|generation"):
        checked(message, REQUEST)


def test_training_begins_after_all_of_them(tmp_path: Path) -> None:
    with workers(tmp_path, "") as group:
        timeouts = Timeouts()
        address = Address(
            coordinator=f"127.0.0.1:{group.port}", name="a", min_replicas=1, backend="gloo",
            timeouts=timeouts,
        )  # fmt: skip
        first = Replica(address, Callbacks(dump=dict, load=lambda _: None))
        first._persist(first._session.reach, 60)  # the coordinator is there
        for message in [*REPORTS, *({"quorum": request} for request in REQUESTS)]:
            channel = connected(f"127.0.0.1:{group.port}", 20)[0]
            channel.write(message)
            with pytest.raises(ConnectionError):
                channel.read()
            channel.close()
        assert first.join().names
        assert first.lineage.startswith("1/a-")
        first.leave()
        first.close()
