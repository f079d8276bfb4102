"""Requests that are hardly HTTP: each gets an answer, and the next client is served as ever."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest

from edgewright.local.serving import server as serving_server
from tests.unit.local.serving.fuzzing import Fuzzed, fuzzed

MAPS = "/api/v1/namespaces/default/configmaps"
POST = f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
MAP = json.dumps({"metadata": {"name": "wire"}})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    yield from fuzzed(tmp_path_factory.mktemp("wire"))


def chunked(*chunks: str) -> str:
    return POST + "Transfer-Encoding: chunked\r\n\r\n" + "".join(chunks)


@pytest.mark.parametrize(
    ("request_bytes", "codes"),
    [
        pytest.param(f"{POST}Content-Length: 1000\r\n\r\n{MAP}", {408}, id="a body that never comes whole"),
        pytest.param(f"{POST}Content-Length: 10\r\n\r\n{MAP}", {400}, id="a length that is too small"),
        pytest.param(f"{POST}Content-Length: -1\r\n\r\n{MAP}", {400}, id="a negative length"),
        pytest.param(f"{POST}Content-Length: ten\r\n\r\n{MAP}", {400}, id="a length that is no number"),
        pytest.param(f"{POST}Content-Length: 99999999999\r\n\r\n", {413}, id="a length beyond the limit"),
        pytest.param(f"{POST}Content-Length: {'9' * 30}\r\n\r\n", {400, 413}, id="a length beyond all numbers"),
        pytest.param(f"{POST}Content-Length: 1\r\nContent-Length: 2\r\n\r\n{MAP}", {400}, id="two lengths"),
        pytest.param(
            f"{POST}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}, id="a length and chunks"
        ),
        pytest.param(f"{POST}\r\n", {400}, id="no body and no length"),
        pytest.param(chunked("zz\r\n{}\r\n0\r\n\r\n"), {400}, id="a chunk without a size"),
        pytest.param(chunked("-1\r\n{}\r\n0\r\n\r\n"), {400}, id="a chunk of a negative size"),
        pytest.param(chunked("2\r\n{}XX\r\n0\r\n\r\n"), {400}, id="a chunk that is longer than it says"),
        pytest.param(chunked("1000\r\n{}"), {408}, id="a chunk that never ends"),
        pytest.param(chunked("ffffffffffffffffffff\r\n{}\r\n"), {400, 408, 413}, id="a chunk of an endless size"),
        pytest.param(f"{POST}Transfer-Encoding: gzip\r\n\r\n{{}}", {400, 501}, id="another transfer encoding"),
        pytest.param(f"{POST}Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{{}}", {400}, id="no gzip inside"),
        pytest.param(
            f"{POST}Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{{}}", {400, 415, 422}, id="unknown coding"
        ),
        pytest.param("GET / HTTP/9.9\r\nHost: a\r\n\r\n", {200, 400, 505}, id="another version of HTTP"),
        pytest.param("GET /api\r\n\r\n", {200, 400}, id="no version of HTTP"),
        pytest.param("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400}, id="HTTP/2"),
        pytest.param("GET * HTTP/1.1\r\nHost: a\r\n\r\n", {400, 404}, id="a star for a path"),
        pytest.param("GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n", {400, 404}, id="an address that is none"),
        pytest.param("GET http://a:b/api HTTP/1.1\r\nHost: a\r\n\r\n", {400, 404}, id="a port that is none"),
        pytest.param("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", {400, 404, 405}, id="a tunnel"),
        pytest.param("GET /api HTTP/1.1\r\nno colon\r\n\r\n", {400}, id="a header without a colon"),
        pytest.param("GET /api HTTP/1.1\r\nA : b\r\nHost: a\r\n\r\n", {400}, id="a space before the colon"),
        pytest.param("GET /api HTTP/1.1\r\nA: b\x00c\r\nHost: a\r\n\r\n", {400}, id="a zero in a header"),
        pytest.param("GET /api HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", {200, 400}, id="two hosts"),
        pytest.param("GET /api HTTP/1.1\r\n\r\n", {200, 400}, id="no host"),
        pytest.param(f"GET /{'a' * 70_000} HTTP/1.1\r\nHost: a\r\n\r\n", {400, 414, 431}, id="a path that is too long"),
        pytest.param(f"GET /api HTTP/1.1\r\nA: {'a' * 70_000}\r\n\r\n", {400, 431}, id="a header that is too long"),
        pytest.param("GET /api HTTP/1.1\r\n" + "A: b\r\n" * 20_000 + "\r\n", {200, 400, 431}, id="very many headers"),
        pytest.param("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", {400}, id="TLS in TLS"),
        pytest.param("\x00" * 2000 + "\r\n\r\n", {400}, id="zeros"),
    ],
)
def test_what_is_hardly_http_is_refused_and_changes_nothing(
    server: Fuzzed, monkeypatch: pytest.MonkeyPatch, request_bytes: str, codes: set[int]
) -> None:
    monkeypatch.setattr(serving_server, "_BODY_SECONDS", 0.2)
    code, _ = server.send(request_bytes.encode("latin-1"), end=False)
    assert code in codes
    assert server.ask("GET", f"{MAPS}/wire").code == 404


def test_a_small_body_that_unpacks_to_a_huge_one_is_refused(server: Fuzzed) -> None:
    body = gzip.compress(b'{"data": {"a": "' + b"a" * 30_000_000 + b'"}}')
    head = f"{POST}Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    code, _ = server.send(head.encode() + body, end=False)
    assert code == 413


def test_requests_that_come_at_once_are_answered_one_after_the_other(server: Fuzzed) -> None:
    one = f"{POST}Content-Length: 1\r\n\r\n{{"
    code, body = server.send((one * 3).encode())
    assert (code, json.loads(body)["reason"]) == (400, "BadRequest")
