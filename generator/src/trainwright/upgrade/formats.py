"""The formats of an upgrade's report: adding one is its module and its line here."""

from __future__ import annotations

from trainwright.upgrade import json, markdown, text
from trainwright.upgrade.format import Format

FORMATS: dict[str, Format] = {
    "text": text.render,
    "json": json.render,
    "markdown": markdown.render,
}
