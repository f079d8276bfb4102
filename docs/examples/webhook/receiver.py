"""A receiver of Edgewright's webhooks: checks who sent a request, and prints each event once. Standard library only.

python3 receiver.py SECRET_FILE [PORT]      the file is that of `edgewright run --webhook-secret-file`
"""

import base64
import hashlib
import hmac
import http.server
import json
import pathlib
import sys
import time

TOLERANCE = 300  # seconds; a request that was recorded and is sent again later is refused


def verify(secrets, headers, body, now):
    """The event in a request; ValueError where the request is not from somebody who has one of the secrets."""
    sent = headers["webhook-timestamp"] or ""
    if not sent.isdigit() or abs(now - int(sent)) > TOLERANCE:
        raise ValueError("the timestamp is missing or too far from now")
    signed = f"{headers['webhook-id']}.{sent}.".encode() + body
    given = [
        each.removeprefix("v1,") for each in (headers["webhook-signature"] or "").split() if each.startswith("v1,")
    ]
    for secret in secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        wanted = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        if any(hmac.compare_digest(wanted.encode(), each.encode()) for each in given):
            return json.loads(body)
    raise ValueError("no signature fits")


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers 204 to what it has taken; anything else is sent again later."""

    secrets = ()
    seen = {}  # by id; a program that must not act twice keeps it where a restart does not lose it

    def do_POST(self):
        body = self.rfile.read(min(int(self.headers["content-length"] or 0), 1 << 20))
        try:
            event = verify(self.secrets, self.headers, body, time.time())
        except ValueError as error:
            self.send_error(401, str(error))
            return
        if event["id"] not in self.seen:
            self.seen[event["id"]] = event
            print(event["type"], event["subject"], event["data"]["message"], flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        """Only events are printed."""


if __name__ == "__main__":
    Receiver.secrets = pathlib.Path(sys.argv[1]).read_text().split()
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 8095
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver) as server:
        print(f"listening at http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()
