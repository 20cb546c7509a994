"""What generator and runtime hide, and what they leave alone: one table for both."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from credential_examples import SECRETS, encoded, looks_random
from trainwright.findings import credentials
from trainwright.findings.redaction import redact_lines, redact_words
from trainwright_runtime.observe import redaction

ROOT = Path(__file__).parents[1]
SEEDS = range(10)  # 600 harmless strings each

# How a text stands in a file, a report or an error.
PLACES: dict[str, Callable[[str], str]] = {
    "alone": lambda text: text,
    "a value": lambda text: f"setting: {text}",
    "a variable": lambda text: f"SETTING={text}",
    "a flag": lambda text: f"--setting={text}",
    "an error": lambda text: f"ValueError: refused: {text}",
    "in quotes": lambda text: f"setting: {json.dumps(text)}",
    "behind an escaped line break": lambda text: f"setting: {json.dumps(f'a{chr(10)}{text}{chr(10)}b')}",
    "escaped twice": lambda text: json.dumps(json.dumps({"a": f"a\n{text}\tb"})),
    "behind a tab": lambda text: f"setting: {json.dumps(f'a{chr(9)}{text}')}",
    "a block": lambda text: "setting: |\n  first\n" + "".join(f"  {line}\n" for line in text.splitlines()),
    "a script": lambda text: f"set -e\n{text}\npython train.py\n",
}  # fmt: skip


def _left(secret: str, shown: str) -> bool:
    """Whether a secret, or what is long enough to be a part of one, is still there."""
    pieces = [secret[at : at + 12] for at in range(0, len(secret) - 11, 12)] or [secret]
    return any(piece in shown for piece in pieces)


REDACTIONS: dict[str, Callable[[str], str]] = {
    "generator": credentials.redact,
    "generator, lines of a file": lambda text: "\n".join(redact_lines(text.split("\n"))),
    "runtime": lambda text: redaction.redact(text, {}),
}


def test_there_are_at_least_a_hundred_forms() -> None:
    assert len(SECRETS) >= 100


@pytest.mark.parametrize("redact", REDACTIONS.values(), ids=REDACTIONS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_every_form_is_hidden_in_every_place(
    place: Callable[[str], str], redact: Callable[[str], str]
) -> None:
    assert not [
        name for name, (text, secret) in SECRETS.items() if _left(secret, redact(place(text)))
    ]


@pytest.mark.parametrize("redact", REDACTIONS.values(), ids=REDACTIONS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_base64_of_every_form_is_hidden_in_every_place(
    place: Callable[[str], str], redact: Callable[[str], str]
) -> None:
    """By itself, and as a line of a file whose base64 it is."""
    for name, (text, _) in SECRETS.items():
        for word in (encoded(text), encoded(f"# settings\n{text}\n")):
            assert not _left(word, redact(place(word))), name


def test_arguments_are_read_together() -> None:
    """As the words of a command, of which each is then shown by itself."""
    for name, (text, secret) in SECRETS.items():
        words = [text] if {*"{|<\n"} & {*text} else shlex.split(text)
        shown = [credentials.redact(str(word)) for word in redact_words(words)]
        assert secret not in "\n".join(shown), name


def test_most_harmless_strings_of_high_entropy_are_left_alone() -> None:
    """At most one of 500: git commits, digests, ids, names, public keys, pictures and such."""
    harmless = [text for seed in SEEDS for text in looks_random(Random(seed))]
    alarms = [
        text
        for text in harmless
        if credentials.kind(text)
        or any(
            credentials.redact(place(text)) != place(text)
            for place in (
                PLACES["a value"],
                PLACES["a flag"],
                PLACES["behind an escaped line break"],
            )
        )
    ]
    assert len(harmless) >= 5000
    assert len(alarms) <= len(harmless) / 500, alarms


def test_harmless_lines_of_files_are_left_alone() -> None:
    for seed in SEEDS[:2]:
        lines = [line for text in looks_random(Random(seed)) for line in f"- {text}".split("\n")]
        assert redact_lines(lines) == lines


# What is public, what starts programs, and what begins on one line and ends on another.
_AROUND = (
    "ssh-rsa", "-----BEGIN CERTIFICATE-----", "machine h login", "curl -u", "mysql",
    "wandb login", "metadata:", "  name: llm", "image: registry.example.com/ml/train:1.0",
    "data:image/png;base64,iVBORw0KGgo", "\\n", '"', "%2F", "",
)  # fmt: skip
_PIECES = st.sampled_from([*(text for text, _ in SECRETS.values()), *_AROUND])


def _plain(text: str) -> list[credentials.Found]:
    """What is found where no line is taken for dull."""
    text = credentials._unescaped(text)
    return list(credentials._searched(text, text))


@pytest.mark.parametrize("name", SECRETS)
def test_a_form_is_found_wherever_its_text_is_broken(name: str) -> None:
    text = SECRETS[name][0]
    for at in range(0, len(text), 1 + len(text) // 60):
        for between in ("\n", '",\n  "', "\\n", "\n- "):
            broken = f"a: b\n{text[:at]}{between}{text[at:]}\nc: d"
            assert list(credentials.credentials(broken)) == _plain(broken)


@given(
    st.lists(
        st.tuples(_PIECES, st.sampled_from(["\n", " ", ": ", "\n  - ", '", "', "/"])), max_size=8
    )
)
def test_dull_lines_hide_nothing(pieces: list[tuple[str, str]]) -> None:
    text = "".join(f"{piece}{between}" for piece, between in pieces)
    assert list(credentials.credentials(text)) == _plain(text)


def test_nothing_is_lost_in_what_is_rendered() -> None:
    for path in sorted(ROOT.glob("tests/golden/*/rendered/*/*.yaml")):
        text = path.read_text()
        assert list(credentials.credentials(text)) == _plain(text)


def test_forms_of_one_line_take_no_line_break() -> None:
    """But for those that say so: whether a line is dull is told by itself."""
    sets = re.compile(r"\[\^?(?:\\.|[^\]\\])+\]")
    for form in credentials._FORMS:
        taken = [one for one in sets.findall(form.pattern) if one[1] != "^"]
        refused = [one for one in sets.findall(form.pattern) if one[1] == "^"]
        outside = re.sub(r"\\[.$/]", "", sets.sub("", form.pattern))
        breaks = re.search(r"\\[sWD]|\.", outside) or "\\s" in "".join(taken)
        assert form.lines or not (breaks or [one for one in refused if "\\s" not in one]), form.kind
