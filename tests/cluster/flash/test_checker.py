"""The witness of the fault matrix: it is content with the truth, and with no lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from edgewright.api import Device, FlashJob
from edgewright.api.device import Claim, DeviceSpec, DeviceStatus, FlashRecord, JobReference
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import DeviceState, FlashedDevice, FlashJobStatus
from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.device import Slot
from edgewright.devices.simulated.firmware import esp_image, read_image
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.journal import Did, Entry, Journal
from edgewright.runtime import ObjectMeta
from tests.cluster.flash.checker import Expected, Witness

FIRMWARE = read_image(esp_image(version="2", project="lamp"), chip="esp32")
GOOD = FlashRecord(job=JobReference(name="job", uid="1"), outcome=Outcome.SUCCEEDED, attempts=1)
STATUS = DeviceStatus(records=(GOOD,))
SHOWN = FlashedDevice(uuid="a", device="d", state=DeviceState.DONE, outcome=Outcome.SUCCEEDED)


@dataclass
class Scene:
    """A fleet of one device, what is recorded of it and what its job shows."""

    fleet: Fleet
    witness: Witness
    status: DeviceStatus = STATUS
    shown: FlashedDevice = SHOWN
    completed: tuple[str, ...] = ("a",)
    may: frozenset[Outcome] = frozenset({Outcome.SUCCEEDED})
    retries: int = 1
    alone: bool = True

    @property
    def device(self) -> Device:
        endpoint = self.fleet[1].endpoint
        return Device(metadata=ObjectMeta(name="d"), spec=DeviceSpec(endpoint=endpoint), status=self.status)

    def happened(self, *things: Did, run: int = 1, sha256: str = FIRMWARE.sha256) -> None:
        """Writes into the device's journal."""
        for did in things:
            self.fleet[1].journal.add(Entry(at=0.0, did=did, run=run, sha256=sha256))

    def shows(self, **changes: Any) -> None:
        """Changes what the job shows of the device."""
        self.shown = msgspec.structs.replace(self.shown, **changes)

    def records(self, **changes: Any) -> None:
        """Changes what the Device says."""
        self.status = msgspec.structs.replace(self.status, **changes)

    def ends(self, outcome: Outcome) -> None:
        """Lets the device end so, truly or not."""
        self.records(records=(msgspec.structs.replace(GOOD, outcome=outcome),))
        self.shows(state=DeviceState.DONE if outcome.good else DeviceState.FAILED, outcome=outcome)
        self.completed = ("a",) if outcome.good else ()

    @property
    def job(self) -> FlashJob:
        return FlashJob(
            metadata=ObjectMeta(name="job", uid="1"),
            status=FlashJobStatus(devices=(self.shown,), completed_uuids=self.completed),
        )

    @property
    def expected(self) -> Expected:
        return Expected(
            version="2",
            sha256=FIRMWARE.sha256,
            retries=self.retries,
            numbers={"a": 1},
            certain={1} if self.may == {Outcome.SUCCEEDED} else (),
            outcomes={1: self.may},
            alone=self.alone,
        )

    def problems(self) -> list[str]:
        """What the witness says."""
        return self.witness.problems(self.job, [self.device], self.expected)


def reports_another_version(scene: Scene) -> None:
    device = scene.fleet[1]
    device.running = replace(device.running, version="3")


def runs_another_firmware(scene: Scene) -> None:
    device = scene.fleet[1]
    device.running = replace(device.running, contents=None)


def is_told_again(scene: Scene) -> None:
    scene.retries = 2
    scene.records(records=(msgspec.structs.replace(GOOD, attempts=2),))
    scene.happened(Did.ASKED, run=2)


def is_written_by_two(scene: Scene) -> None:
    scene.happened(Did.WRITING)
    scene.happened(Did.WRITING, run=2)


def another_job_follows(scene: Scene) -> None:
    """Another job gives the device another firmware: no fault of the first."""
    scene.alone = False
    scene.happened(Did.ASKED, Did.WRITING, Did.WRITTEN, Did.REBOOTED, run=2, sha256="another")
    reports_another_version(scene)
    runs_another_firmware(scene)


def is_given_again_after_another_job(scene: Scene) -> None:
    another_job_follows(scene)
    scene.retries = 2
    scene.records(records=(msgspec.structs.replace(GOOD, attempts=2),))
    scene.happened(Did.WRITTEN, run=3)


def is_given_twice_next_to_another_job(scene: Scene) -> None:
    another_job_follows(scene)
    scene.happened(Did.WRITTEN, run=3)


