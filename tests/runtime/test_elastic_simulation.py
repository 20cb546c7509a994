"""A small run of the simulation of thousands of nodes: what it measures holds for few as well."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _simulation() -> ModuleType:
    spec = spec_from_file_location("coordination", ROOT / "benchmarks/coordination.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules["coordination"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


S = _simulation()


def test_a_step_in_which_nothing_changed_costs_no_more_with_more_nodes() -> None:
    few, many = (S.measured(nodes) for nodes in (4, 100))
    assert few.step.sent <= many.step.sent < 1.1 * few.step.sent  # names are longer
    assert many.rack.sent / 100 < 3000
    assert many.lost.sent / 100 < 2 * few.lost.sent / 4


def test_all_take_the_same_steps_whoever_comes_and_goes() -> None:
    simulation = S.Simulation()
    simulation.join(40)
    for change in (
        bool,
        lambda: simulation.join(3),
        lambda: simulation.lose(simulation.some(S.RACK)),
        lambda: simulation.join(S.RACK),
        lambda: S._replace(simulation, 4),
    ):
        change()
        simulation.step()
        nodes = simulation.nodes.values()
        assert {node.members.names for node in nodes} == {tuple(sorted(simulation.nodes))}
        assert len({(node.step, node.group) for node in nodes}) == 1
    simulation.close()


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert S.main(["2"]) == 0
    head, row = capsys.readouterr().out.splitlines()[1:]
    assert len(head.split(" | ")) == len(row.split(" | "))
    assert row.startswith("2 | ")
