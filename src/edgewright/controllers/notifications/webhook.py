"""Where notifications go: the receiver's URL, checked, and how patient the operator is with it.

`edgewright run` and `edgewright up` fill it in. It opens no connection.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from edgewright.api.endpoint import Endpoint, unfit

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL: Final = 2048
_PORTS: Final = {"http": 80, "https": 443}


class BadWebhook(ValueError):
    """No webhook may go there; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """A receiver of notifications; the times are in seconds, and tests scale them."""

    url: str
    secret_file: Path
    plain: bool = False
    """Whether it may be reached over plain HTTP, and may be on this machine."""
    timeout: float = 10.0
    """For one request, from the first look at the name to the head of the answer."""
    first_retry: float = 5.0
    """After the first failure; it doubles with every further one."""
    longest_retry: float = 300.0
    give_up: float = 86_400.0
    """What was not delivered for so long is dropped."""


@dataclass(frozen=True)
class Target:
    """A URL taken apart."""

    secure: bool
    host: str
    port: int
    path: str
    """With the query."""

    @property
    def authority(self) -> str:
        """Host and port as HTTP writes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS["https" if self.secure else "http"] else f"{host}:{self.port}"


def target_of(webhook: Webhook) -> Target:
    """Where the requests go; BadWebhook where none may. The messages leave out the path, which may hold a secret."""
    url = webhook.url
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or any(each in url for each in ' \\"<>'):
        raise BadWebhook(f"it is no URL of at most {MAX_URL} printable ASCII characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadWebhook(f"it is no URL: {error}") from None
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        raise BadWebhook("it is not a URL such as https://HOST/PATH")
    if parts.scheme == "http" and not webhook.plain:
        raise BadWebhook("it is http, which anybody on the way can read: use https, or add --webhook-plain")
    if "@" in parts.netloc or parts.fragment:
        raise BadWebhook("it has a user or a fragment, which are not sent: the signature says who we are")
    address = Endpoint(parts.hostname).address
    if address is not None and (why := unreachable(address, plain=webhook.plain)):
        raise BadWebhook(f"{parts.hostname} {why}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme == "https", parts.hostname, port or _PORTS[parts.scheme], path)


def unreachable(address: IPAddress, *, plain: bool) -> str | None:
    """Why no webhook may go to an address, in a few words; None where one may.

    Loopback would be the operator's own Pod, and link-local addresses are those of metadata services, which give out
    credentials to whoever asks.
    """
    return None if plain and address.is_loopback else unfit(address, local=False)
