"""The connections of the harness: kept between requests, and closed with those who had them."""

from __future__ import annotations

import gc
import http.server
import ssl
import threading

from tests.harness.connections import Connections


class Hello(http.server.BaseHTTPRequestHandler):
    """Answers everybody, and keeps the connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


def test_connections_that_nobody_closed_go_with_those_who_had_them() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            connections = Connections(ssl.create_default_context)
            for _ in range(2):
                assert connections.ask("GET", f"http://127.0.0.1:{server.server_port}/", None, {}, timeout=60)[0] == 200
            del connections
            gc.collect()  # a socket that is left open would be told, and fail the test
        finally:
            server.shutdown()
