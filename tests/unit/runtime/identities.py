"""Who a test is to a server: one authority, and what is seen of the credentials and certificates that are shown to it.

The tests of credentials, of TLS and of exec plugins use it. Nothing here checks anything.
"""

from __future__ import annotations

import ssl

import aiohttp

from edgewright.runtime.credentials import Credentials
from edgewright.runtime.tls import Pem
from tests.harness.certificates import Authority

AUTHORITY = Authority()


async def authorization(credentials: Credentials) -> str | None:
    """What the credentials send as `Authorization`."""
    return (await credentials.headers()).get("Authorization")


def pem(data: bytes, origin: str = "here") -> Pem:
    """PEM as it stands in a configuration."""
    return Pem(origin=origin, data=data)


async def user_seen(server: str, context: ssl.SSLContext) -> str | None:
    """Whom the server sees on a new connection with this context."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        return await user_seen_in(session, server)


async def user_seen_in(
    session: aiohttp.ClientSession, server: str, context: ssl.SSLContext | None = None
) -> str | None:
    """Whom the server sees in a session, whose connections are used again."""
    async with session.get(f"{server}/who", ssl=context or True) as response:
        user: str | None = (await response.json())["user"]
        return user
