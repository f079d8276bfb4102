"""A new rollout in steps: who matches while it is written, errors at their field, a draft that outlives a reload.

On an embedded API server on which nothing acts, with the person at this machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.console_page import FORM, button, check_accessibility, opened, press, write_rollout
from tests.harness import LocalPlane

GROUP = "edgewright.dev/v1alpha1"
DEVICES = f"/apis/{GROUP}/devices"
ROLLOUTS = f"/apis/{GROUP}/namespaces/default/firmwarerollouts"
COUNT, ELSEWHERE = 25, 3
FIRMWARE = {"firmware": "registry.example/thermo:2", "version": "2"}


@pytest.fixture(scope="module")
def fleet_of(plane: LocalPlane) -> Iterator[None]:
    """Devices with a label of their own, three of which no rollout in `default` may have."""
    names = [f"maker-{number:02}" for number in range(COUNT + ELSEWHERE)]
    for number, name in enumerate(names):
        spec: dict[str, Any] = {"type": "thermo", "endpoint": "127.0.0.1:1", "protocol": "http"}
        if number >= COUNT:
            spec["allowedNamespaces"] = ["elsewhere"]
        metadata = {"name": name, "labels": {"row": "new"}}
        plane.request("POST", DEVICES, {"apiVersion": GROUP, "kind": "Device", "metadata": metadata, "spec": spec})
    yield
    for name in names:
        plane.request("DELETE", f"{DEVICES}/{name}")


@pytest.fixture(scope="module")
def window(browser: Browser, plane_console: ConsoleProcess, fleet_of: None) -> Iterator[Page]:
    """One that has opened the link, which works once."""
    with opened(browser, plane_console) as page:
        yield page


@pytest.fixture
def page(window: Page, plane_console: ConsoleProcess) -> Page:
    """That window at the form, with no draft."""
    window.set_viewport_size({"width": 1280, "height": 720})
    window.evaluate("sessionStorage.clear()")
    window.goto(f"{plane_console.url}/rollouts/create")
    expect(window.get_by_role("heading", level=1)).to_have_text("Create a rollout")
    return window


def match(page: Page) -> Any:
    return page.get_by_role("region", name="Devices that match")


def test_who_matches_is_counted_while_it_is_written(page: Page) -> None:
    page.get_by_label(FORM["labels"], exact=True).fill("row=new")
    expect(match(page)).to_contain_text(f"{COUNT} devices would be flashed")
    expect(match(page)).to_contain_text(f"{ELSEWHERE} are left out")
    expect(match(page)).to_contain_text(f"{ELSEWHERE}: its spec.allowedNamespaces does not name default")
    expect(
        match(page).get_by_role("list", name="Some of the devices that match").get_by_role("listitem")
    ).to_have_count(20)
    check_accessibility(page)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    check_accessibility(page)


def test_the_answer_to_an_earlier_draft_is_never_shown(page: Page) -> None:
    """The first answer is held back until the second has come."""
    held: list[Route] = []

    def hold(route: Route, request: Request) -> None:
        if "row" in (request.post_data or "") and not held:
            held.append(route)
        else:
            route.continue_()

    page.route("**/rollouts/plan", hold)
    labels = page.get_by_label(FORM["labels"], exact=True)
    with page.expect_request(lambda each: each.url.endswith("/plan") and "row" in (each.post_data or "")):
        labels.fill("row=new")
    labels.fill("row=none")
    expect(match(page)).to_contain_text("0 devices would be flashed")
    held[0].fulfill(
        json={"total": 7, "batches": [], "excluded": {}, "excludedCount": 7, "reasons": {"late": 7}, "current": 0}
    )
    page.unroute("**/rollouts/plan")
    # One that was asked for later is there: so the earlier one has come and gone.
    labels.fill("row=new")
    expect(match(page)).to_contain_text(f"{COUNT} devices would be flashed")
    expect(match(page)).not_to_contain_text("late")


def test_what_is_wrong_leads_to_its_step_and_its_field(page: Page) -> None:
    # What is needed is known without the server.
    press(page, "5. Review")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    expect(page.get_by_text("This is needed.")).to_have_count(3)
    # What the plan refuses stands at its field while it is written.
    press(page, "4. When it goes wrong")
    page.get_by_label(FORM["stop"], exact=True).fill("many")
    expect(page.get_by_label(FORM["stop"], exact=True)).to_have_attribute("aria-invalid", "true")
    expect(match(page)).to_contain_text("Correct what is wrong to see them.")
    check_accessibility(page)
    page.get_by_label(FORM["stop"], exact=True).fill("20%")
    expect(page.get_by_label(FORM["stop"], exact=True)).to_have_attribute("aria-invalid", "false")
    # What the server refuses leads to its field, in whichever step.
    write_rollout(page, name="soaked", soak="long", **FIRMWARE)
    expect(page.get_by_label(FORM["soak"], exact=True)).to_be_focused()
    expect(page.get_by_label(FORM["soak"], exact=True)).to_have_attribute("aria-invalid", "true")
    press(page, "1. Who")
    page.get_by_role("button", name="#/spec/batches/0/soakSeconds").click()
    expect(page.get_by_label(FORM["soak"], exact=True)).to_be_focused()


def test_a_draft_outlives_a_reload_and_not_its_rollout_which_is_made_once(page: Page, plane: LocalPlane) -> None:
    write_rollout(page, name="kept", labels="row=new", **FIRMWARE)
    expect(page.get_by_text("The server would accept this.")).to_be_visible()
    expect(page.get_by_role("region", name="Plan")).to_contain_text("28 devices are meant")
    check_accessibility(page)
    page.reload()
    expect(page.get_by_label(FORM["labels"], exact=True)).to_have_value("row=new")
    press(page, "5. Review")
    asked: list[str] = []
    page.on(
        "request",
        lambda each: asked.append(each.url) if each.method == "POST" and each.url.endswith("/rollouts") else None,
    )
    button(page, "Create").dblclick()
    expect(page).to_have_url(re.compile("/rollouts/default/kept$"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("kept")
    assert len(asked) == 1
    assert plane.request("GET", f"{ROLLOUTS}/kept")["spec"]["selector"] == {"labels": {"matchLabels": {"row": "new"}}}
    assert page.evaluate("sessionStorage.length") == 0
    # A name that is taken is found before anything is created, and at its field.
    page.go_back()
    write_rollout(page, name="kept", **FIRMWARE)
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    expect(page.get_by_label("Name", exact=True)).to_have_attribute("aria-invalid", "true")
    press(page, "Start over")
    assert page.evaluate("sessionStorage.length") == 0
    plane.request("DELETE", f"{ROLLOUTS}/kept")


def test_an_answer_that_is_lost_makes_no_second_rollout_and_no_riddle(page: Page, plane: LocalPlane) -> None:
    write_rollout(page, name="lost", labels="row=new", **FIRMWARE)
    expect(page.get_by_text("The server would accept this.")).to_be_visible()

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/namespaces/default/rollouts", lose)
    press(page, "Create")
    expect(page.get_by_text("The console cannot be reached")).to_be_visible()
    page.unroute("**/namespaces/default/rollouts")
    press(page, "Create")
    expect(page).to_have_url(re.compile("/rollouts/default/lost$"))
    plane.request("DELETE", f"{ROLLOUTS}/lost")


def test_a_keyboard_alone_makes_a_rollout(page: Page, plane: LocalPlane) -> None:
    page.get_by_label("Namespace", exact=True).focus()
    typed = {"2": ("typed", *FIRMWARE.values())}
    for step in "1234":
        expect(page.get_by_role("button", name=re.compile(f"^{step}[.]"))).to_have_attribute("aria-current", "step")
        for value in typed.get(step, ()):
            page.keyboard.press("Tab")
            page.keyboard.type(value)
        # Enter in a field goes on; after that the focus is on the heading of the next step.
        if step not in ("1", "2"):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
    expect(button(page, "Create")).not_to_have_attribute("aria-disabled", "true")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(button(page, "Create")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/rollouts/default/typed$"))
    plane.request("DELETE", f"{ROLLOUTS}/typed")
