"""What coordination costs with 2 to 10,000 nodes: a second of steps, and each kind of change.

    .venv/bin/python benchmarks/coordination.py [nodes ...]

All nodes are in this process, over the real rules, registry, quorums and messages, framed as on
the wire; time is virtual. CPU time is that of the coordinator: it reads, checks, decides and
writes. What is not in it: system calls and threads, and how gloo or NCCL connect the members.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from trainwright_runtime.coordination import channel, view
from trainwright_runtime.coordination.activity import IN_STEP, QUIET, SPEAKERS, WAITING
from trainwright_runtime.coordination.messages import REPORT, REQUEST, checked
from trainwright_runtime.coordination.quorum import Patience, Request
from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.coordination.rules import Answer
from trainwright_runtime.coordination.view import View

NODES = (2, 8, 64, 256, 1000, 4000, 10_000)
RACK = 32
"""Nodes that are lost at once."""
_KEY = bytes(32)
_FRAME = 20  # bytes of a length and a MAC
_TICK = 0.02
_STEP = 1.0  # seconds
_REPORTS = 2  # in that time, of each worker that reports at all
_DECLARED = json.dumps(
    {
        "version": "1.0", "batch_size": "8192", "epochs": "3", "resize": '"keep"',
        "synchronize": "null", "dataset train": "length 1281167, seed 0",
        "model": "161 entries of digest 0123456789ab", "optimizer": "AdamW", "scaler": "false",
    }
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Node:
    """A worker: what it holds, and what it knows of the others."""

    name: str
    place: str
    lineage: str = ""
    step: int = 0
    group: int = 0
    requested: Mapping[str, Any] = field(default_factory=dict)
    received: dict[str, Any] = field(default_factory=dict)
    """By the coordinator over its connection."""
    members: View = field(default_factory=View)

    def report(self, do: str, doing: str, **more: object) -> dict[str, Any]:
        phase = "holds" if self.step else "new"
        held = self.lineage if self.step else ""
        known = {"worker": self.name, "lineage": held, "phase": phase, "sure": True}
        return {"do": do, "doing": doing, "steps": 0, **known, **more}

    def request(self) -> dict[str, Any]:
        """What is not as in the one before."""
        before, now = self.requested, self._request()
        self.requested = now
        return {k: v for k, v in now.items() if k not in before or before[k] != v}

    def _request(self) -> dict[str, Any]:
        return {
            "replica_id": self.name, "step": self.step, "holds": bool(self.step), "unreached": [],
            "view": self.members.number, "lineage": self.lineage if self.step else "",
            "group": self.group, "position": f"{self.step:016x}/7", "declared": _DECLARED,
            "state": self.place,
        }  # fmt: skip


@dataclass(slots=True)
class Cost:
    """Of a step or a change, for all nodes together."""

    sent: int = 0
    """Bytes, to the coordinator and from it."""
    seconds: float = 0.0
    """CPU time of the coordinator."""
    waited: float = 0.0
    """Virtual seconds."""


class Simulation:
    """A coordinator and its nodes."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._settled = False  # whether all members of a step know that nothing changes
        self.nodes: dict[str, Node] = {}
        self.cost = Cost()
        self._born = 0
        self._read_already: dict[tuple[int, bytes], tuple[int, View]] = {}
        self._registry = Registry(
            0, recovery=0, silence=60, patience=Patience(join=10), addresses=["127.0.0.1"],
            clock=lambda: self.now,
        )  # fmt: skip
        self._probed: list[str] = []
        self._registry.quorums._probe = self._probed.append

    def close(self) -> None:
        self._registry.close()

    @contextmanager
    def measured(self) -> Iterator[Cost]:
        """What is done meanwhile costs this."""
        self.cost = found = Cost()
        began = self.now
        yield found
        self.cost = Cost()
        found.waited = self.now - began + found.seconds

    def join(self, count: int) -> None:
        """So many nodes start."""
        self._settled = False
        for _ in range(count):
            self._born += 1
            born = self._born
            place = f"10.{born >> 16}.{born >> 8 & 255}.{born & 255}:40000"
            node = Node(f"run-node-0-{born}.run-0-{born:08x}", place)
            self.nodes[node.name] = node
            answer = self._report(node.report("step", WAITING, after=0))
            node.lineage, node.step = answer["lineage"], int(answer["answer"] == Answer.FOUND)
        self._beat(list(self.nodes.values())[-count:])

    def lose(self, names: Collection[str]) -> None:
        """Their connections end; the others gave up the step under way."""
        self._settled = False
        for name in names:
            with self._counted():
                self._registry.leave(name, name)
                self._registry.quorums.lost(name)
            del self.nodes[name]
        for node in self.nodes.values():
            node.group = 0

    def some(self, count: int) -> list[str]:
        """Of the nodes, those that started first, but for the first one."""
        return list(self.nodes)[1 : 1 + count]

    def step(self) -> None:
        """All request a step, connect where they are not connected, and take it.

        Where nothing has changed a few report that they take it, and no other sends anything.
        """
        nodes = sorted(self.nodes.values(), key=lambda node: node.name)
        if self._settled:
            for node in nodes:
                node.step += 1
            for _ in range(_REPORTS):
                self._report_of(nodes[:SPEAKERS], IN_STEP)
            return
        newcomers = [node for node in nodes if not node.step]
        requests = {node.name: self._request(node) for node in newcomers}
        if newcomers[: len(nodes) - 1]:  # the others hear of them in the step that is under way
            self._pass(_STEP / 2)
            self._report_of(nodes[:SPEAKERS], IN_STEP)
        requests |= {node.name: self._request(node) for node in nodes if node.step}
        while not all(request.answer for request in requests.values()):
            self._pass(_TICK)
        self._read_already.clear()
        for node in nodes:
            self._learn(node, requests[node.name].answer or b"")
        held = max(node.step for node in nodes)
        for node in nodes:
            if not node.step:
                node.step = held
                self._report(node.report("enter", WAITING))
            node.step += 1
        self._report_of(nodes[SPEAKERS:], QUIET)
        self._settled = True

    def beat(self) -> None:
        """Each node gives a sign of life."""
        self._beat(self.nodes.values())

    def report(self) -> None:
        """Each node reports what it holds, and what it does."""
        self._report_of(self.nodes.values(), IN_STEP)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        began = time.process_time()
        yield
        self.cost.seconds += time.process_time() - began

    def _pass(self, seconds: float) -> None:
        """The coordinator hears from those that it wants to hear from meanwhile."""
        for _ in range(round(seconds / _TICK)):
            self.now += _TICK
            with self._counted():
                self._registry.quorums.tick()
            for name in self._probed:
                with self._counted():
                    self._frame(b"{}")
                self._beat([self.nodes[name]])
            self._probed.clear()

    def _beat(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            text = json.dumps({"beat": node.name}).encode()
            with self._counted():
                self._registry.quorums.beat(self._read(text)["beat"])

    def _report_of(self, nodes: Iterable[Node], doing: str) -> None:
        for node in nodes:
            self._report(node.report("enter", doing))

    def _report(self, report: dict[str, Any]) -> dict[str, str]:
        worker, text = report["worker"], json.dumps(report).encode()
        with self._counted():
            message = self._read(text)
            checked(message, REPORT)
            answer = self._registry.answer(message, worker)
            self._frame(json.dumps(answer).encode())
        return answer

    def _request(self, node: Node) -> Request:
        text = json.dumps({"quorum": node.request()}).encode()
        with self._counted():
            node.received |= self._read(text)["quorum"]
            checked(node.received, REQUEST)
            return self._registry.quorums.request(node.name, {**node.received})

    def _learn(self, node: Node, answer: bytes) -> None:
        with self._counted():
            self._frame(answer)
        before = node.members
        quorum, node.members = self._told(before, answer)
        if before.addresses is not node.members.addresses or not node.group:
            node.group = quorum

    def _told(self, known: View, answer: bytes) -> tuple[int, View]:
        """Each node reads its answer by itself: here one does it for all who got the same."""
        key = known.number, answer
        if key not in self._read_already:
            said = json.loads(answer)
            self._read_already[key] = said["quorum"], view.updated(known, said["members"])
        return self._read_already[key]

    def _read(self, text: bytes) -> dict[str, Any]:
        self._frame(text)
        found: dict[str, Any] = json.loads(text)
        return found

    def _frame(self, text: bytes) -> None:
        self.cost.sent += len(text) + _FRAME
        channel._tag(_KEY, 1, text)


# --- what is measured ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Costs with so many nodes. Those of None need more of them."""

    nodes: int
    start: Cost
    """All join at once."""
    bulk: Cost | None
    """All but those of a step under way join that at once."""
    step: Cost
    """Nothing has changed."""
    beats: Cost
    """One of each node."""
    reports: Cost
    newcomer: Cost
    lost: Cost
    rack: Cost | None
    back: Cost | None
    """The rack, at once."""
    upgrade: Cost
    """1 % of the nodes, one at least, are replaced: they go, and come back as others."""
    hour: float
    """The share of an hour that goes to losses of 1 % of the nodes, one after the other."""


def measured(nodes: int) -> Row:
    with closing(Simulation()) as simulation:
        start = _cost(simulation, lambda: simulation.join(nodes))
        simulation.step()
        step = _cost(simulation)
        beats = _cost(simulation, simulation.beat, steps=0)
        reports = _cost(simulation, simulation.report, steps=0)
        newcomer = _cost(simulation, lambda: simulation.join(1))
        lost = _cost(simulation, lambda: simulation.lose(simulation.some(1)))
        rack = back = None
        if nodes > 2 * RACK:
            rack = _cost(simulation, lambda: simulation.lose(simulation.some(RACK)))
            back = _cost(simulation, lambda: simulation.join(RACK))
        upgrade = _cost(simulation, lambda: _replace(simulation, max(nodes // 100, 1)))
    hour = nodes / 100 * (lost.waited + newcomer.waited) / 3600
    return Row(
        nodes=nodes, start=start, bulk=_joined_in_bulk(nodes), step=step, beats=beats,
        reports=reports, newcomer=newcomer, lost=lost, rack=rack, back=back, upgrade=upgrade,
        hour=hour,
    )  # fmt: skip


def _joined_in_bulk(nodes: int) -> Cost | None:
    if nodes <= SPEAKERS:
        return None
    with closing(Simulation()) as simulation:
        simulation.join(SPEAKERS)
        simulation.step()
        return _cost(simulation, lambda: simulation.join(nodes - SPEAKERS))


def _replace(simulation: Simulation, count: int) -> None:
    simulation.lose(simulation.some(count))
    simulation.step()
    simulation.join(count)


def _cost(simulation: Simulation, change: Callable[[], object] = bool, steps: int = 1) -> Cost:
    """Of a change, and the steps in which all have learned of it."""
    with simulation.measured() as cost:
        change()
        for _ in range(steps):
            simulation.step()
    return cost


_HEAD = ("nodes", "start", "join three", "step", "sign of life", "report", "one more", "one lost",
         "a rack lost", "and back", "1 % replaced", "next step", "1 % per hour")  # fmt: skip


def shown(row: Row) -> list[str]:
    def each(cost: Cost | None) -> str:
        if cost is None:
            return "-"
        return f"{_bytes(cost.sent / row.nodes)}, {cost.seconds * 1000:.3g} ms"

    costs = [row.start, row.bulk, row.step, row.beats, row.reports, row.newcomer, row.lost]
    costs += [row.rack, row.back, row.upgrade]
    times = [f"{row.lost.waited:.2g} s", f"{row.hour:.2%}"]
    return [str(row.nodes), *map(each, costs), *times]


def _bytes(count: float) -> str:
    return f"{count:.0f} B" if count < 10_000 else f"{count / 1000:.0f} kB"


def main(argv: Sequence[str]) -> int:
    print("Bytes per node, both ways; CPU time of the coordinator for all of them together.")
    print(" | ".join(_HEAD))
    for nodes in map(int, argv or map(str, NODES)):
        print(" | ".join(shown(measured(nodes))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
