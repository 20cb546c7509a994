"""Files of other tools, or in their form, where a job spec is expected."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.job import JOB_FIELDS
from trainwright.datatypes.layout import (
    JobFile,
)
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.yamlio import Document
from trainwright.findings import diagnostics as dx


def of_other_kind(file: JobFile, document: Document) -> Finding | None:
    """Return one finding for a manifest or a compose file, instead of one per field, or None."""
    if document.data.get("kind") == "JobSpec":
        return None
    from trainwright.documents.validation import translation  # only mistakes need it

    remedy = translation.of_manifest(file.path, document.data)
    message = "this is not a job spec, but a file of another tool"
    at = document.place("")
    return dx.SCHEMA.at(at, message, subject=str(file), remedy=remedy) if remedy else None


def wrapped_fields(document: Document, subject: str = "") -> Finding | None:
    """Return one finding for fields that are under `spec`, as in a Kubernetes object, or under a
    key that is alone in the file; None if there are none.
    """
    data, path = document.data, Pointer("/spec")
    if len(data) == 1 and data.keys() <= _AROUND_SPECS:
        path = Pointer.of(*data)
    spec = lookup(data, path)
    if path != "/spec" and isinstance(spec, list):
        message = f"{path.dotted} are in one file"
        return dx.SCHEMA.at(
            document.key_place(path), message, subject=subject, path=path, remedy=_FILE_EACH
        )
    ours = str(data.get("apiVersion", _OURS)).startswith(_OURS)
    ours = data.get("kind") == "JobSpec" or (ours and data.get("kind") != "Defaults")
    if not isinstance(spec, Mapping) or not ours:
        return None
    name = mapping(data.get("metadata")).get("name")
    named = [f"`name: {name}`"] if isinstance(name, str) and data.get("kind") == "JobSpec" else []
    fields = listed([*named, *(_at_the_top(*field) for field in spec.items())], _MOST_FIELDS)
    without, like = "metadata and spec", ", as in a Kubernetes object"
    if path != "/spec":
        without, like = path.dotted, ""
    remedy = f"Write them at the top, without {without}: {fields}."
    message = f"the fields are under {path.dotted}{like}"
    return dx.SCHEMA.at(
        document.key_place(path), message, subject=subject, path=path, remedy=remedy
    )


def _at_the_top(key: str, value: Data) -> str:
    """Return a field, or what a job has in place of another tool's, in backticks."""
    from trainwright.documents.validation import translation  # only mistakes need it

    told = WRITE_FIELD.fullmatch("" if key in JOB_FIELDS else translation.of_key(key, value, {}))
    return f"`{told[1]}` for `{key}`" if told and len(told[1]) <= MAX_SHOWN else f"`{key}`"


WRITE_FIELD = re.compile(r"Write `([A-Za-z]+: [^`…]+)`(?: at the top: [^`]+)?\.")
MAX_SHOWN = 100  # characters that a remedy shows of what is written
_OURS = "trainwright.io/"
_AROUND_SPECS = frozenset({"job", "jobs", "training"})  # keys above specs, of which there are none
_FILE_EACH = "Write each to a file of its own, environments/<env>/jobs/<job>.yaml."
_MOST_FIELDS = 8  # that one line names


def script_or_template(path: str, raw: bytes) -> tuple[Finding, ...]:
    """Return findings that explain why a batch script or a template cannot be read as YAML."""
    from trainwright.documents.validation import translation

    if raw.startswith((b"#!", b"#SBATCH")):
        message = "this is not a job spec, but a script"
        return (dx.SHAPE.at(Location(path), message, remedy=translation.of_other_file(path)),)
    lines = raw.decode(errors="replace").splitlines()
    return tuple(
        dx.SHAPE.at(Location(path, number, line.index("{{") + 1), _TEMPLATE, remedy=_NO_TEMPLATES)
        for number, line in enumerate(lines, 1)
        if re.search(r"(?<!\$)\{\{[-\s]*[.\w]", line)
    )


_TEMPLATE = "this is a template of Helm, which nothing fills in here"
_NO_TEMPLATES = (
    "Write its value; what jobs share is in a base that they extend. "
    "`trainwright import` reads what `helm template` prints."
)
