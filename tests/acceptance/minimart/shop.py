"""What the image samutup/minimart stands for in the tests: a page that greets, on the Pod's own address."""

from __future__ import annotations

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Shop(BaseHTTPRequestHandler):
    """Answers every GET with the greeting."""

    def do_GET(self) -> None:
        body = os.environ["GREETING"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer((os.environ["POD_IP"], int(os.environ["PORT"])), Shop).serve_forever()
