"""Findings about what people wrote: files, schema, references, waivers.

Rules about rendered objects live in `rules/`; these cannot, since there is no object yet. Their
texts are data too: diagnostics.json, which is read on import, in a tenth of a millisecond.
"""

from __future__ import annotations

import json
from pathlib import Path

from trainwright.datatypes.finding import Cause, Severity
from trainwright.datatypes.frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic(Cause):
    """One kind of mistake; `effect`, `symptom`, `remedy` and `waive` are as in a rule's words, and
    `reported_by` are the commands that find it.

    The remedy is the default for findings without a more precise one. Those that are `waivable`
    have their weight set in environment.yaml, as rules have.
    """

    id: str
    name: str
    summary: str
    effect: str
    symptom: str
    remedy: str
    severity: Severity = Severity.ERROR
    waivable: bool = False
    waive: str = ""
    reported_by: str = "`check`, `render`, `plan` and editors"


_WORDS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def _of(key: str) -> Diagnostic:
    """Return the diagnostic with an id, an error unless its entry has another severity."""
    words = _WORDS[key]
    severity = Severity(words.get("severity", Severity.ERROR))
    return Diagnostic(**{**words, "id": key, "severity": severity})


SYNTAX = _of("TW001")
DUPLICATE_KEY = _of("TW002")
UNSAFE = _of("TW003")
ENCODING = _of("TW004")
SHAPE = _of("TW005")
EXTENDS = _of("TW006")
NAME = _of("TW007")
LAYOUT = _of("TW008")
SCHEMA = _of("TW010")
RENDERED_SCHEMA = _of("TW011")
CHART = _of("TW012")
CHART_VERSION = _of("TW013")
NO_SCHEMA = _of("TW014")
CEL = _of("TW015")
CEL_SKIPPED = _of("TW016")
REFUSED = _of("TW017")
REFERENCE = _of("TW020")
UNSUPPORTED = _of("TW021")
CONTRADICTION = _of("TW022")
CAPACITY = _of("TW023")
NAME_LENGTH = _of("TW024")
PLACED_BY_FLAVOR = _of("TW025")
RESERVED = _of("TW026")
NOT_ALLOWED = _of("TW027")
FLAG_LIST = _of("TW028")
FILE = _of("TW029")
WAIVER_EXPIRED = _of("TW030")
WAIVER_UNUSED = _of("TW031")
UNKNOWN_RULE = _of("TW032")
UNREQUESTED = _of("TW033")
OVER_BUDGET = _of("TW034")

WIRING = _of("TW040")
SHARED_OBJECT = _of("TW041")
UNPINNED_CHART = _of("TW042")
STALE_WIRING = _of("TW043")
UNENCRYPTED = _of("TW044")
LEDGER = _of("TW050")
LEDGER_JOB = _of("TW051")
RUN = _of("TW052")
OBJECT_COLLISION = _of("TW053")
UNRECORDED = _of("TW054")
OWN_OBJECT = _of("TW055")

HELD = _of("TW056")
UNDERIVED = _of("TW057")
UNCOMPARED = _of("TW058")

ADOPTED = _of("TW059")
SAME_AS_INHERITED = _of("TW060")
UNREAD = _of("TW061")
DROPPED_ITEMS = _of("TW063")

PATCH_OF_FIELD = _of("TW070")
PATCH_OVERRULES = _of("TW071")

ENGINE_FILE = _of("TW080")
HIDDEN_FROM_REVIEW = _of("TW081")
UNRENDERED = _of("TW082")

DIAGNOSTICS: dict[str, Diagnostic] = {
    found.id: found for found in tuple(globals().values()) if isinstance(found, Diagnostic)
}
