"""The page of a rollout over many devices: failures first and by outcome, rows in pages, the plan next to what is.

On an embedded API server on which nothing acts: the test writes what an operator would.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.console_page import button, check_accessibility, opened, press
from tests.harness import LocalPlane

GROUP = "edgewright.dev/v1alpha1"
ROLLOUTS = f"/apis/{GROUP}/namespaces/default/firmwarerollouts"
JOBS = stage.JOB_PATH.format("default")
MERGE = "application/merge-patch+json"
WHAT = {"firmware": "registry.example/thermo:2", "version": "2"}
COUNT, CORRUPT = 430, 3
"""More than two pages of rows."""


def states(corrupt: int) -> list[dict[str, Any]]:
    """What became of each device: the last ones by name have failed."""
    bad = {"state": "Failed", "outcome": "corrupt", "message": "its digest is another"}
    good = {"state": "Done", "outcome": "succeeded"}
    names = [f"many-{number:03}" for number in range(COUNT)]
    return [{"uuid": each, "device": each, **(bad if at >= COUNT - corrupt else good)} for at, each in enumerate(names)]


@pytest.fixture(scope="module")
def job(plane: LocalPlane) -> Iterator[str]:
    """The path of the only job of a rollout that has many devices."""
    spec = {**WHAT, "batches": [{"name": "canary", "size": "50%"}]}
    body = {"apiVersion": GROUP, "kind": "FirmwareRollout", "metadata": {"name": "many"}, "spec": spec}
    made = plane.request("POST", ROLLOUTS, body)
    batches = [{"number": 1, "name": "canary", "phase": "Running", "size": 214, "done": 200, "failed": 3}]
    counts = dict.fromkeys(("succeeded", "current", "failed", "regressed", "flashing"), 0) | {"total": COUNT}
    status = {
        "phase": "Progressing",
        "batches": batches,
        "counts": {**counts, "waiting": 0, "quarantined": 0, "excluded": 0},
    }
    plane.request("PATCH", f"{ROLLOUTS}/many/status", {"status": status}, content_type=MERGE)
    labels = {"edgewright.dev/rollout-uid": made["metadata"]["uid"]}
    kind = {"apiVersion": "application.flashjob.nbfc.io/v1alpha1", "kind": "FlashJob"}
    job = {**kind, "metadata": {"name": "many-1", "labels": labels}, "spec": {**WHAT, "uuid": ["many-000"]}}
    plane.request("POST", JOBS, job)
    path = f"{JOBS}/many-1"
    plane.request("PATCH", f"{path}/status", {"status": {"devices": states(CORRUPT)}}, content_type=MERGE)
    yield path
    plane.request("DELETE", path)
    plane.request("DELETE", f"{ROLLOUTS}/many")


@pytest.fixture(scope="module")
def page(browser: Browser, plane_console: ConsoleProcess, job: str) -> Iterator[Page]:
    """A tab at the page of that rollout."""
    with opened(browser, plane_console) as page:
        page.goto(f"{plane_console.url}/rollouts/default/many")
        expect(page.get_by_role("heading", level=1)).to_contain_text("many")
        yield page


def rows(page: Page) -> Any:
    return page.get_by_role("grid", name="Devices").get_by_role("row")


def test_a_batch_tells_what_was_planned_next_to_what_is(page: Page) -> None:
    expect(page.get_by_role("region", name="Batches")).to_contain_text("200/214 · 3 failed")
    expect(page.get_by_role("region", name="Batches")).to_contain_text("215 planned, 214 there")
    expect(page.get_by_text("It runs in the cluster: you may close this page.")).to_be_visible()


def test_many_devices_come_in_pages_and_those_that_failed_by_their_outcome(
    page: Page, plane: LocalPlane, job: str
) -> None:
    expect(rows(page)).to_have_count(201)
    expect(rows(page).nth(1)).to_contain_text("many-427")
    expect(page.get_by_text(f"1 to 200 of {COUNT} devices")).to_be_visible()
    expect(button(page, "Earlier rows")).to_have_attribute("aria-disabled", "true")
    button(page, "Later rows").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?page=2$"))
    page.reload()
    expect(page.get_by_text(f"201 to 400 of {COUNT} devices")).to_be_visible()
    press(page, f"corrupt \N{MULTIPLICATION SIGN} {CORRUPT}")
    expect(rows(page)).to_have_count(1 + CORRUPT)
    expect(page).to_have_url(re.compile(r"\?outcome=corrupt$"))
    # It is live, and so are the numbers.
    plane.request("PATCH", f"{job}/status", {"status": {"devices": states(CORRUPT + 1)}}, content_type=MERGE)
    expect(rows(page)).to_have_count(2 + CORRUPT)
    expect(button(page, f"corrupt \N{MULTIPLICATION SIGN} {CORRUPT + 1}")).to_have_attribute("aria-pressed", "true")
    check_accessibility(page)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    check_accessibility(page)
