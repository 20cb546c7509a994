"""Reading YAML with positions, refusing what is dangerous, writing what all readers agree on."""

from __future__ import annotations

import json
import re

import helm_python
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from repository import Repository
from trainwright.datatypes.finding import Finding
from trainwright.documents import yamlio

REFUSED = {
    "duplicate key": (b"a: 1\nb: 2\na: 3\n", "TW002", (3, 1), "twice, first on line 1"),
    "nested duplicate": (b"a:\n  b: 1\n  b: 2\n", "TW002", (3, 3), '"b"'),
    "duplicate beside a merge key": (
        b"x: &x {a: 1}\ny:\n  <<: *x\n  b: 1\n  b: 2\n",
        "TW002",
        (5, 3),
        '"b"',
    ),
    "tab": (b"a:\n\tb: 1\n", "TW001", (2, 1), "a tab is here"),
    "not UTF-8": (b"a: 1\nb: \xff\n", "TW004", (2, 4), "0xff is not UTF-8"),
    "UTF-16": ("a: 1".encode("utf-16"), "TW004", (1, 1), "0xff"),
    "two documents": (b"a: 1\n---\nb: 2\n", "TW005", (3, 1), "second document"),
    "empty": (b"", "TW005", (1, 1), "empty"),
    "only a comment": (b"# nothing\n", "TW005", (1, 1), "empty"),
    "list": (b"- a\n", "TW005", (1, 1), "found a list"),
    "scalar": (b"hello\n", "TW005", (1, 1), "found a single value"),
    "number as key": (b"1: a\n", "TW005", (1, 1), "reads as a int"),
    "list as key": (b"? [a]\n: 1\n", "TW005", (1, 3), "plain string"),
    "mapping as key": (b"? a: 1\n: 1\n", "TW005", (1, 3), "plain string"),
    "template": (b"a:\n  b: {{IMAGE}}\n", "TW005", (2, 7), "a placeholder of a template"),
    "python tag": (b"a: !!python/object:os.system x\n", "TW003", (1, 4), "!!python/object:os"),
    "own tag": (b"a: !include b.yaml\n", "TW003", (1, 4), "!include"),
    "binary": (b"a: !!binary aGk=\n", "TW003", (1, 4), "!!binary"),
    "unknown alias": (b"a: *b\n", "TW001", (1, 4), "undefined alias"),
    "anchor in itself": (b"a: &a [*a]\n", "TW003", (1, 4), "nest more than 64"),
    "merge key in itself": (b"a: &a {<<: *a}\n", "TW003", (1, 4), "brings in itself"),
    "control character": (b"a: 1\nb: x\x07y\n", "TW001", (2, 5), "'\\x07'"),
    "escaped control character": (b'a: 1\nb: "x\\x7f"\n', "TW003", (2, 4), "'\\x7f'"),
    "no number": (b"a: !!int x\n", "TW001", (1, 4), "'x' is not a valid int"),
    "infinite number": (b"a: 1e999\n", "TW001", (1, 4), "not a finite number"),
    "syntax": (b"a: b: c\n", "TW001", (1, 5), "mapping values are not allowed"),
    "deep flow": (b"a: " + b"[" * 200_000, "TW003", (1, 67), "nest more than 64"),
    "deep block": (b"- " * 100_000, "TW003", (1, 129), "nest more than 64"),
    "a little too deep": (b"a: " + b"[" * 70 + b"]" * 70, "TW003", (1, 68), "nest more than 64"),
    "large": (b"a: " + b"x" * yamlio.MAX_BYTES, "TW003", (1, 1), "the limit is 262,144"),
}


