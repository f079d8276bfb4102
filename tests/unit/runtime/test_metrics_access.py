"""Metrics over TLS: who gets the page, what the API server is asked, and which certificate is presented."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from edgewright.runtime.access_review import ACCESS_REVIEW, TOKEN_REVIEW
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock, VirtualClock
from edgewright.runtime.health import Listener, metrics_page, serve
from edgewright.runtime.manager import Manager
from edgewright.runtime.metrics import Metrics
from edgewright.runtime.metrics_access import (
    ALLOWED_SECONDS,
    REFUSED_SECONDS,
    MetricsAccess,
    Refused,
    self_signed,
    serving_tls,
)
from edgewright.runtime.tls import ConfigError
from tests.harness import wait_until_async
from tests.unit.runtime.fakeserver import Answer, Asked, FakeServer, Json, fake_server, refusal

TOKENS = f"POST {TOKEN_REVIEW.path()}"
ACCESS = f"POST {ACCESS_REVIEW.path()}"
HELPER = {"username": "prometheus", "uid": "7", "groups": ["monitoring"], "extra": {"scope": ["a"]}}


def reviewed(asked: Asked) -> Answer:
    known = asked.json["spec"]["token"] in {"good", "idle"}
    return Json({"status": {"authenticated": True, "user": HELPER} if known else {}})


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def guarded(allowed: bool = True) -> AsyncIterator[tuple[MetricsAccess, FakeServer, VirtualClock]]:
    clock = VirtualClock()
    async with fake_server() as server, Client(server.config) as client:
        server.on(TOKENS, reviewed)
        server.on(ACCESS, Json({"status": {"allowed": allowed}}))
        yield MetricsAccess(client, clock=clock), server, clock


async def test_the_api_server_says_who_somebody_is_and_whether_they_may_get_metrics() -> None:
    async with guarded() as (access, server, _):
        assert await access.refusal(bearer("good")) is None
        tokens, rights = server.asked
    assert tokens.json["spec"] == {"token": "good"}
    assert rights.json["spec"] == {
        "user": "prometheus",
        "uid": "7",
        "groups": ["monitoring"],
        "extra": {"scope": ["a"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Basic good"}, {"Authorization": "Bearer"}, bearer("x" * 20_000)],
    ids=["no header", "another scheme", "no token", "a token that is too long"],
)
async def test_nobody_is_asked_about_one_who_shows_no_token(headers: dict[str, str]) -> None:
    async with guarded() as (access, server, _):
        refused = await access.refusal(headers)
        assert refused is not None
        assert refused.status == 401
        assert server.asked == []
        await access.refusal(bearer("good"))  # else the scripts of the server would not be used


async def test_a_token_that_the_cluster_does_not_know_is_401_and_a_user_without_the_right_403() -> None:
    async with guarded(allowed=False) as (access, server, _):
        unknown = await access.refusal(bearer("bad"))
        assert unknown is not None
        assert unknown.status == 401
        assert len(server.asked) == 1
        assert await access.refusal(bearer("good")) == Refused(403, "prometheus may not get /metrics")


@pytest.mark.parametrize(("allowed", "seconds"), [(True, ALLOWED_SECONDS), (False, REFUSED_SECONDS)])
async def test_an_answer_is_remembered_for_a_short_time(allowed: bool, seconds: float) -> None:
    async with guarded(allowed) as (access, server, clock):
        for _ in range(3):
            await access.refusal(bearer("good"))
        assert len(server.asked) == 2
        await clock.advance(seconds - 1)
        await access.refusal(bearer("good"))
        assert len(server.asked) == 2
        await clock.advance(2)
        await access.refusal(bearer("good"))
        assert len(server.asked) == 4


async def test_only_so_many_answers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewright.runtime.metrics_access._REMEMBERED", 1)
    async with guarded() as (access, server, _):
        for token in ("good", "idle", "good"):
            await access.refusal(bearer(token))
        assert len(server.asked) == 6


async def test_nobody_gets_in_where_the_api_server_cannot_be_asked() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(TOKENS, refusal(403, "Forbidden"))
        refused = await MetricsAccess(client, clock=VirtualClock()).refusal(bearer("good"))
    assert refused is not None
    assert refused.status == 503


# --- over TLS ------------------------------------------------------------------------------------------------------


async def page(listener: Listener, headers: dict[str, str], *, trusted: bytes | None = None) -> tuple[int, str, Any]:
    context = ssl.create_default_context(cadata=trusted.decode() if trusted else None)
    if trusted is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"https://127.0.0.1:{listener.port}/metrics", headers=headers, ssl=context, server_hostname="localhost"
        ) as answer,
    ):
        return answer.status, await answer.text(), answer.headers


async def test_the_page_is_served_over_tls_with_a_self_signed_certificate() -> None:
    tls = serving_tls(None, clock=SystemClock())
    async with guarded() as (access, _, _):
        listener = await serve(metrics_page(Metrics(), access=access), host="127.0.0.1", port=0, tls=tls)
        try:
            status, text, headers = await page(listener, {})
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
            assert "Bearer TOKEN" in text
            status, text, _ = await page(listener, bearer("good"))
            assert status == 200
            assert "# HELP " in text
        finally:
            await listener.close()


async def test_a_certificate_that_is_replaced_is_presented_from_then_on(tmp_path: Path) -> None:
    def write() -> bytes:
        certificate, key = self_signed("localhost", clock=SystemClock())
        (tmp_path / "tls.crt").write_bytes(certificate.data)
        (tmp_path / "tls.key").write_bytes(key.data)
        return certificate.data

    first = write()
    tls = serving_tls(tmp_path, clock=SystemClock())
    listener = await serve(metrics_page(Metrics()), host="127.0.0.1", port=0, tls=tls)
    try:
        assert (await page(listener, {}, trusted=first))[0] == 200
        second = write()
        assert (await page(listener, {}, trusted=second))[0] == 200
        (tmp_path / "tls.crt").write_text("nothing")
        assert (await page(listener, {}, trusted=second))[0] == 200, "what cannot be used changes nothing"
    finally:
        await listener.close()


def test_a_folder_without_a_certificate_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--metrics-cert-path: .*tls\.crt: cannot be read"):
        serving_tls(tmp_path, clock=SystemClock())


async def test_the_manager_serves_health_plainly_and_metrics_to_those_who_may_read_them() -> None:
    async with fake_server() as server:
        server.on(TOKENS, reviewed)
        server.on(ACCESS, Json({"status": {"allowed": True}}))
        tls = serving_tls(None, clock=SystemClock())
        manager = Manager(Client(server.config), metrics_port=0, health_port=0, metrics_tls=tls)

        async def use() -> None:
            async def listens() -> bool:
                return len(manager.listening) == 2

            await wait_until_async(listens, what="both ports are open")
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{manager.listening['health']}/healthz") as answer:
                    assert answer.status == 200
                url = f"https://127.0.0.1:{manager.listening['metrics']}/metrics"
                async with session.get(url, ssl=False) as answer:
                    assert answer.status == 401
                async with session.get(url, ssl=False, headers=bearer("good")) as answer:
                    assert answer.status == 200
            manager.stop()

        await asyncio.gather(manager.run(), use())
