"""Scalars as kubectl reads them: each expectation is goyaml.v2's own `resolve`."""

from __future__ import annotations

import pytest

from trainwright.datatypes.data import Data
from trainwright.documents import yamlio
from trainwright.documents.dialect import GO
from trainwright.documents.yamlio import Document


def _read(text: str) -> Data:
    (found,) = yamlio.documents("f.yaml", text.encode(), GO)
    return found.data if isinstance(found, Document) else found[0].message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("On", True),
        ("y", True),
        ("N", False),
        ("off", False),
        ("yES", "yES"),
        ("true", True),
        ("~", None),
        ("", None),
        ("Null", None),
        ("0123", 83),
        ("0o17", 15),
        ("08", 8),  # no octal number, so a float, which JSON writes as 8
        ("0b101", 5),
        ("0x1F", 31),
        ("-0x10", -16),
        ("1_000", 1000),
        ("+7", 7),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2**64),  # beyond 64 bits a float, without a fraction
        ("1e3", 1000),
        ("3.0", 3),
        ("1.", 1),
        (".5", 0.5),
        ("1e30", 1e30),
        ("12:30", "12:30"),
        ("2026-01-01", "2026-01-01"),
        ("1.2.3", "1.2.3"),
        ("64Gi", "64Gi"),
        ("0x", "0x"),
        ("'yes'", "yes"),
        ("!!str 1", "1"),
        ("!!float 1", 1),
        ("<<", "<<"),
        ('"a\\u0001b"', "a\x01b"),  # JSON can carry it, so the API can
    ],
)
def test_scalars(text: str, value: Data) -> None:
    read = _read(f"a: {text}")["a"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("key", "string"), [("on", "true"), ("no", "false"), ("1", "1"), ("0x10", "16"), ("1.5", "1.5")]
)
def test_keys_become_strings(key: str, string: str) -> None:
    assert _read(f"{key}: x") == {string: "x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: .inf", ".inf is not a finite number"),
        ("a: -.NaN", "-.NaN"),
        ("a: !!bool maybe", "'maybe' is not a valid bool"),
        ("a: !go x", "the tag !go is not allowed"),
        ("~: x", "the key '~' reads as a null, not as a string"),
        ("a: 1\non: 2\ntrue: 3", 'the key "true" is here twice, first on line 2'),
    ],
)
def test_what_json_cannot_carry(text: str, message: str) -> None:
    read = _read(text)
    assert read == message or read == {"a": message}


def test_merge_keys_and_aliases_are_expanded() -> None:
    read = _read("base: &b {x: 1, z: no}\nown: {<<: *b, x: 2}\nsame: *b")
    assert read["own"] == {"x": 2, "z": False}
    assert read["same"] == {"x": 1, "z": False}


def test_aliases_cannot_become_a_gigabyte() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(9)
    )
    assert "aliases expand to more than" in _read(bomb)
