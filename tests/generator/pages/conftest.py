"""A real browser for pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from opened_page import Opened, Visit

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[playwright.Browser]:
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # Its own sandbox takes user namespaces, which containers often do not give.
        launched = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: playwright.Browser, tmp_path: Path) -> Iterator[Visit]:
    """Opens a page from a file, as at an address with the given hash."""
    context = browser.new_context()
    context.set_default_timeout(60_000)

    def visited(text: str, hash_: str = "", **options: object) -> Opened:
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        page = context.new_page()
        if options:
            page.emulate_media(**options)
        opened = Opened(page, file)
        page.on("console", lambda message: opened.printed.append(message.text))
        page.on("pageerror", lambda error: opened.printed.append(str(error)))
        page.on("request", lambda request: opened.requested.append(request.url))
        page.goto(file.as_uri() + hash_)
        page.wait_for_selector("html[data-ready]")
        return opened

    yield visited
    context.close()