# By what was written: where the mistake is, what the finding says of it, and its remedy.
MISTAKES = {
    "resources:\n  cpu: 1\nname: a\n  pool: h100\n": ((4, 3), "indented by 2 spaces", "by 0"),
    "resources:\n    cpu: 1\n  memory: 2\n": ((3, 3), "indented by 2 spaces", "by 0 or 4"),
    "env:\n  - a\n - b\n": ((3, 2), "indented by 1 spaces", "by 0 or 2"),
    "a:\n  - b\n  c: d\n": ((3, 3), "among the items of the list that begins on line 2", "- "),
    "a: b\nc: d\n- e\n": (
        (3, 1),
        "among the keys of the mapping that begins on line 1",
        "the dash",
    ),
    "a:\n  b: c\n  - e\n": ((3, 3), "among the keys of the mapping that begins on line 2", "dash"),
    "image: {repository: a, tag: b\nname: x\n": ((1, 8), '"{" is not closed', "`}`"),
    "name: x\nimage: {repository: a, tag: b\n": ((2, 8), '"{" is not closed', "`}`"),
    "words: [a, b\nname: x\nz: 1\n": ((1, 8), '"[" is not closed', "`]`"),
    "a: {b: [c}\n": ((1, 8), '"[" is not closed before "}"', "`]`"),
    "flags: {out: /c/${{ run.name }}, lr: 0.1}\n": (
        (1, 14),
        "/c/${{ run.name }} is in braces or brackets without quotes",
        'Write `out: "/c/${{ run.name }}"`.',
    ),
    "flags:\n  {lr: 0.1,\n  out: ${{ checkpoint.folder }}/x}\n": (
        (3, 8),
        "${{ checkpoint.folder }}/x is in braces",
        'Write `out: "${{ checkpoint.folder }}/x"`.',
    ),
    "args: [--out, ${{ run.name }}]\n": ((1, 15), "in braces", 'Write `"${{ run.name }}"`.'),
    'flags: {out: "${{ run.name }}", lr: 0.1\n': ((1, 8), '"{" is not closed', "`}`"),
    "a: {b: c}}\n": ((1, 10), '"}" closes nothing', "Remove it"),
    'name: "abc\npool: h100\n': ((1, 7), 'the quote " is not closed', "where the text ends"),
    "name: 'abc\npool: h100\n": ((1, 7), "the quote ' is not closed", "where the text ends"),
    'name: "abc\npool: "h100"\n': ((1, 7), "but by the one of line 2, column 7", "text ends"),
    "a: 'it's'\n": ((1, 8), "text follows a string that ' has closed", "twice"),
    'a: "x" y\n': ((1, 8), 'text follows a string that " has closed', '\\"'),
    "a:\n\tb: 1\n": ((2, 1), "a tab is here", "spaces, never tabs"),
    "a:\n  b: 1\n\tc: 1\n": ((3, 1), "a tab is here", "spaces, never tabs"),
    "name: x\npool:h100\nnodes: 2\n": ((2, 5), '"pool:h100" has no space', "`pool: h100`"),
    "name: x\npool:h100\n": ((2, 5), '"pool:h100" has no space', "`pool: h100`"),
    "name: x\npool:h100 # fast\n": ((2, 5), '"pool:h100" has no space', "`pool: h100`"),
    "pool:h100\nname: x\n": ((1, 5), '"pool:h100" has no space', "`pool: h100`"),
    "pool:h100\n\n# c\nname: x\n": ((1, 5), '"pool:h100" has no space', "`pool: h100`"),
    "resources:\n  cpu:1\n  memory: 2\n": ((2, 6), '"cpu:1" has no space', "`cpu: 1`"),
    "resources: {gpu:8, cpu: 4}\n": ((1, 13), '"gpu:8" has no space', "`gpu: 8`"),
    "resources: {cpu: 4, gpu:8}\n": ((1, 21), '"gpu:8" has no space', "`gpu: 8`"),
    "env: {A: b, C:d}\n": ((1, 13), '"C:d" has no space', "`C: d`"),
    "name: x\nnodes 2\npool: y\n": ((2, 1), '"nodes 2" has no colon', "`nodes: 2`"),
    "flags:\n  lr 0.1\n  epochs: 3\n": ((2, 3), '"lr 0.1" has no colon', "`lr: 0.1`"),
    "flags: {lr 0.1}\n": ((1, 9), '"lr 0.1" has no colon', "`lr: 0.1`"),
    "flags: {a: 1, lr 0.1, b: 2}\n": ((1, 15), '"lr 0.1" has no colon', "`lr: 0.1`"),
    "env: {LEVEL “info”}\n": ((1, 7), "has no colon", '`LEVEL: "info"`'),
    "flags: {lr: 0,1}\n": ((1, 9), 'the comma in "0,1" ends the value', "`lr: 0.1`"),
    "flags: {lr: 0,1, n: 3}\n": ((1, 9), 'the comma in "0,1" ends the value', '`lr: "0,1"`'),
    "flags: {lr: -0,5}\n": ((1, 9), 'the comma in "-0,5"', "`lr: -0.5`"),
    "flags: {steps: 1,000}\n": ((1, 9), 'the comma in "1,000"', "`steps: 1000` or `steps: 1.000`"),
    "env: {LEVEL: “info”}\n": ((1, 7), "curly quotes", '`LEVEL: "info"`'),
    "env: {LEVEL: \u2018info\u2019}\n": ((1, 7), "curly quotes", '`LEVEL: "info"`'),
    "env:\n  LEVEL: „a: b“\n".replace(": b", " b"): ((2, 3), "curly quotes", '`LEVEL: "a b"`'),
    "env:\n  “LEVEL”: info\n": ((2, 3), "curly quotes", "`LEVEL: info`"),
    "“env”: {A: b}\n": ((1, 1), "curly quotes", "`env:`"),
    "args: [“a”]\n": ((1, 8), "curly quotes", '`"a"`'),
    "env: {A: “x, y”}\n": ((1, 14), "quotes nothing", "begins and ends"),
    "a:\n  - x\n  -y\n": ((3, 3), '"-y" has no space behind its dash', "`- y`"),
    "description: this: that\n": ((1, 18), "a colon and a space", "`description: 'this: that'`"),
    "a: @x\n": ((1, 4), "cannot begin with @", "quotes"),
    "a: `x`\n": ((1, 4), "cannot begin with `", "quotes"),
    'a: "C:\\data"\n': ((1, 7), "begins an escape", "single quotes"),
    "a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> x\n": ((2, 1), "merge conflict", "marker"),
}


