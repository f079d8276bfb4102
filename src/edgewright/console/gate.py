"""Who may speak to the console at all: host names, origins, and pages of other sites. Pure decisions on headers.

`server` asks before it looks at credentials. A browser is not the only caller, but it is the only one that can be made
to call by a page that its user did not mean to trust; these rules are about that.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from edgewright.console.problems import Refusal

ALLOWED_HEADERS: Final = (
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, X-On-Behalf-Of"
)
EXPOSED_HEADERS: Final = "ETag, Idempotency-Replayed, Location, Retry-After, Warning"
_PREFLIGHT_SECONDS: Final = 600


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The rules of one console."""

    loopback: bool
    """Whether it listens on loopback, not behind a proxy: then Host must be a name of this machine."""
    origins: frozenset[str] = frozenset()
    """The origins whose pages may call with a Bearer token."""

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Refuses a request that was sent to another name, as a page does that rebinds its own name to loopback."""
        if self.loopback and not is_loopback(host_name(headers.get("Host", ""))):
            raise Refusal("forbidden", "the header Host names another machine: use 127.0.0.1 or localhost")

    def cors(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers that let a page of an allowed origin read the answer; none for all others."""
        origin = headers.get("Origin", "")
        if origin not in self.origins:
            return {"Vary": "Origin"} if self.origins else {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": EXPOSED_HEADERS,
            "Vary": "Origin",
        }

    def preflight(self, headers: Mapping[str, str], methods: str) -> dict[str, str]:
        """The answer to a browser that asks whether a page may call; a Refusal where it may not."""
        allowed = self.cors(headers)
        if "Access-Control-Allow-Origin" not in allowed:
            raise Refusal("forbidden", "pages of this origin may not call: see --allow-origin")
        return {
            **allowed,
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": ALLOWED_HEADERS,
            "Access-Control-Max-Age": str(_PREFLIGHT_SECONDS),
        }


def check_same_origin(headers: Mapping[str, str], *, scheme: str) -> None:
    """Refuses a request with a cookie that a page of another site has caused."""
    site = headers.get("Sec-Fetch-Site", "")
    if site:
        if site not in {"same-origin", "none"}:
            raise Refusal("forbidden", "a page of another site may not act for you")
        return
    origin = headers.get("Origin", "")
    if origin and origin != f"{scheme}://{headers.get('Host', '')}":
        raise Refusal("forbidden", "a page of another site may not act for you")


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; of a name only `localhost` is known to be one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def origin_problem(origin: str) -> str:
    """What is wrong with an origin that was given to be allowed, nothing where it is one."""
    try:
        parts = urlsplit(origin)
        bare = f"{parts.scheme}://{parts.netloc}"
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError:
        return "is not an origin"
    if origin == "*":
        return "is every origin: name each one"
    if not good or origin != bare or origin != origin.lower():
        return "is not an origin, such as https://portal.example.com"
    return ""
