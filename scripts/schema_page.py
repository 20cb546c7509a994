"""Write docs/schema.md: every field that people write, from the schemas.

python scripts/schema_page.py [--check]
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from generated import ROOT, main

from trainwright.datatypes.pointer import Pointer
from trainwright.specs.fields import Field, field

PAGE = ROOT / "docs" / "schema.md"
COMMAND = "python scripts/schema_page.py"
_HEAD = f"""\
<!-- Generated from the schemas by `{COMMAND}`. Do not edit. -->
# Every field

For anyone who writes a job or an environment: what each field means, what it may hold, and what it is where nothing is written. Editors show the same [while you type](editors.md), `trainwright check` holds files against it, and [what an edit of a field does to a run](fields.md) is a table of its own.

A path is written with dots; `<name>` is a key of your choice and `[]` an entry of a list. A default is that of the schema: [layers](layers.md) below a job set others, and `trainwright explain ENV/JOB` shows what holds. Structures of Kubernetes, such as `affinity`, are those of [its own reference](https://kubernetes.io/docs/reference/kubernetes-api/), and are not repeated.
"""  # noqa: E501 - a paragraph is a line, as on the other pages
_FILES = {
    "job": ("A job", "environments/<env>/jobs/<job>.yaml"),
    "environment": ("An environment", "environments/<env>/environment.yaml"),
    "defaults": ("Defaults of all environments", "environments/defaults.yaml"),
    "ledger": ("The ledger of finished runs", "environments/<env>/ledger.yaml"),
    "lock": ("The lock of images", "environments/images.lock.yaml"),
}
_ELSEWHERE = {  # fields that hold those of another section, by kind and path
    ("environment", "defaults"): "[a job](#a-job)",
    ("environment", "pools.<name>.defaults"): "[a job](#a-job)",
    ("defaults", "defaults"): "[a job](#a-job)",
    ("defaults", "gitops"): "`gitops` of [an environment](#an-environment)",
}

_ROLE = "roles.<name>"
_OF_ROLES_ALONE = ("nodes", "port", "ready")
_OF_A_ROLE = "that of the job, see [roles](roles.md) | Which of the fields, editors complete."

_ANY = 5  # types, of all that JSON has but null: another schema has the field's structure


def page() -> str:
    """The whole text."""
    return "\n".join([_HEAD, *(line for kind in _FILES for line in _section(kind))]) + "\n"


def _section(kind: str) -> Iterator[str]:
    title, path = _FILES[kind]
    root = field(kind, Pointer())
    yield from (f"## {title}", "", f"`{path}`. {root.description}", "")
    yield from ("| field | value | default | what it means |", "|---|---|---|---|")
    yield from _rows(kind, "", root)
    yield ""


def _rows(kind: str, above: str, within: Field) -> Iterator[str]:
    if above == _ROLE:
        yield f"| `{above}.<field>` | fields of [a job](#a-job) | {_OF_A_ROLE} |"
    for path, inner in _inside(above, within):
        if above == _ROLE and path.rpartition(".")[2] not in _OF_ROLES_ALONE:
            continue
        section = _ELSEWHERE.get((kind, path))
        value = f"fields of {section}" if section else _value(inner)
        anchor = f'<a id="{kind}-{path}"></a>' if "<" not in path else ""
        yield f"| {anchor}`{path}` | {value} | {_default(inner)} | {_sentence(inner)} |"
        if section is None:
            yield from _rows(kind, path, inner)


def _inside(above: str, within: Field) -> Iterator[tuple[str, Field]]:
    """The fields below one: its own keys, those of any name, and the keys of its entries."""
    dot = f"{above}." if above else ""
    for key, inner in within.keys.items():
        yield f"{dot}{key}", inner
    other = within.below("<name>")
    if not within.keys and other.keys:
        name = f"{above}[]" if within.shape == "array" else f"{dot}<name>"
        yield from _inside(name, other)


def _value(inner: Field) -> str:
    if inner.choices:
        words = [
            json.dumps(choice) if not isinstance(choice, str) else choice
            for choice in inner.choices
        ]
        return ", ".join(f"`{word}`" for word in words)
    kinds = {str(kind): None for _, part in inner.parts for kind in _kinds(part.get("type"))}
    if len(kinds) >= _ANY:
        return "as in Kubernetes"
    return " or ".join("text" if kind == "string" else kind for kind in kinds)


def _kinds(kind: object) -> list[object]:
    return kind if isinstance(kind, list) else [kind] if kind else []


def _default(inner: Field) -> str:
    if inner.default is None:
        return ""
    default = inner.default
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _sentence(inner: Field) -> str:
    text = inner.description
    if inner.examples and not inner.choices:
        text += f" Example: `{json.dumps(inner.examples[0], ensure_ascii=False)}`"
    return text.replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    main(__doc__, PAGE, page(), COMMAND)
