"""What is written down of a Device that was asked: that it answered, that it did not, and that another one did."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from edgewright.api.device import DIFFERS, STALE, Device, DeviceStatus, FlashRecord, JobReference
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import DeviceState
from edgewright.api.probe import Silent, Told
from edgewright.controllers.flashjob.progress import DeviceStanding
from edgewright.controllers.flashjob.status import drifted
from edgewright.controllers.inventory.device_state import View
from edgewright.controllers.inventory.probe_results import after_answer, after_difference, after_silence, difference
from edgewright.controllers.settings import Timing
from edgewright.runtime.conditions import FALSE, TRUE, condition, find, is_true, set_condition
from tests.unit.controllers.inventory.fleet import CERTIFICATE, CLAIM, NOW, ago, device, flashed

TIMING = Timing(stale_after=600, seen_every=300)
SILENT = Silent("nobody is there")


def written(created: datetime | None = None, type_: str = "", **status: Any) -> Device:
    """A Device that people wrote."""
    return device(created=created or ago(10_000), type=type_, configuration="", status=DeviceStatus(**status))


def answered(known: Device, told: Told, now: datetime = NOW) -> DeviceStatus:
    return after_answer(known, told, now=now, timing=TIMING)


def silent(known: Device, *, heard: datetime | None = None, vanished: datetime | None = None) -> DeviceStatus:
    return after_silence(known, SILENT, View(vanished=vanished), heard=heard, now=NOW, timing=TIMING)


def marked(kind: str) -> Any:
    return set_condition((), condition(kind, TRUE, "Why"), now=ago(100))


def test_what_a_device_tells_is_written_down_with_when_it_was_seen() -> None:
    status = answered(written(certificate=CERTIFICATE, claim=CLAIM), Told(application="lamp", version="1.0.0"))
    assert status == DeviceStatus(
        application="lamp", version="1.0.0", last_seen=NOW, certificate=CERTIFICATE, claim=CLAIM
    )


def test_what_a_device_does_not_tell_stays() -> None:
    status = answered(written(application="lamp", version="1.0.0"), Told())
    assert (status.application, status.version) == ("lamp", "1.0.0")


def test_nothing_is_written_where_nothing_changed_but_that_it_is_seen_now_and_then() -> None:
    known = written(application="lamp", version="1.0.0", last_seen=ago(299))
    told = Told(type="esp32", application="lamp", version="1.0.0", certificate=CERTIFICATE, boots="7")
    assert answered(known, told) is known.status
    later = NOW + timedelta(seconds=1)
    assert answered(known, told, later) == msgspec.structs.replace(known.status, last_seen=later)
    assert answered(known, Told(version="1.0.1")).last_seen == NOW


def test_that_a_device_answers_is_written_once_when_somebody_wants_to_know_it() -> None:
    known = written(application="lamp", version="1.0.0", last_seen=ago(20))
    told = Told(type="esp32", application="lamp", version="1.0.0")

    def asked(now: datetime) -> DeviceStatus:
        return after_answer(known, told, now=now, timing=TIMING, due=NOW)

    assert asked(ago(1)) is known.status
    assert asked(NOW) == msgspec.structs.replace(known.status, last_seen=NOW)
    later = written(application="lamp", version="1.0.0", last_seen=NOW)
    assert after_answer(later, told, now=NOW + timedelta(seconds=10), timing=TIMING, due=NOW) is later.status


def test_a_device_that_answers_again_is_neither_stale_nor_another_one() -> None:
    status = answered(written(conditions=(*marked(STALE), *marked(DIFFERS)), last_seen=ago(5)), Told(version="1"))
    assert {each.type: each.status for each in status.conditions} == {STALE: FALSE, DIFFERS: FALSE}
    assert status.last_seen == NOW


def test_a_version_that_is_seen_after_a_flash_is_drift_even_within_the_same_second() -> None:
    ended = ago(0.9).replace(microsecond=200_000)
    asked = ended.replace(microsecond=900_000)
    job = JobReference(name="job", uid="job-uid")
    record = FlashRecord(job=job, outcome=Outcome.SUCCEEDED, version="2.0.0", time=ended)
    flash = msgspec.structs.replace(flashed(), job=job, time=ended)
    known = written(version="2.0.0", last_flash=flash, records=(record,))

    def shows_drift(status: DeviceStatus) -> bool:
        now = msgspec.structs.replace(known, status=status)
        return drifted(DeviceStanding(uuid="one", state=DeviceState.DONE, device=now, record=record))

    assert not shows_drift(answered(known, Told(version="2.0.0"), asked))
    assert shows_drift(answered(known, Told(version="1.0.0"), asked))


@pytest.mark.parametrize(
    ("status", "more", "stale"),
    [
        ({"last_seen": ago(599)}, {}, False),
        ({"last_seen": ago(600)}, {}, True),
        ({"last_seen": ago(5000)}, {"heard": ago(599)}, False),
        ({"last_seen": ago(5000)}, {"heard": ago(600)}, True),
        ({"last_seen": ago(5000)}, {"vanished": ago(599)}, False),
        ({"last_flash": flashed(seconds_ago=599)}, {}, False),
        ({"last_flash": flashed(seconds_ago=600)}, {}, True),
        ({"last_flash": flashed(seconds_ago=10, after="")}, {}, True),
        ({"created": ago(599)}, {}, False),
        ({"created": ago(600)}, {}, True),
    ],
    ids=[
        "seen lately",
        "seen long ago",
        "heard lately",
        "heard long ago",
        "sighted lately",
        "flashed lately",
        "flashed long ago",
        "not reached by its flasher",
        "new",
        "never seen",
    ],
)
def test_a_device_is_stale_when_it_has_given_no_sign_for_long_enough(
    status: dict[str, Any], more: dict[str, Any], stale: bool
) -> None:
    known = written(**status)
    result = silent(known, **more)
    assert is_true(result.conditions, STALE) is stale
    if not stale:
        assert result is known.status


def test_a_stale_device_tells_since_when_and_why_and_is_then_left_as_it_is() -> None:
    status = silent(written(version="1", last_seen=ago(5000)), heard=ago(700))
    stale = find(status.conditions, STALE)
    assert stale is not None
    assert (stale.reason, stale.message) == (
        "NotSeen",
        "It has not answered since 2026-03-01 11:48:20 UTC: nobody is there.",
    )
    assert (status.last_seen, status.version) == (ago(700), "1")
    again = written(version="1", last_seen=ago(5000), conditions=status.conditions)
    assert silent(again) is again.status


def test_a_device_that_never_answered_is_not_said_to_have_been_seen() -> None:
    status = silent(written())
    stale = find(status.conditions, STALE)
    assert stale is not None
    assert stale.message == "It has not answered so far: nobody is there."
    assert status.last_seen is None


@pytest.mark.parametrize(
    ("type_", "recorded", "told", "reason"),
    [
        ("", "", Told(type="esp32", certificate=CERTIFICATE), None),
        ("ESP32S3", CERTIFICATE, Told(type="esp32s3", certificate=CERTIFICATE), None),
        ("esp32", CERTIFICATE, Told(), None),
        ("esp32", "", Told(type="esp32s3"), "OtherType"),
        ("esp32", CERTIFICATE, Told(type="esp32", certificate="cd" * 32), "OtherCertificate"),
        ("esp32", CERTIFICATE, Told(type="esp32s3", certificate="cd" * 32), "OtherCertificate"),
    ],
    ids=["nothing is recorded", "the same", "it tells nothing", "another type", "another certificate", "both"],
)
def test_what_is_another_device(type_: str, recorded: str, told: Told, reason: str | None) -> None:
    found = difference(written(type_=type_, certificate=recorded), told)
    assert (None if found is None else found.reason) == reason


def test_nothing_that_another_device_tells_is_taken_for_this_ones() -> None:
    known = written(certificate=CERTIFICATE, version="1", last_seen=ago(599))
    found = difference(known, Told(version="9", application="other", certificate="cd" * 32))
    assert found is not None
    status = after_difference(known, found, View(), heard=None, now=NOW, timing=TIMING)
    differs = find(status.conditions, DIFFERS)
    assert differs is not None
    assert (differs.status, differs.reason) == (TRUE, "OtherCertificate")
    assert CERTIFICATE in differs.message
    assert "cd" * 32 in differs.message
    assert msgspec.structs.replace(status, conditions=()) == known.status
    same = msgspec.structs.replace(known, status=status)
    assert after_difference(same, found, View(), heard=None, now=NOW, timing=TIMING) == status
    later = NOW + timedelta(seconds=1)
    unseen = after_difference(same, found, View(), heard=None, now=later, timing=TIMING)
    assert is_true(unseen.conditions, STALE)
