"""Lists for who may see some namespaces alone, their search and order, a device's log, and the page under a path.

On an embedded API server on which nothing acts, with the shared cache.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.chromium import pages
from tests.browser.console_page import PATIENCE, button, check_accessibility, field, go, opened, sign_in
from tests.browser.scenes import token
from tests.harness import LocalPlane
from tests.harness.prefix_proxy import PREFIX, under_a_path

GROUP = "edgewright.dev/v1alpha1"
DEVICES = f"/apis/{GROUP}/devices"
MERGE = "application/merge-patch+json"
MOVES = """() => [...document.querySelectorAll('*')].some((each) => {
  const { transitionDuration, animationDuration } = getComputedStyle(each);
  return `${transitionDuration},${animationDuration}`.split(',').some((one) => parseFloat(one) > 0.001);
})"""


@pytest.fixture(scope="module")
def console(plane: LocalPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console with the shared cache, behind a proxy where a test has one."""
    folder = tmp_path_factory.mktemp("lists")
    with stage.console(plane, folder, "--shared-cache", "--behind-proxy") as running:
        yield running
    for kind in (DEVICES, f"/apis/{GROUP}/firmwarerollouts"):  # others want the server as empty as it was
        for each in plane.request("GET", kind)["items"]:
            plane.request("DELETE", path_of(each))


def path_of(obj: dict[str, Any]) -> str:
    """Where a Device or a FirmwareRollout is."""
    metadata = obj["metadata"]
    if "namespace" not in metadata:
        return f"{DEVICES}/{metadata['name']}"
    return f"/apis/{GROUP}/namespaces/{metadata['namespace']}/firmwarerollouts/{metadata['name']}"


@pytest.fixture(scope="module")
def tokens(plane: LocalPlane) -> dict[str, str]:
    """A viewer's, of the namespace `default`, and an administrator's."""
    return {role: token(plane, role) for role in ("viewer", "admin")}


@pytest.fixture(scope="module")
def page(browser: Browser, console: ConsoleProcess, tokens: dict[str, str]) -> Iterator[Page]:
    """A page that is signed in: tests sign in as somebody else."""
    with opened(browser, console, token=tokens["viewer"]) as page:
        yield page


def add_rollout(plane: LocalPlane, name: str, *, namespace: str = "default", version: str = "2") -> None:
    """A rollout that nothing works on."""
    spec = {"firmware": f"registry.example/thermo:{version}", "version": version, "selector": {"names": ["nobody"]}}
    body = {"apiVersion": GROUP, "kind": "FirmwareRollout", "metadata": {"name": name}, "spec": spec}
    plane.request("POST", f"/apis/{GROUP}/namespaces/{namespace}/firmwarerollouts", body)


def tell(plane: LocalPlane, name: str, **status: Any) -> None:
    """Writes what the operator would write of a device."""
    plane.request("PATCH", f"{DEVICES}/{name}/status", {"status": status}, content_type=MERGE)


def shown(page: Page) -> list[str]:
    """The names in the list of rollouts, in their order."""
    names: list[str] = page.get_by_role("grid", name="Rollouts").locator("tbody tr td:first-child").all_inner_texts()
    return names


def test_a_viewer_of_one_namespace_sees_it_without_naming_it(
    page: Page, plane: LocalPlane, console: ConsoleProcess, tokens: dict[str, str]
) -> None:
    hidden = plane.create_namespace("hidden")
    add_rollout(plane, "lists-a")
    add_rollout(plane, "lists-hidden", namespace=hidden)
    sign_in(page, console.url, tokens["viewer"], path="/rollouts?q=lists")
    expect(page.get_by_role("link", name="lists-a", exact=True)).to_be_visible()
    assert shown(page) == ["lists-a"]
    # It is live, as any list: what comes next in both namespaces is seen in one.
    add_rollout(plane, "lists-hidden-too", namespace=hidden)
    add_rollout(plane, "lists-b")
    expect(page.get_by_role("link", name="lists-b", exact=True)).to_be_visible()
    assert shown(page) == ["lists-a", "lists-b"]
    check_accessibility(page)


def test_words_and_order_of_a_list_are_in_the_address(
    page: Page, plane: LocalPlane, console: ConsoleProcess, tokens: dict[str, str]
) -> None:
    add_rollout(plane, "words-old", version="7.7.1")
    add_rollout(plane, "words-young", version="7.7.2")
    sign_in(page, console.url, tokens["viewer"], path="/rollouts?q=words")
    rows = page.get_by_role("grid", name="Rollouts").locator("tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Name").click()
    expect(page).to_have_url(re.compile(r"/rollouts\?q=words&sort=name$"))
    page.get_by_role("button", name="Name").click()
    expect(page).to_have_url(re.compile(r"sort=-name$"))
    expect(rows.first).to_contain_text("words-young")
    page.get_by_role("textbox", name="Filter by words").fill("WORDS 7.7.1")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("words-old")
    check_accessibility(page)
    page.get_by_role("button", name="Copy as kubectl, curl, edgewright").click()
    expect(page.locator("[data-command=curl]")).to_contain_text("?q=WORDS%207.7.1&sort=-name")
    page.get_by_role("textbox", name="Filter by words").fill("words nowhere")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    check_accessibility(page)


