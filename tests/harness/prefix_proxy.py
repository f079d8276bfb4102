"""A reverse proxy that serves the console under a path, as an Ingress does: it cuts the path off, and names it."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from .web_server import Quiet, web_server

PREFIX: Final = "/tools/edge"
_ITS_OWN: Final = {"connection", "content-length", "keep-alive", "transfer-encoding"}
"""Headers that are about one connection, of which there are two."""
_CHUNK: Final = 65536


@contextmanager
def under_a_path(console: Callable[[], str]) -> Iterator[str]:
    """The proxy in front of a console until the end of the block; gives the address under which browsers find it.

    Where the console is, is asked with each request: it may have to know the proxy's address before it starts.
    """

    class Handler(Quiet):
        def _pass_on(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            connection = http.client.HTTPConnection(urlsplit(console()).netloc, timeout=240)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _ITS_OWN}
            try:
                path = self.path.removeprefix(PREFIX)
                connection.request(self.command, path, body or None, {**headers, "X-Forwarded-Prefix": PREFIX})
                answer = connection.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in _ITS_OWN:
                        self.send_header(name, value)
                self.end_headers()
                while part := answer.read1(_CHUNK):
                    self.wfile.write(part)
                    self.wfile.flush()
            except ConnectionError:  # the browser has gone, or the console
                self.close_connection = True
            finally:
                connection.close()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815 - names of the library

    with web_server(Handler) as origin:
        yield origin + PREFIX
