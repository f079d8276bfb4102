"""Forms that are made from a schema, on kinds that Edgewright knows nothing of: what is typed is what is declared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.chromium import pages
from tests.browser.console_page import (
    button,
    check_accessibility,
    check_accessibility_once,
    field,
    go,
    opened,
    press,
    take_picture,
)
from tests.browser.stalls import STALLS
from tests.harness import LocalPlane

STALL_PATH = "/apis/market.example.com/v1/namespaces/default/stalls"


@pytest.fixture(scope="module")
def page(browser: Browser, plane_console: ConsoleProcess) -> Iterator[Page]:
    """A browser that has opened the link."""
    with opened(browser, plane_console) as page:
        yield page


def create(page: Page, kind: str) -> None:
    """Goes where an object of a kind is made."""
    go(page, "Any kind")
    page.get_by_role("grid", name="Any kind").get_by_role("link", name=kind, exact=True).click()
    page.get_by_role("link", name="Create").click()
    expect(page.get_by_role("heading", name=f"Create {kind}")).to_be_visible()


def unfold(page: Page, name: str) -> None:
    """Opens a group of fields."""
    page.get_by_role("button", name=f"Fields of {name}").click()


def declared(plane: LocalPlane, path: str) -> Any:
    """The spec that the server has."""
    return plane.request("GET", path)["spec"]


def test_the_first_page_is_small(browser: Browser, page: Page, plane_console: ConsoleProcess) -> None:
    """All of it: the page itself, its scripts, styles and fonts, as they come over the wire to who was never here."""
    with pages(browser) as fresh:
        fresh.context.add_cookies(page.context.cookies())
        finished: list[Request] = []

        def noted(request: Request) -> None:
            finished.append(request)

        fresh.on("requestfinished", noted)
        fresh.goto(f"{plane_console.url}/fleet")
        expect(fresh.get_by_role("heading", name="Fleet", exact=True)).to_be_visible()
        fresh.evaluate("async () => { await document.fonts.ready; }")
        sizes = {each.url: each.sizes()["responseBodySize"] for each in finished if "/api/v1/" not in each.url}
    assert {url.rpartition(".")[2] for url in sizes} >= {"js", "css"}
    assert min(sizes.values()) > 0, "nothing came from a cache"
    assert sum(sizes.values()) <= 450_000, sizes


def test_a_minimart_is_created_by_a_form_that_nobody_wrote(page: Page, plane: LocalPlane) -> None:
    create(page, "Minimart")
    check_accessibility(page)
    field(page, "metadata/name").fill("corner")
    field(page, "spec/replicaCount").fill("11")
    press(page, "Check (dry run)")
    wrong = page.locator('[id="field#/spec/replicaCount-faults"]')
    expect(wrong).to_contain_text("should be less than or equal to 10")
    expect(field(page, "spec/replicaCount")).to_be_focused()
    check_accessibility(page)
    field(page, "spec/replicaCount").fill("2")
    expect(wrong).to_have_count(0)
    press(page, "Check (dry run)")
    expect(page.get_by_role("region", name="What would change")).to_contain_text("+   replicaCount: 2")
    check_accessibility(page)
    take_picture(page, "form")
    press(page, "Create")
    expect(page).to_have_url(re.compile("/in/default/corner$"))
    assert declared(plane, f"{stage.MINIMART_PATH.format('default')}/corner") == {"replicaCount": 2}


def test_every_sort_of_field_of_a_foreign_kind_can_be_filled_in(page: Page, plane: LocalPlane) -> None:
    create(page, "Stall")
    field(page, "metadata/name").fill("fruit")
    unfold(page, "labels")
    press(page, "Add to labels")
    page.get_by_label("labels key 1").fill("site")
    page.get_by_label("labels value 1").fill("athens")
    press(page, "Check (dry run)")
    expect(page.locator('[id="field#/spec/owner-faults"]')).to_contain_text("Required value")
    expect(page.get_by_role("button", name="#/spec/goods")).to_be_visible()
    field(page, "spec/owner").fill("maria")
    press(page, "Add to goods")
    field(page, "spec/goods/0/name").fill("apples")
    field(page, "spec/goods/0/price").fill("2.5")
    unfold(page, "tags")
    press(page, "Add to tags")
    field(page, "spec/goods/0/tags/0").fill("ripe")
    press(page, "Add to goods")
    field(page, "spec/goods/1/name").fill("rotten")
    press(page, "Remove goods 2")
    press(page, "9 more fields")
    field(page, "spec/row").select_option("south")
    expect(field(page, "spec/width")).to_have_attribute("placeholder", "3")
    field(page, "spec/covered").check()
    unfold(page, "hours")
    field(page, "spec/hours/from").fill("8 o'clock")
    unfold(page, "signs")
    press(page, "Add to signs")
    page.get_by_label("signs key 1").fill("el/gr")
    page.get_by_label("signs value 1").fill("φρούτα")
    field(page, "spec/share").fill("50%")
    field(page, "spec/token").fill("open sesame")
    preview = page.get_by_role("region", name="As YAML")
    expect(preview).to_contain_text("token: ••••••••")
    expect(preview).not_to_contain_text("sesame")
    preview.get_by_role("button", name="Show secret values").click()
    expect(preview).to_contain_text("token: open sesame")
    preview.get_by_role("button", name="Show secret values").click()
    expect(preview).not_to_contain_text("sesame")
    field(page, "spec/extra").fill("a: [1")
    expect(page.locator('[id="field#/spec/extra-faults"]')).to_contain_text("not YAML")
    check_accessibility(page)
    field(page, "spec/extra").fill("a: [1, {b: c}]")
    press(page, "Check (dry run)")
    # What the server says of a field stands at the field, wherever it is.
    expect(page.locator('[id="field#/spec/hours/from-faults"]')).to_contain_text("should match")
    check_accessibility(page)
    press(page, "#/spec/hours/from")
    expect(field(page, "spec/hours/from")).to_be_focused()
    field(page, "spec/hours/from").fill("08:00")
    press(page, "Check (dry run)")
    changes = page.get_by_role("region", name="What would change")
    expect(changes).to_contain_text("+   token: ••••••••")
    expect(page.locator("pre", has_text="sesame")).to_have_count(0)
    # Nor does it stand in the commands to copy; it is copied all the same.
    page.get_by_role("button", name="Copy as kubectl, curl", exact=True).click()
    expect(page.locator("[data-command=kubectl]")).to_contain_text("token: ••••••••")
    expect(page.locator("[data-command=curl]")).not_to_contain_text("sesame")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press(page, "Copy the curl command")
    expect(button(page, "Copy the curl command")).to_be_visible()
    assert '"token":"open sesame"' in page.evaluate("async () => navigator.clipboard.readText()")
    check_accessibility(page)
    changes.get_by_role("button", name="Show secret values").click()
    expect(changes).to_contain_text("+   token: open sesame")
    press(page, "Create")
    expect(page).to_have_url(re.compile("/in/default/fruit$"))
    assert declared(plane, f"{STALL_PATH}/fruit") == {
        "owner": "maria",
        "goods": [{"name": "apples", "price": 2.5, "tags": ["ripe"]}],
        "row": "south",
        "width": 3,
        "covered": True,
        "hours": {"from": "08:00"},
        "signs": {"el/gr": "φρούτα"},
        "share": "50%",
        "extra": {"a": [1, {"b": "c"}]},
        "token": "open sesame",
    }
    assert plane.request("GET", f"{STALL_PATH}/fruit")["metadata"]["labels"] == {"site": "athens"}


def test_what_is_taken_out_of_a_form_is_taken_out_of_the_object(page: Page, plane: LocalPlane) -> None:
    goods = [{"name": "figs"}]
    head = {"apiVersion": "market.example.com/v1", "kind": "Stall", "metadata": {"name": "dried"}}
    spec = {"owner": "eleni", "goods": goods, "signs": {"en": "figs"}, "hours": {"from": "09:00"}}
    plane.request("POST", STALL_PATH, {**head, "spec": spec})
    go(page, "Any kind")
    page.get_by_role("grid", name="Any kind").get_by_role("link", name="Stall", exact=True).click()
    page.get_by_role("link", name="dried").click()
    expect(field(page, "metadata/name")).to_be_disabled()
    press(page, "Remove en")
    field(page, "spec/hours/from").fill("")
    # Its status goes on meanwhile, as that of an object does that a controller works on.
    found = plane.request("GET", f"{STALL_PATH}/dried")
    plane.request("PUT", f"{STALL_PATH}/dried/status", {**found, "status": {"phase": "Running"}})
    press(page, "Check (dry run)")
    changes = page.get_by_role("region", name="What would change")
    expect(changes).to_contain_text("-   signs:")
    expect(changes).not_to_contain_text("+")
    press(page, "Apply")
    expect(page.get_by_text("Applied.")).to_be_visible()
    expect(page.get_by_role("region", name="Status")).to_contain_text("phase: Running")
    check_accessibility(page)
    expected = {"owner": "eleni", "goods": goods, "row": "north", "width": 3}
    assert declared(plane, f"{STALL_PATH}/dried") == expected
    press(page, "Delete")
    expect(page.get_by_role("dialog")).to_contain_text("What it owns goes with it.")
    check_accessibility_once(page)
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile(f"/kinds/{STALLS}$"))
    assert not plane.exists(f"{STALL_PATH}/dried")


def test_a_name_that_is_taken_changes_nothing(page: Page, plane: LocalPlane) -> None:
    create(page, "Minimart")
    press(page, "Create")
    expect(page.locator('[id="field#/metadata/name-faults"]')).to_contain_text("a name is needed")
    path = stage.MINIMART_PATH.format("default")
    body = {"apiVersion": "charts.samutup.com/v1alpha1", "kind": "Minimart", "metadata": {"name": "taken"}}
    plane.request("POST", path, {**body, "spec": {"replicaCount": 1}})
    field(page, "metadata/name").fill("taken")
    field(page, "spec/replicaCount").fill("9")
    press(page, "Create")
    expect(page.get_by_text("already exists").first).to_be_visible()
    assert declared(plane, f"{path}/taken") == {"replicaCount": 1}


def test_form_and_yaml_are_two_views_of_the_same_draft(page: Page) -> None:
    create(page, "Minimart")
    field(page, "metadata/name").fill("both")
    press(page, "YAML")
    yaml = page.get_by_label("YAML", exact=True)
    expect(yaml).to_have_value(re.compile("name: both"))
    yaml.fill("metadata: [")
    press(page, "Form")
    expect(page.get_by_text("This is not YAML")).to_be_visible()
    yaml.fill(
        "apiVersion: charts.samutup.com/v1alpha1\nkind: Minimart\nmetadata: {name: both}\nspec: {replicaCount: 7}\n"
    )
    press(page, "Form")
    expect(field(page, "spec/replicaCount")).to_have_value("7")
