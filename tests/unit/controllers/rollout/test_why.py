"""Why a device is not updated: each world, and the sentence that it gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edgewright.api.device import (
    QUARANTINED,
    STALE,
    Claim,
    Device,
    DeviceSpec,
    DeviceStatus,
    FlashRecord,
    JobReference,
    LastFlash,
)
from edgewright.api.firmwarerollout import (
    ROLLOUT_UID_LABEL,
    FirmwareFor,
    FirmwareRollout,
    FirmwareRolloutSpec,
    FirmwareRolloutStatus,
)
from edgewright.api.flashjob import FlashedDevice, FlashJob, FlashJobSpec, FlashJobStatus
from edgewright.api.fleet import Fleet, FleetSpec
from edgewright.controllers.rollout.why import World, why
from edgewright.controllers.rollout.why_world import latest
from edgewright.runtime.objects import Condition, ObjectMeta

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
JOB = JobReference(namespace="default", name="r-1", uid="j1")


def device(*, spec: dict[str, Any] | None = None, **status: Any) -> Device:
    return Device(
        metadata=ObjectMeta(name="d1", uid="u1"),
        spec=DeviceSpec(**{"type": "esp32", **(spec or {})}),
        status=DeviceStatus(**status),
    )


def rollout(*, spec: dict[str, Any] | None = None, **status: Any) -> FirmwareRollout:
    return FirmwareRollout(
        metadata=ObjectMeta(name="r", namespace="default", uid="r1"),
        spec=FirmwareRolloutSpec(**{"firmware": "registry.example/a:2", "version": "2", **(spec or {})}),
        status=FirmwareRolloutStatus(**status),
    )


def job(*, paused: bool = False, told: str = "", **shown: Any) -> FlashJob:
    devices = (FlashedDevice(uuid="d1", device="d1", **shown),) if shown else ()
    return FlashJob(
        metadata=ObjectMeta(name="r-1", namespace="default", uid="j1"),
        spec=FlashJobSpec(uuid=("d1",), firmware="registry.example/a:2", version="2", paused=paused),
        status=FlashJobStatus(devices=devices, message=told),
    )


def record(outcome: str, **more: Any) -> FlashRecord:
    return FlashRecord(job=JOB, rollout="r1", outcome=outcome, time=NOW, **more)


FROZEN = Fleet(spec=FleetSpec(frozen=True, reason="audit", by="ann", since=NOW - timedelta(hours=3)))
IN_QUARANTINE = Condition(type=QUARANTINED, status="True")
NOT_SEEN = Condition(type=STALE, status="True")
CLAIM = Claim(job=JOB, since=NOW - timedelta(seconds=30))


@pytest.mark.parametrize(
    ("world", "sentence"),
    [
        (World(device=None), "There is no Device d1: `edgewright devices list` shows those that there are."),
        (
            World(device=device()),
            (
                "d1 is in no rollout and in no FlashJob: `edgewright rollout create` or `edgewright flash "
                "d1` would update"
                " it."
            ),
        ),
        (
            World(device=device(claim=CLAIM), rollout=rollout()),
            "d1 is being flashed by FlashJob default/r-1 (attempt 1, for 30s): wait for its end.",
        ),
        (
            World(device=device(records=(record("succeeded", version="2"),), version="2"), rollout=rollout()),
            "d1 is updated: it runs 2, by proof.",
        ),
        (
            World(device=device(records=(record("succeeded", version="2"),), version="1"), rollout=rollout()),
            (
                "d1 was updated to 2 and runs 1 now: somebody else changed it, or it fell back; "
                "`edgewright devices show` "
                "tells its history."
            ),
        ),
        (World(device=device(version="2"), rollout=rollout()), "d1 is updated: it says that it runs 2."),
        (
            World(device=device(), rollout=rollout(), selected=False, reason="spec.exclude names it"),
            "Rollout r does not select d1 (spec.exclude names it): change its selector, or the labels of the device.",
        ),
        (
            World(device=device(spec={"allowed_namespaces": ("lab",)}), rollout=rollout()),
            (
                "d1 may be flashed from lab only, and not from default: its spec.allowedNamespaces would have to name "
                "that."
            ),
        ),
        (
            World(device=device(), rollout=rollout(spec={"firmwares": (FirmwareFor(type="esp32s3"),)})),
            "Rollout r has firmware for esp32s3 and d1 is esp32: add one to spec.firmwares.",
        ),
        (World(device=device(), rollout=rollout(), reason="it is too old"), "d1 is left out: it is too old."),
        (
            World(device=device(), rollout=rollout(), fleet=FROZEN),
            "d1 waits because the fleet has been frozen by ann for 3h (audit): `edgewright unfreeze` ends that.",
        ),
        (
            World(device=device(), rollout=rollout(spec={"aborted": True}), fleet=Fleet()),
            (
                "d1 is not started any more because rollout r was aborted: create a new one, or `edgewright rollout "
                "undo r`."
            ),
        ),
        (
            World(device=device(), rollout=rollout(phase="Paused", message="20 % failed.")),
            "d1 waits because rollout r is paused (20 % failed): `edgewright rollout resume r` lets it go on.",
        ),
        (
            World(
                device=device(
                    conditions=(IN_QUARANTINE,), failures=3, last_flash=LastFlash(message="it went back.", time=NOW)
                ),
                rollout=rollout(),
            ),
            (
                "d1 is in quarantine after 3 failed flashes in a row, the last time: it went back: `edgewright devices "
                "release d1` ends that."
            ),
        ),
        (
            World(device=device(records=(record("reverted", message="it went back.", attempts=3),)), rollout=rollout()),
            (
                "d1 failed after 3 attempts (reverted): it went back; once that is put right, `edgewright "
                "rollout retry r` "
                "tries it again."
            ),
        ),
        (
            World(device=device(), jobs=(job(state="Failed", outcome="refused", message="not attested"),)),
            "d1 failed (refused): not attested; once that is put right, `edgewright flash d1` tries it again.",
        ),
        (
            World(
                device=device(
                    claim=Claim(
                        job=JOB, attempt=2, not_before=NOW + timedelta(seconds=20), last_message="it was cut off."
                    )
                ),
                rollout=rollout(),
            ),
            "d1 is tried again in 20s, as attempt 2 (it was cut off): wait.",
        ),
        (
            World(device=device(claim=Claim(job=JOB, waits=1, waits_for="no address.")), rollout=rollout()),
            "d1 waits: no address.",
        ),
        (
            World(device=device(), rollout=rollout(), jobs=(job(state="Waiting", message="site a has 1 of 1."),)),
            "d1 waits: site a has 1 of 1.",
        ),
        (
            World(
                device=device(),
                rollout=rollout(),
                batch="canary",
                jobs=(job(state="Waiting", message="site a has 1 of 1."),),
            ),
            "d1 waits in batch canary of rollout r: site a has 1 of 1.",
        ),
        (
            World(
                device=device(claim=Claim(job=JOB, attempt=1, since=NOW - timedelta(seconds=5))),
                rollout=rollout(),
                batch="canary",
            ),
            (
                "d1 is being flashed in batch canary of rollout r by FlashJob default/r-1 (attempt 1, for 5s): wait "
                "for its end."
            ),
        ),
        (
            World(
                device=device(conditions=(NOT_SEEN,), last_seen=NOW - timedelta(hours=9)),
                rollout=rollout(message="the canary is watched."),
                batch="rest",
            ),
            (
                "d1 waits because its batch, rest, of rollout r is not open: the canary is watched; it has not been "
                "seen for 9h."
            ),
        ),
        (
            World(device=device(), jobs=(job(paused=True),)),
            "d1 waits because FlashJob default/r-1 is paused: set its spec.paused to false.",
        ),
        (
            World(device=device(), jobs=(job(told="20 are under way."),)),
            "d1 waits in FlashJob default/r-1: 20 are under way.",
        ),
        (
            World(device=device(), jobs=(job(),)),
            "d1 has not had its turn yet, and nothing is in its way: wait, or look with `edgewright devices show`.",
        ),
    ],
)
def test_the_first_thing_in_the_way_is_named_with_what_would_change_it(world: World, sentence: str) -> None:
    assert why("d1", world, NOW) == sentence


def one_of_several(name: str, minute: int, phase: str, **spec: Any) -> FirmwareRollout:
    return FirmwareRollout(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=name, creation_timestamp=NOW + timedelta(minutes=minute)
        ),
        spec=FirmwareRolloutSpec(**{"firmware": "registry.example/a:2", "version": "2", **spec}),
        status=FirmwareRolloutStatus(phase=phase),
    )


def job_of(rollout: str) -> FlashJob:
    return FlashJob(
        metadata=ObjectMeta(name=f"{rollout}-1", namespace="default", labels={ROLLOUT_UID_LABEL: rollout}),
        spec=FlashJobSpec(uuid=("d1",), firmware="registry.example/a:2", version="2"),
    )


DONE, RECALLED = one_of_several("done", 1, "Completed"), one_of_several("recalled", 2, "Recalled")
ABORTED = one_of_several("aborted", 3, "Progressing", aborted=True)
GOES_ON = one_of_several("goes-on", 0, "Progressing")


@pytest.mark.parametrize(
    ("rollouts", "acted", "asked_about"),
    [
        ([DONE], [], "done"),
        ([DONE, one_of_several("later", 5, "Completed")], ["done"], "later"),
        ([DONE, GOES_ON], ["done"], "goes-on"),
        # What was taken back before it came to the device wants nothing of it any more.
        ([DONE, RECALLED, ABORTED], ["done"], "done"),
        ([DONE, RECALLED, ABORTED], ["done", "recalled"], "recalled"),
        ([RECALLED, ABORTED], [], "aborted"),
    ],
)
def test_the_rollout_that_is_asked_about_is_the_latest_that_still_means_the_device(
    rollouts: list[FirmwareRollout], acted: list[str], asked_about: str
) -> None:
    found = latest(rollouts, device(), [job_of(each) for each in acted])
    assert found is not None
    assert found.metadata.name == asked_about
