"""The page as people with different rights see it, by tokens of `edgewright token`: who may not, sees why."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.console_page import check_accessibility, check_accessibility_once, go, opened, sign_in
from tests.unit.cli.command import PROGRAM, environment

ROLLOUTS = "/api/v1/namespaces/default/rollouts"
DONE = "thermometer-0.2.0"
NEXT = "thermometer-0.3.0"


@pytest.fixture(scope="module")
def tokens(fleet: Path) -> dict[str, str]:
    """A token for each role: in the namespace `default`, an administrator's everywhere."""

    def made(role: str) -> str:
        where = ["--all-namespaces"] if role == "admin" else []
        command = [str(PROGRAM), "token", f"the-{role}", "--role", role, "--kubeconfig", str(fleet), *where]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
        return str(done.stdout.strip())

    return {role: made(role) for role in ("viewer", "approver", "admin")}


@pytest.fixture(scope="module")
def page(console: ConsoleProcess, tokens: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser without a session: each test signs in with a token."""
    with opened(console, tmp_path_factory.mktemp("profile"), token=tokens["viewer"]) as page:
        yield page


def button(page: Page, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


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


def waiting_rollout(console: ConsoleProcess, token: str, name: str) -> None:
    """A rollout to the four devices of a site that waits for approval after the first."""
    firmware = console("GET", f"{ROLLOUTS}/{NEXT}", token=token).body["spec"]["firmware"]
    spec = {
        "selector": {"labels": {"matchLabels": {"site": "cork"}}},
        "firmware": firmware,
        "version": "0.3.0",
        "batches": [{"name": "first", "size": 1, "gate": {"approval": "manual"}}, {"name": "rest"}],
    }
    made = console("POST", ROLLOUTS, {"metadata": {"name": name}, "spec": spec}, token=token)
    assert made.status == 201, made.body


def test_a_viewer_sees_everything_and_why_no_button_works(
    console: ConsoleProcess, tokens: dict[str, str], page: Page
) -> None:
    sign_in(page, console.url, tokens["viewer"])
    expect(page.get_by_text("Signed in as system:serviceaccount:default:the-viewer")).to_be_visible()
    go(page, "Rollouts")
    # A token of one namespace: the list of all is refused, with what is missing.
    expect(page.get_by_text(re.compile("the-viewer may not watch firmwarerollouts"))).to_be_visible()
    check_accessibility(page)
    page.get_by_label("Namespace (empty: all)").fill("default")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?namespace=default$"))
    check_refused(page, "Create rollout", "the-viewer may not create rollouts in default: a Role must allow it.")
    page.get_by_role("link", name=DONE, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Completed")
    check_refused(page, "Recall", "the-viewer may not create rollouts in default")
    check_refused(page, "Retry failed", "the-viewer may not patch rollouts in default")
    check_accessibility(page)
    page.get_by_role("link", name="YAML").click()
    for name, verb in {"Apply": "patch", "Check (dry run)": "patch", "Delete": "delete"}.items():
        check_refused(page, name, f"may not {verb} rollouts in default")
    # The page only tells: it is the server that refuses.
    refused = console("POST", f"{ROLLOUTS}/{DONE}/retry", {}, token=tokens["viewer"])
    assert (refused.status, refused.body["verb"]) == (403, "patch")


def test_an_approver_decides_and_a_viewer_watches_it_in_another_window(
    console: ConsoleProcess, tokens: dict[str, str], page: Page
) -> None:
    waiting_rollout(console, tokens["admin"], "cork")
    sign_in(page, console.url, tokens["approver"])
    other = page.context.new_page()
    sign_in(other, console.url, tokens["viewer"])
    for window in (page, other):
        go(window, "Rollouts")
        window.get_by_label("Namespace (empty: all)").fill("default")
        window.keyboard.press("Enter")
        window.get_by_role("link", name="cork", exact=True).click()
        expect(window.get_by_role("region", name="Batches")).to_contain_text("AwaitingApproval · 1/1")
    check_refused(page, "Recall", "the-approver may not create rollouts in default")
    check_refused(other, "Approve", "the-viewer may not patch rollouts in default")
    expect(button(page, "Approve")).to_be_enabled()
    button(page, "Approve").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("After first comes rest: 3 devices.")
    dialog.get_by_label("Reason").fill("it's good")
    dialog.get_by_role("button", name="Copy as kubectl, curl, edgewright").click()
    expect(dialog.locator("[data-command=kubectl]")).to_contain_text('{"spec":{"approvals":["first"]}}')
    expect(dialog.locator("[data-command=edgewright]")).to_have_text("edgewright rollout approve cork -n default")
    check_accessibility_once(page)
    dialog.get_by_role("button", name="Approve").click()
    for window in (page, other):
        expect(window.get_by_role("heading", level=1)).to_contain_text("Completed")
    other.close()
    said = console("GET", f"{ROLLOUTS}/cork", token=tokens["viewer"]).body["metadata"]["annotations"]
    assert '"reason":"it\'s good"' in said["edgewright.dev/last-action"]
    assert "the-approver" in said["edgewright.dev/last-action"]


def test_an_administrator_may_do_it_all_and_commands_do_what_the_page_says(
    console: ConsoleProcess, tokens: dict[str, str], fleet: Path, page: Page
) -> None:
    waiting_rollout(console, tokens["admin"], "cork-again")
    sign_in(page, console.url, tokens["admin"])
    page.get_by_role("link", name="cork-again").click()
    for name in ("Abort", "Recall", "Pause"):
        expect(button(page, name)).not_to_have_attribute("aria-disabled", "true")
    button(page, "Pause").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Copy as kubectl, curl, edgewright").click()
    copied = dialog.locator("[data-command=curl]").inner_text()
    dialog.get_by_role("button", name="Cancel").click()
    # The command that is shown, run as it is, does what the button does.
    env = {**os.environ, "TOKEN": tokens["admin"]}
    done = subprocess.run(["bash", "-c", copied], capture_output=True, text=True, env=env, check=True)
    assert '"paused":true' in done.stdout
    expect(page.get_by_role("heading", level=1)).to_contain_text("Paused")
    button(page, "Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("heading", level=1)).not_to_contain_text("Paused")
    button(page, "Abort").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(re.compile(r"\d finish, \d will not start. This is for good."))
    dialog.get_by_role("button", name="Copy as kubectl, curl, edgewright").click()
    copied = dialog.locator("[data-command=edgewright]").inner_text()
    dialog.get_by_role("button", name="Cancel").click()
    program, words = PROGRAM, copied.removeprefix("edgewright")
    env = {**environment(), "KUBECONFIG": str(fleet)}
    subprocess.run(["bash", "-c", f"{program}{words}"], capture_output=True, text=True, env=env, check=True)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Aborted")
