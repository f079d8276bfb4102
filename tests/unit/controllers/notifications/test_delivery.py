"""One request to a receiver: where it may go, what is sent, and what is a failure."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from edgewright.controllers.notifications.delivery import Delivery, NotDelivered
from edgewright.controllers.notifications.webhook import BadWebhook, Webhook, target_of
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import LeaseLost
from tests.harness.certificates import Authority
from tests.unit.controllers.notifications.receivers import SECRET, Receiver
from tests.unit.runtime.tls_server import server_context

BODY = b'{"id": "msg_1", "type": "t", "subject": "s", "data": {"message": "m"}}'


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(SECRET, encoding="utf-8")
    return file


def webhook(url: str, *, secret_file: Path = Path("secret"), plain: bool = True, **given: Any) -> Webhook:
    return Webhook(url=url, secret_file=secret_file, plain=plain, **given)


@pytest.mark.parametrize(
    ("url", "plain", "target"),
    [
        ("https://hooks.example/a/b?c=d", False, (True, "hooks.example", 443, "/a/b?c=d", "hooks.example")),
        ("https://hooks.example:8443", False, (True, "hooks.example", 8443, "/", "hooks.example:8443")),
        ("https://10.0.0.5/x", False, (True, "10.0.0.5", 443, "/x", "10.0.0.5")),
        ("http://hooks.example/", True, (False, "hooks.example", 80, "/", "hooks.example")),
        ("http://[::1]:8095/", True, (False, "::1", 8095, "/", "[::1]:8095")),
    ],
)
def test_where_a_request_goes(url: str, plain: bool, target: tuple[bool, str, int, str, str]) -> None:
    found = target_of(webhook(url, plain=plain))
    assert (found.secure, found.host, found.port, found.path, found.authority) == target


@pytest.mark.parametrize(
    ("url", "plain", "why"),
    [
        ("http://hooks.example/", False, "--webhook-plain"),
        ("https://127.0.0.1/", False, "loopback"),
        ("https://[::1]/", False, "loopback"),
        ("https://169.254.169.254/latest", True, "link-local"),
        ("https://[fe80::1]/", True, "link-local"),
        ("https://[::ffff:169.254.169.254]/", True, "link-local"),
        ("https://100.100.100.200/", True, "metadata"),
        ("https://0.0.0.0/", True, "all addresses"),
        ("https://me:pass@hooks.example/", False, "user or a fragment"),
        ("https://hooks.example/#here", False, "user or a fragment"),
        ("ftp://hooks.example/", True, "not a URL such as"),
        ("https:///path", False, "not a URL such as"),
        ("hooks.example", False, "not a URL such as"),
        ("https://hooks.example:0/", False, "not a URL such as"),
        ("https://hooks.example:99999/", False, "no URL"),
        ("https://hooks.example/a b", False, "printable"),
        ("https://hooks.example/\r\nX: y", False, "printable"),
        ("https://hooks.example/é", False, "printable"),
        ("https://hooks.example/" + "x" * 3000, False, "at most"),
    ],
)
def test_where_none_may_go(url: str, plain: bool, why: str) -> None:
    with pytest.raises(BadWebhook, match=why) as refused:
        target_of(webhook(url, plain=plain))
    assert "pass@" not in str(refused.value)


async def test_a_body_arrives_signed_and_whole(secret_file: Path) -> None:
    receiver = Receiver()
    async with receiver.up():
        await Delivery(webhook(receiver.url, secret_file=secret_file), SystemClock()).send("msg_1", BODY)
    ((headers, body),) = receiver.requests
    assert body == BODY
    assert headers["content-type"] == "application/cloudevents+json"
    assert headers["host"] == f"127.0.0.1:{receiver.port}"
    assert headers["user-agent"].startswith("edgewright/")
    assert len(receiver.events) == 1, "the receiver of the docs has verified it"


async def test_a_secret_that_was_replaced_counts_from_the_next_request_on(secret_file: Path) -> None:
    receiver = Receiver()
    delivery = Delivery(webhook(receiver.url, secret_file=secret_file), SystemClock())
    async with receiver.up():
        await delivery.send("msg_1", BODY)
        await asyncio.to_thread(secret_file.write_text, f"whsec_{'B' * 32}\n{SECRET}\n", encoding="utf-8")
        await delivery.send("msg_2", BODY)
        await asyncio.to_thread(secret_file.write_text, "nothing", encoding="utf-8")
        with pytest.raises(NotDelivered, match="line 1 is no secret"):
            await delivery.send("msg_3", BODY)
        await asyncio.to_thread(secret_file.unlink)
        with pytest.raises(NotDelivered, match="No such file"):
            await delivery.send("msg_3", BODY)
    assert len(receiver.events) == 2


async def _never(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def _endless(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(status=500)
    await answer.prepare(request)
    while True:
        await answer.write(b"x" * 65_536)


def answers(status: int, **headers: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers=headers, text="the body of an answer")

    return answer


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (answers(500), "answered 500$"),
        (answers(404), "answered 404$"),
        (answers(410), "answered 410$"),
        (answers(302, Location="/hook?of=rollouts"), "answered 302: redirects are not followed"),
        (_endless, "answered 500$"),
        (_never, "no answer from .* within 0.5 s"),
    ],
)
async def test_what_is_not_taken(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], why: str, secret_file: Path
) -> None:
    receiver = Receiver(answer=answer)
    delivery = Delivery(webhook(receiver.url, secret_file=secret_file, timeout=0.5), SystemClock())
    async with receiver.up():
        with pytest.raises(NotDelivered, match=why) as failed:
            await delivery.send("msg_1", BODY)
    assert len(receiver.requests) == 1, "no redirect was followed, and nothing was sent twice"
    assert "of=rollouts" not in str(failed.value)


async def test_a_receiver_that_is_unavailable_or_speaks_no_http_is_a_failure(secret_file: Path) -> None:
    away = Receiver()
    with pytest.raises(NotDelivered, match=f"127.0.0.1:{away.port}: "):
        await Delivery(webhook(away.url, secret_file=secret_file), SystemClock()).send("msg_1", BODY)

    async def mumble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(mumble, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotDelivered, match=f"127.0.0.1:{port}"):
            await Delivery(webhook(f"http://127.0.0.1:{port}/", secret_file=secret_file), SystemClock()).send(
                "i", b"{}"
            )


async def test_a_name_that_leads_to_a_metadata_service_is_not_dialled(
    secret_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    delivery = Delivery(webhook("http://hooks.example/", secret_file=secret_file), SystemClock())
    with pytest.raises(NotDelivered, match=r"leads nowhere: 169\.254\.169\.254 is a link-local address"):
        await delivery.send("msg_1", BODY)
    assert asked == ["hooks.example"]


async def test_over_https_the_receiver_must_prove_its_name(secret_file: Path) -> None:
    ours, theirs, receiver = Authority(), Authority(), Receiver()
    url = receiver.url.replace("http://127.0.0.1", "https://localhost")
    trusting = ssl.create_default_context(cadata=ours.certificate.decode())
    delivery = Delivery(webhook(url, secret_file=secret_file), SystemClock(), tls=trusting)
    for unproven in (server_context(theirs), server_context(ours, names=("other.example",))):
        async with receiver.up(unproven):
            with pytest.raises(NotDelivered, match=f"localhost:{receiver.port}: .*certificate"):
                await delivery.send("msg_1", BODY)
    assert receiver.requests == []
    async with receiver.up(server_context(ours)):
        await delivery.send("msg_1", BODY)
    assert len(receiver.events) == 1
    assert receiver.requests[0][0]["host"] == f"localhost:{receiver.port}"


async def test_a_process_that_leads_no_more_sends_nothing(secret_file: Path) -> None:
    def lost() -> None:
        raise LeaseLost("another leads")

    receiver = Receiver()
    async with receiver.up():
        with pytest.raises(LeaseLost):
            await Delivery(webhook(receiver.url, secret_file=secret_file), SystemClock()).send("i", BODY, check=lost)
    assert receiver.requests == []
