"""What people do with the page, on the embedded and the real API server: flash, plan, approve, abort, recall, create.

Each has the rights of a token: a viewer sees everything and why no button works, an approver decides, an administrator
does it all. Devices are simulated, all else is as in a cluster.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance import console_stage as stage
from tests.browser.console_page import (
    button,
    check_accessibility,
    check_accessibility_once,
    field,
    go,
    opened,
    press,
    show_rollout,
    sign_in,
    take_picture,
    write_rollout,
)
from tests.browser.scenes import BROKEN, COUNT, FIRST, NEXT, Scene
from tests.harness import wait_until
from tests.unit.cli.command import PROGRAM, environment

ROLLOUTS = "/api/v1/namespaces/default/rollouts"
FLEET = "/apis/edgewright.dev/v1alpha1/fleets/fleet"


@pytest.fixture(scope="module")
def page(browser: Browser, scene: Scene) -> Iterator[Page]:
    """A page that is signed in: most tests sign in as somebody else."""
    with opened(browser, scene.console, token=scene.tokens["viewer"]) as page:
        yield page


def check_refused(page: Page, name: str, why: str) -> None:
    """A button is in reach and does nothing, and says why."""
    found = button(page, name)
    expect(found).to_have_attribute("aria-disabled", "true")
    found.focus()
    expect(page.get_by_role("tooltip")).to_contain_text(why)
    found.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    found.blur()
    expect(page.get_by_role("tooltip")).to_have_count(0)


def copied(dialog: Any, program: str) -> str:
    """A confirmation as the command of a program."""
    dialog.get_by_role("button", name="Copy as kubectl, curl, edgewright").click()
    return str(dialog.locator(f"[data-command={program}]").inner_text())


def test_an_administrator_flashes_a_device_from_its_page(scene: Scene, page: Page) -> None:
    sign_in(page, scene.console.url, scene.tokens["admin"])
    name = scene.names[0]
    go(page, "Devices")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_role("link", name="Flash", exact=True).click()
    expect(page.get_by_role("heading", name="Create FlashJob")).to_be_visible()
    expect(field(page, "spec/uuid/0")).to_have_value(name)
    field(page, "metadata/name").fill("by-hand")
    field(page, "spec/firmware").fill(scene.firmware(FIRST))
    field(page, "spec/version").fill(FIRST)
    check_accessibility(page)
    # Twice in a row, as some people do: one job.
    button(page, "Create").dblclick()
    expect(page).to_have_url(re.compile("/kinds/flashjobs/in/default/by-hand$"))
    # The page of the job is live.
    expect(page.get_by_role("region", name="Status")).to_contain_text("phase: Completed")
    check_accessibility(page)
    go(page, "Devices")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_text(f"{FIRST} ({scene.firmware(FIRST)})")).to_be_visible()
    latest = page.get_by_role("grid", name="History").get_by_role("row").nth(1)
    expect(latest).to_contain_text(re.compile(f"succeeded.*{re.escape(FIRST)}"))
    check_accessibility(page)
    take_picture(page, "device")


def test_a_rollout_is_planned_stopped_by_its_canary_and_recalled(scene: Scene, page: Page) -> None:
    good, bad = scene.label(1, ring="canary"), scene.label(BROKEN, ring="canary")
    if not scene.flashed(good):
        scene.flash(good)
    sign_in(page, scene.console.url, scene.tokens["admin"])
    go(page, "Rollouts")
    page.get_by_role("link", name="Create rollout").click()
    what = {"firmware": scene.firmware(NEXT), "version": NEXT}
    write_rollout(page, name="spring", labels="ring=canary", canary="2", soak="0", **what)
    plan = page.get_by_role("region", name="Plan", exact=True)
    expect(plan).to_contain_text("2 devices are meant")
    expect(plan).to_contain_text("canary: 2")
    page.get_by_role("button", name="Copy as kubectl, curl, edgewright").click()
    expect(page.locator("[data-command=edgewright]")).to_contain_text("edgewright rollout create -f -")
    check_accessibility(page)
    take_picture(page, "create")
    button(page, "Create").dblclick()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text(re.compile("spring .*Paused"))
    expect(page.get_by_text(re.compile("^Outcomes: .*refused"))).to_be_visible()
    # Failures come first.
    expect(page.get_by_role("grid", name="Devices").get_by_role("row").nth(1)).to_contain_text(bad)
    check_accessibility(page)
    button(page, "Recall").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 device goes back to what it ran before")
    dialog.get_by_label("Reason").fill("the readings are wrong")
    check_accessibility_once(page)
    dialog.get_by_role("button", name="Recall").dblclick()
    expect(page).to_have_url(re.compile("/spring-recall$"))
    expect(heading).to_contain_text(re.compile("spring-recall .*Completed"))
    assert len(scene.flashes("spring-recall")) == 1
    wait_until(lambda: scene.version_of(good) == FIRST, what="the device is back")


def test_the_numbers_of_a_recall_follow_what_happens_while_they_are_read(scene: Scene, page: Page) -> None:
    device = scene.names[0]
    if not scene.flashed(device):
        scene.flash(device)
    other = NEXT if scene.version_of(device) == FIRST else FIRST
    scene.rollout("late", other, selector={"names": [device]}, paused=True)
    sign_in(page, scene.console.url, scene.tokens["admin"])
    show_rollout(page, "late")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Paused")
    button(page, "Recall").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("0 devices go back to what each ran before")
    scene.change("late", {"spec": {"paused": False}})
    expect(dialog).to_contain_text("1 device goes back to what it ran before")


def test_an_undo_tells_its_numbers_and_brings_what_came_before(scene: Scene, page: Page) -> None:
    device = scene.names[1]
    for name, version in {"june": FIRST, "july": NEXT}.items():
        scene.completed_rollout(name, version, selector={"names": [device]})
    sign_in(page, scene.console.url, scene.tokens["admin"])
    show_rollout(page, "july")
    button(page, "Undo").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"1 device gets {FIRST} again, by a rollout of its own.")
    assert "name: july-undo" in copied(dialog, "kubectl")
    dialog.get_by_label("Reason").fill("it overheats")
    check_accessibility_once(page)
    dialog.get_by_role("button", name="Undo").dblclick()
    expect(page).to_have_url(re.compile("/july-undo$"))
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile("july-undo .*Completed"))
    wait_until(lambda: scene.version_of(device) == FIRST, what="the device runs what came before")
    show_rollout(page, "june")
    button(page, "Undo").click()
    expect(dialog).to_contain_text("nothing is known of what came before rollout june: recall it instead")
    press(page, "Cancel")


def test_the_fleet_is_frozen_after_its_numbers_and_everybody_sees_who_did_it(scene: Scene, page: Page) -> None:
    sign_in(page, scene.console.url, scene.tokens["viewer"])
    check_refused(page, "Freeze", "the-viewer may not patch fleets: a Role must allow it.")
    sign_in(page, scene.console.url, scene.tokens["admin"])
    button(page, "Freeze").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"0 finish, {COUNT} are not started by any job or rollout until it is unfrozen.")
    dialog.get_by_label("Reason").fill("a holiday")
    assert "kind: Fleet" in copied(dialog, "kubectl")
    expect(dialog.locator("[data-command=edgewright]")).to_have_text("edgewright freeze --reason 'a holiday'")
    check_accessibility_once(page)
    dialog.get_by_role("button", name="Freeze").dblclick()
    banner = re.compile("The fleet is frozen by .*:the-admin: no device is started. a holiday")
    expect(page.get_by_text(banner)).to_be_visible()
    check_accessibility(page)
    sign_in(page, scene.console.url, scene.tokens["viewer"], "/rollouts?namespace=default")
    expect(page.get_by_text(banner)).to_be_visible()
    check_refused(page, "Unfreeze", "the-viewer may not patch fleets: a Role must allow it.")
    sign_in(page, scene.console.url, scene.tokens["admin"], "/rollouts")
    press(page, "Unfreeze")
    expect(dialog).to_contain_text(f"{COUNT} devices may be started again by jobs and rollouts.")
    dialog.get_by_role("button", name="Unfreeze").click()
    expect(page.get_by_text(banner)).to_have_count(0)
    assert not scene.server.request("GET", FLEET)["spec"].get("frozen")


def test_a_viewer_sees_everything_and_why_no_button_works(scene: Scene, page: Page) -> None:
    scene.rollout("quiet", paused=True)
    sign_in(page, scene.console.url, scene.tokens["viewer"])
    expect(page.get_by_text("Signed in as system:serviceaccount:default:the-viewer")).to_be_visible()
    go(page, "Rollouts")
    # A token of one namespace: the list of all has that one, and a kind of others is refused, with what is missing.
    expect(page.get_by_role("link", name="quiet", exact=True)).to_be_visible()
    check_refused(page, "Create rollout", "the-viewer may not create rollouts: a Role must allow it.")
    check_accessibility(page)
    go(page, "Any kind")
    page.get_by_role("link", name="Minimart", exact=True).click()
    expect(page.get_by_text(re.compile("the-viewer may not watch minimarts"))).to_be_visible()
    check_accessibility(page)
    go(page, "Rollouts")
    page.get_by_label("Namespace (empty: all)").fill("default")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?namespace=default$"))
    check_refused(page, "Create rollout", "the-viewer may not create rollouts in default: a Role must allow it.")
    page.get_by_role("link", name="quiet", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Paused")
    for name in ("Resume", "Retry failed", "Abort"):
        check_refused(page, name, "the-viewer may not patch rollouts in default")
    for name in ("Recall", "Undo"):
        check_refused(page, name, "the-viewer may not create rollouts in default")
    check_accessibility(page)
    page.get_by_role("link", name="YAML").click()
    for name, verb in {"Apply": "patch", "Check (dry run)": "patch", "Delete": "delete"}.items():
        check_refused(page, name, f"may not {verb} rollouts in default")
    # The page only tells: it is the server that refuses.
    refused = scene.console("POST", f"{ROLLOUTS}/quiet/abort", {}, token=scene.tokens["viewer"])
    assert (refused.status, refused.body["verb"]) == (403, "patch")


def test_an_approver_decides_and_a_viewer_watches_it_in_another_window(scene: Scene, page: Page) -> None:
    scene.waiting_rollout("cork", FIRST, 2, 3)
    sign_in(page, scene.console.url, scene.tokens["approver"])
    other = page.context.new_page()
    sign_in(other, scene.console.url, scene.tokens["viewer"])
    for window in (page, other):
        show_rollout(window, "cork")
        expect(window.get_by_role("region", name="Batches")).to_contain_text("AwaitingApproval · 1/1")
    check_refused(page, "Recall", "the-approver may not create rollouts in default")
    check_refused(other, "Approve", "the-viewer may not patch rollouts in default")
    expect(button(page, "Approve")).to_be_enabled()
    button(page, "Approve").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("After first comes rest: 1 device.")
    dialog.get_by_label("Reason").fill("it's good")
    assert '{"spec":{"approvals":["first"]}}' in copied(dialog, "kubectl")
    expect(dialog.locator("[data-command=edgewright]")).to_have_text("edgewright rollout approve cork -n default")
    check_accessibility_once(page)
    dialog.get_by_role("button", name="Approve").click()
    for window in (page, other):
        expect(window.get_by_role("heading", level=1)).to_contain_text("Completed")
    other.close()
    said = scene.get("cork")["metadata"]["annotations"]["edgewright.dev/last-action"]
    assert '"reason":"it\'s good"' in said
    assert "the-approver" in said


def test_an_administrator_may_do_it_all_and_commands_do_what_the_page_says(scene: Scene, page: Page) -> None:
    scene.waiting_rollout("cork-again", NEXT, 2, 3)
    sign_in(page, scene.console.url, scene.tokens["admin"])
    show_rollout(page, "cork-again")
    expect(page.get_by_role("region", name="Batches")).to_contain_text("AwaitingApproval")
    for name in ("Abort", "Recall", "Pause"):
        expect(button(page, name)).not_to_have_attribute("aria-disabled", "true")
    button(page, "Pause").click()
    dialog = page.get_by_role("dialog")
    command = copied(dialog, "curl")
    press(page, "Cancel")
    # The command that is shown, run as it is, does what the button does.
    env = {**os.environ, "TOKEN": scene.tokens["admin"]}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=env, check=True)
    assert '"paused":true' in done.stdout
    expect(page.get_by_role("heading", level=1)).to_contain_text("Paused")
    button(page, "Resume").click()
    command = copied(dialog, "edgewright").removeprefix("edgewright")
    press(page, "Cancel")
    env = {**environment(), "KUBECONFIG": str(scene.server.kubeconfig)}
    subprocess.run(["bash", "-c", f"{PROGRAM}{command}"], capture_output=True, text=True, env=env, check=True)
    expect(page.get_by_role("heading", level=1)).not_to_contain_text("Paused")
    button(page, "Abort").click()
    expect(dialog).to_contain_text("0 finish, 1 will not start. This is for good.")
    dialog.get_by_label("Reason").fill("not today")
    dialog.get_by_role("button", name="Abort").dblclick()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Aborted")
    assert len(scene.flashes("cork-again")) == 1
    assert '"reason":"not today"' in scene.get("cork-again")["metadata"]["annotations"]["edgewright.dev/last-action"]


def test_a_minimart_is_created_by_a_form_that_nobody_wrote(scene: Scene, page: Page) -> None:
    sign_in(page, scene.console.url, scene.tokens["admin"])
    go(page, "Any kind")
    page.get_by_role("grid", name="Any kind").get_by_role("link", name="Minimart", exact=True).click()
    page.get_by_role("link", name="Create").click()
    field(page, "metadata/name").fill("corner")
    field(page, "spec/replicaCount").fill("11")
    press(page, "Check (dry run)")
    wrong = page.locator('[id="field#/spec/replicaCount-faults"]')
    expect(wrong).to_contain_text("should be less than or equal to 10")
    field(page, "spec/replicaCount").fill("2")
    press(page, "Check (dry run)")
    expect(page.get_by_role("region", name="What would change")).to_contain_text("+   replicaCount: 2")
    button(page, "Create").dblclick()
    expect(page).to_have_url(re.compile("/in/default/corner$"))
    made = scene.server.request("GET", f"{stage.MINIMART_PATH.format('default')}/corner")
    assert made["spec"] == {"replicaCount": 2}
