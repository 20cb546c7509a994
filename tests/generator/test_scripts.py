"""Scripts of shells: their words as a shell has them, and what becomes of a failure."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.objects.pods.launching import failure_is_lost, script_trains
from trainwright.objects.pods.storage import words
from trainwright.objects.pods.template import Container

PARTS = [
    "a",
    "b=c",
    "--d",
    "$E",
    "${F##*-}",
    "g/h",
    "'i j'",
    '"k',
    "\\",
    "# l",
    ";",
    "&",
    "|",
    "\n",
]


@given(st.lists(st.sampled_from(PARTS)).map(lambda parts: f"{' '.join(parts)} "))
def test_words_are_those_of_a_shell_whether_or_not_any_is_quoted(script: str) -> None:
    try:
        expected = shlex.split(script, comments=True)
    except ValueError:  # a quote that is not closed
        expected = script.split()
    container = Container("", {"command": ["bash", "-c", script]})
    assert words(container) == ("bash", "-c", *expected)


@pytest.mark.parametrize(
    "script",
    [
        "source train.sh",
        ". train.sh",
        ". ./train.sh",
        "/bin/ksh train.sh",
        "/opt/bin/torchrun t.py",
    ],
)
def test_a_program_trains_wherever_it_is(script: str) -> None:
    assert script_trains(script)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("torchrun t.py || true", "|| true"),
        ("torchrun t.py || echo failed", "|| echo failed"),
        ("torchrun t.py 2>&1 | tee log", "| tee"),
        ("torchrun t.py |& tee log", "| tee"),
        ("torchrun t.py\necho done", "a command behind it, echo"),
        ("torchrun t.py & wait", "& and wait without the number of the process"),
        ("torchrun --node-rank=$(hostname | cut -d- -f2) t.py", ""),
        ("torchrun t.py > log 2>&1", ""),
        ("set -o pipefail; torchrun t.py | tee log", ""),
        ("torchrun t.py | tee log; exit ${PIPESTATUS[0]}", ""),
        ("torchrun t.py; code=$?; sleep 5; exit $code", ""),
        ("until torchrun t.py; do sleep 5; done", ""),
        ("cat > t.py <<'E'\nx\nE\ntorchrun t.py\necho", ""),  # where a text ends is not known
        ("nvidia-smi || true; exec torchrun t.py", ""),
        ("", ""),
    ],
)
def test_what_hides_the_failure_of_a_training(script: str, why: str) -> None:
    assert failure_is_lost(script) == why
