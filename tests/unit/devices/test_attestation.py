"""The attestation service and its client: yes, no, and no verdict."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.devices.attestation import AttestationClient, Patience, service_url
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.http import request
from edgewright.devices.simulated.attestation import AttestationService, fingerprint

CERTIFICATE = b"\x30\x82\x03\x00" + bytes(range(256)) * 3
QUICK = Patience(answer=5.0, tries=3, pause=0.0)


@contextlib.asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[str]:
    """A server that gives these answers in order, the last one for ever; empty: it hangs up."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"-----END CERTIFICATE-----\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def http(status: int, body: bytes) -> bytes:
    return f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


OK = http(200, b'{"status": "Certificate OK"}')


async def test_a_certificate_that_the_service_knows_is_recognised() -> None:
    async with AttestationService({fingerprint(CERTIFICATE)}) as service:
        await AttestationClient(service.url).attest(CERTIFICATE)
        assert service.asked == [(fingerprint(CERTIFICATE), True)]


async def test_a_certificate_that_it_does_not_know_is_refused_at_once() -> None:
    async with AttestationService(lambda certificate: certificate != CERTIFICATE) as service:
        with pytest.raises(Ended) as caught:
            await AttestationClient(service.url, patience=QUICK).attest(CERTIFICATE)
        assert caught.value.outcome is Outcome.REFUSED
        assert len(service.asked) == 1


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(b"", id="it hangs up"),
        pytest.param(http(500, b""), id="it has trouble"),
        pytest.param(http(200, b"<html>Welcome to this hotel</html>"), id="another server's page"),
        pytest.param(http(200, b'{"status": "maybe"}'), id="neither yes nor no"),
    ],
)
async def test_no_verdict_is_asked_for_again(first: bytes) -> None:
    lines: list[str] = []
    async with answering(first, OK) as url:
        await AttestationClient(url, patience=QUICK, log=lines.append).attest(CERTIFICATE)
    assert len(lines) == 1
    assert "gave no verdict" in lines[0]


async def test_a_service_that_never_gives_a_verdict_is_a_failure_and_no_refusal() -> None:
    async with answering(http(503, b"")) as url:
        with pytest.raises(Ended, match="gave no verdict: it answers with HTTP 503") as caught:
            await AttestationClient(url, patience=QUICK).attest(CERTIFICATE)
    assert caught.value.outcome is Outcome.FAILED


async def test_a_service_that_is_slower_than_allowed_has_given_no_verdict() -> None:
    async with AttestationService({fingerprint(CERTIFICATE)}, seconds=30) as service:
        with pytest.raises(Ended, match=r"no answer within 0\.05 s"):
            await AttestationClient(service.url, patience=Patience(answer=0.05, tries=1)).attest(CERTIFICATE)


async def test_a_service_that_is_not_there_has_given_no_verdict() -> None:
    async with answering(OK) as url:
        pass
    with pytest.raises(Ended, match="gave no verdict"):
        await AttestationClient(url, patience=QUICK).attest(CERTIFICATE)


async def test_one_request_at_a_time_is_answered_as_the_published_service_does() -> None:
    async with AttestationService({fingerprint(CERTIFICATE)}, seconds=0.05) as service:
        started = asyncio.get_running_loop().time()
        await asyncio.gather(*(AttestationClient(service.url).attest(CERTIFICATE) for _ in range(4)))
        assert asyncio.get_running_loop().time() - started >= 0.2


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [
        pytest.param("GET", b"", 405, id="only POST"),
        pytest.param("POST", b"hello", 401, id="no PEM"),
        pytest.param("POST", b"\xff", 401, id="no text"),
        pytest.param("POST", ssl.DER_cert_to_PEM_cert(CERTIFICATE).encode(), 200, id="a certificate"),
    ],
)
async def test_the_service_answers_as_the_published_one(method: str, body: bytes, status: int) -> None:
    async with AttestationService({fingerprint(CERTIFICATE)}) as service:
        answer = await request(method, service.url + "/", body=body)
    assert answer.status == status
    if status == 200:
        assert answer.body == b'{"status": "Certificate OK"}'


@pytest.mark.parametrize(
    "question",
    [b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"POST"],
    ids=["endless", "no length", "half a request"],
)
async def test_what_is_no_request_gets_no_answer(question: bytes) -> None:
    async with AttestationService(set()) as service:
        host, port = service.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(question)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert service.asked == []


@pytest.mark.parametrize(
    ("host", "url"), [("192.0.2.1", "http://192.0.2.1:8000"), ("2001:db8::1", "http://[2001:db8::1]:8000")]
)
def test_the_published_service_has_its_own_port(host: str, url: str) -> None:
    assert service_url(host) == url
