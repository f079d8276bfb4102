"""The fleet device by device, what waits for somebody, a device's Events and its release, for viewer and administrator.

On an embedded API server on which nothing acts. Every state is held to the rules of accessibility in both themes, fits
a phone, and can be used with a keyboard alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.console_page import button, check_accessibility, check_accessibility_once, opened, sign_in
from tests.browser.scenes import token
from tests.harness import LocalPlane

GROUP = "edgewright.dev/v1alpha1"
DEVICES = f"/apis/{GROUP}/devices"
ROLLOUTS = f"/apis/{GROUP}/namespaces/default/firmwarerollouts"
EVENTS = "/api/v1/namespaces/default/events"
MERGE = "application/merge-patch+json"
SINCE = {"lastTransitionTime": "2026-11-02T12:00:00Z", "reason": "KeepsFailing"}
HELD = {"type": "Quarantined", "status": "True", "message": "3 jobs in a row have failed", **SINCE}
STATES: dict[str, dict[str, Any]] = {
    "failed": {"lastFlash": {"outcome": "refused"}},
    "quarantined": {"conditions": [HELD], "failures": 3},
    "unreachable": {"conditions": [{"type": "Stale", "status": "True", "message": "silent", **SINCE}]},
    "updating": {"claim": {"job": {"namespace": "default", "name": "job", "uid": "u"}, "uuid": "x", "attempt": 1}},
}
MANY = 40


@pytest.fixture(scope="module")
def console(plane: LocalPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console with the shared cache; the server is as empty afterwards as it was."""
    with stage.console(plane, tmp_path_factory.mktemp("fleet"), "--shared-cache") as running:
        yield running
    for path in (DEVICES, ROLLOUTS, EVENTS):
        for each in plane.request("GET", path)["items"]:
            plane.request("DELETE", f"{path}/{each['metadata']['name']}")


@pytest.fixture(scope="module")
def tokens(plane: LocalPlane) -> dict[str, str]:
    """A viewer's, of the namespace `default`, and an administrator's."""
    return {role: token(plane, role) for role in ("viewer", "admin")}


@pytest.fixture(scope="module")
def page(browser: Browser, console: ConsoleProcess, tokens: dict[str, str]) -> Iterator[Page]:
    """A page of the administrator's: tests sign in as somebody else."""
    with opened(browser, console, token=tokens["admin"]) as page:
        yield page


def add_device(plane: LocalPlane, name: str, site: str, **status: Any) -> dict[str, Any]:
    """A device that nothing looks after."""
    kind = {"apiVersion": GROUP, "kind": "Device"}
    metadata = {"name": name, "labels": {"site": site}}
    made: dict[str, Any] = plane.request("POST", DEVICES, {**kind, "metadata": metadata, "spec": {"type": "esp32"}})
    if status:
        plane.request("PATCH", f"{DEVICES}/{name}/status", {"status": status}, content_type=MERGE)
    return made


