"""The harness's proxy: each way in which it misbehaves, between two sockets and in front of the API server."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import ControlPlane, Proxy, wait_until


class Line:
    """A client, the proxy, and the server behind it, over which a first byte has gone."""

    def __init__(self, listener: socket.socket, proxy: Proxy) -> None:
        self.client = socket.create_connection(("127.0.0.1", proxy.port), timeout=120)
        self.server, _ = listener.accept()
        self.server.settimeout(30)
        self.client.sendall(b".")
        assert self.server.recv(1) == b"."

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)
        yield listening


@pytest.fixture
def proxy(listener: socket.socket) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", listener.getsockname()[1]) as running:
        yield running


@pytest.fixture
def line(listener: socket.socket, proxy: Proxy) -> Iterator[Line]:
    connected = Line(listener, proxy)
    yield connected
    connected.close()


def _receive(connection: socket.socket, size: int) -> bytes:
    """This many bytes, or fewer when the connection ends in an orderly way."""
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def test_a_proxy_carries_both_ways_and_passes_an_end_on(proxy: Proxy, line: Line) -> None:
    line.client.sendall(b"question")
    assert _receive(line.server, 8) == b"question"
    line.client.shutdown(socket.SHUT_WR)
    assert line.server.recv(1) == b""
    line.server.sendall(b"answer")
    line.server.close()
    assert _receive(line.client, 100) == b"answer"
    line.client.close()
    wait_until(lambda: proxy.open == 0, what="the connection is over")
    assert proxy.count == 1


def test_a_cut_resets_open_connections_and_spares_new_ones(listener: socket.socket, proxy: Proxy, line: Line) -> None:
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        line.client.recv(1)
    with pytest.raises(ConnectionResetError):
        line.server.recv(1)
    assert proxy.open == 0
    again = Line(listener, proxy)
    again.server.sendall(b"fine")
    assert _receive(again.client, 4) == b"fine"
    again.close()
    assert proxy.count == 2


def test_a_cut_after_some_bytes_comes_exactly_then(listener: socket.socket, proxy: Proxy, line: Line) -> None:
    line.server.sendall(b"whole\n")
    assert _receive(line.client, 6) == b"whole\n"
    proxy.cut_after(4)
    line.server.sendall(b"half a line\n")
    assert _receive(line.client, 4) == b"half"
    with pytest.raises(ConnectionResetError):
        line.client.recv(1)
    proxy.cut_new_after(2)
    short = Line(listener, proxy)
    short.server.sendall(b"no")
    assert _receive(short.client, 2) == b"no"
    with pytest.raises(ConnectionResetError):
        short.client.recv(1)
    short.close()


def test_a_proxy_refuses_new_connections_and_keeps_open_ones(listener: socket.socket, proxy: Proxy, line: Line) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        Line(listener, proxy)
    line.server.sendall(b"still here")
    assert _receive(line.client, 10) == b"still here"
    proxy.accept()
    Line(listener, proxy).close()


def test_a_paused_proxy_moves_nothing_and_loses_nothing(proxy: Proxy, line: Line) -> None:
    proxy.pause()
    line.server.sendall(b"held back")
    line.client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        line.client.recv(1)
    proxy.resume()
    line.client.settimeout(30)
    assert _receive(line.client, 9) == b"held back"


def test_a_paused_proxy_can_be_cut(proxy: Proxy, line: Line) -> None:
    proxy.pause()
    line.server.sendall(b"lost")
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        line.client.recv(1)


def test_a_slow_proxy_takes_its_time(proxy: Proxy, line: Line) -> None:
    proxy.slow(10_000)
    started = time.monotonic()
    line.server.sendall(bytes(4_000))
    assert len(_receive(line.client, 4_000)) == 4_000
    assert time.monotonic() - started > 0.3
    proxy.slow(None)
    line.server.sendall(bytes(1_000_000))
    assert len(_receive(line.client, 1_000_000)) == 1_000_000


def test_a_dead_target_is_a_reset(proxy: Proxy, listener: socket.socket) -> None:
    listener.close()
    with pytest.raises(ConnectionResetError), socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
        client.recv(1)


def _config_map(name: str, text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}


def _read_until_cut(stream: http.client.HTTPResponse) -> bytes:
    """What came before the error; an orderly end is a failure of the test."""
    received = b""
    while True:
        try:
            more = stream.read1(65536)
        except (ConnectionResetError, http.client.IncompleteRead):
            return received
        assert more, "the stream came to an orderly end"
        received += more


def test_a_watch_is_cut_in_mid_line(cluster: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    with cluster.proxy() as proxy:
        connection = http.client.HTTPSConnection("127.0.0.1", proxy.port, context=cluster.admin_tls, timeout=120)
        version = cluster.request("GET", path)["metadata"]["resourceVersion"]
        connection.request("GET", f"{path}?watch=1&resourceVersion={version}")
        watch = connection.getresponse()
        cluster.request("POST", path, _config_map("whole", ""))
        while True:
            event = json.loads(watch.readline())
            if event["object"]["metadata"]["name"] == "whole":
                break
        proxy.cut_after(5_000)
        cluster.request("POST", path, _config_map("half", "x" * 50_000))
        received = _read_until_cut(watch)
        connection.close()
    assert received.startswith(b'{"type":"ADDED"')
    assert b"xxxx" in received
    assert b"\n" not in received
