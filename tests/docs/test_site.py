"""The documentation as a site: every link leads somewhere, and the search works from a disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from opened_page import Visit

bs4 = pytest.importorskip("bs4", reason="Sphinx and furo are not installed")

ROOT = Path(__file__).parents[2]
HOME = "https://github.com/trainwright/trainwright"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, ROOT / "docs", folder], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Any]:
    """Each page of it, read once."""
    paths = sorted(site.rglob("*.html"))
    return {path: bs4.BeautifulSoup(path.read_bytes(), "html.parser") for path in paths}


def test_every_link_leads_somewhere(pages: dict[Path, Any]) -> None:
    anchors = {path: {tag["id"] for tag in page.find_all(id=True)} for path, page in pages.items()}
    links = (
        (path, a["href"]) for path, page in pages.items() for a in page.find_all("a", href=True)
    )
    broken = []
    for page, link in links:
        parts = urlsplit(link)
        if parts.scheme:
            inside = link.removeprefix(f"{HOME}/blob/main/").removeprefix(f"{HOME}/tree/main/")
            if inside != link and not (ROOT / urlsplit(inside).path).exists():
                broken.append((page.name, link))
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        known = target.exists() and (not parts.fragment or target.suffix != ".html"
                                     or parts.fragment in anchors[target])  # fmt: skip
        if not known:
            broken.append((page.name, link))
    assert broken == []


def test_every_page_is_in_the_navigation(site: Path, pages: dict[Path, Any]) -> None:
    front = pages[site / "index.html"]
    listed = {link["href"].partition("#")[0] for link in front.select(".sidebar-tree a[href]")}
    written = {f"{page.stem}.html" for page in (ROOT / "docs").glob("*.md")} - {"index.html"}
    assert written <= listed


def test_the_search_works_from_a_disk(site: Path, open_at: Visit) -> None:
    page = open_at((site / "search.html").as_uri() + "?q=kustomization", ".search li").page
    assert page.locator(".search li a").count() > 2
