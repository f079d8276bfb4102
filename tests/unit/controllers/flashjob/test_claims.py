"""Claims: what is known of them, and what happens where somebody else was faster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api.device import Device
from edgewright.api.flashjob import DeviceState, FlashJob, FlashJobSpec
from edgewright.controllers.flashjob.admission import Wish
from edgewright.controllers.flashjob.claims import Claims, Refused, reference_to
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.progress import DeviceStanding, Need
from edgewright.controllers.settings import Settings
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import Unreachable
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import ObjectMeta
from tests.unit.controllers.flashjob.jobs_stage import DEVICES, Stage, stage

NOW = datetime(2026, 1, 1, 12, 0, 0, 999, tzinfo=UTC)
JOB = FlashJob(
    metadata=ObjectMeta(name="job", namespace="default", uid="job-uid"),
    spec=FlashJobSpec(uuid=("one",), firmware="registry.example/f:1", version="1"),
)
CLAIM = {"job": {"name": "before", "namespace": "default", "uid": "before-uid"}, "uuid": "one"}


@asynccontextmanager
async def world_of(here: Stage) -> AsyncIterator[Context]:
    """A world whose caches are empty, as those of a process that has fallen behind."""
    clock = SystemClock()
    client = Client(Config(server=here.api.url, tls=here.api.tls), clock=clock)
    try:
        yield Context(Manager(client, clock=clock), Settings(), clock)
    finally:
        await client.close()


async def claim(claims: Claims, device: Device, need: Need = Need.START) -> Device | Refused | None:
    standing = DeviceStanding(uuid="one", state=DeviceState.WAITING, device=device, need=need)
    name = device.metadata.name
    written = await claims.write(JOB, [Wish(device=name, job=reference_to(JOB))], [standing, standing], now=NOW)
    return written[name]


async def test_a_claim_is_written_on_the_device_as_it_was_read(tmp_path: Path) -> None:
    async with stage(tmp_path) as here, world_of(here) as context:
        read = msgspec.convert(await here.make_device("dev"), Device)
        claims = Claims(context)
        written = await claim(claims, read)
        assert isinstance(written, Device)
        assert written.status.claim is not None
        assert written.status.claim.since == NOW.replace(microsecond=0)
        assert [held.device for held in claims.known("job-uid")] == ["dev"]
        assert claims.known("another-uid") == []


@pytest.mark.parametrize("need", [Need.START, Need.RESUME], ids=["start", "resume"])
async def test_who_comes_second_gets_no_claim(tmp_path: Path, need: Need) -> None:
    async with stage(tmp_path) as here, world_of(here) as context:
        read = msgspec.convert(await here.make_device("dev"), Device)
        await here.change(f"{DEVICES}/dev/status", {"status": {"claim": CLAIM}})
        assert await claim(Claims(context), read, need) is None
        assert (await here.api("GET", f"{DEVICES}/dev")).body["status"]["claim"]["job"]["name"] == "before"
        await here.api("DELETE", f"{DEVICES}/dev")
        assert await claim(Claims(context), read, need) is None


async def test_a_server_that_is_unavailable_ends_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage(tmp_path) as here, world_of(here) as context:
        read = msgspec.convert(await here.make_device("dev"), Device)

        async def away(*_: Any, **__: Any) -> Device:
            raise Unreachable("it is unavailable")

        monkeypatch.setattr(context.client.of(Device), "patch", away)
        with pytest.raises(Unreachable):
            await claim(Claims(context), read)
