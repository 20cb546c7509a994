"""Names in Kubernetes, Helm, Slurm, Compose and argparse for what a job spec has: the table
other_names.yaml, which errors, completion, import and docs/kubernetes-fields.md read.

Fields of a pod under their Kubernetes names are in `kubernetes_fields.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation.other_forms import FORMS, Fields
from trainwright.documents.yamlio import load_rendered

TABLE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherName:
    """A tool's name for something, the spec field that it corresponds to, and its value's form.

    A name without a field has no place in a spec, and `why` is what takes its place. For other
    names, `why` is what to write if the written value cannot be converted.
    """

    name: str
    tool: str
    within: str = ""  # the mapping that it is written in, where that is not the spec itself
    field: str = ""
    form: str = ""
    why: str = ""

    def written(self, value: Data) -> Fields | None:
        """Return the fields of a spec that a value under this name becomes, or None."""
        return FORMS[self.form](self.field, value) if self.form and value is not None else None

    @property
    def remedy(self) -> str:
        """What to do if the value cannot be converted."""
        if not self.field:
            return f"Remove it: {self.why}."
        return self.why or f"Write {self.field}."


@cache
def other_names() -> tuple[OtherName, ...]:
    """Return every row of the table."""
    (table,) = load_rendered(TABLE.read_text("utf-8"))
    return tuple(
        row for tool, entries in table.items() for entry in entries for row in _rows(tool, entry)
    )


def _rows(tool: str, entry: Mapping[str, str]) -> Iterator[OtherName]:
    """Yield a row for each of the names that are written alike."""
    for name in entry["names"].split():
        field = entry.get("field", "").replace("<name>", name)
        form, why, within = (entry.get(key, "") for key in ("form", "why", "within"))
        yield OtherName(name=name, tool=tool, within=within, field=field, form=form, why=why)


@cache
def _by_name() -> Mapping[tuple[str, str], OtherName]:
    return {(row.within, _plain(row.name)): row for row in reversed(other_names())}


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def of_job(key: str) -> OtherName | None:
    """Return a job spec's equivalent of another tool's name, in any spelling, or None."""
    return _by_name().get(("", _plain(key)))


def of_mapping(pointer: Pointer, key: str) -> OtherName | None:
    """Return a mapping's equivalent of another tool's name, or None; `*` is any item's name."""
    *above, last = ("environment", *pointer.parts)
    scopes = (f"{above[-1]}.*" if above else "", last)
    rows = (_by_name().get((within, _plain(key))) for within in scopes if within)
    return next((row for row in rows if row), None)
