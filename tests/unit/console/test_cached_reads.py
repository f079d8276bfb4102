"""What handlers decide from the shared cache: counts of the fleet that keep up, why and history; as without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewright.api import Device, FlashJob
from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.api.fleet import Fleet
from edgewright.console import kind_cache
from edgewright.runtime.client import Client
from tests.harness import wait_until_async
from tests.unit.console.consoles import IN_DEFAULT, ROLLOUTS, WIDGETS, Portal, consoles, device, rollout, widget
from tests.unit.console.requests_seen import requests_seen

READ = {each.kind.path() for each in (Device, Fleet, FlashJob, FirmwareRollout)}


async def versions(portal: Portal, query: str = "") -> dict[str, int]:
    """How many devices run what, by the fleet's counts."""
    found = await portal("GET", f"/api/v1/fleet{query}")
    assert found.status == 200, found.body
    counts: dict[str, int] = found.body["versions"]
    return counts


async def until_counted(portal: Portal, wanted: dict[str, int], query: str = "") -> None:
    """Waits until the cache has heard of what was written past the console."""

    async def counted() -> bool:
        return await versions(portal, query) == wanted

    await wait_until_async(counted, what=f"the fleet is {wanted}", timeout=60)


async def ask(portal: Portal, path: str) -> Any:
    found = await portal("GET", f"/api/v1/{path}")
    assert found.status == 200, (path, found.body)
    return found.body


def reads_past_the_cache(seen: dict[tuple[str, str], int]) -> list[str]:
    """The requests for our kinds that are no watches."""
    return [path for method, path in seen if method == "GET" and any(path.startswith(each) for each in READ)]


async def test_the_counts_follow_every_change_of_a_device(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        for name in "abc":
            await device(portal, name, labels={"site": name})
        await until_counted(portal, {"1": 3})
        with requests_seen() as seen:
            await device(portal, "d", version="2", labels={"site": "d"})
            await until_counted(portal, {"1": 3, "2": 1})
            assert (await portal("DELETE", "/api/v1/devices/a")).status == 204
            assert await versions(portal) == {"1": 2, "2": 1}
            relabelled = await portal(
                "PATCH",
                "/api/v1/devices/b",
                {"metadata": {"labels": {"site": "d"}}},
                Content_Type="application/merge-patch+json",
            )
            assert relabelled.status == 200
            assert await versions(portal, "?labelSelector=site%3Dd") == {"1": 1, "2": 1}
            groups = (await ask(portal, "fleet?groupBy=site"))["groups"]
            assert {each["name"]: each["total"] for each in groups} == {"c": 1, "d": 2}
        assert not [path for path in reads_past_the_cache(seen) if path == Device.kind.path()]


async def test_the_counts_are_right_after_more_changes_than_are_remembered(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(kind_cache, "REMEMBERED", 2)
    async with consoles(tmp_path, shared_cache=True) as portal:
        await device(portal, "a")
        await until_counted(portal, {"1": 1})
        for name in "bcdef":
            await device(portal, name, version="2")
        await until_counted(portal, {"2": 5, "1": 1})


async def test_the_counts_are_right_after_the_kind_was_listed_again(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await device(portal, "a")
        await until_counted(portal, {"1": 1})
        cache = portal.console.shared_cache
        assert cache is not None
        await device(portal, "b", version="2")
        await cache.of(Device.kind).refresh()
        assert await versions(portal) == {"1": 1, "2": 1}


async def test_why_and_history_are_the_same_from_the_cache_and_cost_the_server_no_read(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await device(portal, "a")
        assert (await portal("PUT", f"{ROLLOUTS}/thermo", rollout(paused=True))).status == 201
        await until_counted(portal, {"1": 1})
        asked = ("devices/a/why", "devices/a/why?namespace=other", "devices/a/history")
        first = [await ask(portal, path) for path in asked]  # the watches begin
        assert "rollout thermo is paused" in first[0]["sentence"]
        assert "in no rollout" in first[1]["sentence"]
        assert first[2] == {"flashes": [], "log": []}
        with requests_seen() as seen:
            assert [await ask(portal, path) for path in asked] == first
        # Of the Fleet there is none: what is not in the cache, the server says itself.
        assert [path for path in reads_past_the_cache(seen) if not path.startswith(Fleet.kind.path())] == []
        for path in ("devices/none/why", "devices/none/history"):
            assert (await portal("GET", f"/api/v1/{path}")).status == 404


async def test_a_plan_is_made_from_the_cache(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        for name in "abc":
            await device(portal, name)
        await until_counted(portal, {"1": 3})
        with requests_seen() as seen:
            spec = rollout(exclude={"names": ["c"]})["spec"]
            found = await portal("POST", f"{ROLLOUTS}/plan", {"spec": spec})
        assert found.status == 200, found.body
        assert (found.body["total"], list(found.body["excluded"])) == (2, ["c"])
        assert reads_past_the_cache(seen) == []


async def test_a_foreign_kind_is_kept_where_the_console_was_granted_it(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True, cache_granted=True) as portal:
        assert (await portal("POST", IN_DEFAULT, widget("one"))).status == 201
        assert [each["metadata"]["name"] for each in (await ask(portal, WIDGETS))["items"]] == ["one"]
        assert (await portal("PUT", f"{IN_DEFAULT}/one", widget("one", size=4))).status == 200
        with requests_seen() as seen:
            assert (await portal("GET", f"{IN_DEFAULT}/one")).body["spec"]["size"] == 4
            assert len((await ask(portal, WIDGETS))["items"]) == 1
        assert [path for method, path in seen if method in {"GET", "WATCH"}] == []
        assert (await portal("GET", IN_DEFAULT, token="nobody")).status == 401


async def test_a_foreign_kind_that_the_console_may_not_read_is_read_as_the_caller(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True, cache_granted=True) as portal:
        assert (await portal("POST", IN_DEFAULT, widget("one"))).status == 201
        cache = portal.console.shared_cache
        assert cache is not None
        nobody = replace(portal.config, tls=portal.config.tls.without_certificate())  # type: ignore[union-attr]
        cache._client = Client(nobody, connections=1)  # a console without any rights
        with requests_seen() as seen:
            assert (await portal("GET", f"{IN_DEFAULT}/one")).body["spec"]["size"] == 3
        assert [path for method, path in seen if method == "GET" and path.endswith("/one")]
        assert not cache.watched
