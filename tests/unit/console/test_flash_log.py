"""The log of a device's flash over HTTP: of its Pod while that is there, as the caller, else what the Device keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from edgewright.local.serving import podlogs
from tests.unit.console.consoles import Portal, consoles, device

LOGS = "/api/v1/devices/a/logs"
JOB = {"namespace": "default", "name": "spring", "uid": "u"}
POD = "spring-flashing-pod-a"


async def tell(portal: Portal, **status: Any) -> None:
    """Writes past the console what is known of the device."""
    path = "/apis/edgewright.dev/v1alpha1/devices/a/status"
    told = await portal.api("PATCH", path, {"status": status}, media="application/merge-patch+json")
    assert told.code == 200, told.body


@pytest.mark.parametrize("cached", [False, True], ids=["as-caller", "shared-cache"])
async def test_of_a_flash_that_failed_the_last_lines_are_kept(tmp_path: Path, cached: bool) -> None:
    async with consoles(tmp_path, shared_cache=cached) as portal:
        await device(portal, "a")
        never = await portal("GET", LOGS)
        assert (never.status, never.body["detail"]) == (404, "device a has no log: no job has flashed it")
        await tell(portal, lastFlash={"job": JOB, "outcome": "refused", "log": ["one", "two", "three"]})
        found = await portal("GET", LOGS)
        assert found.status == 200, found.body
        assert (found.body["job"], found.body["live"], found.body["outcome"]) == ("default/spring", False, "refused")
        assert found.body["lines"] == ["one", "two", "three"]
        assert (await portal("GET", f"{LOGS}?lines=2")).body["lines"] == ["two", "three"]
        await tell(portal, lastFlash={"outcome": "succeeded", "log": None})
        good = await portal("GET", LOGS)
        assert (good.status, "default/spring ended as succeeded" in good.body["detail"]) == (404, True)
        assert (await portal("GET", "/api/v1/devices/none/logs")).status == 404
        for lines in ("0", "1001", "all"):
            assert (await portal("GET", f"{LOGS}?lines={lines}")).status == 400


async def test_of_a_flash_under_way_its_pod_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(_: web.Request) -> web.Response:
        return web.Response(body=b"40 % of 1000 bytes sent, 3 s\nsent \xff\n")

    node = web.Application()
    node.add_routes([web.get("/log", talk)])
    async with TestServer(node) as server, consoles(tmp_path) as portal:
        await device(portal, "a")
        kept = {"job": JOB, "outcome": "refused", "log": ["of the flash before"]}
        await tell(portal, claim={"job": JOB, "uuid": "a", "attempt": 2}, lastFlash=kept)
        early = await portal("GET", LOGS)
        told = "the flash of device a by default/spring has no log yet"
        assert (early.status, early.body["detail"]) == (404, told)
        await portal.api.made("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        spec = {"containers": [{"name": "flash-container", "image": "i"}]}
        await portal.api.made("/api/v1/namespaces/default/pods", {"metadata": {"name": POD}, "spec": spec})
        monkeypatch.setattr(podlogs.PodLogs, "_url", lambda *_: server.make_url("/log"))
        found = await portal("GET", f"{LOGS}?lines=7")
        assert found.status == 200, found.body
        assert (found.body["live"], found.body["attempt"]) == (True, 2)
        assert found.body["lines"] == ["40 % of 1000 bytes sent, 3 s", "sent \N{REPLACEMENT CHARACTER}"]
        assert found.body["step"] == {"phase": "send", "percent": 40, "bytes": 1000}
