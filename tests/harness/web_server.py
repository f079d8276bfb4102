"""A web server in a thread of the test's own process, until the end of a block: what it answers is the test's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Quiet(BaseHTTPRequestHandler):
    """A handler that logs nothing: the test's output is for the test."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing."""


@contextmanager
def web_server(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serves on a free loopback port, each request in a thread; gives the server's origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
