"""Write docs/fields.md: what an edit of each field does to a run, from the table of fields.

python scripts/field_table.py [--check]
"""

from __future__ import annotations

from collections.abc import Iterator

from environment_fields import ENVIRONMENT, EnvironmentField
from generated import ROOT, main

from trainwright.runs.fields import JOB, JobField

PAGE = ROOT / "docs" / "fields.md"
COMMAND = "python scripts/field_table.py"
_HEAD = f"""\
<!-- Generated from the table of fields by `{COMMAND}`. Do not edit. -->
# What an edit of a field does to a run

A run begins with its first rendering, and keeps its name and its bytes until a line of the job's
spec begins another. Fields of *training* decide what is trained, and an edit of one begins a
run. Fields of *operation* decide when it runs, for how long, and how people find it: no edit of one
does. A field stands for all that is below it.

| effect | what happens |
|---|---|
| new run | another object under another name; the one before leaves |
| in place | the same run, with exactly that place of its manifest changed |
| operation | *in place* where live objects take it ([edits](edits.md)), else *next run* |
| next run | the run stays, and `list`, `plan` and `status` call it outdated until a `rerun` |
| no effect | the run stays as it is, and so will its next one |
| refused | the field cannot be written there |

Comments, the order of keys, defaults that are written out, other spellings of the same value, and
values that move to a base as they are have no effect.
"""
_JOB = """\
## A job

*Spec*: `environments/<env>/jobs/<job>.yaml`. *Shared*: a base, the `defaults` of a
pool or of `environment.yaml`, or those of `environments/defaults.yaml`.
"""
_ENVIRONMENT = """\
## An environment

`environment.yaml`, and for `gitops` also `environments/defaults.yaml`. A setting is in the
name of a run that begins if it changes a byte that is rendered for its kind, and only then.
"""


def page() -> str:
    """The whole text."""
    lines = [_HEAD, _JOB, "| field | spec | shared | details |", "|---|---|---|---|"]
    lines += map(_job, JOB)
    lines += ["", _ENVIRONMENT, "| field | effect | details |", "|---|---|---|"]
    lines += _environment()
    return "\n".join(lines) + "\n"


def _job(row: JobField) -> str:
    return f"| `{row.name}` | {row.own} | {row.shared} | {row.note} |"


def _environment() -> Iterator[str]:
    for row in ENVIRONMENT:
        yield f"| `{_written(row)}` | {row.effect} | {row.note} |"
    yield "| `defaults` | as *shared* above | |"


def _written(row: EnvironmentField) -> str:
    names = {"pools": "<pool>", "targets": "<target>"}
    keys = [names[row.path[0]] if key == "*" else key for key in row.path]
    return ".".join(keys)


if __name__ == "__main__":
    main(__doc__, PAGE, page(), COMMAND)