@pytest.mark.parametrize(("text", "expected"), MISTAKES.items())
def test_what_was_probably_meant(text: str, expected: tuple[tuple[int, int], str, str]) -> None:
    position, message, remedy = expected
    found = yamlio.parse("f.yaml", text.encode())
    assert isinstance(found, tuple)
    (finding,) = found
    assert finding.rule == "TW001"
    assert (finding.place.line, finding.place.column) == position, finding
    assert message in finding.message
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\npassword:hunter2hunter\n",
        "env: {a: 1, password:hunter2hunter}\n",
        "a: 1\npassword hunter2hunter\n",
        "password: this: hunter2hunter\n",
        "a: 1\ntoken:ghp_hunter2hunterabcdefghijklmnopqrstuvw\n",
        "password:hunter2hunter\n",
        "env: {a: 1, password hunter2hunter}\n",
        "env: {password: “hunter2hunter”}\n",
        "env: {“password”: hunter2hunter}\n",
        "env: [“ghp_hunter2hunterabcdefghijklmnopqrstuvw”]\n",
    ],
)
def test_no_remedy_repeats_a_secret(text: str) -> None:
    found = yamlio.parse("f.yaml", text.encode())
    assert isinstance(found, tuple)
    assert "hunter2hunter" not in f"{found[0].message} {found[0].remedy}"


@pytest.mark.parametrize(
    "text",
    [
        "a: [0,1]\n",
        "a: {lr: 0, b: 1}\n",
        "a: 0,1\n",
        "a: {lr: '0,1'}\n",
        "a: {dry_run}\n",
        "a: {'lr 0.1'}\n",
        "a: {lr 0.1: }\n",
        "a: '“quoted”'\n",
        "a: say “hello” to it\n",
        "a: “this” and “that” are it\n",
        "a: |\n  print(“x”)\n",
    ],
)
def test_what_is_meant_as_it_is_written(text: str) -> None:
    assert isinstance(yamlio.parse("f.yaml", text.encode()), yamlio.Document)


@given(st.text(alphabet="a:- \n\t{}[]'\"#|>@`%&*!<=\r\x85\u2028", max_size=40))
def test_every_mistake_is_at_a_place_of_the_text(text: str) -> None:
    found = yamlio.parse("f.yaml", text.encode())
    if isinstance(found, tuple):
        assert all(f.place.line <= len(text) + 1 and f.place.column > 0 for f in found)


def test_a_colon_without_a_space_alone() -> None:
    found = yamlio.parse("f.yaml", b"pool:h100\n")
    assert isinstance(found, tuple)
    assert "`pool: h100`" in found[0].remedy


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refuses(case: tuple[bytes, str, tuple[int, int], str]) -> None:
    raw, rule, position, text = case
    found = yamlio.parse("f.yaml", raw)
    assert isinstance(found, tuple)
    assert [f.rule for f in found] == [rule]
    assert text in found[0].message
    assert (found[0].place.file, found[0].place.line, found[0].place.column) == (
        "f.yaml",
        *position,
    )
    assert found[0].remedy