def test_a_device_shows_its_log_in_every_state(
    page: Page, plane: LocalPlane, console: ConsoleProcess, tokens: dict[str, str]
) -> None:
    kind = {"apiVersion": GROUP, "kind": "Device"}
    plane.request("POST", DEVICES, {**kind, "metadata": {"name": "logged"}, "spec": {"type": "esp32"}})
    sign_in(page, console.url, tokens["admin"], path="/devices/logged")
    log = page.get_by_role("region", name="Log", exact=True)
    expect(log).to_contain_text("device logged has no log: no job has flashed it")
    check_accessibility(page)
    # It follows the device: flashed by a Pod that has not begun, then failed with lines.
    job = {"namespace": "default", "name": "job", "uid": "u"}
    tell(plane, "logged", claim={"job": job, "uuid": "logged", "attempt": 2})
    expect(log).to_contain_text("the flash of device logged by default/job has no log yet")
    lines = [f"line {number} {'long ' * 30}" for number in range(20)]
    tell(plane, "logged", claim=None, lastFlash={"job": job, "outcome": "refused", "log": lines})
    expect(log).to_contain_text("default/job ended as refused.")
    expect(log).to_contain_text("line 19")
    assert page.evaluate("() => { const box = document.querySelector('.ew-log'); return box.scrollTop > 0; }")
    check_accessibility(page)
    # Who may see the device and no logs of Pods is told what is missing.
    tell(plane, "logged", claim={"job": job, "uuid": "logged", "attempt": 3})
    sign_in(page, console.url, tokens["viewer"], path="/devices/logged")
    expect(log).to_contain_text("may not get pods/log: a Role must allow it.")
    check_accessibility(page)


def test_a_device_in_quarantine_says_why_and_how_it_is_released_and_what_it_can_go_back_to(
    page: Page, plane: LocalPlane, console: ConsoleProcess, tokens: dict[str, str]
) -> None:
    kind = {"apiVersion": GROUP, "kind": "Device"}
    plane.request("POST", DEVICES, {**kind, "metadata": {"name": "shy"}, "spec": {"type": "esp32"}})
    why = {"type": "Quarantined", "status": "True", "reason": "KeepsFailing", "message": "3 jobs in a row have failed"}
    before = {"reference": "registry.example/thermo:1", "digest": "sha256:a", "version": "1"}
    tell(
        plane,
        "shy",
        conditions=[{**why, "lastTransitionTime": "2026-11-02T12:00:00Z"}],
        failures=3,
        previousFirmware=before,
    )
    sign_in(page, console.url, tokens["admin"], path="/devices/shy")
    expect(page.get_by_text("In quarantine: 3 jobs in a row have failed.")).to_be_visible()
    check_accessibility(page)
    button(page, "Release").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Copy as edgewright, kubectl, curl", exact=True).click()
    expect(dialog.locator("[data-command=edgewright]")).to_have_text("edgewright devices release shy")
    # The command that is shown, run as it is, ends it.
    command = dialog.locator("[data-command=kubectl]").inner_text()
    plane.kubectl(*shlex.split(command)[1:])
    expect(page.get_by_text("In quarantine")).to_have_count(0)
    page.get_by_role("link", name="Go back to 1").click()
    expect(field(page, "spec/firmware")).to_have_value("registry.example/thermo:1")
    expect(field(page, "spec/version")).to_have_value("1")
    expect(field(page, "spec/uuid/0")).to_have_value("shy")
    sign_in(page, console.url, tokens["viewer"], path="/devices/shy")
    for name in ("Flash", "Go back to 1"):
        expect(button(page, name)).to_have_attribute("aria-disabled", "true")
        button(page, name).focus()
        expect(page.get_by_role("tooltip")).to_contain_text("the-viewer may not create flashjobs in default")
        button(page, name).blur()
        expect(page.get_by_role("tooltip")).to_have_count(0)
    check_accessibility(page)


def test_nothing_moves_for_who_wants_less_motion(page: Page, console: ConsoleProcess, tokens: dict[str, str]) -> None:
    sign_in(page, console.url, tokens["viewer"])
    assert page.evaluate(MOVES)
    page.emulate_media(reduced_motion="reduce")
    assert not page.evaluate(MOVES)
    page.emulate_media(reduced_motion="no-preference")


def test_the_page_is_served_under_a_path(browser: Browser, console: ConsoleProcess, tokens: dict[str, str]) -> None:
    with under_a_path(lambda: console.url) as url, pages(browser) as page:
        page.set_default_timeout(PATIENCE)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        sign_in(page, url, tokens["admin"], path="/")
        expect(page).to_have_url(f"{url}/fleet")
        for name in ("Devices", "Rollouts", "Jobs", "Any kind"):
            go(page, name)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page).to_have_url(re.compile(re.escape(f"{url}/")))
        page.get_by_role("button", name="Copy as kubectl, curl").click()
        expect(page.locator("[data-command=curl]")).to_contain_text(f"{url}/api/v1/kinds")
        sign_in(page, url, tokens["admin"], path="/rollouts?q=nowhere")  # a path that only the browser knows
        expect(page.get_by_role("heading", level=1)).to_have_text("Rollouts")
        assert {each for each in asked if f"{PREFIX}/" not in each} == set()
