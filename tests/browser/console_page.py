"""The console's page in a browser, as tests use it: signed in, accessible in both themes, on no other host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.chromium import pages
from tests.documents import ROOT

AXE: Final = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE: Final = 120_000
"""Milliseconds: a limit only ends what failed."""
FORM: Final = {
    "name": "Name",
    "namespace": "Namespace",
    "types": "Device types, by commas (empty: all)",
    "labels": "Labels, such as site=north (empty: all)",
    "firmware": "Firmware (image reference)",
    "version": "Version that the devices must report",
    "canary": "Canary: how many devices first",
    "soak": "Soak seconds after the canary",
    "stop": "Pause once so many devices have failed",
}
"""The fields of a new rollout, and what stands at each."""
# Colours that are still changing are nobody's choice.
SETTLED: Final = """async () => Promise.allSettled(document.getAnimations()
  .filter((each) => each.effect.getTiming().iterations !== Infinity).map((each) => each.finished))"""
VIOLATIONS: Final = "async () => (await axe.run()).violations"


@contextmanager
def opened(browser: Browser, console: ConsoleProcess, *, token: str = "", url: str = "") -> Iterator[Page]:
    """A page that is signed in by the link, or with a token; `url` is where else the console is reached.

    What a page asks of another host, or logs as an error, fails the test.
    """
    with pages(browser) as page:
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        asked: list[str] = []
        logged: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda said: logged.append(said.text) if is_fault(said) else None)
        assert console.url
        here = url or console.url
        if token:
            sign_in(page, here, token)
        else:
            page.goto(console.link)
            page.wait_for_url(f"{here}/fleet")
            expect(page.get_by_text("Signed in as")).to_be_visible()
        yield page
        assert [each for each in asked if not each.startswith(here)] == []
        assert logged == []


def sign_in(page: Page, url: str, token: str, path: str = "/fleet") -> None:
    """Signs in with a token; who was signed in before is forgotten with the page."""
    page.goto(f"{url}{path}")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("Signed in as")).to_be_visible()


def is_fault(said: ConsoleMessage) -> bool:
    """Whether it is an error of the page: the browser also notes each answer that is not 2xx, and we want some."""
    return said.type == "error" and not said.text.startswith("Failed to load resource")


def go(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True).click()


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


def press(page: Page, name: str) -> None:
    button(page, name).click()


def field(page: Page, pointer: str) -> Locator:
    """The input of a field of a form that is made from a schema."""
    return page.locator(f'[id="field#/{pointer}"]')


def show_rollout(page: Page, name: str) -> None:
    """Goes to a rollout in the namespace `default`."""
    go(page, "Rollouts")
    page.get_by_label("Namespace (empty: all)").fill("default")
    page.keyboard.press("Enter")
    page.get_by_role("link", name=name, exact=True).click()


def write_rollout(page: Page, **fields: str) -> None:
    """Fills the form of a new rollout in, step by step, and opens its review; a step is shown by its button."""
    steps = {
        "1. Who": ("namespace", "types", "labels"),
        "2. What": ("name", "firmware", "version"),
        "3. How": ("canary", "soak"),
        "4. When it goes wrong": ("stop",),
    }
    for step, inside in steps.items():
        page.get_by_role("button", name=re.compile(f"{re.escape(step)}$")).click()  # before it: whether it is wrong
        for name in inside:
            if name in fields:
                page.get_by_label(FORM[name], exact=True).fill(fields[name])
    press(page, "5. Review")


def check_accessibility(page: Page) -> None:
    """No rule of axe-core is broken, in the light and in the dark theme."""
    for _ in range(2):
        check_accessibility_once(page)
        page.get_by_role("button", name=re.compile("(Dark|Light) theme")).click()


def check_accessibility_once(page: Page) -> None:
    """No rule of axe-core is broken as it is now."""
    if not page.evaluate("typeof window.axe !== 'undefined'"):
        page.evaluate(AXE.read_text())
    page.evaluate(SETTLED)
    found = page.evaluate(VIOLATIONS)
    broken = [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]
    assert broken == [], "\n".join(broken)


def take_picture(page: Page, name: str) -> None:
    """What docs/pictures shows, as it is now; it is copied there by hand where the page has changed."""
    page.evaluate(SETTLED)
    folder = ROOT / "build" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"console-{name}.png")
    assert (ROOT / "docs" / "pictures" / f"console-{name}.png").exists(), "a picture that nobody is shown"