def test_anchors_that_expand_without_bound_are_refused() -> None:
    rows = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 9)]
    found = yamlio.parse("f.yaml", "\n".join(rows).encode())
    assert isinstance(found, tuple)
    assert "expand to more than 20,000 values" in found[0].message


def test_all_duplicates_are_shown_at_once() -> None:
    found = yamlio.parse("f.yaml", b"a: 1\na: 2\nb: {c: 1, c: 2}\n")
    assert isinstance(found, tuple)
    assert [(f.place.line, f.place.column) for f in found] == [(2, 1), (3, 11)]


SCALARS = {
    "yes": "yes",
    "no": "no",
    "on": "on",
    "true": True,
    "False": False,
    "~": None,
    "null": None,
    "12": 12,
    "-7": -7,
    "0x10": 16,
    "0o17": 15,
    "0123": "0123",
    "1_000": "1_000",
    "12:30": "12:30",
    "2026-01-01": "2026-01-01",
    "1e3": 1000.0,
    "1e-5": 1e-5,
    ".5": 0.5,
    "1.10": 1.1,
    ".inf": ".inf",
    ".nan": ".nan",
    "=": "=",
    "'12'": "12",
    '"x"': "x",
}


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_scalars_are_read_as_yaml_1_2_reads_them(text: str, value: object) -> None:
    document = yamlio.parse("f.yaml", f"a: {text}\n".encode())
    assert isinstance(document, yamlio.Document)
    assert document.data["a"] == value
    assert type(document.data["a"]) is type(value)


def test_every_value_knows_its_position() -> None:
    raw = b"a: 1\nb:\n  c: [x, {d: y}]\n  e/f: z\n"
    document = yamlio.parse("f.yaml", raw)
    assert isinstance(document, yamlio.Document)
    places = {p: (document.place(p).line, document.place(p).column) for p in document.places}
    assert places == {
        "": (1, 1),
        "/a": (1, 4),
        "/b": (3, 3),
        "/b/c": (3, 6),
        "/b/c/0": (3, 7),
        "/b/c/1": (3, 10),
        "/b/c/1/d": (3, 14),
        "/b/e~1f": (4, 8),
    }
    assert document.key_place("/b/e~1f").column == 3
    assert document.place("/b/c/7/nowhere") == document.place("/b/c")


def test_merge_keys_and_aliases_bring_values_with_the_position_of_the_anchor() -> None:
    document = yamlio.parse("f.yaml", b"x: &x\n  a: 1\n  b: 2\ny:\n  <<: *x\n  b: 3\n")
    assert isinstance(document, yamlio.Document)
    assert document.data["y"] == {"a": 1, "b": 3}
    assert document.place("/y/a").line == 2
    assert document.place("/y/b").line == 6


@given(st.binary(max_size=200))
def test_any_bytes_are_a_mapping_or_findings(raw: bytes) -> None:
    found = yamlio.parse("f.yaml", raw)
    if isinstance(found, yamlio.Document):
        assert isinstance(found.data, dict)
    else:
        assert found
        assert all(isinstance(f, Finding) and f.place.line >= 1 for f in found)


_text = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=20)
_tricky = st.sampled_from(
    ["yes", "y", "On", "1e3", "0x1f", "0o7", "0b1", "12:30", "1_0", "=", "<<", "~", "null", ".inf"]
    + ["", " ", "-", "1.", ".5", "+1", "2001-01-01", "#x", "a: b", "é", "0123", "!!x", "&a", "*a"]
    + ["1234e56", "True", "NaN", "\u2028", "\x7f", "\ufeff", "\t", "a\nb", "\\", '"', "'", "%", "@"]
)
_leaf = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _text | _tricky
    | st.floats(-1e15, 1e15)  # past 2**53 Go itself rounds
)  # fmt: skip
_data = st.recursive(
    _leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text | _tricky, inner)
)


