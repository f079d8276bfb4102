"""The one-time link in a real browser: it works once, leaves nothing in the address, and no other site can use it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.acceptance import console_stage as stage
from tests.browser.chromium import pages
from tests.harness import LocalPlane

ME = "async () => { const answer = await fetch('/api/v1/me'); return [answer.status, await answer.json()]; }"
FROM_ELSEWHERE = """async (url) => {
  try { await fetch(url + '/api/v1/me', { credentials: 'include' }); return 'read'; } catch { return 'refused'; }
}"""


def test_the_link_signs_in_once_and_the_page_acts_as_the_user_of_the_kubeconfig(
    browser: Browser, plane: LocalPlane, tmp_path: Path
) -> None:
    with stage.console(plane, tmp_path / "console", "--as-me") as console:
        assert console.url
        with pages(browser) as page:
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))
            page.goto(console.link)
            page.wait_for_url(f"{console.url}/fleet")
            assert page.evaluate("history.length") >= 1
            status, me = page.evaluate(ME)
            assert (status, me["user"]["name"]) == (200, "admin")
            secret = console.link.partition("#")[2]
            assert asked
            assert not any(secret in url.partition("#")[0] for url in asked)
            assert all(url.startswith(console.url) for url in asked)
            # The cookie is out of reach of scripts.
            assert page.evaluate("document.cookie") == ""
            # A page of another origin gets nothing, though the browser has the cookie.
            with stage.served(tmp_path) as elsewhere:
                page.goto(f"{elsewhere}/")
                assert page.evaluate(FROM_ELSEWHERE, console.url) == "refused"
            # The link is worth nothing any more.
            page.goto("about:blank")
            page.goto(console.link)
            expect(page.locator("#said")).to_contain_text("the link was used already", timeout=60_000)
        assert secret not in console.said.replace(console.link, "")
