"""The peer of bench/gateway.py: a bare aiohttp server over the same TLS that answers the same bytes, and nothing else.

It asks for client certificates and reads them into buffers of the same size as the gateway. A question with `Prefer`
waits until SIGUSR1, when all that wait get the bytes at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import ssl
import sys
from asyncio import sslproto
from pathlib import Path

from aiohttp import web


async def serve(directory: Path, port: int) -> None:
    """Serves until it is killed."""
    sslproto.SSLProtocol.max_size = 16 * 1024
    body = (directory / "body.json").read_bytes()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(directory / "ca.pem")
    tls.load_cert_chain(directory / "host.pem")
    news = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, news.set)
    headers = {"Content-Type": "application/json", "ETag": '"x"'}

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            await request.read()
            return web.Response()
        if request.path.endswith("/in") and "/control/" in request.path:
            return web.Response()
        if "Prefer" in request.headers:
            await news.wait()
        return web.Response(body=body, headers=headers)

    server = await asyncio.get_running_loop().create_server(
        web.Server(handle, access_log=None), "127.0.0.1", port, ssl=tls, backlog=1024
    )
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.Event().wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where ca.pem, host.pem and body.json are")
    parser.add_argument("--port", type=int, default=0, help="where to listen; default: anywhere")
    given = parser.parse_args()
    asyncio.run(serve(given.directory, given.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
