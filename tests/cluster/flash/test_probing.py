"""Devices that people wrote, on both API servers: the operator asks them, and shows what becomes of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from edgewright.api.device import STALE, Device, DeviceSpec
from edgewright.api.flashjob import FlashJob
from edgewright.controllers.operator import add_controllers
from edgewright.devices.prober import Prober
from edgewright.devices.simulated.device import Slot
from edgewright.runtime import Client, Manager, config
from edgewright.runtime.conditions import is_true
from edgewright.runtime.objects import ObjectMeta
from tests.cluster.flash.stage import APPLICATION, QUICK, Stage
from tests.harness import ApiServer

TIMING = replace(QUICK, probe_every=0.2, stale_after=2.0)


def start_asking_operator(stage: Stage) -> None:
    """An operator that asks devices."""
    manager = Manager(Client(config.load(kubeconfig=stage.server.kubeconfig)), namespaces=[stage.namespace])
    add_controllers(manager, replace(stage.settings, probe=True), asks=Prober(local=True))
    stage._operator = asyncio.create_task(manager.run(), name="operator")


async def test_a_device_that_people_wrote_is_seen_flashed_found_drifted_and_missed(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, discovered=False, operator=False, timing=TIMING) as stage:
        board = stage.fleet[1]
        name = f"written-{flash_namespace}"
        await stage.client.of(Device).create(
            Device(metadata=ObjectMeta(name=name), spec=DeviceSpec(endpoint=board.endpoint, type="esp32"))
        )
        start_asking_operator(stage)

        async def seen_with(version: str) -> Device | None:
            device = await stage.device()
            return device if device.status.last_seen and device.status.version == version else None

        async def stale(*, expected: bool) -> bool:
            return is_true((await stage.device()).status.conditions, STALE) is expected

        async def drifted() -> FlashJob | None:
            job = await stage.get()
            return job if [each.drifted for each in job.status.devices] == [True] else None

        device = await stage.until(lambda: seen_with("0.1.0"), "it was asked")
        assert device.status.application == APPLICATION
        await stage.job(uuids=[name])
        job = await stage.until_phase("Completed")
        assert [each.drifted for each in job.status.devices] == [False]
        await stage.until(lambda: seen_with("0.2.0"), "it runs what the job left it with")

        board.running = Slot(version="0.9.9", application=APPLICATION)  # somebody with a cable
        job = await stage.until(drifted, "the job shows that it runs something else")
        assert job.status.phase == "Completed"
        assert stage.flashed(board) == 1, "shown, and not corrected"

        await board.vanish()
        await stage.until(lambda: stale(expected=True), "it is missed")
        await board.come_back()
        await stage.until(lambda: stale(expected=False), "it is back")
