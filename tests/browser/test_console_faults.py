"""What befalls a page that somebody works with, on both API servers: cuts, restarts, double clicks and two windows.

Nothing is done twice, nothing is lost, and the page says since when it is not live.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Locator, Page, Request, expect

from tests.browser.console_page import button, check_accessibility, opened, show_rollout, sign_in
from tests.browser.scenes import BROKEN, NEXT, Scene
from tests.harness import Process, Proxy, free_port, wait_until
from tests.unit.cli.command import PROGRAM

STALE = re.compile(r"Not live since .*: the console does not answer\. What is shown may be old\.")


def rows(page: Page) -> list[str]:
    """The names in the list of rollouts."""
    cells = page.get_by_role("grid", name="Rollouts").get_by_role("row").locator("td:first-child")
    return [str(each) for each in cells.all_inner_texts()]


def stale(page: Page) -> Locator:
    """What says that a page is not live; the same words are read out to who does not see it."""
    return page.locator(".pf-v6-c-alert__title", has_text=STALE)


def show_rollouts(page: Page) -> None:
    """Goes to the list of rollouts in the namespace `default`."""
    page.get_by_role("link", name="Rollouts", exact=True).click()
    page.get_by_label("Namespace (empty: all)").fill("default")
    # Until its stream answers, the page may still show the list of all namespaces: a fault would then take that away.
    with page.expect_response(lambda answer: "/api/v1/stream" in answer.url and "namespace=default" in answer.url):
        page.keyboard.press("Enter")
    expect(page.get_by_role("grid", name="Rollouts")).to_be_visible()


def requested(scene: Scene, name: str, reason: str) -> int:
    """How often an action was asked for, by the Events about a rollout."""
    events = scene.server.request("GET", "/api/v1/namespaces/default/events")["items"]
    return sum(each.get("count", 1) for each in events if about(each) == (name, reason))


def about(event: dict[str, dict[str, str]]) -> tuple[str, object]:
    """Which object an Event is about, and its reason."""
    return event["involvedObject"]["name"], event["reason"]


@contextmanager
def lasting_console(scene: Scene, folder: Path) -> Iterator[tuple[Process, str]]:
    """A console that can be killed and started again at the same address."""
    port = free_port()
    log = folder / "console.log"
    command = [str(PROGRAM), "console", "--listen", f"127.0.0.1:{port}", "--shared-cache"]
    command += ["--kubeconfig", str(scene.server.kubeconfig)]
    process = Process("console", command, log=log, ready=lambda: "Ctrl-C" in process.output())
    process.start()
    try:
        process.wait_ready()
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()


def test_a_stream_that_is_cut_goes_on_where_it_was_and_says_so(browser: Browser, scene: Scene) -> None:
    scene.rollout("before-the-cut", paused=True)
    address = urlsplit(scene.console.url)
    assert address.port
    with Proxy("127.0.0.1", address.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        with opened(browser, scene.console, token=scene.tokens["admin"], url=url) as page:
            show_rollouts(page)
            expect(page.get_by_role("link", name="before-the-cut", exact=True)).to_be_visible()
            resumed: list[str] = []

            def noted(request: Request) -> None:
                if "/api/v1/stream" in request.url and (last := request.headers.get("last-event-id")):
                    resumed.append(last)

            page.on("request", noted)
            proxy.refuse()
            proxy.cut()
            expect(stale(page)).to_be_visible()
            since = stale(page).inner_text()
            # What was there stays, greyed.
            expect(page.locator(".ew-stale").get_by_role("link", name="before-the-cut", exact=True)).to_be_visible()
            check_accessibility(page)
            scene.rollout("during-the-cut", paused=True)
            assert "during-the-cut" not in rows(page)
            assert stale(page).inner_text() == since
            proxy.accept()
            expect(page.get_by_role("link", name="during-the-cut", exact=True)).to_be_visible()
            expect(stale(page)).to_have_count(0)
            expect(page.locator(".ew-stale")).to_have_count(0)
            # It asked for what came after the last that it had seen, and not for everything again.
            assert resumed
            shown = rows(page)
            assert sorted(set(shown)) == sorted(shown)


def test_two_windows_that_approve_the_same_batch_approve_no_other(browser: Browser, scene: Scene) -> None:
    names = {"one": scene.names[0], "two": scene.names[2], "rest": scene.names[BROKEN - 1]}
    batches = [
        {"name": each, "selector": {"names": [names[each]]}, "gate": {"approval": "manual"}} for each in ("one", "two")
    ]
    scene.rollout("shared", NEXT, selector={"names": list(names.values())}, batches=batches)
    with opened(browser, scene.console, token=scene.tokens["admin"]) as page:
        other = page.context.new_page()
        sign_in(other, scene.console.url, scene.tokens["approver"])
        for window in (page, other):
            show_rollout(window, "shared")
            button(window, "Approve").click()
            expect(window.get_by_role("dialog")).to_contain_text("After one comes two: 1 device.")
        page.get_by_role("dialog").get_by_role("button", name="Approve").dblclick()
        expect(page.get_by_role("dialog")).to_have_count(0)
        batch = other.get_by_role("region", name="Batches", include_hidden=True)
        expect(batch).to_contain_text(re.compile("onePassed.*twoAwaitingApproval"))
        # The other window still means the batch that it was opened for: that one is approved already.
        expect(other.get_by_role("dialog")).to_contain_text("After one comes two: 1 device.")
        other.get_by_role("dialog").get_by_role("button", name="Approve").click()
        expect(other.get_by_role("dialog")).to_have_count(0)
        found = scene.get("shared")
        assert found["spec"]["approvals"] == ["one"]
        assert [each["phase"] for each in found["status"]["batches"]] == ["Passed", "AwaitingApproval", "Planned"]
        assert requested(scene, "shared", "ApproveRequested") == 1
        other.close()


def test_a_console_that_is_killed_is_missed_and_found_again(browser: Browser, scene: Scene, tmp_path: Path) -> None:
    scene.rollout("doomed", paused=True)
    with lasting_console(scene, tmp_path) as (console, url):
        with opened(browser, scene.console, token=scene.tokens["admin"], url=url) as page:
            show_rollout(page, "doomed")
            heading = page.get_by_role("heading", level=1)
            expect(heading).to_contain_text("Paused")
            button(page, "Abort").click()
            dialog = page.get_by_role("dialog")
            console.kill()
            dialog.get_by_role("button", name="Abort").dblclick()
            expect(dialog).to_contain_text("The console cannot be reached")
            assert "aborted" not in scene.get("doomed")["spec"]
            # Somebody else works on meanwhile.
            scene.change("doomed", {"spec": {"maxConcurrent": 1}})
            console.restart()
            dialog.get_by_role("button", name="Abort").dblclick()
            expect(dialog).to_have_count(0)
            expect(heading).to_contain_text("Aborted")
            expect(stale(page)).to_have_count(0)
        assert requested(scene, "doomed", "AbortRequested") == 1


def test_an_api_server_that_is_started_again_loses_nothing_of_what_was_asked(browser: Browser, scene: Scene) -> None:
    scene.rollout("patient", paused=True)
    with opened(browser, scene.console, token=scene.tokens["admin"]) as page:
        show_rollouts(page)
        expect(page.get_by_role("link", name="patient", exact=True)).to_be_visible()
        scene.server.api.kill()
        # What is not answered is said, and nothing that was shown goes.
        other = page.context.new_page()
        other.goto(f"{scene.console.url}/rollouts")
        other.get_by_label("Token").fill(scene.tokens["admin"])
        other.get_by_role("button", name="Sign in").click()
        expect(other.get_by_role("alert").or_(other.locator(".pf-v6-c-alert")).first).to_be_visible()
        expect(page.get_by_role("link", name="patient", exact=True)).to_be_visible()
        scene.server.api.restart()
        scene.rollout("afterwards", paused=True)
        expect(page.get_by_role("link", name="afterwards", exact=True)).to_be_visible()
        shown = rows(page)
        assert sorted(set(shown)) == sorted(shown)
        page.get_by_role("link", name="patient", exact=True).click()
        button(page, "Abort").click()
        page.get_by_role("dialog").get_by_role("button", name="Abort").dblclick()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Aborted")
        wait_until(lambda: requested(scene, "patient", "AbortRequested") == 1, what="it was asked once")
        other.close()
