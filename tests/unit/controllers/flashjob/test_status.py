"""What the status of a job says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from edgewright.api.device import (
    Claim,
    Device,
    DeviceSpec,
    DeviceStatus,
    Firmware,
    FlashRecord,
    JobReference,
    LastFlash,
)
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import MAX_DEVICES, MAX_SHOWN, DeviceState, FlashJob, FlashJobSpec, FlashJobStatus
from edgewright.controllers.flashjob.progress import DeviceStanding, Need
from edgewright.controllers.flashjob.reasons import Reason
from edgewright.controllers.flashjob.status import (
    ALL_WELL,
    Hold,
    drifted,
    status_of,
    superseded,
)
from edgewright.runtime.objects import ObjectMeta

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OURS = JobReference(namespace="default", name="job", uid="job-uid")
THEIRS = JobReference(namespace="plant", name="other", uid="other-uid")
WAITING, FLASHING, DONE, FAILED = DeviceState.WAITING, DeviceState.FLASHING, DeviceState.DONE, DeviceState.FAILED


def job(before: FlashJobStatus | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> FlashJob:
    metadata = ObjectMeta(name="job", namespace="default", uid="job-uid", generation=3, annotations=annotations or {})
    good: dict[str, Any] = {"firmware": "registry.example/f:1", "version": "1"}
    return FlashJob(metadata=metadata, spec=FlashJobSpec(**{**good, **spec}), status=before or FlashJobStatus())


def device(name: str = "dev", **status: Any) -> Device:
    return Device(metadata=ObjectMeta(name=name), spec=DeviceSpec(endpoint="192.0.2.1"), status=DeviceStatus(**status))


def ended(
    uuid: str, outcome: Outcome = Outcome.SUCCEEDED, *, at: float = 0, on: Device | None = None, **told: Any
) -> DeviceStanding:
    time = NOW + timedelta(seconds=at)
    record = FlashRecord(**{"job": OURS, "outcome": outcome, "version": "1", "attempts": 1, "time": time, **told})
    return DeviceStanding(
        uuid=uuid,
        state=DONE if outcome.good else FAILED,
        device=on or device(f"dev-{uuid}"),
        record=record,
        outcome=outcome,
        message="so it ended",
        time=time,
    )


def with_endpoint(name: str, endpoint: str) -> Device:
    made = device(name)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, endpoint=endpoint))


def waiting(uuid: str, **fields: Any) -> DeviceStanding:
    return DeviceStanding(**{"uuid": uuid, "state": WAITING, "message": "has not started", **fields})


def flashing(uuid: str) -> DeviceStanding:
    claim = Claim(job=OURS, attempt=2, since=NOW)
    return DeviceStanding(
        uuid=uuid, state=FLASHING, device=device(f"dev-{uuid}"), claim=claim, time=NOW, address="192.0.2.9"
    )


def shown(*standings: DeviceStanding, of: FlashJob | None = None, now: datetime = NOW, **more: Any) -> FlashJobStatus:
    return status_of(of or job(), standings, observed=NOW, now=now, **more)


def conditions(status: FlashJobStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


HOLD = Hold(reason=Reason.PAUSED, message="paused")
MISSING = Hold(reason=Reason.SECRET_MISSING, message="no Secret", accepted=False)
REFUSED = Hold(reason=Reason.INVALID_FIRMWARE, message="spec.firmware: no", refused=True, accepted=False)


@pytest.mark.parametrize(
    ("standings", "hold", "phase", "message", "said"),
    [
        (
            [ended("a"), waiting("b")],
            None,
            "InProgress",
            "1 of 2 devices done, 1 waiting",
            {"Accepted": ("True", "Accepted"), "Ready": ("Unknown", "Flashing"), "Reconciling": ("True", "Flashing")},
        ),
        (
            [ended("a"), flashing("b"), ended("c", Outcome.REFUSED)],
            None,
            "InProgress",
            "1 of 3 devices done, 1 being flashed, 1 failed",
            {"Accepted": ("True", "Accepted"), "Ready": ("Unknown", "Flashing"), "Reconciling": ("True", "Flashing")},
        ),
        (
            [ended("a"), ended("b", Outcome.ALREADY_CURRENT)],
            None,
            "Completed",
            ALL_WELL,
            {"Accepted": ("True", "Accepted"), "Ready": ("True", "Completed")},
        ),
        (
            [ended("a"), ended("b", Outcome.REVERTED)],
            None,
            "Failed",
            "1 of 2 devices failed: b: reverted: so it ended",
            {
                "Accepted": ("True", "Accepted"),
                "Ready": ("False", "DevicesFailed"),
                "Stalled": ("True", "DevicesFailed"),
            },
        ),
        (
            [waiting("a")],
            HOLD,
            "InProgress",
            "paused",
            {"Accepted": ("True", "Accepted"), "Ready": ("Unknown", "Paused"), "Reconciling": ("True", "Paused")},
        ),
        (
            [waiting("a")],
            MISSING,
            "InProgress",
            "no Secret",
            {
                "Accepted": ("False", "SecretMissing"),
                "Ready": ("False", "SecretMissing"),
                "Reconciling": ("True", "SecretMissing"),
            },
        ),
        (
            [ended("a")],
            REFUSED,
            "Failed",
            "spec.firmware: no",
            {
                "Accepted": ("False", "InvalidFirmware"),
                "Ready": ("False", "InvalidFirmware"),
                "Stalled": ("True", "InvalidFirmware"),
            },
        ),
        (
            [],
            REFUSED,
            "Failed",
            "spec.firmware: no",
            {
                "Accepted": ("False", "InvalidFirmware"),
                "Ready": ("False", "InvalidFirmware"),
                "Stalled": ("True", "InvalidFirmware"),
            },
        ),
    ],
    ids=["waiting", "all kinds", "done", "failed", "paused", "secret", "refused", "refused without devices"],
)
def test_phase_message_and_conditions_agree(
    standings: list[DeviceStanding], hold: Hold | None, phase: str, message: str, said: dict[str, tuple[str, str]]
) -> None:
    status = shown(*standings, hold=hold)
    assert (status.phase, status.message) == (phase, message)
    assert conditions(status) == said


FORCE = "set spec.force: true to try again with the changed spec"
ANOTHER = "spec.force has been used: make another FlashJob"


@pytest.mark.parametrize(
    ("standing", "advice"),
    [
        (ended("a", Outcome.REFUSED, at=-5), FORCE),
        (ended("a", Outcome.REFUSED, at=-5, forced=True), ANOTHER),
        (ended("a", Outcome.REFUSED, at=5), ""),
        (waiting("a", state=FAILED, outcome=Outcome.NOT_FOUND), ""),
    ],
    ids=["before the spec was changed", "forced then", "after the spec was changed", "nothing recorded"],
)
def test_an_outcome_from_before_the_spec_was_changed_says_how_to_try_again(
    standing: DeviceStanding, advice: str
) -> None:
    status = shown(standing)
    for text in (
        status.devices[0].message,
        status.message,
        *(each.message for each in status.conditions if each.type != "Accepted"),
    ):
        assert (FORCE in text, ANOTHER in text) == (advice == FORCE, advice == ANOTHER)


def test_how_to_try_again_is_said_however_long_the_message_is() -> None:
    long = msgspec.structs.replace(ended("a", Outcome.REFUSED, at=-5), message="x" * 5000)
    status = shown(long)
    assert FORCE in status.devices[0].message
    assert len(status.devices[0].message) <= 512
    assert FORCE in status.message
    assert len(status.message) <= 4096


def test_what_went_well_before_the_spec_was_changed_needs_no_advice() -> None:
    assert shown(ended("a", at=-5)).devices[0].message == "so it ended"


def test_of_many_failures_the_first_are_named_and_the_others_counted() -> None:
    status = shown(*(ended(str(number), Outcome.UNREACHABLE) for number in range(9)))
    assert status.message.startswith("9 of 9 devices failed: 0: unreachable: so it ended; 1: ")
    assert status.message.endswith("; and 6 more")


def test_the_same_survey_gives_the_same_status_so_that_nothing_is_written() -> None:
    standings = [ended("a", digest="d"), flashing("b"), ended("c", Outcome.REFUSED)]
    status = shown(*standings)
    later = NOW + timedelta(seconds=90)
    assert shown(*standings, of=job(status), now=later) == status
    decoded = msgspec.json.decode(msgspec.json.encode(status), type=FlashJobStatus)
    assert decoded == status


def test_devices_under_way_come_first_then_failed_then_waiting_then_the_done_ones() -> None:
    status = shown(ended("a"), waiting("b"), ended("c", Outcome.FAILED), flashing("d"))
    assert [each.uuid for each in status.devices] == ["d", "c", "b", "a"]
    assert status.completed_uuids == ("a",)
    assert (status.devices[0].attempts, status.devices[0].address) == (2, "192.0.2.9")


def test_of_many_devices_the_latest_are_shown_and_the_others_counted() -> None:
    status = shown(*(ended(str(number), at=number) for number in range(MAX_SHOWN + 100)), waiting("w"))
    assert len(status.devices) == MAX_SHOWN
    assert [each.uuid for each in status.devices[:2]] == ["w", str(MAX_SHOWN + 99)]
    assert status.devices_omitted == 101
    assert len(status.completed_uuids) == MAX_SHOWN + 100


@pytest.mark.parametrize("length", [36, 75], ids=["uids", "long names"])
def test_the_object_stays_under_its_limit_at_five_thousand_devices(length: int) -> None:
    uuids = tuple(f"{number:0{length}}" for number in range(MAX_DEVICES))
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": msgspec.json.encode(uuids).decode()}
    annotations = annotations if length == 36 else {}
    standings = [
        DeviceStanding(uuid=uuid, state=DONE, device=device("d" * 63), message="ü" * 600, outcome="succeeded", time=NOW)
        for uuid in uuids
    ]
    asked = job(annotations=annotations, uuid=uuids)
    stored = msgspec.structs.replace(asked, status=shown(*standings, of=asked))
    assert len(msgspec.json.encode(stored)) < 1_000_000
    assert stored.status.devices


def test_why_a_device_waits_is_told_by_admission_where_it_knows_more() -> None:
    place = waiting("a", device=device("a"), need=Need.START)
    timed = waiting("b", device=device("b"), need=Need.RESUME, due=NOW)
    status = shown(place, timed, waiting("c"), waiting={"a": "waiting for a free slot", "b": "waiting for a free slot"})
    assert [each.message for each in status.devices] == [
        "waiting for a free slot",
        "has not started",
        "has not started",
    ]


def test_times_are_those_of_the_first_start_and_the_last_end() -> None:
    under_way = shown(ended("a", at=5), ended("b", at=9), flashing("c"))
    assert (under_way.start_time, under_way.completion_time) == (NOW, None)
    over = shown(ended("a", at=5), ended("b", at=9), of=job(under_way), now=NOW + timedelta(hours=1))
    assert (over.start_time, over.completion_time) == (NOW, NOW + timedelta(seconds=9))


def test_a_job_whose_devices_were_never_found_ends_when_that_is_said() -> None:
    lost = DeviceStanding(uuid="a", state=FAILED, outcome=Outcome.NOT_FOUND, message="none", time=NOW)
    first = shown(lost)
    assert first.completion_time == NOW
    assert shown(lost, of=job(first), now=NOW + timedelta(hours=1)).completion_time == NOW


def test_the_endpoint_is_that_of_the_device_and_of_several_of_the_one_that_changed_last() -> None:
    assert shown(ended("a")).host_endpoint == "192.0.2.1"
    assert shown(ended("a"), of=job(host_endpoint="192.0.2.5")).host_endpoint == "192.0.2.5"
    assert shown(waiting("a")).host_endpoint == ""
    here, there = (with_endpoint(f"dev-{name}", f"192.0.2.{name}") for name in ("7", "8"))
    status = shown(ended("a", at=9, on=here), ended("b", at=1, on=there), waiting("c"))
    assert status.host_endpoint == "192.0.2.7"
    assert {each.uuid: each.host_endpoint for each in status.devices} == {
        "a": "192.0.2.7",
        "b": "192.0.2.8",
        "c": "",
    }
    assert shown(waiting("a"), waiting("b")).host_endpoint == ""
    assert [each.address for each in shown(flashing("a"), flashing("b")).devices] == ["192.0.2.9", "192.0.2.9"]


def test_the_digest_is_that_of_the_device_that_ended_first_and_another_one_means_a_moved_tag() -> None:
    status = shown(ended("a", at=9, digest="new"), ended("b", at=1, digest="old"), ended("c", at=0))
    assert status.digest == "old"
    assert conditions(status)[Reason.TAG_MOVED] == ("True", Reason.TAG_MOVED)
    settled = shown(ended("a", digest="old"), of=job(status))
    assert Reason.TAG_MOVED not in conditions(settled)


def test_a_version_that_the_image_carries_is_named_next_to_the_one_in_the_spec() -> None:
    status = shown(ended("a", image_version="0.4.1"), ended("b", image_version="1"), ended("c"))
    (said,) = (each for each in status.conditions if each.type == Reason.VERSION_DIFFERS)
    assert said.message == "the firmware carries version 0.4.1, spec.version is 1"
    assert Reason.VERSION_DIFFERS not in conditions(shown(ended("a", image_version="1")))


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://dice.example:8000", True),
        ("http://192.0.2.1:8000", True),
        ("https://dice.example", False),
        ("http://127.0.0.1:8000", False),
        ("http://[::1]:8000", False),
        ("http://localhost:8000", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_attestation_over_plain_http_is_a_warning(url: str, warned: bool) -> None:
    status = shown(ended("a"), attestation=url)
    assert (Reason.ATTESTATION_UNPROTECTED in conditions(status)) is warned
    assert status.phase == "Completed"
    assert Reason.ATTESTATION_UNPROTECTED not in conditions(shown(ended("a"), of=job(status)))


@pytest.mark.parametrize(
    ("told", "by", "differs"),
    [("camera", OURS, True), ("Thermo", OURS, False), ("camera", THEIRS, False), ("", OURS, False)],
    ids=["another one", "the same in capitals", "told to another job", "told nothing"],
)
def test_another_application_than_the_wanted_one_is_a_warning(told: str, by: JobReference, differs: bool) -> None:
    found = device(application=told, last_flash=LastFlash(job=by))
    status = shown(ended("a", on=found), ended("b", on=found), of=job(application_type="thermo"))
    assert (Reason.APPLICATION_DIFFERS in conditions(status)) is differs
    assert status.phase == "Completed"


AFTER, BEFORE = NOW + timedelta(seconds=1), NOW - timedelta(seconds=1)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, (False, False)),
        ({"version": "1"}, (False, False)),
        ({"version": "2"}, (False, True)),
        ({"version": "2", "last_seen": AFTER}, (False, True)),
        ({"version": "2", "last_seen": BEFORE}, (False, False)),
        ({"version": "2", "last_flash": LastFlash(job=OURS, outcome="succeeded", time=NOW)}, (False, True)),
        ({"version": "2", "last_flash": LastFlash(job=THEIRS, outcome="succeeded", time=AFTER)}, (True, False)),
        ({"version": "1", "last_flash": LastFlash(job=THEIRS, outcome="succeeded", time=BEFORE)}, (False, False)),
        ({"version": "1", "last_flash": LastFlash(job=THEIRS, outcome="unreachable", time=AFTER)}, (False, False)),
        ({"version": "2", "firmware": Firmware(digest="other", version="2")}, (True, False)),
        ({"version": "1", "firmware": Firmware(digest="d", version="1")}, (False, False)),
    ],
    ids=[
        "nothing known",
        "as left",
        "another version",
        "seen since",
        "seen before",
        "our own flash",
        "another job's flash",
        "an earlier flash",
        "a flash that came to nothing",
        "another firmware",
        "the same firmware",
    ],
)
def test_what_happens_to_a_device_later_is_shown(status: dict[str, Any], expected: tuple[bool, bool]) -> None:
    each = ended("a", on=device(**status), digest="d")
    assert (superseded(each), drifted(each)) == expected
    (entry,) = shown(each).devices
    assert (entry.superseded, entry.drifted) == expected


def test_a_device_that_has_not_ended_is_neither_superseded_nor_drifted() -> None:
    assert not superseded(waiting("a"))
    assert not drifted(waiting("a"))
    assert not drifted(ended("a", Outcome.FAILED, on=device(version="2")))


def test_a_device_that_is_given_up_last_ends_the_job() -> None:
    lost = DeviceStanding(
        uuid="b", state=FAILED, outcome=Outcome.NOT_FOUND, message="none", time=NOW + timedelta(seconds=600)
    )
    status = shown(ended("a", at=5), lost, now=NOW + timedelta(seconds=700))
    assert status.completion_time == NOW + timedelta(seconds=600)
