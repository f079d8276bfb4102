"""Both loops with rollouts and a fleet that freezes, on an API server of ours: what starts, what waits and why."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from edgewright.api import FlashJob, Pod
from edgewright.api.device import QUARANTINED, Device, DeviceStatus, Firmware, FlashRecord
from edgewright.api.firmwarerollout import (
    ROLLOUT_LABEL,
    ROLLOUT_UID_LABEL,
    Budget,
    FirmwareRollout,
    FirmwareRolloutSpec,
    Window,
)
from edgewright.api.flash_pod import Outcome, Report
from edgewright.api.flashjob import FlashJobSpec
from edgewright.api.fleet import FLEET, Fleet, FleetSpec
from edgewright.runtime.conditions import find
from edgewright.runtime.objects import Key, ObjectMeta, owner_reference
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import GOOD, Operator, Stage, operating, plane, stage
from tests.unit.controllers.flashjob.test_job_loop_shared_devices import SETTINGS, both, ended, found, tls_secret

BAD = Report(outcome=Outcome.INCOMPATIBLE, message="it is for another chip")


class Scene(Stage):
    """The hands of a test, with rollouts."""

    async def rollout(self, name: str = "spring", **spec: Any) -> FirmwareRollout:
        """Makes a FirmwareRollout."""
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        made = FirmwareRollout(metadata=metadata, spec=FirmwareRolloutSpec(**spec))
        return await self.client.of(FirmwareRollout).create(made)

    async def batch(self, name: str, owner: FirmwareRollout, *uuids: str, **spec: Any) -> FlashJob:
        """Makes a FlashJob of a rollout, as its controller does."""
        labels = {ROLLOUT_LABEL: owner.metadata.name, ROLLOUT_UID_LABEL: owner.metadata.uid}
        metadata = ObjectMeta(
            name=name, namespace=self.namespace, labels=labels, owner_references=(owner_reference(owner),)
        )
        given = {"firmware": "registry.example/firmware:1.1.0", "version": "1.1.0", "uuid": uuids, **spec}
        return await self.client.of(FlashJob).create(FlashJob(metadata=metadata, spec=FlashJobSpec(**given)))

    async def change(self, name: str = "spring", **spec: Any) -> None:
        """Changes the spec of a rollout."""
        await self.client.of(FirmwareRollout).patch(Key(self.namespace, name), {"spec": spec})

    async def freeze(self, reason: str) -> None:
        """Freezes the fleet."""
        fleet = Fleet(metadata=ObjectMeta(name=FLEET), spec=FleetSpec(frozen=True, reason=reason))
        await self.client.of(Fleet).create(fleet)

    async def thaw(self) -> None:
        """Lets the fleet go on."""
        await self.client.of(Fleet).patch(Key("", FLEET), {"spec": {"frozen": False}})

    async def label(self, device: str, **labels: str) -> None:
        """Labels a Device."""
        await self.client.of(Device).patch(Key("", device), {"metadata": {"labels": labels}})

    async def waits(self, job: str, text: str) -> None:
        """Returns when every device of a job that has not ended waits for that."""

        async def told() -> bool:
            shown = (await found(self, job)).status.devices
            waiting = [each for each in shown if each.state == "Waiting"]
            return bool(waiting) and all(text in each.message for each in waiting)

        await wait_until_async(told, what=f"{job} waits: {text}", timeout=60)

    async def record(self, device: str) -> FlashRecord:
        """The only record on a Device."""
        (record,) = (await self.status(device)).records
        return record

    async def until(self, device: str, holds: Callable[[DeviceStatus], object], what: str) -> DeviceStatus:
        """The status of a Device as soon as that holds."""

        async def look() -> bool:
            return bool(holds(await self.status(device)))

        await wait_until_async(look, what=what, timeout=60)
        return await self.status(device)


@asynccontextmanager
async def scene(tmp_path: Path, *devices: str, **node: Any) -> AsyncIterator[tuple[Scene, Operator]]:
    """Both loops at work, with these Devices."""
    async with plane(tmp_path) as config, stage(config, **node) as on:
        here = Scene(on.client, on.namespace, on.node)
        await tls_secret(here.client)
        for name in devices:
            await here.device(name)
        async with operating(config, settings=SETTINGS, add=both) as operator:
            yield here, operator


async def test_a_frozen_fleet_starts_nothing_names_its_reason_and_goes_on_when_it_thaws(tmp_path: Path) -> None:
    async with scene(tmp_path, "one", "two") as (here, _):
        await here.freeze("storm in Athens")
        spring = await here.rollout()
        await here.job("plain", "one")
        await here.batch("batch", spring, "two")
        for job in ("plain", "batch"):
            await here.waits(job, "the fleet is frozen: storm in Athens")
        assert not here.node.ran
        await here.thaw()
        for job in ("plain", "batch"):
            await ended(here, job)


async def test_freeze_and_abort_give_back_claims_without_a_pod_and_let_those_with_one_finish(tmp_path: Path) -> None:
    async with scene(tmp_path, "one", "two", "three", ending=lambda _: None, addresses=["127.40.0.1"]) as (here, _):
        spring = await here.rollout()
        await here.batch("batch", spring, "one", "two")
        await here.job("plain", "three")
        await wait_until_async(lambda: len(here.node.ran) == 1, what="one of them has its Pod", timeout=60)
        running = here.node.ran[0].metadata.annotations["edgewright.dev/device"]
        waiting = {"one", "two", "three"} - {running}
        for name in waiting:
            await here.until(name, lambda status: status.claim, f"{name} is claimed")
        await here.change(aborted=True)
        await here.freeze("stop")
        for name in waiting:
            await here.until(name, lambda status: status.claim is None, f"{name} is free")
        await wait_until_async(lambda: _gone(here), what="their Services are gone", timeout=60)
        await here.node.end(here.node.ran[0], GOOD)
        await here.settled("one", "two", "three")
        assert (await here.record(running)).outcome == Outcome.SUCCEEDED
        assert len(here.node.ran) == 1
        await here.thaw()
        await here.waits("batch", "rollout spring is aborted: no further device is started")


async def _gone(here: Scene) -> bool:
    return len(await here.services()) == 1


async def test_max_concurrent_of_a_rollout_counts_over_all_its_jobs(tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(8)]
    async with scene(tmp_path, *names) as (here, _):
        spring = await here.rollout(max_concurrent=2)
        await here.batch("first", spring, *names[:4])
        await here.batch("second", spring, *names[4:])
        await ended(here, "first")
        await ended(here, "second")
        assert here.node.most_services <= 2
        assert len(here.node.ran) == 8


async def test_a_budget_of_one_per_site_updates_one_at_a_time_and_none_next_to_a_broken_one(tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(6)]
    together: list[int] = []

    def count(pod: Pod) -> Report:
        mine = pod.metadata.annotations["edgewright.dev/device"]
        running = {
            device for device in here.node._running.values() if device and int(device[1]) % 2 == int(mine[1]) % 2
        }
        together.append(len(running))
        return BAD if mine == "d5" else GOOD

    async with scene(tmp_path, *names, ending=count) as (here, _):
        for number, name in enumerate(names):
            await here.label(name, site="athens" if number % 2 == 0 else "berlin")
        spring = await here.rollout(budgets=(Budget(label="site", max_unavailable=1),))
        await here.batch("athens", spring, "d0", "d2", "d4")
        await ended(here, "athens")
        await here.batch("broken", spring, "d5")
        await ended(here, "broken", "Failed")
        await here.batch("berlin", spring, "d1", "d3")
        await here.waits("berlin", "waiting for others of site=berlin: 1 of 3 are being updated or broken")
        assert max(together) == 1
        await here.client.of(Device).patch(Key("", "d5"), {"status": {"lastFlash": None}}, subresource="status")
        await ended(here, "berlin")
        assert max(together) == 1


async def test_no_device_starts_outside_the_windows_and_the_next_opening_is_told(tmp_path: Path) -> None:
    async with scene(tmp_path, "one") as (here, _):
        never = Window(cron="0 0 30 2 *", duration_seconds=60)
        spring = await here.rollout(windows=(never,))
        await here.batch("batch", spring, "one")
        await here.waits("batch", "waiting for a window: the next one of rollout spring opens never again")
        assert not here.node.ran
        always = {"cron": "* * * * *", "durationSeconds": 120}
        await here.change(windows=[always])
        await ended(here, "batch")


async def test_no_more_devices_start_within_a_minute_than_the_rollout_says(tmp_path: Path) -> None:
    async with scene(tmp_path, "one", "two", "three") as (here, _):
        spring = await here.rollout(max_per_minute=2)
        await here.batch("batch", spring, "one", "two", "three")
        await here.waits("batch", "rollout spring starts at most 2 devices per minute; the next one at")
        assert len(here.node.ran) == 2
        await here.change(maxPerMinute=3)
        await ended(here, "batch")


async def test_a_device_that_keeps_failing_is_quarantined_and_released(tmp_path: Path) -> None:
    async with scene(tmp_path, "one", ending=lambda _: BAD) as (here, _):
        spring = await here.rollout(quarantine_after=2)
        await here.batch("first", spring, "one")
        await ended(here, "first", "Failed")
        status = await here.status("one")
        assert (status.failures, find(status.conditions, QUARANTINED)) == (1, None)
        await here.batch("second", spring, "one")
        await ended(here, "second", "Failed")
        status = await here.status("one")
        said = find(status.conditions, QUARANTINED)
        assert status.failures == 2
        assert said is not None
        assert said.status == "True"
        await here.batch("third", spring, "one")
        await here.waits("third", "it is quarantined after 2 failed flashes")
        here.node.ending = lambda _: GOOD
        others = [msgspec.to_builtins(each) for each in status.conditions if each.type != QUARANTINED]
        release = {"status": {"failures": 0, "conditions": others}}
        await here.client.of(Device).patch(Key("", "one"), release, subresource="status")
        await ended(here, "third")
        # A job that people make may flash one in quarantine, and its success ends that.
        quarantined = {"type": QUARANTINED, "status": "True", "reason": "FlashesFailed", "message": "x"}
        again = {"failures": 3, "conditions": [{**quarantined, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        await here.client.of(Device).patch(Key("", "one"), {"status": again}, subresource="status")
        await here.job("plain", "one", force=True)
        await ended(here, "plain")
        status = await here.status("one")
        assert (status.failures, find(status.conditions, QUARANTINED)) == (0, None)


async def test_the_record_of_a_rollout_tells_what_the_device_ran_before_and_outlives_its_job(tmp_path: Path) -> None:
    async with scene(tmp_path, "one") as (here, operator):
        device = await here.client.of(Device).get(Key("", "one"))
        before = Firmware(reference="registry.example/firmware:1.0.0", digest="sha256:" + "b" * 64, version="1.0.0")
        status = msgspec.structs.replace(device.status, firmware=before)
        await here.client.of(Device).write_status(device, status)
        spring = await here.rollout()
        await here.batch("batch", spring, "one")
        await ended(here, "batch")
        record = await here.record("one")
        assert (record.rollout, record.before) == (spring.metadata.uid, before)
        assert record.started is not None
        assert record.last_started is not None
        assert operator.context.keeps(record)
        await here.client.of(FlashJob).delete(Key("default", "batch"))
        await wait_until_async(
            lambda: operator.context.jobs.get(Key("default", "batch")) is None, what="the job is gone", timeout=60
        )
        assert operator.context.keeps(record)
        await here.client.of(FirmwareRollout).delete(spring.key)
        await wait_until_async(lambda: not operator.context.keeps(record), what="the rollout is gone", timeout=60)


async def test_a_claim_that_waits_in_vain_for_an_address_is_given_to_another_job_after_a_while(tmp_path: Path) -> None:
    settings = replace(SETTINGS, timing=replace(SETTINGS.timing, longest_wait=0.3))
    async with plane(tmp_path) as config, stage(config, addresses=[]) as on:
        await tls_secret(on.client)
        await on.device("one")
        await on.job("first", "one", timeout_seconds=1)
        async with operating(config, settings=settings, add=both):

            async def claimed() -> bool:
                return (await on.status("one")).claim is not None

            await wait_until_async(claimed, what="the first job has the device", timeout=60)
            await on.job("second", "one", exposure="None")
            await ended(on, "second")
        assert len(on.node.ran) == 1
