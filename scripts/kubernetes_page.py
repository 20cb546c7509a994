"""Write docs/kubernetes-fields.md: where a spec has what Kubernetes and other tools have.

python scripts/kubernetes_page.py [--check]
"""

from __future__ import annotations

from collections.abc import Iterator

from generated import ROOT, main

from trainwright.documents.validation.kubernetes_fields import FIELDS, Place
from trainwright.documents.validation.kubernetes_schemas import NEWEST
from trainwright.documents.validation.other_names import other_names

PAGE = ROOT / "docs" / "kubernetes-fields.md"
COMMAND = "python scripts/kubernetes_page.py"
_HEAD = f"""\
<!-- Generated from the table of fields by `{COMMAND}`. Do not edit. -->
# Fields by their names elsewhere

For anyone who knows a pod's fields, or a chart, batch script, compose file or command line, and looks for its fields in a [job spec](schema.md): every field of a pod, its container and a mount, as Kubernetes {NEWEST} has them, and what [other tools](#other-tools) call what a spec has. A field that only a [patch](pod-patch.md) can set needs `podPatch` in the environment's `allow`.

`trainwright check` answers a name of these tables by the line to write, with the value that was written; `check --fix` and [editors](editors.md) write it, and editors complete it.
"""  # noqa: E501 - a paragraph is a line, as on the other pages
_TITLES = {"PodSpec": "A pod", "Container": "A container", "VolumeMount": "A mount"}


def page() -> str:
    """The whole text."""
    return "\n".join(("\n".join(_lines()), ""))


def _lines() -> Iterator[str]:
    yield _HEAD
    for number, (kind, fields) in enumerate(FIELDS.items()):
        if number:
            yield ""
        yield f"## {_TITLES[kind]}\n"
        yield "| Kubernetes | in a job spec | why |"
        yield "|---|---|---|"
        for name, place in sorted(fields.items()):
            yield f"| `{name}` | {_where(place)} | {place.why} |"
    yield from _other_tools()


def _other_tools() -> Iterator[str]:
    yield "\n## Other tools\n"
    yield "| tool | its name | in a job spec | why |"
    yield "|---|---|---|---|"
    for row in other_names():
        why = "" if row.field else row.why
        above = f"{row.within}." if row.within not in ("", "environment") else ""
        field = f"`{above}{row.field}`" if row.field else "none"
        name = f"`{row.name}`" + (f" in `{row.within}`" if row.within else "")
        yield f"| {row.tool} | {name} | {field} | {why} |"


def _where(place: Place) -> str:
    if place.fields:
        return ", ".join(f"`{field}`" for field in place.fields)
    return "`podPatch`" if place.patch else "refused"


if __name__ == "__main__":
    main(__doc__, PAGE, page(), COMMAND)
