"""The edits that an editor is sent: the part of a text that another one has otherwise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trainwright.authoring.text import offset
from trainwright_editor.language_server.actions import difference


@given(old=st.text(alphabet="ab\n\r🚂"), new=st.text(alphabet="ab\n\r🚂"))
def test_a_difference_turns_one_text_into_the_other(old: str, new: str) -> None:
    span, text = difference(old, new)
    start, end = offset(old, span.start), offset(old, span.end)
    assert old[:start] + text + old[end:] == new