def happened(plane: LocalPlane, about: dict[str, Any], reason: str, message: str) -> None:
    """An Event about an object."""
    metadata = about["metadata"]
    of = {"apiVersion": GROUP, "kind": about["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    of |= {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    at = {"firstTimestamp": "2026-11-02T12:00:00Z", "lastTimestamp": "2026-11-02T12:00:00Z"}
    said = {"type": "Warning", "reason": reason, "message": message, "count": 2, **at}
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e-"}, "involvedObject": of, **said}
    plane.request("POST", EVENTS, body)


def check_on_a_phone(page: Page) -> None:
    """What is shown fits 320 pixels, and is accessible there."""
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    check_accessibility_once(page)
    page.set_viewport_size({"width": 1280, "height": 720})


def test_few_devices_are_rows_and_more_are_cells_that_lead_to_them(page: Page, plane: LocalPlane) -> None:
    for number, (state, status) in enumerate(STATES.items()):
        add_device(plane, f"d-{state}", f"site-{number % 2}", **status)
    devices = page.get_by_role("region", name="Devices")
    rows = devices.get_by_role("grid", name="Devices").get_by_role("row")
    expect(rows).to_have_count(1 + len(STATES))
    expect(rows.nth(1)).to_contain_text(re.compile("d-failed.*Failed"))  # trouble first
    check_accessibility(page)
    check_on_a_phone(page)
    for number in range(MANY):
        add_device(plane, f"d-{number:02}", f"site-{number % 2}")
    cells = devices.get_by_role("list").get_by_role("link")
    expect(cells).to_have_count(MANY + len(STATES))
    expect(rows).to_have_count(0)
    north = devices.get_by_role("list", name="site-0")
    expect(north.get_by_role("link").first).to_have_accessible_name("d-failed: Failed, (none)")
    expect(devices.get_by_role("link", name="d-quarantined: Quarantined, (none)")).to_be_visible()
    check_accessibility(page)
    check_on_a_phone(page)
    # They follow the devices, as the counts do.
    plane.request("PATCH", f"{DEVICES}/d-07/status", {"status": STATES["failed"]}, content_type=MERGE)
    expect(devices.get_by_role("link", name="d-07: Failed, (none)")).to_be_visible()
    # A group is one stop of the Tab key, and arrow keys move inside of it.
    assert devices.locator("ul a[tabindex='0']").count() == 2
    north.get_by_role("link").first.focus()
    page.keyboard.press("ArrowRight")
    expect(north.get_by_role("link").nth(1)).to_be_focused()
    page.keyboard.press("End")
    expect(north.get_by_role("link").last).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("d-failed")


def test_what_waits_for_somebody_is_what_they_may_decide(
    page: Page, plane: LocalPlane, console: ConsoleProcess, tokens: dict[str, str]
) -> None:
    spec = {"firmware": "registry.example/thermo:2", "version": "2"}
    body = {"apiVersion": GROUP, "kind": "FirmwareRollout", "metadata": {"name": "waits"}, "spec": spec}
    plane.request("POST", ROLLOUTS, body)
    batches = [{"number": 1, "name": "canary", "phase": "AwaitingApproval", "size": 1, "done": 1}]
    status = {"phase": "Progressing", "batches": batches}
    plane.request("PATCH", f"{ROLLOUTS}/waits/status", {"status": status}, content_type=MERGE)
    waiting = page.get_by_role("region", name="What waits for you")
    sign_in(page, console.url, tokens["viewer"])
    expect(page.get_by_role("region", name="Rollouts under way")).to_contain_text("waits")
    expect(waiting).to_contain_text("Nothing waits for you.")
    check_accessibility(page)
    sign_in(page, console.url, tokens["admin"])
    approval = waiting.get_by_role("link", name="waits waits for the approval of canary")
    expect(approval).to_be_visible()
    expect(waiting.get_by_role("link", name=re.compile("^1 device is in quarantine"))).to_have_attribute(
        "href", "/devices?state=quarantined"
    )
    check_accessibility(page)
    check_on_a_phone(page)
    approval.click()
    expect(button(page, "Approve")).to_be_visible()


def test_a_device_in_quarantine_is_released_with_who_and_why(
    page: Page, plane: LocalPlane, console: ConsoleProcess, tokens: dict[str, str]
) -> None:
    path = "/devices/d-quarantined"
    sign_in(page, console.url, tokens["viewer"], path=path)
    expect(page.get_by_text("In quarantine: 3 jobs in a row have failed.")).to_be_visible()
    expect(button(page, "Release")).to_have_attribute("aria-disabled", "true")
    check_accessibility(page)
    button(page, "Release").focus()
    expect(page.get_by_role("tooltip")).to_contain_text("may not patch devices: a Role must allow it.")
    sign_in(page, console.url, tokens["admin"], path=path)
    expect(button(page, "Release")).not_to_have_attribute("aria-disabled", "true")
    button(page, "Release").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 jobs in a row have failed on it does not count any more")
    check_accessibility_once(page)
    dialog.get_by_label("Reason").fill("new cable")
    dialog.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_text("In quarantine")).to_have_count(0)
    there = plane.request("GET", f"{DEVICES}/d-quarantined")
    assert (there["status"].get("conditions", []), there["status"]["failures"]) == ([], 0)
    said = json.loads(there["metadata"]["annotations"]["edgewright.dev/last-action"])
    assert (said["action"], said["reason"]) == ("release", "new cable")
    # What was done stands in the Events, for who may read them.
    events = page.get_by_role("region", name="Events", exact=True)
    expect(events).to_contain_text("asked for release: new cable")
    check_accessibility(page)
    check_on_a_phone(page)


def test_of_a_flash_whose_log_tells_nothing_no_step_is_made_up(
    page: Page, console: ConsoleProcess, tokens: dict[str, str]
) -> None:
    sign_in(page, console.url, tokens["admin"], path="/devices/d-updating")
    expect(page.get_by_role("region", name="Now")).to_contain_text("Its log does not tell which step it is at.")
    check_accessibility(page)
    check_on_a_phone(page)


def test_events_stand_on_the_page_of_a_device_and_of_any_object(
    page: Page, plane: LocalPlane, console: ConsoleProcess, tokens: dict[str, str]
) -> None:
    device = plane.request("GET", f"{DEVICES}/d-00")
    sign_in(page, console.url, tokens["admin"], path="/devices/d-00")
    events = page.get_by_role("region", name="Events", exact=True)
    expect(events).to_contain_text("Nothing is told of it")
    happened(plane, device, "Unplugged", "somebody pulled the cable")
    row = events.get_by_role("row").nth(1)
    expect(row).to_contain_text(re.compile("Warning.*Unplugged.*somebody pulled the cable.*2"))
    # Of its flash, too: of a job that is gone it says so.
    status = {"lastFlash": {"outcome": "succeeded", "job": {"namespace": "default", "name": "spring", "uid": "u"}}}
    plane.request("PATCH", f"{DEVICES}/d-00/status", {"status": status}, content_type=MERGE)
    of_flash = page.get_by_role("region", name="Events of its flash by default/spring")
    expect(of_flash).to_contain_text('"spring" not found')
    check_accessibility(page)
    happened(plane, plane.request("GET", f"{ROLLOUTS}/waits"), "Waiting", "for a decision")
    sign_in(page, console.url, tokens["admin"], path="/kinds/rollouts/in/default/waits")
    expect(events.get_by_role("row").nth(1)).to_contain_text("for a decision")
    check_accessibility(page)
    check_on_a_phone(page)
    sign_in(page, console.url, tokens["viewer"], path="/kinds/rollouts/in/default/waits")
    expect(events.get_by_role("row").nth(1)).to_contain_text("for a decision")
    # Devices are seen by every viewer, and what happens to them by those of the namespace `default`.
    sign_in(page, console.url, token(plane, "viewer", namespace="kube-system"), path="/devices/d-00")
    expect(events).to_contain_text("may not list events: a Role must allow it.")
    check_accessibility_once(page)
