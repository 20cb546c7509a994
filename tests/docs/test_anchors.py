"""Links into a page lead to a heading as GitHub names it, and not only as the site does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from documentation import ROOT

anchors = pytest.importorskip("mdit_py_plugins.anchors", reason="Sphinx and MyST are not installed")
bs4 = pytest.importorskip("bs4", reason="Sphinx and furo are not installed")

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def _tokens(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _tokens(token.children or ())


def _ids(token: Token) -> Iterator[str]:
    if token.type == "heading_open":
        yield str(token.attrs["id"])
    elif token.type in ("html_inline", "html_block"):
        yield from (
            tag["id"] for tag in bs4.BeautifulSoup(token.content, "html.parser").find_all(id=True)
        )


def test_every_fragment_is_a_heading_or_an_id() -> None:
    reader = MarkdownIt("commonmark").enable("table").use(anchors.anchors_plugin, max_level=6)
    ids: dict[Path, set[str]] = {}
    links: list[tuple[Path, str]] = []
    for page in PAGES:
        tokens = list(_tokens(reader.parse(page.read_text(encoding="utf-8"))))
        ids[page] = {name for token in tokens for name in _ids(token)}
        links += [(page, str(t.attrs["href"])) for t in tokens if t.type == "link_open"]
    broken = []
    for page, link in links:
        parts = urlsplit(link)
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        known = ids.get(target, {unquote(parts.fragment)})
        if not parts.scheme and parts.fragment and unquote(parts.fragment) not in known:
            broken.append((page.name, link))
    assert len(links) > 1000
    assert broken == []
