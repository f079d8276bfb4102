"""By which certificate a Device is known after a flash."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from edgewright.api import Device
from edgewright.api.device import DeviceStatus, Firmware
from edgewright.api.flash_pod import Outcome, Report
from edgewright.controllers.flashjob.outcomes import record, retried
from tests.unit.controllers.flashjob.flash_samples import NOW, a_claim, a_device, a_job
from tests.unit.controllers.flashjob.harness import GOOD, Stage, operating, plane, stage

MINE, THEIRS, NEW = ("a" * 64, "b" * 64, "c" * 64)


async def _known_by(on: Stage, name: str, certificate: str) -> Device:
    device = await on.device(name)
    status = msgspec.structs.replace(device.status, certificate=certificate)
    return await on.client.of(Device).write_status(device, status)


@pytest.mark.parametrize(
    ("shown", "learnt"),
    [(MINE, MINE), (NEW, NEW), (THEIRS, MINE), ("", MINE)],
    ids=["its own", "a new one", "that of another Device", "none"],
)
@pytest.mark.parametrize("good", [True, False], ids=["flashed", "failed"])
async def test_a_device_learns_the_certificate_that_it_showed_unless_another_device_has_it(
    tmp_path: Path, shown: str, learnt: str, good: bool
) -> None:
    bad = Report(outcome=Outcome.INCOMPATIBLE, message="for esp32s3")
    report = msgspec.structs.replace(GOOD if good else bad, certificate=shown)
    async with plane(tmp_path) as config, stage(config, ending=lambda _: report) as on:
        await _known_by(on, "d2", THEIRS)
        await on.claim(await on.job("job", "d1"), await _known_by(on, "d1", MINE))
        async with operating(config):
            await on.settled("d1")
        first, second = await on.status("d1"), await on.status("d2")
    assert (first.certificate, second.certificate) == (learnt, THEIRS)
    assert [each.outcome for each in first.records] == [report.outcome]


@pytest.mark.parametrize(
    ("known", "shown", "kept"),
    [(MINE, MINE, True), (MINE, NEW, False), (MINE, "", True), ("", NEW, True)],
    ids=["the same board", "another board", "no certificate", "none known before"],
)
@pytest.mark.parametrize("outcome", [Outcome.INCOMPATIBLE, Outcome.UNREACHABLE, Outcome.REVERTED])
def test_what_one_board_was_proven_to_run_is_not_known_of_the_next(
    known: str, shown: str, kept: bool, outcome: Outcome
) -> None:
    before = Firmware(reference="registry.example/f:1", digest="sha256:1", version="1")
    job = a_job()
    claim = a_claim(job)
    device = msgspec.structs.replace(a_device(), status=DeviceStatus(certificate=known, firmware=before, claim=claim))
    report = Report(outcome=outcome, certificate=shown)
    after = record(device, claim, report, firmware="f", forced=False, now=NOW, living=lambda _: True)
    between = retried(device, claim, report, firmware="f", now=NOW)
    for status in (after, between):
        assert (status.firmware == before) is kept
        assert status.certificate == (shown or known)


def test_another_board_that_was_flashed_is_known_by_what_was_proven_of_it() -> None:
    before = Firmware(reference="registry.example/f:1", digest="sha256:1", version="1")
    claim = a_claim(a_job())
    device = msgspec.structs.replace(a_device(), status=DeviceStatus(certificate=MINE, firmware=before, claim=claim))
    report = msgspec.structs.replace(GOOD, certificate=NEW)
    after = record(device, claim, report, firmware="f", forced=False, now=NOW, living=lambda _: True)
    assert after.certificate == NEW
    assert after.firmware is not None
    assert after.firmware.digest == GOOD.digest
