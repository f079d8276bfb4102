"""The page that a Flux with a port and no command of its own serves: its greeting, said by a cow.

`model` takes it for the command. It runs in the Flux's image, with the Python that flux itself needs, and listens on
the Pod's own address.
"""

from __future__ import annotations

from typing import Final

_PROGRAM: Final = r"""
import html, http.server, os
text = html.escape(os.environ.get("GREETING") or "Moo")
line = "-" * (len(text) + 2)
cow = r'''
        \   ^__^
         \  (oo)\_______
            (__)\       )\/\
                ||----w |
                ||     ||
'''
page = f"<!doctype html><meta charset=utf-8><title>{text}</title><pre> {line}\n&lt; {text} &gt;\n {line}{cow}</pre>"
class Page(http.server.BaseHTTPRequestHandler):
    timeout = 10
    def do_GET(self):
        body = page.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer((os.environ["POD_IP"], int(os.environ["PORT"])), Page).serve_forever()
"""

PAGE_COMMAND: Final = ("python3", "-c", _PROGRAM.lstrip())
"""What `flux start` runs."""
