"""The steps of a flash while it runs: a simulated device that takes its firmware slowly, real operator, Pod and log.

On the embedded control plane with its node; nothing is mocked.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.acceptance import console_stage as stage
from tests.acceptance.flashjob_stage import devices, embedded_cluster
from tests.browser.console_page import check_accessibility, opened
from tests.browser.scenes import DEVICES, JOBS, token
from tests.harness import wait_until

SLOW = "slow:200=1"
"""So few bytes a second that there is time to look."""


def test_the_steps_of_a_flash_are_shown_as_its_log_tells_them(
    request: pytest.FixtureRequest, browser: Browser, tmp_path: Path
) -> None:
    with embedded_cluster(request) as server:
        stage.install(server)
        with (
            devices(server, tmp_path, count=1, faults=(SLOW,)) as place,
            stage.operator(server, tmp_path, *place.operator, controllers="flashjob"),
            stage.console(server, tmp_path / "console", "--shared-cache") as console,
            opened(browser, console, token=token(server, "admin")) as page,
        ):
            (found,) = wait_until(lambda: server.request("GET", DEVICES)["items"], what="the device is discovered")
            name = found["metadata"]["name"]
            page.get_by_role("link", name=name, exact=True).click()
            now = page.get_by_role("region", name="Now")
            expect(page.get_by_role("region", name="History")).to_be_visible()
            expect(now).to_have_count(0)  # nothing flashes it
            spec = {"uuid": [name], "firmware": place.firmware, "version": "0.2.0"}
            kind = {"apiVersion": "application.flashjob.nbfc.io/v1alpha1", "kind": "FlashJob"}
            server.request("POST", JOBS, {**kind, "metadata": {"name": "slowly"}, "spec": spec})
            current = now.locator("[aria-current=step]")
            # How many bytes is not known of so small a firmware: all of it is on the way at once.
            expect(current).to_have_text("Flashnow")
            steps = now.get_by_role("listitem")
            expect(steps).to_have_count(4)
            expect(steps.nth(0)).to_contain_text("done")
            expect(steps.nth(3)).to_contain_text("to come")
            check_accessibility(page)
            page.set_viewport_size({"width": 320, "height": 640})
            assert page.evaluate("document.documentElement.scrollWidth") <= 320
            expect(page.get_by_role("region", name="Events of its flash by default/slowly")).to_be_visible()
            # The operator sees its Pod to the end: without it the Pod would stay.
            wait_until(
                lambda: "claim" not in server.request("GET", f"{DEVICES}/{name}")["status"],
                what="the flash has ended",
                timeout=300,
            )
            expect(now).to_have_count(0)
            server.request("DELETE", f"{JOBS}/slowly")
            wait_until(lambda: not server.request("GET", JOBS)["items"], what="the job is gone")
