"""Asking a registry: who gets credentials and who never does, redirects, cuts, busy and broken registries."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from edgewright.api.flash_pod import Outcome
from edgewright.api.reference import parse_reference
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.oci import Access, Credentials, Limits, Login, pull
from edgewright.devices.simulated.registry import Registry
from tests.harness.processes import free_port
from tests.unit.devices.oci.registries import FIRMWARE, LOGIN, plain, pull_from, secure, secure_registry

ZEROS = bytes(1000)
DIGEST = f"sha256:{hashlib.sha256(ZEROS).hexdigest()}"
DOCUMENT = json.dumps(
    {"layers": [{"digest": DIGEST, "size": len(ZEROS), "mediaType": "application/octet-stream"}]}
).encode()

Answer = Callable[[web.BaseRequest], web.StreamResponse]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[str]:
    """A server that answers everything in one way; gives its host."""

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        return answer(request)

    runner = web.ServerRunner(web.Server(serve), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def pull_plainly(host: str) -> None:
    access = Access(plain_hosts=frozenset({host}))
    await pull(parse_reference(f"{host}/team/fw:1"), device="esp32", access=access, limits=Limits(attempts=3, pause=0))


@pytest.mark.parametrize("tokens", [False, True], ids=["password", "token"])
async def test_credentials_open_a_registry_with_tls(tokens: bool) -> None:
    async with secure_registry(login=LOGIN, tokens=tokens) as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        assert (await pull_from(registry, access=secure(registry))).content == FIRMWARE
        first, *others = registry.requests
        assert first.authorization == ""
        scheme = "Bearer " if tokens else "Basic "
        assert all(asked.authorization.startswith(scheme) for asked in others if not asked.path.startswith("/token"))
        asked_for = [asked.path for asked in others if asked.path.startswith("/token")]
        assert asked_for == (["/token?service=simulated&scope=repository%3Ateam%2Ffw%3Apull"] if tokens else [])


async def test_a_token_is_had_without_credentials_where_nobody_asks_for_them() -> None:
    async with Registry(tokens=True) as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        assert (await pull_from(registry)).content == FIRMWARE


@pytest.mark.parametrize("tokens", [False, True], ids=["password", "token"])
@pytest.mark.parametrize(
    ("login", "says"),
    [(("ann", "wrong"), "refuses .*'ann'"), (None, "firmwarePullSecret|without credentials")],
    ids=["wrong", "none"],
)
async def test_wrong_or_missing_credentials_are_refused(tokens: bool, login: tuple[str, str] | None, says: str) -> None:
    async with secure_registry(login=LOGIN, tokens=tokens) as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        with pytest.raises(Ended, match=says) as ended:
            await pull_from(registry, access=secure(registry, login))
    assert ended.value.outcome is Outcome.REFUSED
    assert "wrong" not in ended.value.message


@pytest.mark.parametrize("tokens", [False, True], ids=["password", "token"])
async def test_credentials_are_never_sent_over_plain_http(tokens: bool) -> None:
    async with Registry(login=LOGIN, tokens=tokens) as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        access = Access(
            plain_hosts=frozenset({registry.host}), credentials=Credentials(((registry.host, Login(*LOGIN)),))
        )
        with pytest.raises(Ended, match="over which they are never sent") as ended:
            await pull_from(registry, access=access)
        assert {asked.authorization for asked in registry.requests} == {""}
    assert ended.value.outcome is Outcome.REFUSED


async def test_a_plain_registry_that_asks_for_no_credentials_gets_none() -> None:
    async with Registry() as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        access = Access(
            plain_hosts=frozenset({registry.host}), credentials=Credentials(((registry.host, Login(*LOGIN)),))
        )
        await pull_from(registry, access=access)
        assert {asked.authorization for asked in registry.requests} == {""}


async def test_credentials_do_not_cross_a_redirect() -> None:
    async with secure_registry(login=LOGIN) as registry, secure_registry() as storage:
        for each in (registry, storage):
            each.add_image("team/fw", "1", FIRMWARE)
        registry.faults.blobs_elsewhere = storage.url
        assert (await pull_from(registry, access=secure(registry))).content == FIRMWARE
        assert len(storage.requests) == 2
        assert {asked.authorization for asked in storage.requests} == {""}


async def test_credentials_go_to_no_token_service_of_another_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    async with secure_registry(login=LOGIN, tokens=True) as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        elsewhere = registry.url.replace("127.0.0.1", "localhost")
        monkeypatch.setattr(Registry, "url", elsewhere)
        with pytest.raises(Ended, match=r"names localhost:.* which is of another domain") as ended:
            await pull_from(registry, access=secure(registry))
        assert ended.value.outcome is Outcome.REFUSED
        assert LOGIN[1] not in ended.value.message
        assert {asked.authorization for asked in registry.requests} == {""}
        allowed = replace(secure(registry), token_hosts=frozenset({"LOCALHOST"}))
        assert (await pull_from(registry, access=allowed)).content == FIRMWARE


async def test_a_token_without_credentials_may_come_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async with secure_registry(tokens=True) as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        monkeypatch.setattr(Registry, "url", registry.url.replace("127.0.0.1", "localhost"))
        assert (await pull_from(registry, access=secure(registry, None))).content == FIRMWARE


async def test_a_storage_that_wants_credentials_gets_none() -> None:
    async with secure_registry(login=LOGIN) as registry, secure_registry(login=LOGIN) as storage:
        registry.add_image("team/fw", "1", FIRMWARE)
        registry.faults.blobs_elsewhere = storage.url
        with pytest.raises(Ended) as ended:
            await pull_from(registry, access=secure(registry))
        assert {asked.authorization for asked in storage.requests} == {""}
    assert ended.value.outcome is Outcome.REFUSED


async def test_a_redirect_from_tls_to_plain_http_is_refused() -> None:
    async with secure_registry() as registry, Registry() as storage:
        for each in (registry, storage):
            each.add_image("team/fw", "1", FIRMWARE)
        registry.faults.blobs_elsewhere = storage.url
        trusted = secure(registry)
        access = Access(tls=trusted.tls, plain_hosts=frozenset({storage.host}))
        with pytest.raises(Ended, match="over plain HTTP, which is not allowed") as ended:
            await pull_from(registry, access=access)
        assert not storage.requests
    assert ended.value.outcome is Outcome.REFUSED


async def test_a_redirect_of_a_plain_registry_goes_to_plain_ones_only() -> None:
    async with Registry() as registry, Registry() as storage:
        for each in (registry, storage):
            each.add_image("team/fw", "1", FIRMWARE)
        registry.faults.blobs_elsewhere = storage.url
        with pytest.raises(Ended, match="which is not allowed"):
            await pull_from(registry)
        assert (await pull_from(registry, access=plain(registry, storage))).content == FIRMWARE


async def test_redirects_in_a_circle_come_to_an_end() -> None:
    async with answering(lambda request: web.Response(status=302, headers={"Location": request.path})) as host:
        with pytest.raises(Ended, match="redirects more than 5 times") as ended:
            await pull_plainly(host)
    assert ended.value.outcome is Outcome.FAILED


@pytest.mark.parametrize("location", ["ftp://elsewhere/", "http://[", "http://h:port/"])
async def test_a_redirect_to_nowhere_is_named(location: str) -> None:
    async with answering(lambda _: web.Response(status=302, headers={"Location": location})) as host:
        with pytest.raises(Ended, match="which is no URL"):
            await pull_plainly(host)


@pytest.mark.parametrize(
    ("challenge", "says", "outcome"),
    [
        ("", "names no way to log in", Outcome.REFUSED),
        ("Negotiate", "names no way to log in", Outcome.REFUSED),
        ('Bearer realm="http://auth.example/token"', "of auth.example over plain HTTP", Outcome.REFUSED),
        ('Bearer realm="auth.example"', "is no URL|names 'auth.example' for tokens", Outcome.FAILED),
        ('Bearer realm="http://["', "for tokens, which is no URL", Outcome.FAILED),
    ],
    ids=["silent", "unknown", "plain", "no url", "broken url"],
)
async def test_a_way_to_log_in_that_cannot_be_gone_is_named(challenge: str, says: str, outcome: Outcome) -> None:
    async with answering(lambda _: web.Response(status=401, headers={"WWW-Authenticate": challenge})) as host:
        with pytest.raises(Ended, match=says) as ended:
            await pull_plainly(host)
    assert ended.value.outcome is outcome


@pytest.mark.parametrize(
    ("status", "says", "outcome"),
    [
        (200, "gives no token: it answers 200", Outcome.FAILED),
        (404, "gives no token: it answers 404", Outcome.FAILED),
        (403, "refuses to give a token without credentials", Outcome.REFUSED),
        (503, "answers 503", Outcome.FAILED),
    ],
)
async def test_a_token_service_that_gives_no_token_is_named(status: int, says: str, outcome: Outcome) -> None:
    def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/token":
            return web.Response(status=status, text="{}")
        return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer realm="http://{request.host}/token"'})

    async with answering(answer) as host:
        with pytest.raises(Ended, match=says) as ended:
            await pull_plainly(host)
    assert ended.value.outcome is outcome


@pytest.mark.parametrize(
    ("status", "body", "says", "outcome"),
    [
        (403, "", "refuses .* without credentials$", Outcome.REFUSED),
        (404, '{"errors": [{"message": "manifest unknown"}]}', "has no 1 of team/fw: manifest unknown", Outcome.FAILED),
        (404, "<html>", "has no 1 of team/fw$", Outcome.FAILED),
        (400, '{"errors": []}', "answers 400 when asked for 1 of team/fw$", Outcome.FAILED),
        (500, "", "did not give the manifest 1: .* answers 500", Outcome.FAILED),
        (429, "", "did not give the manifest 1: .* answers 429", Outcome.FAILED),
    ],
)
async def test_what_a_registry_says_is_told(status: int, body: str, says: str, outcome: Outcome) -> None:
    async with answering(lambda _: web.Response(status=status, text=body)) as host:
        with pytest.raises(Ended, match=says) as ended:
            await pull_plainly(host)
    assert ended.value.outcome is outcome


async def test_a_long_answer_before_the_log_in_is_dropped() -> None:
    async with answering(lambda _: web.Response(status=401, body=b"x" * 100_000)) as host:
        with pytest.raises(Ended, match="names no way to log in"):
            await pull_plainly(host)


async def test_a_registry_that_is_busy_is_asked_again() -> None:
    async with Registry() as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        registry.faults.busy = 2
        assert (await pull_from(registry)).content == FIRMWARE


async def test_a_registry_that_is_not_there_is_given_up() -> None:
    with pytest.raises(Ended, match=r"did not give the manifest 1: .*Connect") as ended:
        await pull_plainly(f"127.0.0.1:{free_port()}")
    assert ended.value.outcome is Outcome.FAILED


async def test_a_certificate_that_is_not_trusted_is_named_at_once() -> None:
    async with secure_registry() as registry:
        with pytest.raises(Ended, match=r"is not trusted .*SSL_CERT_FILE") as ended:
            await pull_from(registry, access=Access())
    assert ended.value.outcome is Outcome.FAILED


async def test_a_registry_without_tls_that_was_not_named_as_one_is_not_spoken_to() -> None:
    async with Registry() as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        with pytest.raises(Ended, match="does not speak TLS") as ended:
            await pull_from(registry, access=Access())
        assert not registry.requests
    assert ended.value.outcome is Outcome.FAILED


async def fetch_with_cuts(registry: Registry, lines: list[str]) -> list[str]:
    """Pulls an image and gives the ranges that were asked for on the way."""
    layer = registry.add_blob(FIRMWARE, "application/octet-stream")
    media_type = "application/vnd.oci.image.manifest.v1+json"
    registry.add_document("team/fw", "1", {"mediaType": media_type, "layers": [layer]})
    assert (await pull_from(registry, log=lines.append)).content == FIRMWARE
    return [asked.range for asked in registry.requests if "blobs" in asked.path]


async def test_a_transfer_that_is_cut_goes_on_where_it_was() -> None:
    lines: list[str] = []
    async with Registry() as registry:
        registry.faults.cut_after, registry.faults.cuts = 50_000, 4
        ranges = await fetch_with_cuts(registry, lines)
    assert ranges == ["", "bytes=50000-", "bytes=100000-", "bytes=150000-", "bytes=200000-"]
    assert any("going on after 150000 of 204800 bytes" in line for line in lines)


async def test_a_transfer_is_begun_again_where_the_registry_knows_no_ranges() -> None:
    async with Registry() as registry:
        registry.faults.cut_after, registry.faults.ranges = 50_000, False
        assert await fetch_with_cuts(registry, []) == ["", "bytes=50000-"]


async def test_a_transfer_is_begun_again_where_the_registry_goes_on_elsewhere() -> None:
    async with Registry() as registry:
        registry.faults.cut_after, registry.faults.wrong_ranges = 50_000, True
        assert await fetch_with_cuts(registry, []) == ["", "bytes=50000-", ""]


async def test_a_transfer_that_never_gets_further_is_given_up() -> None:
    async with Registry() as registry:
        registry.faults.cut_after, registry.faults.cuts, registry.faults.ranges = 50_000, 1000, False
        with pytest.raises(Ended, match="did not give the blob") as ended:
            await fetch_with_cuts(registry, [])
        assert len(registry.requests) < 10
    assert ended.value.outcome is Outcome.FAILED


@pytest.mark.parametrize("damaged", [1, 2], ids=["the part", "for good"])
async def test_parts_that_do_not_fit_are_fetched_again_once(damaged: int) -> None:
    """The first answer is cut, the second is of something else, the third is right, or not."""
    blobs = 0

    def answer(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal blobs
        if "manifests" in request.path:
            return web.Response(body=DOCUMENT)
        blobs += 1
        begin = 600 if request.headers.get("Range") else 0
        fill = b"\0" if begin == 0 and not (damaged == 2 and blobs > 2) else b"x"
        response = web.Response(body=fill * (600 if blobs == 1 else 1000 - begin), status=206 if begin else 200)
        if begin:
            response.headers["Content-Range"] = "bytes 600-999/1000"
        return response

    async with answering(answer) as host:
        if damaged == 1:
            await pull_plainly(host)
        else:
            with pytest.raises(Ended, match="is damaged") as ended:
                await pull_plainly(host)
            assert ended.value.outcome is Outcome.CORRUPT
    assert blobs == 3


async def test_a_range_that_is_beyond_the_end_begins_again() -> None:
    ranges: list[str] = []

    def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "manifests" in request.path:
            return web.Response(body=DOCUMENT)
        ranges.append(request.headers.get("Range", ""))
        if ranges[-1]:
            return web.Response(status=416)
        return web.Response(body=ZEROS[: 600 if len(ranges) == 1 else 1000])

    async with answering(answer) as host:
        await pull_plainly(host)
    assert ranges == ["", "bytes=600-", ""]


async def test_a_transfer_that_is_cut_after_the_last_byte_is_whole() -> None:
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/manifests/" in head:
            writer.write(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(DOCUMENT) + DOCUMENT
            )
        else:
            asked += 1  # in chunks, and the one that says that it was the last is missing
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + ZEROS + b"\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        await pull_plainly(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert asked == 1


@pytest.mark.untraced
async def test_hundreds_pull_at_once() -> None:
    async with Registry() as registry:
        registry.add_image("team/fw", "1", {"esp32": FIRMWARE})
        images = await asyncio.gather(*(pull_from(registry) for _ in range(200)))
    assert all(image.content == FIRMWARE for image in images)
