"""The page in every state that is designed for: loading, empty, one, many, forbidden, unreachable and stale.

On an embedded API server on which nothing acts, behind a proxy that misbehaves where that is the subject. Each state is
held to the rules of accessibility in both themes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.console_page import button, check_accessibility, check_accessibility_once, go, opened, sign_in
from tests.harness import LocalPlane, Proxy

GROUP = "edgewright.dev/v1alpha1"
DEVICES = f"/apis/{GROUP}/devices"
ROLLOUTS = f"/apis/{GROUP}/namespaces/{{}}/firmwarerollouts"
MANY = 510
"""More than the list fetches at once."""
FOCUSED = """() => { const it = document.activeElement;
  return it === null ? '' : (it.getAttribute('aria-label') || it.textContent || it.id).trim(); }"""
MANY_TABS = 80
HEARD = """() => {
  const region = document.querySelector('[aria-live=polite].ew-heard');
  window.heard = [];
  new MutationObserver(() => window.heard.push([performance.now(), region.textContent]))
    .observe(region, { characterData: true, childList: true, subtree: true });
}"""


@pytest.fixture(scope="module")
def proxy(plane_console: ConsoleProcess) -> Iterator[Proxy]:
    """What is between the page and the console."""
    port = urlsplit(plane_console.url).port
    assert port
    with Proxy("127.0.0.1", port) as running:
        yield running


@pytest.fixture(scope="module")
def token(plane: LocalPlane) -> str:
    """An administrator's."""
    plane.kubectl("create", "serviceaccount", "somebody")
    plane.kubectl(
        *("create", "clusterrolebinding", "somebody", "--clusterrole=cluster-admin"),
        "--serviceaccount=default:somebody",
    )
    return plane.kubectl("create", "token", "somebody").stdout.strip()


@pytest.fixture(scope="module")
def page(browser: Browser, plane_console: ConsoleProcess, proxy: Proxy, token: str) -> Iterator[Page]:
    """A page behind the proxy."""
    with opened(browser, plane_console, token=token, url=f"http://127.0.0.1:{proxy.port}") as page:
        yield page


def add_device(plane: LocalPlane, number: int, **status: Any) -> None:
    """A device that nothing looks after."""
    name = f"board-{number:03}"
    spec = {"type": "esp32", "endpoint": f"192.0.2.{number % 250}", "protocol": "http"}
    labels = {"site": f"site-{number % 7}"}
    kind = {"apiVersion": GROUP, "kind": "Device"}
    made = plane.request("POST", DEVICES, {**kind, "metadata": {"name": name, "labels": labels}, "spec": spec})
    if status:
        plane.request("PUT", f"{DEVICES}/{name}/status", {**made, "status": status})


def add_rollout(plane: LocalPlane, name: str) -> None:
    """A rollout that nothing works on."""
    spec = {"firmware": "registry.example/thermo:2", "version": "2"}
    body = {"apiVersion": GROUP, "kind": "FirmwareRollout", "metadata": {"name": name}, "spec": spec}
    plane.request("POST", ROLLOUTS.format("default"), body)


def tab_to(page: Page, name: str) -> None:
    """Presses Tab until this has the focus."""
    for _ in range(MANY_TABS):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == name:
            return
    raise AssertionError(f"{name} is out of reach of the keyboard")


def test_where_there_is_nothing_the_page_says_how_to_begin(page: Page) -> None:
    expect(page.get_by_role("heading", name="There is no device yet")).to_be_visible()
    expect(page.get_by_role("textbox", name="edgewright simulate --devices 10")).to_be_visible()
    expect(page.get_by_text("No rollout is under way.")).to_be_visible()
    check_accessibility(page)
    for name, empty in {
        "Devices": "No device matches",
        "Rollouts": "There is no rollout yet",
        "Jobs": "No object of this kind",
    }.items():
        go(page, name)
        expect(page.get_by_role("heading", name=empty)).to_be_visible()
        check_accessibility(page)


def test_one_device_and_one_rollout_are_rows_of_their_own(page: Page, plane: LocalPlane) -> None:
    add_device(plane, 0, lastFlash={"outcome": "failed", "message": "no answer"})
    add_rollout(plane, "only")
    go(page, "Rollouts")
    expect(page.get_by_role("grid", name="Rollouts").get_by_role("row")).to_have_count(2)
    expect(page.get_by_role("row", name=re.compile("only"))).to_contain_text("Pending")
    check_accessibility(page)
    go(page, "Devices")
    expect(page.get_by_text("1 shown", exact=True)).to_be_visible()
    go(page, "Fleet")
    expect(page.get_by_role("link", name="Failed: 1")).to_be_visible()
    check_accessibility(page)


def test_many_devices_come_by_pages_and_filters_are_in_the_address(page: Page, plane: LocalPlane) -> None:
    for number in range(1, MANY):
        add_device(plane, number)
    go(page, "Devices")
    expect(page.get_by_text("500 shown, 10 more")).to_be_visible()
    button(page, "Show more").click()
    expect(page.get_by_text("510 shown")).to_be_visible()
    page.get_by_role("textbox", name="Filter by name, type or version").fill("board-00")
    expect(page).to_have_url(re.compile(r"/devices\?q=board-00$"))
    rows = page.get_by_role("grid", name="Devices").get_by_role("row")
    expect(rows).to_have_count(11)
    page.get_by_role("button", name="Failed").click()
    expect(page).to_have_url(re.compile(r"/devices\?q=board-00&state=failed$"))
    expect(rows).to_have_count(2)
    # Whoever is sent the address sees the same, and so does who comes back to it.
    rows.nth(1).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("board-000")
    page.go_back()
    expect(page.get_by_role("textbox", name="Filter by name, type or version")).to_have_value("board-00")
    expect(rows).to_have_count(2)
    check_accessibility(page)
    go(page, "Fleet")
    page.get_by_role("textbox", name="Group by label").fill("nothing")
    expect(page).to_have_url(re.compile(r"/fleet\?groupBy=nothing$"))
    expect(page.get_by_role("grid", name="Group by label").get_by_role("row")).to_have_count(2)