def never_had_it(scene: Scene) -> None:
    another_job_follows(scene)
    journal = [replace(entry, sha256="another") for entry in scene.fleet[1].journal]
    scene.fleet[1].journal = Journal()
    for entry in journal:
        scene.fleet[1].journal.add(entry)


def ends_as_refused(scene: Scene) -> None:
    scene.may = frozenset({Outcome.REVERTED, Outcome.FAILED})
    scene.ends(Outcome.REFUSED)


def ends_well(scene: Scene) -> None:
    scene.may = frozenset({Outcome.REFUSED})
    scene.ends(Outcome.SUCCEEDED)


def ends_too_slow(scene: Scene) -> None:
    """A machine that has too much to do: forgiven, and not counted as the end that a device should have."""
    scene.may = frozenset({Outcome.REFUSED})
    scene.ends(Outcome.TIMED_OUT)
    assert scene.expected.met(scene.job) == set()


def ends_as_it_may(scene: Scene) -> None:
    scene.may = frozenset({Outcome.REFUSED})
    scene.ends(Outcome.REFUSED)
    assert scene.expected.met(scene.job) == {1}


LIES: dict[str, tuple[Callable[[Scene], object], str]] = {
    "another version": (reports_another_version, "counted as completed and reports 3"),
    "another firmware": (runs_another_firmware, "which is not the firmware"),
    "told again after its success": (is_told_again, "begun with 1 times more after its success was recorded"),
    "told twice in one attempt": (lambda on: on.happened(Did.ASKED, run=2), "begun with 2 times in 1 attempts"),
    "given again after another job": (is_given_again_after_another_job, "begun with 1 times more after its success"),
    "given twice next to another job": (is_given_twice_next_to_another_job, "begun with 2 times in 1 attempts"),
    "never given next to another job": (never_had_it, "was never given the firmware"),
    "two at once": (is_written_by_two, "by two at once"),
    "claimed": (lambda on: on.records(claim=Claim(job=JobReference(name="job"))), "still claimed by job"),
    "no record": (lambda on: on.records(records=()), "no outcome is recorded"),
    "another record": (lambda on: on.shows(outcome=Outcome.ALREADY_CURRENT), "succeeded is recorded"),
    "stranded": (lambda on: on.shows(state=DeviceState.WAITING), "it is stranded: Waiting"),
    "failed for nothing": (lambda on: on.shows(state=DeviceState.FAILED), "nothing kept it from being flashed"),
    "another failure": (ends_as_refused, "it may end as failed or reverted, and not so"),
    "flashed with a fault": (ends_well, "it may end as refused, and not so"),
    "not counted": (lambda on: setattr(on, "completed", ()), "completedUUIDs are [], and done are ['a']"),
    "not shown": (lambda on: on.shows(uuid="b"), "a is not shown"),
    "too often": (lambda on: on.records(records=(msgspec.structs.replace(GOOD, attempts=3),)), "has had 3 attempts"),
}


async def scene_of(lie: Callable[[Scene], object] | None) -> list[str]:
    """What the witness says of a device that was flashed, where somebody lies."""
    async with Fleet(count=1, pinned=server_pair().certificate, port=0, first_address="127.32.240.1") as fleet:
        fleet[1].running = Slot(version="2", application="lamp", contents=FIRMWARE)
        scene = Scene(fleet, Witness(fleet))
        scene.happened(Did.ASKED, Did.WRITING, Did.WRITTEN, Did.REBOOTED)
        scene.witness.look(scene.device)
        if lie is not None:
            lie(scene)
        return scene.problems()


async def test_the_witness_is_content_with_the_truth() -> None:
    assert await scene_of(None) == []


@pytest.mark.parametrize("truth", [another_job_follows, ends_too_slow, ends_as_it_may])
async def test_the_witness_blames_nobody_for_what_may_be(truth: Callable[[Scene], object]) -> None:
    assert await scene_of(truth) == []


@pytest.mark.parametrize(("lie", "said"), LIES.values(), ids=LIES)
async def test_the_witness_is_content_with_no_lie(lie: Callable[[Scene], object], said: str) -> None:
    assert any(said in problem for problem in await scene_of(lie))


async def test_the_witness_asks_a_device_that_is_gone_in_vain() -> None:
    async with Fleet(count=1, pinned=server_pair().certificate, port=0, first_address="127.32.240.1") as fleet:
        scene = Scene(fleet, Witness(fleet))
        await fleet[1].stop()
        assert any("does not answer" in problem for problem in scene.problems())
