"""The few pages that need no build: the one behind the one-time link, and a note at the root where there is no `site`.

No other host, no inline script: what runs is a file of ours, as the Content-Security-Policy says.
"""

from __future__ import annotations

from html import escape
from typing import Final

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

ROOT: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Edgewright</title>
<h1>Edgewright</h1>
<p>The REST API for applications is at <a href="api/v1/openapi.json">/api/v1/openapi.json</a> and below /api/v1.</p>
<p>The web page is not part of this build: run <code>make web</code>.</p>
</html>
"""

SIGN_IN: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Edgewright: sign in</title>
<h1>Edgewright</h1>
<p id="said" role="status">Signing in …</p>
<script src="/sign-in.js"></script>
</html>
"""

# The secret is in the fragment, which no browser sends and no log shows, and goes into the body of one request.
SIGN_IN_SCRIPT: Final = """"use strict";
const said = document.getElementById("said");
const secret = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
fetch("/api/v1/session", {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ secret }),
}).then(async (answer) => {
  said.textContent = answer.ok ? "You are signed in." : (await answer.json()).detail;
  if (answer.ok) {
    location.replace("/");
  }
}, () => {
  said.textContent = "The console does not answer.";
});
"""

PAGES: Final = {
    "/": ("text/html", ROOT),
    "/sign-in": ("text/html", SIGN_IN),
    "/sign-in.js": ("text/javascript", SIGN_IN_SCRIPT),
    "/healthz": ("text/plain", "ok"),
}
"""Type and text of each page by its path."""


def not_signed_in(detail: str, start: str) -> str:
    """The page for somebody whose sign-in failed."""
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Edgewright: not signed in</title>
<h1>Edgewright</h1>
<p role="alert">You are not signed in: {escape(detail)}.</p>
<p><a href="{escape(start)}">Sign in again</a></p>
</html>
"""
