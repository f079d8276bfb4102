"""Logs as the API server fetches them: what it asks the node for, and what it says of what the node says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from edgewright.local.serving import podlogs
from tests.unit.local.serving.inprocess import Api, serving

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": each, "image": "i"} for each in spec.pop("containers", ["main"])]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


@asynccontextmanager
async def with_pods(directory: Path, *pods: dict[str, Any]) -> AsyncIterator[Api]:
    async with serving(directory) as api:
        await api.made("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        for each in pods:
            await api.made(PODS, each)
        yield api


async def test_the_only_container_is_meant_also_after_an_init_container(tmp_path: Path) -> None:
    async with with_pods(tmp_path, pod("a", initContainers=[{"name": "z", "image": "i"}])) as api:
        assert (await api("GET", f"{PODS}/a/log")).code == 204


async def test_a_pod_without_a_node_has_said_nothing(tmp_path: Path) -> None:
    async with with_pods(tmp_path, pod("a")) as api:
        answer = await api("GET", f"{PODS}/a/log")
        assert (answer.code, answer.body) == (204, "")


@pytest.mark.parametrize(
    ("name", "query", "code", "message"),
    [
        pytest.param("nobody", "", 404, 'pods "nobody" not found', id="no such pod"),
        pytest.param(
            "two",
            "",
            400,
            "a container name must be specified for pod two, choose one of: [z x y]",
            id="which container",
        ),
        pytest.param("two", "?container=w", 400, "container w is not valid for pod two", id="no such container"),
        pytest.param("a", "", 500, 'Internal error occurred: node "gone" not found', id="no such node"),
        pytest.param("b", "", 500, "Internal error occurred: node silent serves no logs", id="a node without logs"),
    ],
)
async def test_a_log_that_is_not_there(tmp_path: Path, name: str, query: str, code: int, message: str) -> None:
    first = {"initContainers": [{"name": "z", "image": "i"}]}
    pods = [pod("a", nodeName="gone"), pod("b", nodeName="silent"), pod("two", containers=["x", "y"], **first)]
    async with with_pods(tmp_path, *pods) as api:
        await api.made("/api/v1/nodes", {"metadata": {"name": "silent"}})
        answer = await api("GET", f"{PODS}/{name}/log{query}")
        assert (answer.code, answer.body["message"]) == (code, message)


@asynccontextmanager
async def node_that(answers: Handler) -> AsyncIterator[str]:
    """A node's log server; gives where a log is."""
    application = web.Application()
    application.add_routes([web.get("/{path:.*}", answers)])
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/containerLogs/default/a/main"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        (400, 400, "BadRequest", "its words"),
        (500, 500, "InternalError", "Internal error occurred: its words"),
        (404, 404, "NotFound", "the server could not find the requested resource ( pods/log a)"),
        (403, 403, "Forbidden", "its words ( pods/log a)"),
        (502, 502, "InternalError", 'an error on the server ("its words") has prevented the request from succeeding'),
        (418, 418, "", "the server responded with the status code 418 but did not return more information"),
    ],
)
async def test_what_a_node_refuses_is_told_as_the_real_server_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, code: int, reason: str, message: str
) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status, text="its words")

    async with node_that(refuse) as url, with_pods(tmp_path, pod("a")) as api:
        monkeypatch.setattr(podlogs.PodLogs, "_url", lambda *_: url)
        answer = await api("GET", f"{PODS}/a/log")
        assert (answer.code, answer.body.get("reason", "")) == (code, reason)
        assert answer.body["message"].startswith(message)


async def test_what_a_node_says_is_passed_on_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = asyncio.Event()

    async def talk(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await read.wait()
        await response.write(b"two\n")
        return response

    async with node_that(talk) as url, with_pods(tmp_path, pod("a")) as api:
        monkeypatch.setattr(podlogs.PodLogs, "_url", lambda *_: url)
        async with api.session.get(f"{api.url}{PODS}/a/log?follow=true", ssl=api.tls) as answer:
            assert (answer.status, answer.content_type) == (200, "text/plain")
            assert await answer.content.readline() == b"one\n"
            read.set()
            assert await answer.content.read() == b"two\n"


async def test_the_node_is_found_by_what_it_says_of_itself(tmp_path: Path) -> None:
    status = {
        "addresses": [
            {"type": "Hostname", "address": "nowhere.invalid"},
            {"type": "InternalIP", "address": "127.0.0.1"},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
    }
    async with with_pods(tmp_path, pod("a", nodeName="here")) as api:
        await api.made("/api/v1/nodes", {"metadata": {"name": "here"}, "status": status})
        answer = await api("GET", f"{PODS}/a/log?container=main&tailLines=3&pretty=true")
        url = "https://127.0.0.1:1/containerLogs/default/a/main?tailLines=3"
        assert (answer.code, answer.body["reason"]) == (500, "InternalError")
        assert answer.body["message"].startswith(f'Internal error occurred: Get "{url}": ')


async def test_a_node_that_does_not_answer_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podlogs.PodLogs, "_url", lambda *_: "http://127.0.0.1:1/containerLogs")
    async with with_pods(tmp_path, pod("a")) as api:
        answer = await api("GET", f"{PODS}/a/log")
        assert (answer.code, answer.body["reason"]) == (500, "InternalError")


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
            422,
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("stream=Stdout", 422, "stream: Forbidden: may not be specified"),
        ("tailLines=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        ("tailLines=1.5", 400, 'strconv.ParseInt: parsing "1.5": invalid syntax'),
        ("tailLines=99999999999999999999", 400, 'parsing "99999999999999999999": value out of range'),
        ("sinceTime=bad", 400, 'parsing time "bad" as "2006-01-02T15:04:05Z07:00": cannot parse "bad" as "2006"'),
    ],
)
async def test_options_that_cannot_be_are_refused_before_the_pod_is_looked_for(
    tmp_path: Path, query: str, code: int, message: str
) -> None:
    async with serving(tmp_path) as api:
        answer = await api("GET", f"{PODS}/nobody/log?{query}")
        assert answer.code == code
        assert answer.body["message"].endswith(message)
