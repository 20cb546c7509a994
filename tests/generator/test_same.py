"""What is the same data, and where two values differ."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.same import ORDER, differences, digest_of_data, identical

_KEYS = st.sampled_from(["a", "b", "a/b", "~", "c.d"])
_DATA = st.dictionaries(
    _KEYS,
    st.recursive(
        st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@given(_DATA, _DATA)
def test_there_are_differences_where_data_is_not_the_same(old: Any, new: Any) -> None:
    found = list(differences(old, new))
    assert (not found) == identical(old, new)
    for path, before, after in found:
        assert identical(before, lookup(old, path))
        assert identical(after, lookup(new, path))
    assert len({path for path, _, _ in found}) == len(found)


@given(_DATA)
def test_the_order_of_keys_makes_no_other_data(data: Any) -> None:
    turned = dict(reversed(data.items()))
    assert identical(data, turned)
    assert digest_of_data(data) == digest_of_data(turned)
    assert not list(differences(data, turned))


def test_true_one_and_a_null_that_is_written_are_told_apart() -> None:
    assert not identical({"amp": 1}, {"amp": True})
    assert list(differences({"amp": 1}, {"amp": True})) == [("/amp", 1, True)]
    assert list(differences({}, {"queue": None})) == [("/queue", None, None)]


def test_order_counts_below_the_keys_that_are_named() -> None:
    old, new = {"env": {"A": "1", "B": "2"}}, {"env": {"B": "2", "A": "1"}}
    assert not list(differences(old, new))
    (found,) = differences(old, new, {"env"})
    assert found == (Pointer.of("env", ORDER), ["A", "B"], ["B", "A"])


def test_what_is_gone_comes_last() -> None:
    old, new = {"a": {"x": 1}, "b": 2}, {"b": 3, "c": {"y": 4}}
    assert [path for path, _, _ in differences(old, new)] == ["/b", "/c/y", "/a/x"]
