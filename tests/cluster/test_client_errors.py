"""What the client raises when an API server refuses, is overloaded, or cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from edgewright.runtime import Client, Key, Kind
from edgewright.runtime.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from tests.cluster.kinds import CONFIG_MAP, Widget, install, widget
from tests.cluster.raw import REVIEW, config_map
from tests.cluster.support import connected
from tests.harness import ApiServer, ControlPlane, free_port

Call = Callable[[Client, str], Coroutine[Any, Any, object]]


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        (lambda c, n: c.of(Widget).get(Key(n, "nobody")), NotFound, 404),
        (lambda c, n: c.of(Widget).patch(Key(n, "nobody"), {"spec": {}}), NotFound, 404),
        (lambda c, n: c.of(Widget).delete(Key(n, "nobody")), NotFound, 404),
        (lambda c, n: c.of(Widget).create(widget("no-such-namespace", "one")), NotFound, 404),
        (lambda c, n: c.of(Widget).create(widget(n, "taken")), AlreadyExists, 409),
        (lambda c, n: c.of(Widget).create(widget(n, "Not A Name")), Invalid, 422),
        (lambda c, n: c.of(Widget).create(widget(n, "one", count=-1)), Invalid, 422),
        (lambda c, n: c.of(Widget).list(n, labels="=!="), BadRequest, 400),
        (lambda c, n: c.of(Widget).list(n, fields="spec.nothing=1"), BadRequest, 400),
        (lambda c, n: c.raw(CONFIG_MAP).create(config_map("default", "x") | {"data": 5}), BadRequest, 400),
        (lambda c, n: c.raw(REVIEW).list(), MethodNotAllowed, 405),
        (lambda c, n: c.raw(CONFIG_MAP).get(Key(n, "x"), subresource="nothing"), NotFound, 404),
        (lambda c, n: c.raw(Kind(group="no.dev", version="v1", kind="No", plural="noes")).list(), NotFound, 404),
    ],
    ids=[
        "get what is not there",
        "patch what is not there",
        "delete what is not there",
        "create in no namespace",
        "create what is there",
        "a name that is none",
        "a value out of bounds",
        "a selector that is none",
        "a field that cannot be selected",
        "a type that is wrong",
        "a verb that is not served",
        "a subresource that is not served",
        "a kind that is not served",
    ],
)
async def test_a_refusal_is_raised_by_its_type(
    api_server: ApiServer, namespace: str, call: Call, error: type[ApiError], code: int
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        await client.of(Widget).create(widget(namespace, "taken"))
        with pytest.raises(ApiError) as raised:
            await call(client, namespace)
        assert type(raised.value) is error
        assert raised.value.code == code
        assert str(raised.value).startswith(raised.value.request)


async def test_an_invalid_object_is_refused_with_every_field_that_is_wrong(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        with pytest.raises(Invalid) as raised:
            await client.of(Widget).create(widget(namespace, "one", count=-1, text="x" * 5000))
        assert {cause.field for cause in raised.value.causes} == {"spec.count", "spec.text"}
        assert all(cause.message for cause in raised.value.causes)


async def test_a_user_without_rights_is_told_what_is_forbidden(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster.kubeconfig_for("nobody-in-particular")) as client:
        with pytest.raises(Forbidden, match='"nobody-in-particular" cannot list resource "widgets"'):
            await client.of(Widget).list(namespace)


async def test_a_token_that_the_server_does_not_know_is_unauthorized(api_server: ApiServer) -> None:
    async with connected(api_server.kubeconfig_with({"token": "nonsense"})) as client:
        with pytest.raises(Unauthorized):
            await client.of(Widget).list("default")


async def test_a_server_that_is_not_there_is_unreachable_and_named(api_server: ApiServer) -> None:
    address = f"https://127.0.0.1:{free_port()}"
    async with connected(api_server.kubeconfig_for("admin", server=address)) as client:
        with pytest.raises(Unreachable, match=address):
            await client.of(Widget).list("default")


async def test_a_server_that_does_not_answer_is_unreachable_in_time(api_server: ApiServer) -> None:
    with api_server.proxy() as proxy:
        kubeconfig = api_server.kubeconfig_for("admin", ["system:masters"], server=proxy.url)
        async with connected(kubeconfig) as client:
            await client.get_path("/version")
            proxy.pause()
            with pytest.raises(Unreachable, match="no answer in time"):
                await client.transport.request("GET", "/version", timeout=0.5)
            proxy.resume()
            assert b"gitVersion" in await client.get_path("/version")


async def test_a_connection_that_was_cut_while_idle_costs_no_request(api_server: ApiServer) -> None:
    with api_server.proxy() as proxy:
        async with connected(api_server.kubeconfig_for("admin", ["system:masters"], server=proxy.url)) as client:
            await client.get_path("/version")
            await asyncio.to_thread(proxy.cut)
            assert b"gitVersion" in await client.get_path("/version")
            assert proxy.count == 2


# Too many requests


@pytest.mark.parametrize(
    "own_cluster",
    [
        {
            "api_flags": [
                "--enable-priority-and-fairness=false",
                "--max-requests-inflight=1",
                "--max-mutating-requests-inflight=1",
            ]
        }
    ],
    indirect=True,
    ids=["two requests at a time"],
)
async def test_requests_that_are_too_many_come_back_when_the_server_says(own_cluster: ControlPlane) -> None:
    codes: list[str] = []
    names = [f"m{index:02}" for index in range(10)]
    # Administrators are exempt from these limits, so somebody else asks.
    user = own_cluster.kubeconfig_for("busy")
    await asyncio.to_thread(
        own_cluster.kubectl, "create", "clusterrolebinding", "busy", "--clusterrole=cluster-admin", "--user=busy"
    )
    async with connected(user, connections=10) as client:
        client.transport.on_answer = lambda method, code: codes.append(code)
        api = client.raw(CONFIG_MAP)
        big = "x" * 200_000
        await asyncio.gather(*(api.create(config_map("default", name, text=big)) for name in names))
        assert "429" in codes, "the server was never too busy: this test shows nothing"
        assert codes.count("201") == len(names)
        assert {each["metadata"]["name"] for each in (await api.list("default")).items} >= set(names)
    async with connected(user, connections=10, retries=0) as client:
        answers = await asyncio.gather(
            *(client.raw(CONFIG_MAP).create(config_map("default", f"{name}-b", text=big)) for name in names),
            return_exceptions=True,
        )
        refused = [each for each in answers if isinstance(each, BaseException)]
        assert refused
        assert all(type(each) is TooManyRequests for each in refused)
        assert all(isinstance(each, TooManyRequests) and each.retry_after for each in refused)
