"""The one merge rule, and the line that set each value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.datatypes.pointer import leaves, lookup
from trainwright.documents import yamlio
from trainwright.specs.merge import Layer, merge, stack

# The examples of RFC 7396, appendix A.
RFC_7396 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("below", "above", "result"), RFC_7396)
def test_merges_as_rfc_7396_does(below: object, above: object, result: object) -> None:
    assert merge(below, above) == result


_text = st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Cn")), max_size=3)
_json = st.recursive(
    st.none() | st.integers() | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=12,
)
_mapping = st.dictionaries(st.sampled_from("abc"), _json)


@given(_mapping, _mapping)
def test_inputs_are_left_alone_and_merging_again_changes_nothing(
    below: dict[str, object], above: dict[str, object]
) -> None:
    before = repr((below, above))
    once = merge(below, above)
    assert repr((below, above)) == before
    assert merge(once, above) == once


def _layer(label: str, text: str) -> Layer:
    document = yamlio.parse(f"{label}.yaml", text.encode())
    assert isinstance(document, yamlio.Document)
    return Layer(label, document)


def test_each_leaf_comes_from_the_topmost_layer_that_wrote_it() -> None:
    spec = stack(
        (
            _layer("low", "image: {repository: r, tag: '1'}\nflags: {a: 1, b: 2}\nlist: [1, 2]\n"),
            _layer("mid", "image:\n  tag: '2'\nflags: null\n"),
            _layer("top", "list: [3]\nflags: {c: 3}\n"),
        )
    )
    assert spec.data == {"image": {"repository": "r", "tag": "2"}, "list": [3], "flags": {"c": 3}}
    origins = {pointer: str(spec.origin(pointer)) for pointer, _ in leaves(spec.data)}
    assert origins == {
        "/image/repository": "low.yaml:1:21",
        "/image/tag": "mid.yaml:2:8",
        "/list": "top.yaml:1:7",
        "/flags/c": "top.yaml:2:12",
    }
    assert str(spec.origin("/list/0")) == "top.yaml:1:8"
    assert [(layer.label, value) for layer, value in spec.history("/image/tag")] == [
        ("mid", "2"),
        ("low", "1"),
    ]
    assert [(layer.label, value) for layer, value in spec.history("/flags")] == [
        ("top", {"c": 3}),
        ("mid", None),
        ("low", {"a": 1, "b": 2}),
    ]


@given(st.lists(_mapping, min_size=1, max_size=4))
def test_editing_the_cited_position_changes_exactly_that_leaf(
    contents: list[dict[str, object]],
) -> None:
    """The self-proof of provenance: change what the origin names, and only that leaf changes."""
    texts = [yamlio.dump(content) for content in contents]
    spec = stack(tuple(_layer(f"l{i}", text) for i, text in enumerate(texts)))
    for pointer, value in leaves(spec.data):
        if isinstance(value, dict | list):
            continue
        layer = spec.setter(pointer)
        at = spec.origin(pointer)
        assert lookup(layer.data, pointer) == value
        index = spec.layers.index(layer)
        lines = texts[index].split("\n")
        line = lines[at.line - 1]
        edited = [*lines]
        edited[at.line - 1] = line[: at.column - 1] + '"EDITED"'
        changed = [*texts]
        changed[index] = "\n".join(edited)
        again = stack(tuple(_layer(f"l{i}", text) for i, text in enumerate(changed)))
        before, after = dict(leaves(spec.data)), dict(leaves(again.data))
        assert after.pop(pointer) == "EDITED"
        before.pop(pointer)
        assert after == before
