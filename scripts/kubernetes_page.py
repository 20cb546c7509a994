"""Write docs/kubernetes-fields.md: where a spec has each field that Kubernetes has of a pod.

python scripts/kubernetes_page.py [--check]
"""

from __future__ import annotations

from collections.abc import Iterator

from generated import ROOT, main

from trainwright.specs.kubernetes_fields import FIELDS, Place
from trainwright.specs.kubernetes_schemas import NEWEST

PAGE = ROOT / "docs" / "kubernetes-fields.md"
COMMAND = "python scripts/kubernetes_page.py"
_HEAD = f"""\
<!-- Generated from the table of fields by `{COMMAND}`. Do not edit. -->
# Fields by their names in Kubernetes

For anyone who knows a pod's fields and looks for them in a [job spec](schema.md): every field of a pod, its container and a mount, as Kubernetes {NEWEST} has them. A field that only a [patch](pod-patch.md) can set needs `podPatch` in the environment's `allow`.
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


def _where(place: Place) -> str:
    if place.fields:
        return ", ".join(f"`{field}`" for field in place.fields)
    return "`podPatch`" if place.patch else "refused"


if __name__ == "__main__":
    main(__doc__, PAGE, page(), COMMAND)
