"""Debian's chromium, driven by Playwright's Python package; nothing is mocked, and no other host is asked.

Tests in `tests/browser` and `tests/acceptance` open pages with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

PROGRAM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def browsers() -> Iterator[Browser]:
    """A browser; while it is there, the calling thread runs no event loop of its own."""
    if not PROGRAM.exists():
        raise AssertionError(f"{PROGRAM} is missing: apt-get install chromium fonts-dejavu-core")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=list(FLAGS), headless=True)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def pages(browser: Browser, *, any_certificate: bool = False) -> Iterator[Page]:
    """A page with cookies and storage of its own; what a page logs as an error fails the test.

    `any_certificate` is for sites of the test's own whose authority the browser does not know.
    """
    context = browser.new_context(ignore_https_errors=any_certificate)
    try:
        page = context.new_page()
        page.set_default_timeout(60_000)
        thrown: list[str] = []
        page.on("pageerror", lambda error: thrown.append(str(error)))
        yield page
        assert thrown == []
    finally:
        context.close()
