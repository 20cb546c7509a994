"""JSON pointers, how people read and type them, and that findings and `explain` keep to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repository import Repository
from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SelectionError
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import (
    Pointer,
    holders,
    leaves,
    lookup,
    mapped,
    matching,
    with_value,
    without,
    without_value,
)
from trainwright.documents import yamlio
from trainwright.documents.yamlio import Document
from trainwright.files.tree import Folder
from trainwright.specs import explain, load
from trainwright.specs.merge import Layer, stack

HOSTILE = [
    "hub.token", "example.com/team", "a/b", "~", "~1", "~01", "a~0b", "/", "//", ".", "..", "a..b",
    "", " ", "a b", "[0]", "a[0]", "a]b", 'a"b', "a'b", "'", '"', "\\", 'a\\"]', "0", "²", "é", "#",
    "a: b", "- a", "/labels/team", 'labels["a"]', "x" * 300, "\t", "\U0001f600",
]  # fmt: skip
KEYS = st.sampled_from(HOSTILE) | st.text(
    st.characters(
        exclude_categories=("Cc", "Cs"), exclude_characters="\u2028\u2029\ufeff\ufffe\uffff"
    ),
    max_size=8,
)


# The examples of https://www.rfc-editor.org/rfc/rfc6901#section-5
RFC: Data = {
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6,
    " ": 7, "m~n": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", RFC), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/c%d", 2),
        ("/e^f", 3), ("/g|h", 4), ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8),
        ("/foo/-", None), ("/foo/01", None), ("/foo/²", None), ("/foo/2", None), ("/none", None),
    ],
)  # fmt: skip
def test_a_pointer_finds_what_the_rfc_says(text: str, value: Data) -> None:
    assert lookup(RFC, Pointer.parse(text)) == value


@pytest.mark.parametrize("text", ["a", "a/b", "/~", "/~2", "/a~"])
def test_what_is_not_a_pointer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a JSON pointer"):
        Pointer.parse(text)


@given(st.lists(KEYS, max_size=5))
def test_a_pointer_is_its_keys(keys: list[str]) -> None:
    pointer = Pointer.of(*keys)
    assert pointer.parts == tuple(keys)
    assert Pointer.parse(str(pointer)) == pointer
    assert json.loads(json.dumps(pointer)) == pointer
    for key in keys:
        assert (pointer / key).parts == (*keys, key)
        assert (pointer / key).parent == pointer
        assert (pointer / key).last == key
        assert (pointer / key).within(pointer)


@pytest.mark.parametrize(
    ("pointer", "dotted"),
    [
        ("", ""),
        ("/image/tag", "image.tag"),
        ("/entrypoint/argv/0", "entrypoint.argv.0"),
        ("/labels/example.com~1team", 'labels["example.com/team"]'),
        ("/flags/hub.token", 'flags["hub.token"]'),
        ("/resources/extended/rdma~1ib", "resources.extended.rdma/ib"),
        ("/a.b/c", '["a.b"].c'),
        ("/a/", 'a[""]'),
        ("/a/\u202e", 'a["\\u202e"]'),
    ],
)
def test_people_read_keys_between_dots_or_in_brackets(pointer: str, dotted: str) -> None:
    assert Pointer(pointer).dotted == dotted


def _layer(label: str, data: Data) -> Layer:
    document = yamlio.parse(f"{label}.yaml", yamlio.dump(data).encode())
    assert isinstance(document, Document), document
    return Layer(label, document)


MAPS = st.recursive(
    st.integers() | st.text("ab", max_size=2) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(KEYS, MAPS, min_size=1, max_size=4), min_size=1, max_size=3))
def test_explain_takes_what_it_prints(layers: list[dict[str, Any]]) -> None:
    spec = stack(tuple(_layer(f"l{n}", data) for n, data in enumerate(layers)))
    for pointer, value in leaves(spec.data):
        for typed in (pointer.dotted, pointer):
            if typed:
                assert explain.named(spec, typed) == pointer
        if pointer:
            (found,) = explain.explain(spec, pointer.dotted)
            assert (found.pointer, found.value) == (pointer, value)


@pytest.mark.parametrize(
    ("typed", "pointer"),
    [
        ("labels.example.com/team", "/labels/example.com~1team"),
        ('labels["example.com/team"]', "/labels/example.com~1team"),
        ("labels['example.com/team']", "/labels/example.com~1team"),
        ("labels[example.com/team]", "/labels/example.com~1team"),
        ("/labels/example.com~1team", "/labels/example.com~1team"),
        ("flags.hub.token", "/flags/hub.token"),
        ("flags.a[0]", "/flags/a[0]"),
        ("affinity.a.b", "/affinity/a/b"),
        ('affinity["a.b"]', "/affinity/a.b"),
        ("affinity.a.b.c", "/affinity/a/b.c"),
    ],
)
def test_keys_with_dots_are_found_as_people_type_them(typed: str, pointer: str) -> None:
    data = {
        "labels": {"example.com/team": "x"},
        "flags": {"hub.token": 1, "a[0]": 2},
        "affinity": {"a": {"b": 1, "b.c": 3}, "a.b": 2},
    }
    assert explain.named(stack((_layer("job", data),)), typed) == pointer


def test_what_may_be_several_keys_names_them_all() -> None:
    spec = stack((_layer("job", {"a.b": {"c": 1}, "a": {"b.c": 2}}),))
    with pytest.raises(SelectionError) as refused:
        explain.named(spec, "a.b.c")
    assert 'a["b.c"] or ["a.b"].c' in str(refused.value)
    assert explain.named(spec, 'a["b.c"]') == "/a/b.c"


# --- the lines that findings name ----------------------------------------------------------------

FREE = {
    "flags": "1", "env": "x", "labels": "x", "annotations": "x", "nodeSelector": "x",
    "resources/extended": 1, "volumes": {"claim": "x", "mountPath": "/x"},
    "secrets": {"name": "x", "key": "y"}, "waivers": {"reason": "because", "until": "2027-01-01"},
}  # fmt: skip


def _written(field: str, keys: list[str], value: Data) -> tuple[str, dict[str, int]]:
    """A job with these keys in a field, one a line, and the line of each."""
    above, _, name = field.rpartition("/")
    lines = ["apiVersion: trainwright.io/v1alpha1", "kind: JobSpec", "name: x"]
    lines += [f"{above}:", f"  {name}:"] if above else [f"{name}:"]
    at = {}
    for key in keys:
        lines.append(f"    {yamlio.inline(key)}: {yamlio.inline(value)}")
        at[key] = len(lines)
    return "\n".join(lines) + "\n", at


@given(st.lists(KEYS, min_size=1, max_size=4))
def test_what_is_set_is_found_and_can_be_removed(keys: list[str]) -> None:
    pointer, before = Pointer.of(*keys), {"other": [{"a": 1}]}
    after = with_value(before, pointer, "value")
    assert lookup(after, pointer) == "value"
    assert before == {"other": [{"a": 1}]}
    gone = without_value(after, pointer)
    assert lookup(gone, pointer) is None
    assert without_value(gone, pointer) == gone


@pytest.mark.parametrize(
    ("pointer", "set_", "removed"),
    [
        ("/a/0", {"a": ["x", 2]}, {"a": [2]}),
        ("/a/2", {"a": [1, 2, "x"]}, {"a": [1, 2]}),
        ("/a/2/b", {"a": [1, 2, {"b": "x"}]}, {"a": [1, 2]}),
        ("/a/5", {"a": {"5": "x"}}, {"a": [1, 2]}),
        ("/a/b", {"a": {"b": "x"}}, {"a": [1, 2]}),
        ("/b/c", {"a": [1, 2], "b": {"c": "x"}}, {"a": [1, 2]}),
        ("/a", {"a": "x"}, {}),
    ],
)
def test_items_of_lists_are_set_and_removed(pointer: str, set_: Data, removed: Data) -> None:
    data = {"a": [1, 2]}
    assert with_value(data, Pointer(pointer), "x") == set_
    assert without_value(data, Pointer(pointer)) == removed


def test_mappings_that_a_removal_empties_go_with_it() -> None:
    data = {"a": {"b": {"c": 1}}, "d": {"e": {"f": 1}, "g": 2}}
    assert without_value(data, Pointer("/a/b/c"), prune=True) == {"d": data["d"]}
    assert without_value(data, Pointer("/d/e/f"), prune=True) == {"a": data["a"], "d": {"g": 2}}
    assert without_value(data, Pointer("/a/b/c")) == {"a": {"b": {}}, "d": data["d"]}


@pytest.mark.parametrize("pointer", ["/a/b", "/a/b/c", "/d/x", "/d/e"])
def test_mappings_that_were_empty_before_stay(pointer: str) -> None:
    data = {"a": {}, "d": {"e": 1, "f": {}}}
    without = {**data, "d": {"f": {}}} if pointer == "/d/e" else data
    assert without_value(data, Pointer(pointer), prune=True) == without


def test_a_pattern_has_every_value_that_is_there() -> None:
    data = {"a": [{"n": 1}, {"m": 2}, 3], "b": {"x/y": {"n": 4}}}
    assert matching(data, "/*/*/n") == [("/a/0/n", 1), ("/b/x~1y/n", 4)]
    assert matching(data, "/a/1/m") == []  # an index is a * alone, since lists are of any length
    assert matching(data, "") == [("", data)]


@given(st.sampled_from(sorted(FREE)), st.lists(KEYS, min_size=1, max_size=4, unique=True))
def test_findings_about_keys_are_at_their_lines(
    repository: Repository, field: str, keys: list[str]
) -> None:
    text, at = _written(field, keys, {"wrong": []})
    repository.write("prod/jobs/x.yaml", text)
    loaded = load.Reader(Folder(repository.root)).job(JobFile("prod", "x"))
    above = Pointer.of(*field.split("/"))
    named = {
        f.path.parts[len(above.parts)]: f
        for f in loaded.findings
        if f.path.within(above) and f.path != above
    }
    assert set(named) == set(keys), loaded.findings
    for key, finding in named.items():
        assert finding.place.line == at[key], finding


def test_every_mapping_is_found_with_its_pointer() -> None:
    data = {"a": [{"b": {}}, 1], "c/d": {"e": [[{"f": 2}]]}}
    found = dict(holders(data))
    assert list(found) == ["", "/a/0", "/a/0/b", "/c~1d", "/c~1d/e/0/0"]
    assert all(lookup(data, at) == holder for at, holder in found.items())


def test_data_is_changed_and_left_out_at_any_depth() -> None:
    data = {"a": [{"b": None, "c": "x"}, ("y", 2)], "b": {"c": None}}
    assert mapped(data, lambda item: f"<{item}>") == {
        "a": [{"b": "<None>", "c": "<x>"}, ("<y>", "<2>")],
        "b": {"c": "<None>"},
    }
    assert without(data, lambda _, value: value is None) == {
        "a": [{"c": "x"}, ("y", 2)],
        "b": {},
    }
    assert without(data, lambda key, _: key == "b") == {"a": [{"c": "x"}, ("y", 2)]}