def test_an_address_with_filters_means_the_same_to_somebody_else(
    page: Page, plane_console: ConsoleProcess, proxy: Proxy, token: str
) -> None:
    other = page.context.new_page()
    url = f"http://127.0.0.1:{proxy.port}"
    sign_in(other, url, token, path="/rollouts?namespace=nowhere")
    expect(other.get_by_label("Namespace (empty: all)")).to_have_value("nowhere")
    expect(other.get_by_role("heading", name="There is no rollout yet")).to_be_visible()
    sign_in(other, url, token, path="/devices?labels=site%3Dsite-3&q=board-01")
    expect(other.get_by_role("grid", name="Devices").get_by_role("row")).to_have_count(3)
    other.close()


def test_what_changes_is_read_out_at_most_once_in_five_seconds(page: Page, plane: LocalPlane) -> None:
    add_rollout(plane, "heard")
    path = f"{ROLLOUTS.format('default')}/heard"
    go(page, "Rollouts")
    page.get_by_role("link", name="heard", exact=True).click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("Pending")
    page.evaluate(HEARD)
    for number in range(1, 10):
        status = {"phase": "Progressing" if number < 9 else "Completed", "progress": f"{number}/9"}
        plane.request("PATCH", f"{path}/status", {"status": status}, content_type="application/merge-patch+json")
        expect(page.locator(".ew-heard")).to_have_count(1)
    expect(heading).to_contain_text("Completed")
    expect(page.locator(".ew-heard")).to_have_text("heard: Completed, 9/9.")
    heard = page.evaluate("window.heard")
    times = [time for time, _ in heard]
    assert all(later - earlier >= 4900 for earlier, later in pairwise(times)), heard
    check_accessibility(page)
    plane.request("DELETE", path)


def test_who_may_see_nothing_is_told_which_right_is_missing(page: Page, plane: LocalPlane, proxy: Proxy) -> None:
    plane.kubectl("create", "serviceaccount", "nobody")
    nobody = plane.kubectl("create", "token", "nobody").stdout.strip()
    other = page.context.new_page()
    sign_in(other, f"http://127.0.0.1:{proxy.port}", nobody)
    name = "system:serviceaccount:default:nobody"
    missing = f"{name} may not list devices.edgewright.dev: a Role must allow it."
    expect(other.get_by_text(missing).first).to_be_visible()
    check_accessibility(other)
    for where in ("Devices", "Rollouts", "Jobs"):
        go(other, where)
        expect(
            other.get_by_text(re.compile(f"{name} may not (list|watch) .*: a Role must allow it")).first
        ).to_be_visible()
        check_accessibility_once(other)
    other.close()


def test_while_nothing_has_come_yet_the_page_says_that_it_loads(page: Page, proxy: Proxy) -> None:
    proxy.pause()
    try:
        for where in ("Rollouts", "Jobs"):
            go(page, where)
            expect(page.get_by_role("progressbar", name="Loading").first).to_be_visible()
            check_accessibility(page)
    finally:
        proxy.resume()
    go(page, "Rollouts")
    expect(page.get_by_role("link", name="only", exact=True)).to_be_visible()
    expect(page.get_by_role("progressbar", name="Loading")).to_have_count(0)


def test_a_console_out_of_reach_is_said_and_found_again(page: Page, proxy: Proxy) -> None:
    go(page, "Rollouts")
    expect(page.get_by_role("link", name="only", exact=True)).to_be_visible()
    proxy.refuse()
    proxy.cut()
    try:
        # What was there is stale, what was not cannot be had.
        expect(page.locator(".pf-v6-c-alert__title", has_text="Not live since")).to_be_visible()
        check_accessibility(page)
        go(page, "Jobs")
        expect(page.get_by_text("The console cannot be reached").first).to_be_visible()
        check_accessibility(page)
    finally:
        proxy.accept()
    expect(page.get_by_role("heading", name="No object of this kind")).to_be_visible()
    expect(page.get_by_text("The console cannot be reached")).to_have_count(0)


def test_a_keyboard_alone_finds_a_rollout_and_aborts_it(page: Page, plane: LocalPlane) -> None:
    go(page, "Fleet")
    page.locator("body").press("Tab")
    page.evaluate("document.activeElement.blur()")
    tab_to(page, "Rollouts")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="only", exact=True)).to_be_visible()
    tab_to(page, "only")
    page.keyboard.press("Enter")
    expect(button(page, "Abort")).not_to_have_attribute("aria-disabled", "true")
    tab_to(page, "Abort")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("will not start")
    # Escape leaves it, and gives the focus back to where it was.
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button(page, "Abort")).to_be_focused()
    page.keyboard.press("Enter")
    tab_to(page, "reason")
    page.keyboard.type("by keyboard")
    tab_to(page, "Abort")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    assert plane.request("GET", f"{ROLLOUTS.format('default')}/only")["spec"]["aborted"] is True