@given(st.dictionaries(_text | _tricky, _data, max_size=5))
def test_what_is_written_is_read_back_the_same_by_every_reader(data: dict[str, object]) -> None:
    text = yamlio.dump(data)
    by_pyyaml = yaml.load(text, Loader=yaml.CSafeLoader)
    assert by_pyyaml == data
    assert _types(by_pyyaml) == _types(data)
    by_go = helm_python.values_from_yaml(text)
    assert _without_nulls_and_zero_sign(by_go) == _without_nulls_and_zero_sign(data)
    assert _string_paths(by_go) == _string_paths(data)


def _types(data: object) -> object:
    if isinstance(data, dict):
        return {key: _types(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_types(item) for item in data]
    return type(data)


def _without_nulls_and_zero_sign(data: object) -> object:
    if isinstance(data, dict):
        return {key: _without_nulls_and_zero_sign(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_without_nulls_and_zero_sign(item) for item in data]
    return data + 0 if isinstance(data, float) else data


def _string_paths(data: object, path: tuple[object, ...] = ()) -> set[tuple[object, ...]]:
    if isinstance(data, dict):
        return {p for key, value in data.items() for p in _string_paths(value, (*path, key))}
    if isinstance(data, list):
        return {p for i, value in enumerate(data) for p in _string_paths(value, (*path, i))}
    return {path} if isinstance(data, str) else set()


# --- what libyaml reads in another way than YAML 1.2 ---------------------------------------------

BREAKS = ["\x85", "\u2028", "\u2029"]
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_any_text = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=20)
_with_breaks = st.text(st.sampled_from([*BREAKS, " ", "a", "\n", "\t", "'", "\\", '"']), max_size=9)


def _read(text: str) -> object:
    document = yamlio.parse("f.yaml", text.encode())
    return document.data if isinstance(document, yamlio.Document) else document


@given(_any_text | _with_breaks)
def test_every_string_is_read_as_it_was_written_or_refused(value: str) -> None:
    data = {"a": value, "b": [value, "x"], "c": {"d": value}}
    with_escapes, as_is = json.dumps(data), json.dumps(data, ensure_ascii=False)
    texts = [yamlio.dump(data), yamlio.inline(data), f"k: {yamlio.inline(value)}", with_escapes]
    if not _CONTROLS.search(value):
        texts.append(as_is)
    for text in texts:
        found = _read(text)
        if _CONTROLS.search(value):
            assert isinstance(found, tuple)
            assert "control character" in found[0].message
        else:
            assert found == ({"k": value} if text.startswith("k: ") else data), text


_USUAL = (0x0000, 0x1000, 0x2000, 0xD000, 0xF000, 0x1F000)  # in every run; the others take long
# Planes 4 to 13 have no character yet, 15 and 16 private ones: their ends stand for all of them.
_PLANES = [0x0, 0x1, 0x2, 0x3, 0xE]
_BLOCKS = [
    first
    for first in range(0, 0x110000, 0x1000)
    if first >> 16 in _PLANES or first & 0xFFFF in (0, 0xF000)
]


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[] if first in _USUAL else pytest.mark.slow, id=f"U+{first:04X}")
        for first in _BLOCKS
    ],
)
def test_every_character_is_written_so_that_all_read_it(first: int) -> None:
    """In the middle of words, between blanks and at both ends."""
    codes = (code for code in range(first, first + 0x1000) if not 0xD800 <= code < 0xE000)
    values = [form.replace("@", chr(code)) for code in codes for form in ("@ a@b @ c @", " @ ")]
    text = yamlio.dump({"k": values})
    assert yaml.load(text, Loader=yaml.CSafeLoader) == {"k": values}
    assert helm_python.values_from_yaml(text) == {"k": values}
    assert yamlio.load_rendered(text) == [{"k": values}]
    possible = [value for value in values if not _CONTROLS.search(value)]
    for start in range(0, len(possible), 2048):  # a spec may have 256 KiB
        part = {"k": possible[start : start + 2048]}
        assert _read(yamlio.dump(part)) == part


@pytest.mark.parametrize("between", BREAKS[1:])
@pytest.mark.parametrize("form", ["{}", "'{}'", '"{}"', "|-\n  {}", ">-\n  {}", "[{}]", "!!str {}"])
def test_separators_of_unicode_are_content(form: str, between: str) -> None:
    value = f"a {between} b{between}c"
    found = _read(f"k: {form.format(value)}\nz: 1\n")
    assert found == {"k": [value] if form == "[{}]" else value, "z": 1}
    document = yamlio.parse("f.yaml", f"k: {form.format(value)}\nz: 1\n".encode())
    assert document.key_place("/z").line == 3 + form.count("\n") - 1


