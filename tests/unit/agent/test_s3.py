"""Requests to a bucket: how they are signed, what is sent, what becomes of refusals. The real one is in tests/edge."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from aiohttp import web

from edgewright.agent.s3 import BucketError, Bytes, Object, S3Bucket, Section, Signed, signature
from edgewright.api.edge_protocol import S3Configuration
from edgewright.runtime.clock import VirtualClock

EMPTY = hashlib.sha256().hexdigest()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_a_request_is_signed_as_the_published_examples_are(query: str, expected: str) -> None:
    found = signature(
        Signed(method="GET", path="/", query=query, host="examplebucket.s3.amazonaws.com", digest=EMPTY),
        time=datetime(2013, 5, 24, tzinfo=UTC),
        region="us-east-1",
        key_id="AKIAIOSFODNN7EXAMPLE",
        secret="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    )
    assert found["authorization"].endswith(f"Signature={expected}")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Server:
    """A server that answers what the test says, and checks signatures."""

    def __init__(self) -> None:
        self.answers: list[web.Response] = []
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.port = 0

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.asked.append(f"{request.method} {request.raw_path}")
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.bodies.append(body)
        path, _, query = request.raw_path.partition("?")
        digest = request.headers["x-amz-content-sha256"]
        assert digest == hashlib.sha256(body).hexdigest()
        expected = signature(
            Signed(method=request.method, path=path, query=query, host=request.headers["Host"], digest=digest),
            time=datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
            region="us-east-1",
            key_id="id",
            secret="secret",
        )
        assert request.headers["authorization"] == expected["authorization"]
        return self.answers.pop(0) if self.answers else web.Response()


@asynccontextmanager
async def bucket() -> AsyncIterator[tuple[Server, S3Bucket]]:
    server = Server()
    application = web.Application(client_max_size=1 << 26)
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    made = S3Bucket(settings(server.port), VirtualClock(), plain_http=True)
    try:
        yield server, made
    finally:
        await made.close()
        await runner.cleanup()


def settings(port: int, **more: str) -> S3Configuration:
    values = {"aws_access_key_id": encoded("id"), "aws_secret_access_key": encoded("secret"), **more}
    return S3Configuration(bucket_host="127.0.0.1", bucket_port=port, bucket_name="b", **values)


def refused(status: int, code: str, **headers: str) -> web.Response:
    body = f"<Error><Code>{code}</Code><Message>no &amp; never</Message></Error>"
    return web.Response(status=status, text=body, headers=headers)


async def test_files_go_whole_or_in_parts() -> None:
    async with bucket() as (server, made):
        await made.put("dir/a b+ü", Bytes(b"content"))
        server.answers = [
            web.Response(text="<X><UploadId>u/1</UploadId></X>"),
            web.Response(headers={"ETag": '"t1"'}),
            web.Response(),
            web.Response(status=204),
        ]
        upload = await made.begin("k")
        tag = await made.put_part("k", upload, 1, Bytes(b"part"))
        await made.complete("k", upload, [tag])
        await made.abort("k", upload)
        assert server.asked == [
            "PUT /b/dir/a%20b%2B%C3%BC",
            "POST /b/k?uploads=",
            "PUT /b/k?partNumber=1&uploadId=u%2F1",
            "POST /b/k?uploadId=u%2F1",
            "DELETE /b/k?uploadId=u%2F1",
        ]
        assert server.bodies[0] == b"content"
        assert b"<PartNumber>1</PartNumber><ETag>&quot;t1&quot;</ETag>" in server.bodies[3]


async def test_a_list_comes_in_pages() -> None:
    async with bucket() as (server, made):
        page = "<Contents><Key>p/{}&amp;</Key><Size>{}</Size><ETag>&quot;e&quot;</ETag></Contents>"
        server.answers = [
            web.Response(text=page.format(1, 5) + "<NextContinuationToken>n=</NextContinuationToken>"),
            web.Response(text=page.format(2, "x")),
        ]
        assert await made.listed("p/") == [
            Object(key="p/1&", size=5, etag='"e"'),
            Object(key="p/2&", size=0, etag='"e"'),
        ]
        assert server.asked[1] == "GET /b?continuation-token=n%3D&list-type=2&prefix=p%2F"


async def test_an_object_is_read_from_a_byte_on_as_long_as_it_is_the_same() -> None:
    async with bucket() as (server, made):
        found = Object(key="k", size=10, etag='"e"')
        server.answers = [web.Response(body=b"0123456789"), web.Response(status=206, body=b"56789")]
        assert b"".join([each async for each in made.get(found)]) == b"0123456789"
        assert b"".join([each async for each in made.get(found, offset=5)]) == b"56789"
        assert (server.headers[1]["range"], server.headers[1]["if-match"]) == ("bytes=5-", '"e"')
        server.answers = [refused(412, "PreconditionFailed"), web.Response(body=b"0123456789")]
        for expected in ("PreconditionFailed no & never", "does not send parts"):
            with pytest.raises(BucketError, match=expected):
                [each async for each in made.get(found, offset=5)]


async def test_a_server_whose_clock_is_another_is_followed() -> None:
    async with bucket() as (server, made):
        there = datetime(2031, 5, 1, tzinfo=UTC)
        server.answers = [refused(403, "RequestTimeTooSkewed", Date=format_datetime(there, usegmt=True))]
        await made.put("k", Bytes(b"x"))
        assert server.headers[1]["x-amz-date"] == "20310501T000000Z"
        assert made._skew > timedelta(days=365)
        server.answers = [refused(403, "RequestTimeTooSkewed", Date="yesterday")]
        with pytest.raises(BucketError, match="RequestTimeTooSkewed"):
            await made.put("k", Bytes(b"x"))


async def test_refusals_are_told_in_the_words_of_the_server_and_without_keys() -> None:
    async with bucket() as (server, made):
        server.answers = [refused(403, "AccessDenied")]
        with pytest.raises(BucketError, match=r"^the bucket refuses: 403 AccessDenied no & never$") as caught:
            await made.put("k", Bytes(b"x"))
        assert caught.value.code == "AccessDenied"
        server.answers = [refused(200, "InternalError")]
        with pytest.raises(BucketError, match="InternalError"):
            await made.complete("k", "u", ["t"])
        server.answers = [refused(404, "NoSuchUpload"), refused(403, "AccessDenied"), web.Response(text="<X/>")]
        await made.abort("k", "u")
        with pytest.raises(BucketError, match="AccessDenied"):
            await made.abort("k", "u")
        with pytest.raises(BucketError, match="has no UploadId"):
            await made.begin("k")


async def test_a_connection_that_was_closed_meanwhile_is_opened_again() -> None:
    async with bucket() as (server, made):
        await made.put("k", Bytes(b"x"))
        for idle, _ in made._pool._idle:
            idle.transport.get_extra_info("socket").shutdown(2)
        await made.put("k", Bytes(b"x"))
        assert len(server.asked) == 2


async def test_a_bucket_that_cannot_be_reached_is_an_error_in_a_sentence() -> None:
    async with bucket() as (server, made):
        port = server.port
        plain = S3Bucket(settings(port), VirtualClock())
        with pytest.raises(BucketError, match="TLS"):
            await plain.put("k", Bytes(b"x"))
        await plain.close()
    del made
    away = S3Bucket(settings(port), VirtualClock(), plain_http=True)
    with pytest.raises(BucketError, match=rf"127\.0\.0\.1:{port}: "):
        await away.put("k", Bytes(b"x"))


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("aws_access_key_id", "?", "is not base64"),
        ("aws_secret_access_key", "?", "is not base64"),
        ("aws_ca_bundle", encoded("no pem"), "holds no PEM certificate"),
    ],
)
def test_what_is_wrong_with_the_settings_is_named(field: str, value: str, text: str) -> None:
    with pytest.raises(BucketError, match=rf"storage\.s3\.{field}: .*{text}"):
        S3Bucket(settings(1, **{field: value}), VirtualClock())


def test_a_file_that_became_shorter_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 100_000)
    with (tmp_path / "f").open("rb") as file:
        pieces = Section(file.fileno(), 10, 99_990).pieces()
        assert len(next(pieces)) == 65536
        os.truncate(tmp_path / "f", 65546)
        with pytest.raises(OSError, match="became shorter"):
            next(pieces)
