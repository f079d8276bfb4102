"""HTTP requests of the harness, over connections that stay open: a TLS handshake costs more than most requests.

`ApiServer` sends everything through one of these, from any thread. A connection that was idle for long, or on which the
server has closed its end, is never used again, so nothing is ever sent twice. Those that are still idle when nobody
knows of their server any more are closed with it: somebody may ask a server once more while it is stopped.
"""

from __future__ import annotations

import http.client
import select
import ssl
import threading
import time
import urllib.parse
import weakref
from collections.abc import Callable, Mapping

# The servers close what was idle for longer than this, and might do so just when the next request is sent.
_IDLE_SECONDS = 20.0

_Idle = dict[str, list[tuple[float, http.client.HTTPConnection]]]


class Connections:
    """The connections that are idle, by where they go."""

    def __init__(self, tls: Callable[[], ssl.SSLContext]) -> None:
        self._tls = tls
        self._lock = threading.Lock()
        self._idle: _Idle = {}
        weakref.finalize(self, _close, self._idle)

    def ask(
        self, method: str, url: str, content: str | None, headers: Mapping[str, str], *, timeout: float
    ) -> tuple[int, str]:
        """One request: the code and the text of its answer."""
        address = urllib.parse.urlsplit(url)
        place = f"{address.scheme}://{address.netloc}"
        connection = self._taken(place, timeout) or self._new(address, timeout)
        try:
            target = f"{address.path}?{address.query}" if address.query else address.path
            connection.request(method, target, content, dict(headers))
            answer = connection.getresponse()
            found = answer.status, answer.read().decode()
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:  # else the server wanted it closed
            with self._lock:
                self._idle.setdefault(place, []).append((time.monotonic(), connection))
        return found

    def close(self) -> None:
        """Closes those that are idle; who asks again gets another."""
        with self._lock:
            _close(self._idle)

    def _taken(self, place: str, timeout: float) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                idle = self._idle.get(place)
                if not idle:
                    return None
                since, connection = idle.pop()
            if time.monotonic() - since < _IDLE_SECONDS and not _readable(connection):
                connection.sock.settimeout(timeout)
                return connection
            connection.close()

    def _new(self, address: urllib.parse.SplitResult, timeout: float) -> http.client.HTTPConnection:
        if address.scheme == "https":
            return http.client.HTTPSConnection(address.netloc, timeout=timeout, context=self._tls())
        return http.client.HTTPConnection(address.netloc, timeout=timeout)


def _close(idle: _Idle) -> None:
    for connections in idle.values():
        for _, each in connections:
            each.close()
    idle.clear()


def _readable(connection: http.client.HTTPConnection) -> bool:
    """Whether something came that nobody asked for: the end, as a rule."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
