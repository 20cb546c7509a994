"""The formats of a review: adding one is its module and its line here."""

from __future__ import annotations

from trainwright.plan import html, json, markdown, text
from trainwright.plan.format import Format

FORMATS: dict[str, Format] = {
    f.name: f for f in (text.FORMAT, json.FORMAT, markdown.FORMAT, html.FORMAT)
}
