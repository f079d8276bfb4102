"""Which changes are a reason to look at a job again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from edgewright.api.device import (
    MAX_RECORDS,
    Claim,
    Device,
    DeviceSpec,
    DeviceStatus,
    Firmware,
    FlashRecord,
    JobReference,
    LastFlash,
)
from edgewright.api.flashjob import FlashJob, FlashJobSpec, FlashJobStatus
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.lookup import ContextDirectory, resolve
from edgewright.controllers.flashjob.names import device_name
from edgewright.controllers.flashjob.triggers import (
    is_gone,
    jobs_of,
    tells_something,
    waiting_for_room,
)
from edgewright.controllers.settings import Settings
from edgewright.runtime.cache import Change
from edgewright.runtime.client import Client, Unread
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Condition, Key, ObjectMeta
from edgewright.runtime.predicates import intent_changed_or_wiped

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(name: str, *uuids: str) -> FlashJob:
    metadata = ObjectMeta(name=name, namespace="default", uid=name, resource_version="1", generation=1)
    return FlashJob(metadata=metadata, spec=FlashJobSpec(uuid=uuids))


async def test_a_device_concerns_whoever_claimed_flashed_or_names_it() -> None:
    client = Client(Config(server="http://127.0.0.1:1"))
    context = Context(Manager(client), Settings(), VirtualClock())
    for each in (job("by-name", "dev"), job("by-uid", "uid"), job("by-instance", "old"), job("none", "another")):
        context.jobs.put(each)
    device = Device(
        metadata=ObjectMeta(name="dev", uid="uid"),
        status=DeviceStatus(
            instances=("old", "new"),
            claim=Claim(job=JobReference(namespace="a", name="claimed")),
            records=(FlashRecord(job=JobReference(namespace="b", name="recorded")),),
        ),
    )
    assert set(jobs_of(device, context)) == {
        Key("a", "claimed"),
        Key("b", "recorded"),
        Key("default", "by-name"),
        Key("default", "by-uid"),
        Key("default", "by-instance"),
    }
    await client.close()


@pytest.mark.parametrize(
    ("status", "tells"),
    [
        ({"claim": Claim()}, True),
        ({"records": (FlashRecord(),)}, True),
        ({"last_flash": LastFlash()}, True),
        ({"firmware": Firmware()}, True),
        ({"instances": ("a",)}, True),
        ({"version": "2"}, True),
        ({"application": "thermo"}, True),
        ({"last_seen": NOW}, False),
        ({"conditions": (Condition(type="Stale", status="True"),)}, False),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_that_a_device_was_seen_once_more_is_no_news(status: dict[str, Any], tells: bool) -> None:
    old = Device(metadata=ObjectMeta(name="dev"))
    assert tells_something(Change(old, msgspec.structs.replace(old, status=DeviceStatus(**status)))) is tells


def test_a_device_that_is_new_gone_or_elsewhere_is_news() -> None:
    device = Device(metadata=ObjectMeta(name="dev"))
    moved = msgspec.structs.replace(device, spec=DeviceSpec(endpoint="192.0.2.1"))
    assert tells_something(Change(None, device))
    assert tells_something(Change(device, None))
    assert tells_something(Change(device, moved))


def test_our_own_status_is_no_reason_for_a_pass_but_a_wiped_one_is() -> None:
    asked = job("job", "dev")
    shown = msgspec.structs.replace(asked, status=FlashJobStatus(phase="InProgress"))
    assert intent_changed_or_wiped(Change(None, asked))
    assert not intent_changed_or_wiped(Change(asked, shown))
    assert intent_changed_or_wiped(Change(shown, asked))


async def test_a_device_whose_name_is_an_entry_rewritten_concerns_every_job_with_that_entry() -> None:
    client = Client(Config(server="http://127.0.0.1:1"))
    context = Context(Manager(client), Settings(), VirtualClock())
    context.jobs.put(job("waits", "On My Desk"))
    device = Device(metadata=ObjectMeta(name=device_name("On My Desk"), uid="uid"))
    assert set(jobs_of(device, context)) == {Key("default", "waits")}
    await client.close()


async def test_a_device_concerns_whoever_names_it_as_another_job_did() -> None:
    client = Client(Config(server="http://127.0.0.1:1"))
    context = Context(Manager(client), Settings(), VirtualClock())
    for each in (job("as-flashed", "u0"), job("as-claimed", "u1")):
        context.jobs.put(each)
    device = Device(
        metadata=ObjectMeta(name="dev", uid="uid", resource_version="1"),
        status=DeviceStatus(claim=Claim(uuid="u1"), records=(FlashRecord(uuid="u0"),)),
    )
    context.devices.cache.put(device)
    named = {each.key for each in (job("as-flashed"), job("as-claimed"))}
    assert set(resolve(("u0", "u1"), ContextDirectory(context))) == {"u0", "u1"}, "both are this Device"
    assert named <= set(jobs_of(device, context)), "so both are told of it"
    await client.close()


async def test_a_job_that_is_gone_makes_room_on_devices_that_had_none() -> None:
    client = Client(Config(server="http://127.0.0.1:1"))
    context = Context(Manager(client), Settings(), VirtualClock())
    for name in ("full", "other"):
        context.jobs.put(job(f"waits-for-{name}", name))
        records = tuple(FlashRecord(job=JobReference(uid=str(n))) for n in range(MAX_RECORDS if name == "full" else 9))
        metadata = ObjectMeta(name=name, uid=name, resource_version="1")
        context.devices.cache.put(Device(metadata=metadata, status=DeviceStatus(records=records)))
    found = set(waiting_for_room(job("7"), context))
    assert (Key("default", "waits-for-full") in found, Key("default", "waits-for-other") in found) == (True, False)
    await client.close()


def test_only_what_is_no_more_is_gone() -> None:
    there = job("job", "one")
    assert is_gone(Change(there, None))
    assert not is_gone(Change(there, there))


async def test_a_job_that_cannot_be_read_exists_all_the_same() -> None:
    client = Client(Config(server="http://127.0.0.1:1"))
    context = Context(Manager(client), Settings(), VirtualClock())
    context.jobs.put(job("read"))
    context.jobs.put_unread(Unread(Key("default", "unread"), "1", "spec.version is a number"))
    lives = {
        (name, uid): context.lives(JobReference(namespace="default", name=name, uid=uid))
        for name, uid in (("read", "read"), ("read", "before"), ("unread", "any"), ("gone", "gone"))
    }
    assert list(lives.values()) == [True, False, True, False]
    await client.close()