@pytest.mark.parametrize("form", ["{}", "'{}'", '"{}"', "|-\n  {}"])
def test_the_next_line_character_is_refused_where_it_stands(form: str) -> None:
    (found,) = _read(f"a: 1\nk: {form.format('x y' + BREAKS[0] + 'z')}\n")
    assert "control character '\\x85'" in found.message
    assert found.place.line == 2


PAIRS = {
    r'{"a": "\ud83d\ude00", "b": 1}': {"a": "\U0001f600", "b": 1},
    r'{"\uD83D\uDE00": ["x\ud83d\ude00\ud83d\ude01y"]}': {"\U0001f600": ["x\U0001f600\U0001f601y"]},
    'a: "x \\ud83d\\ude00\n  y"\nb: 2': {"a": "x \U0001f600 y", "b": 2},
    'a: &x "\\ud83d\\ude00"\nb: *x': {"a": "\U0001f600", "b": "\U0001f600"},
    'a: !!str "\\ud83d\\ude00"': {"a": "\U0001f600"},
    r'a: "\\ud83d\\ude00"': {"a": r"\ud83d\ude00"},
    r'a: "\\\ud83d\ude00"': {"a": "\\\U0001f600"},
    r"a: '\ud83d\ude00'": {"a": r"\ud83d\ude00"},
    r"a: \ud83d\ude00": {"a": r"\ud83d\ude00"},
    'a: |-\n  x = "\\ud83d\\ude00"\nb: "\\ud83d\\ude00"': {
        "a": r'x = "\ud83d\ude00"',
        "b": "\U0001f600",
    },
    r'{"a": "\u00e9\n\ud83d\ude00\u2028"}': {"a": "\xe9\n\U0001f600\u2028"},
    '\ufeff{"a": "\\ud83d\\ude00"}': {"a": "\U0001f600"},
}


@pytest.mark.parametrize(("text", "wanted"), PAIRS.items(), ids=range(len(PAIRS)))
def test_a_character_in_two_escapes_is_one(text: str, wanted: object) -> None:
    assert _read(text) == wanted


def test_a_character_in_two_escapes_moves_nothing() -> None:
    document = yamlio.parse("f.yaml", rb'{"a": "\ud83d\ude00", "b": [1, "\ud83d\ude00", 2]}')
    assert isinstance(document, yamlio.Document)
    assert document.place("/b/2").column == 48
    assert document.key_place("/b").column == 23


@pytest.mark.parametrize(
    "half", [r"\ud83d", r"\ude00", r"\ud83dx\ude00", r"\ude00\ud83d", r"\ud83d\n"]
)
def test_half_a_character_is_refused_by_name(half: str) -> None:
    (found,) = _read(f'a: 1\nb: ["x", "y{half}"]\n')
    assert found.rule == "TW004"
    assert "is half of a character" in found.message
    assert (found.place.line, found.place.column) == (2, 12)


def test_a_great_many_pairs_are_read_at_once() -> None:
    items = [rf'"\ud83d\ude{n % 64:02x}"' for n in range(10_000)]
    found = _read(f'{{"a": [{", ".join(items)}]}}')
    assert isinstance(found, dict)
    assert len(found["a"]) == 10_000


def test_manifests_in_json_have_pairs_too() -> None:
    raw = rb'{"a": "\ud83d\ude00"}'
    (document,) = yamlio.documents("f.yaml", raw, yamlio.CORE)
    assert isinstance(document, yamlio.Document)
    assert document.data == {"a": "\U0001f600"}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("image: {repository:a, tag: b}\n", "`repository: a`"),
        ("resources:\n  cpu:1\n", "`cpu: 1`"),
        ("tolerations: [key:a]\n", "`key: a`"),
        ("nodes:2\n", "`nodes: 2`"),
    ],
)
def test_a_colon_without_a_space_where_it_is_yaml(
    text: str, meant: str, repository: Repository
) -> None:
    """In braces, or alone below a key, it is a word like any other."""
    lines = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: new\nextends: prod/llm\n"
    repository.write("prod/jobs/new.yaml", lines + text)
    done = repository.run("check", "prod/new")
    assert meant in done.stdout, done.output
