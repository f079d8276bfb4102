"""`kubectl exec` and `attach`: a WebSocket from the client, and one to the node that runs the Pod.

`podlogs` hands requests over once it knows the node. What comes from one side goes to the other as it is; the protocol
in it (v5.channel.k8s.io, or v4) is between the client and the node.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

import aiohttp
from aiohttp import web

from edgewright.local.errors import bad_request, internal_error
from edgewright.local.go_format import quote

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_CONNECT_SECONDS: Final = 10.0
_HEARTBEAT_SECONDS: Final = 30.0
_MAX_MESSAGE: Final = 1 << 20


async def connect(request: web.BaseRequest, url: str, tls: ssl.SSLContext | None) -> web.StreamResponse:
    """Joins a client with the node at `url`, until one of them ends."""
    offered = [each.strip() for each in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if request.headers.get("Upgrade", "").lower() != "websocket" or not set(offered) & set(PROTOCOLS):
        raise bad_request(f"unable to upgrade: only WebSockets with the protocol {PROTOCOLS[0]} are served here")
    settings: dict[str, Any] = {"max_msg_size": _MAX_MESSAGE, "heartbeat": _HEARTBEAT_SECONDS}
    wanted = [each for each in PROTOCOLS if each in offered][:1]
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.ws_connect(url, protocols=wanted, ssl=tls if tls is not None else True, **settings) as node,
        ):
            client = web.WebSocketResponse(protocols=wanted, **settings)
            await client.prepare(request)
            await _join(client, node)
            return client
    except (aiohttp.ClientError, TimeoutError) as error:
        raise internal_error(f"error dialing backend: Get {quote(url)}: {error}") from None


async def _join(client: web.WebSocketResponse, node: aiohttp.ClientWebSocketResponse) -> None:
    """Passes messages on both ways; whoever ends, ends both."""
    ways = [asyncio.create_task(_pass_on(client, node)), asyncio.create_task(_pass_on(node, client))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        await node.close()
        await client.close()


_Side = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


async def _pass_on(reader: _Side, writer: _Side) -> None:
    async for message in reader:
        if message.type == aiohttp.WSMsgType.BINARY:
            await writer.send_bytes(message.data)
        elif message.type == aiohttp.WSMsgType.TEXT:
            await writer.send_str(message.data)
