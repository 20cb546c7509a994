"""One value changed in a file, and every other byte as it was."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.datatypes.pointer import leaves
from trainwright.documents import editing, yamlio
from trainwright.documents.editing import EditError

ROOT = Path(__file__).parents[3]
NOTE = "set by a test"


def put(text: str, pointer: str, value: object, note: str = "") -> str:
    return editing.put("a.yaml", text.encode(), pointer, value, note=note).decode()


def drop(text: str, pointer: str) -> str:
    return editing.drop("a.yaml", text.encode(), pointer).decode()


SET = [
    # a scalar in place, with its comment, its quotes and its spaces
    ("state:   active  # why\nb: 1\n", "/state", "suspended", "state:   suspended  # why\nb: 1\n"),
    ('a: "x"\n', "/a", "y", 'a: "y"\n'),
    ("a: 'x'\n", "/a", "it's", "a: 'it''s'\n"),
    ("a: x\n", "/a", "1234567", 'a: "1234567"\n'),
    ("a: x\n", "/a", "0e12", 'a: "0e12"\n'),
    ("a: 1\n", "/a", 2, "a: 2\n"),
    ("a:\nb: 1\n", "/a", 2, "a: 2\nb: 1\n"),
    ("a: null # none\n", "/a", 2, "a: 2 # none\n"),
    ("a: 1", "/a", 2, "a: 2"),
    ("a: 1\r\nb: 2\r\n", "/a", 3, "a: 3\r\nb: 2\r\n"),
    ("\ufeffa: 1\nb: 2\n", "/b", 3, "\ufeffa: 1\nb: 3\n"),
    ("ü: ä\n# ö\nb: 2\n", "/b", "é", 'ü: ä\n# ö\nb: "é"\n'),
    # inside mappings
    ("a: {b: 1,   c: 2} # k\n", "/a/b", 3, "a: {b: 3,   c: 2} # k\n"),
    ("a: {b: 1,   c: 2} # k\n", "/a/d", 3, "a: {b: 1,   c: 2, d: 3} # k\n"),
    ("a: {}\n", "/a/d", 3, "a: {d: 3}\n"),
    ("a: {b: 1,}\n", "/a/d", 3, "a: {b: 1, d: 3,}\n"),
    ("a:\n    b: 1 # k\n    # tail\n\nc: 1\n", "/a/d", 3, "a:\n    b: 1 # k\n    d: 3\n    # tail\n\nc: 1\n"),
    ("a:\n  b:\n    c: 1\nd: 1\n", "/a/e", 3, "a:\n  b:\n    c: 1\n  e: 3\nd: 1\n"),
    ("a: 1\n", "/b/c", "sha256:0", 'a: 1\nb: {c: "sha256:0"}\n'),
    ("a: 1\nb:\n", "/b/c", 1, "a: 1\nb: {c: 1}\n"),
    ("a: 1\n", "/b~1c", 1, "a: 1\nb/c: 1\n"),
    # added behind the last value
    ("a: 1\n\n# the end\n", "/b", 2, "a: 1\nb: 2\n\n# the end\n"),
    ("a: 1", "/b", 2, "a: 1\nb: 2"),
    ("a: 1\r\n", "/b", 2, "a: 1\r\nb: 2\r\n"),
    ("a: |\n  x\n  y\n", "/b", 2, "a: |\n  x\n  y\nb: 2\n"),
    ("a:\n- 1\n- 2\n", "/b", 2, "a:\n- 1\n- 2\nb: 2\n"),
    ("a: 1\nb: |+\n  x\n\n\n", "/c", 2, "a: 1\nb: |+\n  x\n\n\nc: 2\n"),
    # a text that is open to what follows it: before it
    ("a: 1\nb: |\n  x", "/c", 2, "a: 1\nc: 2\nb: |\n  x"),
    # merge keys and aliases stay
    ("a: &x {s: 1}\n<<: *x\n", "/s", 2, "a: &x {s: 1}\n<<: *x\ns: 2\n"),
    ("a: &x 1\nb: *x\n", "/c", 2, "a: &x 1\nb: *x\nc: 2\n"),
    # lists and literal blocks
    ("a:\n  - 1 # k\n  - 2\nb: 1\n", "/a", ["x", "2"], 'a: [x, "2"]\nb: 1\n'),
    ("a: |\n  x\n  y\nb: 1\n", "/a", "q\nr\n", "a: |\n  q\n  r\nb: 1\n"),
    ("a: |\n  x\n\n# c\nb: 1\n", "/a", "q", "a: q\n\n# c\nb: 1\n"),
    ("e:\n    a: |\n        x\n    b: 1\n", "/e/a", "q\n\nr\n", "e:\n    a: |\n      q\n\n      r\n    b: 1\n"),
    ("e: {a: x}\n", "/e/a", "q\nr\n", 'e: {a: "q\\nr\\n"}\n'),
]  # fmt: skip


@pytest.mark.parametrize(("before", "pointer", "value", "after"), SET)
def test_put(before: str, pointer: str, value: object, after: str) -> None:
    assert put(before, pointer, value) == after


DROPPED = [
    ("a: 1\nb: 2 # k\nc: 3\n", "/b", "a: 1\nc: 3\n"),
    ("a: 1\nb: 2", "/b", "a: 1"),
    ("a: 1\r\nb: 2", "/b", "a: 1"),
    ("a: 1\nb:\n  c: 1\n  # tail\nd: 1\n", "/b", "a: 1\n  # tail\nd: 1\n"),
    ("a: {b: 1, c: 2,  d: 3}\n", "/a/c", "a: {b: 1,  d: 3}\n"),
    ("a: {b: 1, c: 2}\n", "/a/b", "a: {c: 2}\n"),
    ("a: {b: 1}\n", "/a/b", "a: {}\n"),
    ("a: {b: 1, c: 2}\n", "/a/c", "a: {b: 1}\n"),
    ("a: 1\nb:\n  c: 1\nd: 1\n", "/b/c", "a: 1\nd: 1\n"),
    ("a: 1\nb: {c: {d: 1}}\n", "/b/c/d", "a: 1\nb: {c: {}}\n"),
]


@pytest.mark.parametrize(("before", "pointer", "after"), DROPPED)
def test_drop(before: str, pointer: str, after: str) -> None:
    assert drop(before, pointer) == after


REFUSED = [
    ("a: &x 1\nb: *x\n", "/a", "a cannot be set here alone; write 2 by hand"),
    ("a: &x 1\nb: *x\n", "/b", "b cannot be set here alone"),
    ("a: &x {c: 1}\nb: *x\n", "/b/c", r"b\.c cannot be set here alone"),
    ("a: !!str 1\n", "/a", "a.yaml:1:4|a cannot be set"),
    ("a: [\n", "/a", r"a.yaml:2:1: .*; run `trainwright check`"),
    ("a: 1\na: 2\n", "/a", "a.yaml:2:1: the key"),
]


@pytest.mark.parametrize(("text", "pointer", "message"), REFUSED)
def test_what_cannot_be_edited_alone_is_refused(text: str, pointer: str, message: str) -> None:
    with pytest.raises(EditError, match=message):
        put(text, pointer, 2)


FILES = [
    path
    for pattern in ("environments/**/*.yaml", "tests/golden/*/input/**/*.yaml")
    for path in sorted(ROOT.glob(pattern))
    if path.is_file()
    and "rendered" not in path.parts
    and isinstance(yamlio.parse("", path.read_bytes()), yamlio.Document)
]


def test_every_value_of_every_spec_can_be_changed_in_its_own_lines() -> None:
    assert len(FILES) > 100
    changed = 0
    for path in FILES:
        raw = path.read_bytes()
        document = yamlio.parse("", raw)
        assert isinstance(document, yamlio.Document)
        for pointer, value in leaves(document.data):
            if "/" in pointer and isinstance(value, str | int) and "\n" not in str(value):
                if any(part.isdigit() for part in pointer.split("/")):
                    continue  # inside a list
                try:
                    after = editing.put("", raw, pointer, "other 1")
                except EditError:
                    assert b"&" in raw or b"*" in raw or b"<<" in raw, (path, pointer)
                    continue
                assert touched(raw, after) <= (1, 1), (path, pointer)
                changed += 1
    assert changed > 800


def test_a_key_that_is_added_and_dropped_leaves_no_trace() -> None:
    for path in FILES:
        for raw in variants(path.read_bytes()):
            added = editing.put("", raw, "/probe", "suspended", note=NOTE)
            assert editing.note(added, "/probe") == NOTE
            assert touched(raw, added)[0] <= 1
            assert editing.drop("", added, "/probe") == raw, path


def variants(raw: bytes) -> list[bytes]:
    """As people's editors leave files."""
    bare = raw.rstrip(b"\n")
    return [raw, bare, raw.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + raw, raw + b"\n\n# the end\n"]


