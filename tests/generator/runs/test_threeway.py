"""An edit laid onto a text that another version rendered, or refused."""

from __future__ import annotations

import pytest

from trainwright.runs import threeway

RECORDED = """\
spec:
  suspend: false
  backoffLimit: 0
  jobs:
    - name: node
      deadline: 60
      args: [a, b]
"""
TAKEN = {
    "the same version": RECORDED,
    "a line more above": RECORDED.replace("  suspend", "  more: 1\n  suspend"),
    "a line more below": RECORDED.replace("  backoff", "  more: 1\n  backoff"),
    "a line more in a list": RECORDED.replace("      deadline", "      more: 1\n      deadline"),
    "an item more in front": RECORDED.replace("    - name", "    - {name: first}\n    - name"),
    "another value elsewhere": RECORDED.replace("Limit: 0", "Limit: 6"),
    "a line less": RECORDED.replace("  backoffLimit: 0\n", ""),
    "a comment more": RECORDED.replace("  suspend", "  # why\n  suspend"),
}
EDITS = {
    "a value": ("suspend: false", "suspend: true"),
    "a value in a list": ("deadline: 60", "deadline: 90"),
    "two values": ("spec:", "spec:\n  first: 1"),
    "a value less": ("      deadline: 60\n", ""),
}


@pytest.mark.parametrize("version", TAKEN)
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_taken_and_nothing_else(edit: str, version: str) -> None:
    base = TAKEN[version]
    edited = base.replace(*EDITS[edit])
    merged = threeway.merge(base, edited, RECORDED)
    assert merged == RECORDED.replace(*EDITS[edit])
    assert threeway.same_edit(base, edited, RECORDED, merged)
    assert threeway.merge(edited, base, merged) == RECORDED, "and back"


def test_a_line_that_is_not_there_is_refused() -> None:
    base = RECORDED.replace("suspend: false", "suspended: no")
    assert threeway.merge(base, base.replace(": no", ": yes"), RECORDED) is None


WRONG = {
    "more than was asked for": RECORDED.replace("false", "true").replace("Limit: 0", "Limit: 6"),
    "another value": RECORDED.replace("deadline: 60", "deadline: 90"),
    "nothing": RECORDED,
    "a key less": RECORDED.replace("  suspend: false\n", ""),
}


@pytest.mark.parametrize("merged", WRONG.values(), ids=WRONG)
def test_another_edit_is_not_the_same(merged: str) -> None:
    edited = RECORDED.replace("suspend: false", "suspend: true")
    assert not threeway.same_edit(RECORDED, edited, RECORDED, merged)
