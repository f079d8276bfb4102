"""The real browser of `console.py`: signs in with a token, opens the page of the rollout, and stays until told to end.

Says first what its first load took over the network, in bytes: the page and all that it needs to show the fleet, as the
browser counts them, without the answers of the REST API. In the end it says what the page shows of the rollout.
"""

from __future__ import annotations

import json
import sys

from tests.browser.chromium import browsers, pages
from tests.browser.console_page import sign_in

_LOADED = """() => performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))
  .filter((each) => !new URL(each.name).pathname.startsWith('/api/'))
  .reduce((sum, each) => sum + each.transferSize, 0)"""
_PATIENCE = 300_000


def main(url: str, token: str) -> None:
    """Opens it, and waits for the end of standard input."""
    with browsers() as browser, pages(browser) as page:
        page.set_default_timeout(_PATIENCE)
        sign_in(page, url, token)
        print(json.dumps({"first_load": page.evaluate(_LOADED)}), flush=True)
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Rollouts", exact=True).click()
        page.get_by_role("link", name="bench", exact=True).click()
        page.get_by_role("heading", name="bench").wait_for()
        print(json.dumps({"shown": True}), flush=True)
        sys.stdin.read()
        page.get_by_text("Completed").first.wait_for()
        print(json.dumps({"completed": True}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
