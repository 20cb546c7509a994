"""What a coordinator has to do for each of thousands of workers does not grow with their number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from typing import Any

import pytest

from trainwright_runtime.coordination import rules
from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.coordination.rules import Phase, Run
from trainwright_runtime.elastic.session import Session

MANY = 2000
SHORT = 1000  # bytes


@pytest.fixture
def registry() -> Iterator[Registry]:
    with closing(Registry(0, recovery=0, silence=60)) as found:
        yield found


def _report(worker: str, lineage: str, **more: object) -> dict[str, Any]:
    phase = "holds" if lineage else "new"
    known = {"worker": worker, "lineage": lineage, "phase": phase, "sure": True}
    return {"do": "enter", "doing": "step", "local_steps": 0, **known, **more}


def _all_hold(registry: Registry) -> str:
    lineage = registry._answer(_report("w0-1", "", do="step", after=0), "w0")["lineage"]
    for number in range(MANY):
        registry._answer(_report(f"w{number}-1", lineage), f"w{number}")
    return lineage


def test_answers_name_a_few_of_those_who_are_late(registry: Registry) -> None:
    lineage = _all_hold(registry)
    waits = registry._answer(_report("w0-1", lineage, doing="waiting"), "w0")
    assert waits["late"] == "w1, w2, w3, w4, w5, others"
    assert len(json.dumps(waits)) < SHORT
    registry._stall = 0
    assert registry._answer(_report("w1-1", lineage), "w1")["waiting"] == "w0"


def test_a_worker_in_a_step_is_told_of_nobody(registry: Registry) -> None:
    assert registry._answer(_report("w1-1", _all_hold(registry)), "w1")["late"] == ""


def test_a_late_worker_is_known_among_many(registry: Registry) -> None:
    _all_hold(registry)
    with closing(Session([f"127.0.0.1:{registry.port}"], "z-1", 60)) as waits:
        assert waits.awaits(["w1500", "lost"])
        registry._leave("w1500-1", registry._connections["w1500-1"])
        assert not waits.awaits(["w1500", "lost"])


@pytest.mark.parametrize("phase", [Phase.NEW, Phase.HOLDS])
def test_who_reports_again_changes_nothing(phase: Phase) -> None:
    run, _ = rules.enter(Run(recovering=False), "a", "1/a", phase)
    again, _ = rules.enter(run, "a", "1/a", phase)
    assert all(getattr(again, each.name) is getattr(run, each.name) for each in fields(Run))
