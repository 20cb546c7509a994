"""Write docs/edits.md: what happens to an edit of a live object, from the table of edits.

python scripts/edit_table.py [--check]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from generated import ROOT, main

from trainwright.rule_model.edit import Verdict
from trainwright.rule_model.edit_row import EditRow
from trainwright.rules.edits import kueue
from trainwright.rules.edits.table import EDITS

PAGE = ROOT / "docs" / "edits.md"
COMMAND = "python scripts/edit_table.py"
_HEAD = f"""\
<!-- Generated from the table of edits by `{COMMAND}`. Do not edit. -->
# The outcome of an edit of a live object

Most edits of a training object that runs do not do what they seem to. This table is what `plan`,
the commands (`set`, `suspend`, …) and the [rules about edits](rules.md) go by. Of several rows
for a field the first counts whose conditions all hold; a field stands for all that is below it.

| outcome | what happens |
|---|---|
| in place | accepted, and takes effect |
| until admitted | rejected of a job that runs, and accepted while it waits in its queue |
| rejected | the API server or a webhook refuses the object, and the sync fails |
| refused below | the object is accepted; what its controller makes of it is refused |
| mixed | accepted; some pods have the old version and some the new one |
| ignored | accepted; nothing that runs ever sees it |

How it is known: **observed** on a real kube-apiserver 1.36.2 with JobSet 0.12.0, Kubeflow Trainer
2.3.0, the training operator 1.9.4 and Kueue 0.19.2; **read** in their sources or in the rules of
their definitions; **inferred** from what was read, and was not observed.

Taking out a value that equals its default, or writing it out, is accepted everywhere and changes
nothing (observed).
"""
_OUTCOMES = {
    Verdict.IN_PLACE: "in place",
    Verdict.REJECTED: "rejected",
    Verdict.REFUSED_BELOW: "refused below",
    Verdict.MIXED: "mixed",
    Verdict.IGNORED: "ignored",
}


def page() -> str:
    """The whole text."""
    lines = [_HEAD]
    for title, rows in groupby(EDITS, _title):
        lines += [f"## {title}", ""]
        head = "| field | when | outcome | details | known | rule |"
        lines += [head, "|---|---|---|---|---|---|"]
        edits = tuple(rows)
        lines += (_row(tuple(alike)) for _, alike in groupby(edits, _all_but_path))
        lines += ["", "Sources:", "", *_sources(edits), ""]
    return "\n".join(lines).rstrip() + "\n"


def _title(edit: EditRow) -> str:
    if edit.kinds == kueue.WORKLOADS:
        return "What Kueue admits"
    return ", ".join(map(str, edit.kinds)) or "Everything else"


def _all_but_path(edit: EditRow) -> tuple[object, ...]:
    return edit.when, edit.outcome, edit.why, edit.basis, edit.rule


def _row(alike: tuple[EditRow, ...]) -> str:
    """Fields of which all the same is known."""
    edit = alike[0]
    field = "<br>".join(f"`{'.'.join(e.path.parts)}`" for e in alike) if edit.path else "any"
    when = ", ".join(condition.text for condition in edit.when)
    rule = f"[{edit.rule}](rules/{edit.rule}.md)"
    outcome = _OUTCOMES[edit.outcome]
    return f"| {field} | {when} | {outcome} | {edit.why} | {edit.basis} | {rule} |"


def _sources(edits: tuple[EditRow, ...]) -> Iterator[str]:
    yield from (f"* {source}" for source in dict.fromkeys(edit.source for edit in edits))


if __name__ == "__main__":
    main(__doc__, PAGE, page(), COMMAND)
