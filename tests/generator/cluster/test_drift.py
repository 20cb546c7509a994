"""Where a live object is not what git says, and what is no difference."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainwright.cluster.drift import drift

GOLDEN = Path(__file__).parents[2] / "golden"
OBJECT = next(
    yaml.load_all(
        (
            GOLDEN / "pytorchjob-every-field/expected/prod/rendered/everything/pytorchjob.yaml"
        ).read_text(),
        Loader=yaml.CSafeLoader,
    )
)


def leaves(node: Any, pointer: str = "") -> list[str]:
    if isinstance(node, dict):
        return [p for k, v in node.items() for p in leaves(v, f"{pointer}/{k.replace('/', '~1')}")]
    if isinstance(node, list):
        return [p for i, v in enumerate(node) for p in leaves(v, f"{pointer}/{i}")]
    return [pointer]


def change(node: Any, pointer: str, value: Any) -> None:
    *way, last = [part.replace("~1", "/") for part in pointer[1:].split("/")]
    for part in way:
        node = node[int(part)] if isinstance(node, list) else node[part]
    node[int(last) if isinstance(node, list) else last] = value


def test_an_object_is_as_it_is() -> None:
    assert drift(OBJECT, copy.deepcopy(OBJECT)) == ()


@given(st.sampled_from(leaves(OBJECT)))
def test_every_changed_value_is_found_where_it_is(pointer: str) -> None:
    live = copy.deepcopy(OBJECT)
    change(live, pointer, "something else")
    found = drift(OBJECT, live)
    # A changed name of a list's item makes the whole item another one.
    assert any(pointer == one or pointer.startswith(f"{one}/") for one in found), found


@pytest.mark.parametrize(
    ("git", "live"),
    [
        ({"a": 1}, {"a": 1, "default": True}),
        ({"args": [], "readOnly": False, "x": ""}, {}),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "X"}, {"name": "A", "value": "1"}]}),
        ({"tolerations": [{"key": "sku", "operator": "Exists"}]},
         {"tolerations": [{"key": "flavor"}, {"key": "sku", "operator": "Exists"}]}),
        ({"resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}},
         {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b", "flavor": "h100"}}),
    ],
)  # fmt: skip
def test_what_others_add_or_write_otherwise_is_no_difference(git: Any, live: Any) -> None:
    assert drift(git, live) == ()


@pytest.mark.parametrize(
    ("git", "live", "pointers"),
    [
        ({"a": 1}, {}, ("/a",)),
        ({"a~b/c": 1}, {"a~b/c": 2}, ("/a~0b~1c",)),
        ({"args": ["--lr=1"]}, {"args": ["--lr=2"]}, ("/args/0",)),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B"}]}, ("/env/0",)),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}, ("/limits/cpu",)),
        ({"a": {"b": 1}}, {"a": "b"}, ("/a",)),
    ],
)
def test_what_is_one(git: Any, live: Any, pointers: tuple[str, ...]) -> None:
    assert drift(git, live) == pointers
