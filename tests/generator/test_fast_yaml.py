"""The fast reader says what the careful one says, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import settings

from mutated import documents, mutations
from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding
from trainwright.documents import fast_yaml, yamlio
from trainwright.documents.dialect import GO
from trainwright.documents.yamlio import Document

pytest.importorskip("yaml_rs")


def _said(document: Document | tuple[Finding, ...]) -> Data:
    return document.data if isinstance(document, Document) else document[0].message


def _agree(text: str) -> bool:
    """Whether the fast reader dared; what it read must then be what the careful one reads."""
    read = fast_yaml.read(text.encode())
    if read is None:
        return False
    found = [*yamlio.documents("f.yaml", text.encode(), GO)]
    expected = [read[0]] if found or read[0] is not None else []
    careful = [_said(document) for document in found]
    assert repr(careful) == repr(expected), text  # repr, since True == 1 and 1 == 1.0
    return True


def test_it_dares_what_the_chart_renders() -> None:
    dared = {text: _agree(text) for text in documents()}
    objects = [dares for text, dares in dared.items() if "kind: Kustomization" not in text]
    assert sum(objects) > 0.95 * len(objects)  # lists in brackets over several lines are left


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_about_mutated_documents(seed: int) -> None:
    dared = [_agree(text) for text in mutations(seed, 400)]
    assert sum(dared) > 50  # otherwise nothing was compared


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_it_agrees_about_many_more(seed: int) -> None:
    for text in mutations(seed, 20 * settings.default.max_examples):
        _agree(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: yes",
        "- on",
        "a: [no]",
        'a: {"b":off}',
        "a: _1",
        "a: [|]",
        "a: [b:]",
        "a: {[]: b}",
        "a: [\n  b\n]",
        "a: |\n  b",
        "a: 0123",
        "a: 1_0",
        "a: 1e3",
        "a: 3.0",
        "a: .inf",
        "on: x",
        "1: x",
        "a: &b c",
        "a: *b",
        "a: !!str 1",
        "<<: {a: b}",
        "? a",
        "a:\tb",
        "a: b\r\nc: d",
        "a: \u2028",
        "a: \u00a0",
        "a: \x07",
        "%YAML 1.1\n---\na: b",
        "a: b\n...",
        "a: b\n--- c",
        "a: |\n\n",
        "a: " + "[" * 500 + "]" * 500,
        "a:\n" + "".join(" " * i + "a:\n" for i in range(1, 80)),
        "a: 1\na: 2",
        "a: [",
    ],
)
def test_what_readers_could_take_in_two_ways_is_left_alone(text: str) -> None:
    assert fast_yaml.read(text.encode()) is None


WORDS = (
    "inf nan NaN Inf Infinity infinity -inf -Infinity +inf true True TRUE tRUE false null Null NULL "
    "nULL ~ none None nil undefined yes Yes yES y Y n N no NO nO on oN off oFF E5 e1 1e1 1E5 .1 -.1 "
    "+1 -1 -0 0 00 0.0 -0.0 0x1 0X1 0o7 0O7 0b1 1_ _1 _1_2 __1 _a 1__0 1e 1.e3 1.5e3 1e-3 0.1e1 "
    "12345678901234567890 123456789012345678 0777 08 09.5 1:30 1:30:00 2001-01-01 1.2.3 1.2. 1..2 "
    "2001-01-01T00:00:00Z 5m 5E 5Ei 5e 1d 1h 0m .inf .Inf -.inf +.INF .nan .NaN .NAN = << - -- --- "
    "... : a: a:b a:b:c #a a#b @a `a %a !a &a *a | > |- >+ ? ?a [ ] { } , 'a' \"a\" 'a \"a a'b a\"b "
    "\\ / //a ~a a~ http://x:80/a?b=c a,b a;b -a- -1a 1a 1-2 1+2 0-1 0.5Gi 1/2 100% $a ${a} $(a) é "
    "名 true1 nulls [] {} [[]] {a:1} {a:} {'a':1} \"a\":1 'yes' \"0123\" ''"
).split(" ")
PLACES = (
    "a: %s",
    "- %s",
    "%s: x",
    "%s",
    "a: [%s]",
    "a: [x, %s, y]",
    "a: [%s,%s]",
    "a: [b: %s]",
    "a: {b: %s}",
    "a: {%s: b}",
    '{"a":%s}',
    "a:\n  %s",
    "a:\n- %s\n- x",
    "a:\n- - %s",
    "a: %s # c",
    "a:  %s  ",
    "a: %s\nb: c",
    "a: %s\n  x",
    "a: x\n  %s\n",
    "a: b\n%s: c",
    "a: |\n  %s\n",
    "a: [\n%s\n]",
    "a: {\nb: %s\n}",
)


def test_it_agrees_about_every_word_in_every_place() -> None:
    dared = [_agree(place.replace("%s", word)) for word in WORDS for place in PLACES]
    assert sum(dared) > 1000


@pytest.mark.parametrize(
    "text",
    [
        "a: it is no number, yes",
        "image: registry.example.com/a/b:1.4.0@sha256:00",
        "args: [--lr=0.1, -m, x.y]",
        "command: [bash, -c, 'set -e && exec x']",
        "args:\n- |\n  set -euo pipefail\n  echo $X | tee /a && exit 0\n",
        "cpu: 64Gi\nport: 80\nratio: 0.25",
        "# yes, 0123 and &this are only words\na: b",
        "a: café 名前",
    ],
)
def test_common_things_are_not_in_doubt(text: str) -> None:
    assert _agree(text)


def test_bytes_that_are_no_text() -> None:
    assert fast_yaml.read(b"a: \xff") is None
