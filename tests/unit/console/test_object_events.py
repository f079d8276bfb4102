"""The Events of an object over HTTP: its own, the newest first, at most fifty, as the caller."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.console.object_events import MAX_EVENTS, latest
from edgewright.runtime.events import Event, EventSeries
from edgewright.runtime.objects import ObjectMeta
from tests.unit.console.consoles import IN_DEFAULT, ROLLOUTS, WIDGETS, Portal, consoles, device, rollout, widget
from tests.unit.console.narrow import narrow

EVENTS = "/api/v1/namespaces/default/events"
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


async def happened(portal: Portal, uid: str, message: str, minute: int, **more: Any) -> None:
    """Somebody else's Event about an object."""
    at = f"2026-11-18T12:{minute:02}:00Z"
    about = {"kind": "Any", "namespace": "default", "name": "any", "uid": uid}
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e-"}, "involvedObject": about}
    said = {"type": "Normal", "reason": "Told", "message": message, "firstTimestamp": at, "lastTimestamp": at}
    await portal.api.made(EVENTS, {**body, **said, "source": {"component": "somebody"}, **more})


@pytest.mark.parametrize("cached", [False, True], ids=["as-caller", "shared-cache"])
async def test_an_object_s_own_events_are_told_newest_first(tmp_path: Path, cached: bool) -> None:
    async with consoles(tmp_path, shared_cache=cached) as portal:
        made = await portal("PUT", f"{ROLLOUTS}/thermo", rollout())
        uid = made.body["metadata"]["uid"]
        assert (await portal("GET", f"{ROLLOUTS}/thermo/events")).body == {"items": []}
        await happened(portal, uid, "first", 1)
        await happened(portal, uid, "last", 3, type="Warning", count=4)
        await happened(portal, "of-another", "not this", 4)
        await happened(portal, uid, "second", 2)
        found = await portal("GET", f"{ROLLOUTS}/thermo/events")
        assert found.status == 200, found.body
        assert [each["message"] for each in found.body["items"]] == ["last", "second", "first"]
        assert found.body["items"][0] == {
            "type": "Warning",
            "reason": "Told",
            "message": "last",
            "count": 4,
            "first": "2026-11-18T12:03:00Z",
            "last": "2026-11-18T12:03:00Z",
            "source": "somebody",
        }


async def test_a_foreign_kind_and_one_without_a_namespace_have_events_too(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        made = await portal("PUT", f"{IN_DEFAULT}/w", widget())
        await happened(portal, made.body["metadata"]["uid"], "of the widget", 1)
        assert [each["message"] for each in (await portal("GET", f"{IN_DEFAULT}/w/events")).body["items"]] == [
            "of the widget"
        ]
        await device(portal, "a")
        there = await portal("GET", "/api/v1/devices/a")
        await happened(portal, there.body["metadata"]["uid"], "of the device", 1)
        assert [each["message"] for each in (await portal("GET", "/api/v1/devices/a/events")).body["items"]] == [
            "of the device"
        ]
        assert (await portal("GET", "/api/v1/devices/none/events")).status == 404
        assert (await portal("GET", "/api/v1/devices/a/events?limit=1")).status == 400


@pytest.mark.parametrize("cached", [False, True], ids=["as-caller", "shared-cache"])
async def test_who_may_not_get_the_object_or_list_events_is_told_the_verb(tmp_path: Path, cached: bool) -> None:
    async with consoles(tmp_path, shared_cache=cached) as portal:
        await portal("PUT", f"{ROLLOUTS}/thermo", rollout())
        await portal("PUT", f"{IN_DEFAULT}/w", widget())
        caller = await narrow(portal, "default", kind=FirmwareRollout.kind)
        for path, verb, resource in (
            (f"{ROLLOUTS}/thermo/events", "list", "events"),
            (f"{IN_DEFAULT}/w/events", "get", WIDGETS),
        ):
            refused = await caller("GET", path)
            told = {name: refused.body.get(name) for name in ("status", "verb", "resource", "namespace")}
            assert told == {"status": 403, "verb": verb, "resource": resource, "namespace": "default"}


def event(name: str, **fields: Any) -> Event:
    """An Event as it is read."""
    return Event(metadata=ObjectMeta(name=name), reason="Told", message=name, **fields)


def test_the_newest_are_found_in_either_form_and_no_more_than_fifty() -> None:
    many = [event(f"e{number:03}", last_timestamp=NOON + timedelta(seconds=number)) for number in range(60)]
    found = latest(many)
    assert [found[0].message, found[-1].message, len(found)] == ["e059", "e010", MAX_EVENTS]
    later = NOON + timedelta(hours=1)
    newer = event("newer", event_time=NOON, series=EventSeries(count=7, last_observed_time=later))
    single = event("single", event_time=NOON + timedelta(minutes=30), reporting_component="kubelet")
    unknown = event("unknown")
    told = latest([unknown, single, many[0], newer])
    assert [each.message for each in told] == ["newer", "single", "e000", "unknown"]
    assert [(each.count, each.last) for each in told[:2]] == [(7, later), (1, NOON + timedelta(minutes=30))]
    assert (told[0].first, told[1].source, told[3].last) == (NOON, "kubelet", None)
