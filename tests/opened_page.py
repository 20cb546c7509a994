"""A page in a real browser, which notes whatever it prints, breaks or asks the network for."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Opened:
    """A page in the browser, what it printed, and what it asked for."""

    page: Any  # of Playwright, which may not be installed
    address: str
    printed: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """Nothing on the console, no error, and no request but for the file itself."""
        assert self.printed == []
        assert {url.partition("#")[0] for url in self.requested} == {self.address}


Visit = Callable[..., Opened]


def installed_browser() -> str:
    """The path of a Chromium; the test is skipped where there is none."""
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium: apt-get install chromium")
    return found


@pytest.fixture(scope="module")  # while it is open, no other event loop runs in this thread
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = installed_browser()
    with playwright.sync_playwright() as driver:
        # Its own sandbox takes user namespaces, which containers often do not give.
        launched = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def open_at(browser: Any) -> Iterator[Visit]:
    """Opens an address, and waits for an element."""
    context = browser.new_context()
    context.set_default_timeout(60_000)

    def opening(address: str, ready: str, **media: object) -> Opened:
        page = context.new_page()
        if viewport := media.pop("viewport", None):
            page.set_viewport_size(viewport)
        if media:
            page.emulate_media(**media)
        opened = Opened(page, address.partition("#")[0])
        page.on("console", lambda message: opened.printed.append(message.text))
        page.on("pageerror", lambda error: opened.printed.append(str(error)))
        page.on("request", lambda request: opened.requested.append(request.url))
        page.goto(address)
        page.wait_for_selector(ready)
        return opened

    yield opening
    context.close()


# Rows far down are painted once they come near, and have no `innerText` before that.
_PAINTED = "document.styleSheets[0].insertRule('* { content-visibility: visible !important }')"


@pytest.fixture
def visit(open_at: Visit, tmp_path: Path) -> Visit:
    """Opens one of our pages from a file, as at an address with the given hash."""

    def visited(text: str, hash_: str = "", **media: object) -> Opened:
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        opened = open_at(file.as_uri() + hash_, "html[data-ready]", **media)
        opened.page.evaluate(_PAINTED)
        return opened

    return visited