def touched(before: bytes, after: bytes) -> tuple[int, int]:
    """How many lines are removed, and how many added."""
    old, new = (text.decode().splitlines() for text in (before, after))
    lines = list(difflib.unified_diff(old, new, n=0))[2:]
    return sum(x.startswith("-") for x in lines), sum(x.startswith("+") for x in lines)


FLOWS = ["{a: 1}", "{a: 1,}", "{}", '{\n  "a": 1\n}\n', "{a: 1, b: {c: 2}} # k\n", "{a: [1, 2]\n}"]


@pytest.mark.parametrize("text", FLOWS)
def test_a_file_that_is_one_flow_mapping(text: str) -> None:
    added = put(text, "/state", "suspended", NOTE)
    assert editing.note(added.encode(), "/state") == NOTE
    assert drop(added, "/state") == text


scalars = st.one_of(
    st.integers(-5, 5), st.booleans(), st.text(max_size=12), st.sampled_from(["x", "1.0", "no", "a: b", "# x", "'", '"'])
)  # fmt: skip
keys = st.sampled_from(["a", "b", "c/d", "e~f", "on", "1", "ü"])
data = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(scalars, max_size=3), st.dictionaries(keys, inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(keys, data, min_size=1, max_size=4), keys, keys, scalars, st.booleans())
def test_whatever_is_set_reads_as_what_was_meant_or_is_refused(
    before: dict[str, object], key: str, inner: str, value: object, nested: bool
) -> None:
    raw = yamlio.dump(before).encode()
    if not isinstance(yamlio.parse("", raw), yamlio.Document):
        return  # control characters
    pointer = "".join(
        f"/{k.replace('~', '~0').replace('/', '~1')}" for k in ((key, inner) if nested else (key,))
    )
    try:
        after = yamlio.parse("", editing.put("", raw, pointer, value))
    except EditError:
        assert isinstance(value, str)
        assert not value.isprintable()
        return
    assert isinstance(after, yamlio.Document)
    expected: dict[str, object] = dict(before)
    if nested:
        below = before.get(key)
        expected[key] = {**(below if isinstance(below, dict) else {}), inner: value}
    else:
        expected[key] = value
    assert after.data == expected
