"""A page as one HTML file: a template, its styles, its script and its data.

The data travels compressed, as base64 in the page: text never becomes markup, and thousands of jobs
with their diffs stay below a megabyte. The Content-Security-Policy allows the page's own script and
styles, by their hashes, and nothing else: no network, no inline handlers, no frames.
https://developer.mozilla.org/en-US/docs/Web/HTTP/Guides/CSP
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import quote

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.findings.redaction import redact_lines
from trainwright.findings.visibility import visible
from trainwright.reports.report import help_uri, rule
from trainwright.reports.style import Style

if TYPE_CHECKING:
    from jinja2 import Environment

_ASSETS = files("trainwright.reports") / "assets"


def document(name: str, title: str, style: Style, data: Mapping[str, Data], **shown: Data) -> str:
    """The page of a template.

    The template itself writes the values in `shown`; its script builds the rest from `data`.
    """
    link = style.link if style.link.startswith(("https://", "http://")) else ""
    css = _asset("page.css")
    script = f'"use strict";\n{_asset("page.js")}\n{_asset(f"{name}.js")}'
    values: Mapping[str, Data] = {
        "title": title,
        "link": link,
        "policy": _policy(script, css),
        "style": css,
        "script": script,
        "data": _packed(_safe({"link": link, **data})),
        "command": visible(style.command),
        **_safe(shown),
    }
    return _templates().get_template(f"{name}.html").render(values)


def rows(items: Sequence[dict[str, Data]], *shown: str) -> dict[str, Data]:
    """Return the rows of a list for its template, which is all that is seen without JavaScript, by
    what is shown of each; the first of thousands.
    """
    some = [{key: it[key] for key in shown} for it in items[:_ROWS]]
    return {"rows": some, "rows_left": max(0, len(items) - _ROWS)}


_ROWS = 500


def _safe(data: Data) -> Data:
    """The same data, with control and direction characters in its text spelled out."""
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, Mapping):
        return {key: _safe(value) for key, value in data.items()}
    return [_safe(value) for value in data] if isinstance(data, list | tuple) else data


def _packed(data: Data) -> str:
    """JSON in zlib's format, as base64; `DecompressionStream("deflate")` reads it in a browser."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    raw = text.encode("utf-8", errors="backslashreplace")
    return base64.b64encode(zlib.compress(raw, level=9)).decode("ascii")


def _policy(script: str, style: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _prose(link: str, text: str) -> str:
    """Return words as markup, with code for what is in backticks, if they are in pairs, and links
    to the places that it names, if the address of the repository is known.
    """
    from markupsafe import Markup  # with jinja2

    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _linked(text, link)
    pairs = zip(parts, (*parts[1:], ""), strict=True)
    marked = [
        Markup("{}<code>{}</code>").format(_linked(words, link), code)
        for words, code in [*pairs][:-1:2]
    ]
    return Markup("").join((*marked, _linked(parts[-1], link)))


# An authored line, with its column or without.
_PLACE = re.compile(r"(?<![^\s():])(environments/[^\s():]++):([0-9]++)(?::[0-9]++)?")


def _linked(text: str, link: str) -> str:
    from markupsafe import Markup, escape  # with jinja2

    made, end = Markup(""), 0
    for place in _PLACE.finditer(text) if link else ():
        file, line = place.groups()
        anchor = Markup('<a href="{}/{}#L{}" rel="noreferrer">{}</a>')
        shown = anchor.format(link, quote(file), line, place.group())
        made, end = made + escape(text[end : place.start()]) + shown, place.end()
    return made + escape(text[end:])


@cache
def _templates() -> Environment:
    # 60 ms, for pages alone
    from jinja2 import Environment, FunctionLoader, StrictUndefined, pass_context

    templates = Environment(
        autoescape=True,
        loader=FunctionLoader(_asset),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["prose"] = pass_context(lambda shown, text: _prose(shown["link"], text))
    return templates


@dataclass(frozen=True)
class AuthoredLines:
    """Authored lines as they may be shown; a file is looked at once."""

    sources: Mapping[str, tuple[str, ...]]

    @cached_property
    def _shown(self) -> dict[str, list[str]]:
        return {}

    def at(self, place: Location) -> str:
        """Return the stripped and redacted line at a place; empty if there is none."""
        if place.file not in self._shown:
            self._shown[place.file] = redact_lines(self.sources.get(place.file, ()))
        lines = self._shown[place.file]
        return lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""


def placed(place: Location, lines: AuthoredLines) -> dict[str, Data]:
    """Return a place as data for the script of a page, with its authored line."""
    return {"file": place.file, "line": place.line, "authored": lines.at(place)}


def finding_data(finding: Finding, lines: AuthoredLines, teams: Mapping[str, str]) -> Data:
    """A finding for the script of a page, with the team of its job, or else its environment."""
    return {
        "rule": finding.rule,
        "name": rule(finding).name,
        "help": help_uri(finding.rule),
        "severity": finding.severity.value,
        "message": finding.message,
        "effect": finding.effect,
        "remedy": finding.remedy,
        "team": teams.get(finding.subject) or finding.subject.partition("/")[0],
        **placed(finding.place, lines),
    }
