"""The connections of the harness: kept between requests, and closed with those who had them."""

from __future__ import annotations

import gc
import ssl

from tests.harness.connections import Connections
from tests.harness.web_server import Quiet, web_server


class Hello(Quiet):
    """Answers everybody, and keeps the connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # noqa: N802 - a name of the library
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")


def test_connections_that_nobody_closed_go_with_those_who_had_them() -> None:
    with web_server(Hello) as origin:
        connections = Connections(ssl.create_default_context)
        for _ in range(2):
            assert connections.ask("GET", f"{origin}/", None, {}, timeout=60)[0] == 200
        del connections
        gc.collect()  # a socket that is left open would be told, and fail the test
