"""Sends one signed body to the receiver: once, within a time limit, and to no address that it must not reach.

The loop calls it and decides what a failure means. The name is resolved for every request and the address that was
checked is the one that is dialled. It follows no redirect, keeps no connection, uses no proxy, and reads nothing of the
answer but its head. No secret, no path of the URL and nothing that the receiver says is in its errors.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import Final

from edgewright import __version__
from edgewright.controllers.notifications.messages import CONTENT_TYPE
from edgewright.controllers.notifications.signatures import BadSecrets, read_secrets, signed_headers
from edgewright.controllers.notifications.webhook import Webhook, target_of, unreachable
from edgewright.runtime.clock import Clock
from edgewright.runtime.http import Connection, connect

_MAX_ADDRESSES: Final = 4
_SUCCESS: Final = range(200, 300)
_REDIRECTS: Final = range(300, 400)


class NotDelivered(Exception):
    """The receiver has not taken it; the message says why."""


class Delivery:
    """The way to one receiver."""

    def __init__(self, webhook: Webhook, clock: Clock, *, tls: ssl.SSLContext | None = None) -> None:
        """Without `tls` the system's authorities are trusted, or those in SSL_CERT_FILE; BadWebhook for a bad URL."""
        self._webhook = webhook
        self._clock = clock
        self.target = target_of(webhook)
        self._tls = (tls or ssl.create_default_context()) if self.target.secure else None

    async def send(self, id: str, body: bytes, *, check: Callable[[], None] = lambda: None) -> None:  # noqa: A002
        """Returns once the receiver has taken it; `check`, called directly before the bytes go out, may raise."""
        seconds = self._webhook.timeout
        try:
            keys = read_secrets(self._webhook.secret_file)
            headers = signed_headers(keys, id, int(self._clock.now().timestamp()), body)
            async with asyncio.timeout(seconds):
                status = await self._exchange(headers, body, check)
        except TimeoutError:
            raise NotDelivered(f"no answer from {self.target.authority} within {seconds:g} s") from None
        except BadSecrets as error:
            raise NotDelivered(str(error)) from None
        except OSError as error:
            raise NotDelivered(f"{self.target.authority}: {error.strerror or error}") from None
        if status in _REDIRECTS:
            raise NotDelivered(f"{self.target.authority} answered {status}: redirects are not followed")
        if status not in _SUCCESS:
            raise NotDelivered(f"{self.target.authority} answered {status}")

    async def _exchange(self, headers: dict[str, str], body: bytes, check: Callable[[], None]) -> int:
        connection = await self._connect()
        try:
            check()
            answer, _ = await connection.open(self._request(headers, body))
            return answer.status
        finally:
            connection.abort()
            await asyncio.sleep(0)  # asyncio closes an aborted socket in the next turn of the loop

    async def _connect(self) -> Connection:
        """A connection to the first of the receiver's addresses that takes it, of those that may be reached."""
        host, port = self.target.host, self.target.port
        problem: OSError | None = None
        for address in await self._addresses():
            try:
                name = host if self._tls is not None else None
                return await connect(address, port, tls=self._tls, server_name=name)
            except OSError as error:
                problem = error
        raise problem or OSError(f"{host} has no address")

    async def _addresses(self) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            places = await loop.getaddrinfo(self.target.host, self.target.port, type=socket.SOCK_STREAM)
        except UnicodeError:  # a label that is too long for the resolver's encoding
            raise OSError(f"{self.target.host} is no host name") from None
        found = [str(place[4][0]) for place in places]
        refused = {each: unreachable(ipaddress.ip_address(each), plain=self._webhook.plain) for each in found}
        fit = [each for each, why in refused.items() if why is None]
        if found and not fit:
            raise OSError("it leads nowhere: {} {}".format(*next(iter(refused.items()))))
        return fit[:_MAX_ADDRESSES]

    def _request(self, headers: dict[str, str], body: bytes) -> bytes:
        fields = {
            "Host": self.target.authority,
            "User-Agent": f"edgewright/{__version__}",
            "Accept": "*/*",
            "Connection": "close",
            "Content-Type": CONTENT_TYPE,
            "Content-Length": str(len(body)),
            **headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST {self.target.path} HTTP/1.1\r\n{lines}\r\n".encode("ascii") + body
