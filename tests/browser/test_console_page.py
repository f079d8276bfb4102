"""The console's page as people use it, on the fleet that `edgewright demo --keep` leaves: real devices' answers, live.

Nothing is mocked. Every page is held to the rules of accessibility in both themes, and asks no other host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.console_page import (
    check_accessibility,
    check_accessibility_once,
    go,
    opened,
    press,
    take_picture,
    write_rollout,
)

FIRMWARE = """async (name) =>
  (await (await fetch(`/api/v1/namespaces/default/rollouts/${name}`)).json()).spec.firmware"""
FIRST_NAME = "async (path) => (await (await fetch(path)).json()).items[0].metadata.name"
FROZEN = """apiVersion: edgewright.dev/v1alpha1
kind: Fleet
metadata:
  name: {}
spec:
  frozen: true
  reason: a storm
"""
FIRST, BAD = "thermometer-0.2.0", "thermometer-0.3.0"


@pytest.fixture(scope="module")
def page(browser: Browser, console: ConsoleProcess) -> Iterator[Page]:
    """A browser that has opened the link; what a page asks of another host, or logs as an error, fails the test."""
    with opened(browser, console) as page:
        yield page


def test_the_fleet_is_counted_and_its_trouble_leads_to_the_devices(page: Page) -> None:
    expect(page.get_by_role("link", name="Failed: 1")).to_be_visible()
    expect(page.get_by_role("link", name="In order: 11")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("athens 4"))).to_be_visible()
    check_accessibility(page)
    take_picture(page, "fleet")
    page.get_by_role("link", name="Failed: 1").click()
    expect(page).to_have_url(re.compile(r"/devices\?state=failed$"))
    rows = page.get_by_role("grid", name="Devices").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("refused")
    check_accessibility(page)


def test_a_device_tells_what_was_proven_and_what_was_done_to_it(console: ConsoleProcess, page: Page) -> None:
    # One that the bad firmware was never meant for: names, and so the order, depend on the ports that were free.
    page.goto(f"{console.url}/devices?labels={quote('ring!=canary')}")
    rows = page.get_by_role("grid", name="Devices").get_by_role("row")
    expect(rows).to_have_count(11)
    rows.filter(has_text="succeeded").first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    expect(page.get_by_text("is updated: it runs 0.2.0, by proof")).to_be_visible()
    expect(page.get_by_role("grid", name="History").get_by_role("row").nth(1)).to_contain_text("0.2.0")
    check_accessibility(page)


def test_a_rollout_shows_its_batches_and_what_stopped_it(page: Page) -> None:
    go(page, "Rollouts")
    expect(page.get_by_role("row", name=re.compile(re.escape(FIRST)))).to_contain_text("Completed")
    check_accessibility(page)
    page.get_by_role("link", name=BAD, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Recalled")
    expect(page.get_by_role("region", name="Batches")).to_contain_text("0/2")
    check_accessibility(page)
    take_picture(page, "rollout")


def test_a_recall_says_what_it_can_take_back_before_it_does_anything(page: Page) -> None:
    go(page, "Rollouts")
    page.get_by_role("link", name=FIRST, exact=True).click()
    page.get_by_role("button", name="Recall").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("0 devices go back")
    expect(dialog).to_contain_text("9 cannot: nobody knows what it ran before")
    check_accessibility_once(page)
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)


def test_a_bad_rollout_is_refused_with_its_field_before_anything_is_created(page: Page) -> None:
    go(page, "Rollouts")
    page.get_by_role("link", name="Create rollout").click()
    check_accessibility(page)
    write_rollout(page, name="Not A Name", firmware="registry.example/thermo:9", version="9")
    expect(page.get_by_text("metadata/name")).to_be_visible()
    # The step of that field is shown, and the field has the focus.
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    check_accessibility(page)
    page.get_by_label("Name", exact=True).fill("next")
    press(page, "5. Review")
    plan = page.get_by_role("region", name="Plan")
    expect(plan).to_contain_text("12 devices are meant")
    expect(plan.get_by_role("listitem").first).to_contain_text("canary: 1")
    expect(page.get_by_role("button", name="Create", exact=True)).to_be_enabled()


def test_a_rollout_is_created_from_its_plan_stopped_by_its_canary_and_recalled(page: Page) -> None:
    firmware = page.evaluate(FIRMWARE, BAD)
    go(page, "Rollouts")
    page.get_by_role("link", name="Create rollout").click()
    write_rollout(page, name="again", firmware=firmware, version="0.3.0", labels="ring=canary", canary="2", soak="45")
    expect(page.get_by_role("region", name="Plan")).to_contain_text("2 devices are meant")
    page.get_by_role("button", name="Create", exact=True).click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("Paused")
    expect(page.get_by_text("regressed").first).to_be_visible()
    page.get_by_role("button", name="Recall").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 device goes back to what it ran before")
    dialog.get_by_label("Reason").fill("the readings are wrong")
    dialog.get_by_role("button", name="Recall").click()
    expect(page).to_have_url(re.compile("/again-recall$"))
    expect(heading).to_contain_text(re.compile("again-recall .*Completed"))
    go(page, "Fleet")
    expect(page.locator("figcaption")).to_have_text("0.2.0: 11 · 0.1.0: 1")


def test_any_kind_is_changed_by_yaml_after_the_servers_own_dry_run(page: Page) -> None:
    go(page, "Any kind")
    page.get_by_role("grid", name="Any kind").get_by_role("link", name="Fleet", exact=True).click()
    page.get_by_role("link", name="Create").click()
    page.get_by_role("button", name="YAML").click()
    yaml = page.get_by_label("YAML", exact=True)
    yaml.fill(FROZEN.format("other"))
    page.get_by_role("button", name="Check (dry run)").click()
    expect(page.get_by_text("the only Fleet is called fleet").first).to_be_visible()
    yaml.fill(FROZEN.format("fleet"))
    page.get_by_role("button", name="Check (dry run)").click()
    expect(page.get_by_role("region", name="What would change")).to_contain_text("+   frozen: true")
    check_accessibility(page)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("The fleet is frozen: no device is started. a storm")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No object of this kind")).to_be_visible()


def test_a_keyboard_alone_reaches_the_content(page: Page) -> None:
    go(page, "Fleet")
    page.reload()
    expect(page.get_by_role("heading", name="Fleet", exact=True)).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"


def test_every_page_fits_a_phone_and_is_accessible_there(console: ConsoleProcess, page: Page) -> None:
    device = page.evaluate(FIRST_NAME, "/api/v1/devices?limit=1")
    job = page.evaluate(FIRST_NAME, "/api/v1/namespaces/default/flashjobs?limit=1")
    page.set_viewport_size({"width": 320, "height": 640})
    for path in (
        *("/fleet", "/devices", f"/devices/{device}"),
        *("/rollouts", f"/rollouts/default/{BAD}", "/rollouts/create"),
        *("/kinds", "/kinds/flashjobs", "/kinds/flashjobs/create", f"/kinds/flashjobs/in/default/{job}"),
        *(f"/kinds/devices/{device}", f"/kinds/rollouts/in/default/{BAD}"),
    ):
        page.goto(f"{console.url}{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_role("progressbar", name="Loading")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
        check_accessibility(page)


def test_a_stranger_is_asked_for_a_token(console: ConsoleProcess, page: Page) -> None:
    page.context.clear_cookies()
    page.goto(f"{console.url}/rollouts")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    check_accessibility(page)
    page.get_by_label("Token").fill("no-token-at-all")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert "no-token-at-all" not in page.url
