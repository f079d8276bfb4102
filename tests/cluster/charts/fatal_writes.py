"""Ends an operator at a write of its choice: an admission webhook that the API server asks before every write.

The write at which the operator dies is refused, so that what is there is what the writes before it left. What the
operator writes itself and what Helm writes for it count alike; the test writes while nothing is armed.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.harness import ControlPlane
from tests.harness.certificates import Authority

_HOST = "127.0.0.1"
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class FatalWrites:
    """Counts the writes from when it is armed, and ends who makes the one that is fatal."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        """Set once the API server asks at all, which begins some time after it was told to."""
        self.came = threading.Event()
        """Set once the fatal write was about to happen."""
        self._lock = threading.Lock()
        self._left = 0
        self._end: Callable[[], None] = lambda: None

    def arm(self, at: int, end: Callable[[], None]) -> None:
        """From now on `end` is called before write number `at`."""
        with self._lock:
            self._left, self._end = at, end
            self.came.clear()

    def disarm(self) -> bool:
        """No further write is fatal; whether one was."""
        with self._lock:
            self._left = 0
            return self.came.is_set()

    def allows(self, request: dict[str, Any]) -> bool:
        """Whether a write may happen."""
        self.asked.set()
        with self._lock:
            if request.get("dryRun") or not self._left:
                return True
            self._left -= 1
            if self._left:
                return True
            self._end()
            self.came.set()
            return False


@contextmanager
def fatal_writes(cluster: ControlPlane, namespace: str, folder: Path, *rules: dict[str, Any]) -> Iterator[FatalWrites]:
    """Has the API server ask about the writes of a namespace that the rules of a webhook name."""
    authority, fatal = Authority(), FatalWrites()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*authority.server("fatal-writes", names=(), addresses=(_HOST,)).write(folder, "fatal-writes"))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = {"uid": asked["request"]["uid"], "allowed": fatal.allows(asked["request"])}
            body = json.dumps({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": answer}).encode()
            with suppress(OSError):  # the API server hangs up where the one who writes is dead
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing: the API server's log has it."""

    server = ThreadingHTTPServer((_HOST, 0), Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    webhook = {
        "name": "fatal-writes.example.com",
        "clientConfig": {
            "url": f"https://{_HOST}:{server.server_port}/",
            "caBundle": base64.b64encode(authority.certificate).decode(),
        },
        "rules": [{**rule, "operations": ["CREATE", "UPDATE", "DELETE"]} for rule in rules],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"fatal-writes-{namespace}"},
        "webhooks": [webhook],
    }
    cluster.request("POST", _CONFIGURATIONS, body)
    try:
        yield fatal
    finally:
        cluster.request("DELETE", f"{_CONFIGURATIONS}/fatal-writes-{namespace}")
        server.shutdown()
        server.server_close()
