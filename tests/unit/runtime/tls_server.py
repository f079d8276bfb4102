"""A small HTTPS server on loopback that tells each client by which certificate and headers it knows it."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tests.harness.certificates import Authority


async def _who(request: web.Request) -> web.Response:
    peer = request.transport.get_extra_info("peercert") if request.transport else None
    names = [value for part in (peer or {}).get("subject", ()) for name, value in part if name == "commonName"]
    return web.json_response(
        {
            "user": names[0] if names else None,
            "authorization": request.headers.get("Authorization"),
            "groups": request.headers.getall("Impersonate-Group", []),
        }
    )


def server_context(authority: Authority, *, names: tuple[str, ...] = ("localhost",)) -> ssl.SSLContext:
    """Serves as these names and 127.0.0.1, and believes the client certificates of the same authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        context.load_cert_chain(
            *authority.server("server", names=names, addresses=["127.0.0.1"]).write(Path(folder), "s")
        )
    context.load_verify_locations(cadata=authority.certificate.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


@asynccontextmanager
async def serving(context: ssl.SSLContext) -> AsyncIterator[str]:
    """Runs the server and gives its URL."""
    application = web.Application()
    application.router.add_get("/who", _who)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = runner.addresses[0][1]
        yield f"https://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
