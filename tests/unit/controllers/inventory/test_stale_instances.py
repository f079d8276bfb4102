"""What a flash proved stands until discovery tells something else: Akri's Instances go on telling what once was."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest

from edgewright.api.device import Claim, DeviceStatus, Discovered, FlashRecord, JobReference, LastFlash
from edgewright.api.firmwarerollout import Observe
from edgewright.api.flash_pod import Outcome, Report
from edgewright.api.flashjob import DeviceState
from edgewright.controllers.flashjob.outcomes import record
from edgewright.controllers.flashjob.progress import DeviceStanding
from edgewright.controllers.flashjob.status import drifted
from edgewright.controllers.inventory.device_state import View, is_old_news, kept
from edgewright.controllers.inventory.sightings import Sighting
from edgewright.controllers.rollout.survey import has_regressed
from edgewright.controllers.settings import Timing
from tests.unit.controllers.inventory.fleet import NOW, ago, device, flashed, sighting

replace = msgspec.structs.replace
TIMING = Timing(stale_after=600, seen_every=300)
SAID = Discovered(instance="u1", application="thermo", version="1.0.0")
"""What the Instance of `sighting()` tells, from before any flash of these tests."""
FLASHED = flashed(before="1.0.0", after="2.0.0")


def proven(version: str = "2.0.0", **fields: Any) -> DeviceStatus:
    """Of a Device that was flashed, and whose Instance u1 was there before."""
    known = {"instances": ("u1",), "application": "lamp", "discovered": SAID, "last_flash": FLASHED}
    return DeviceStatus(version=version, **{**known, **fields})


def keep(status: DeviceStatus, *sightings: Sighting, told: datetime | None = None) -> DeviceStatus:
    return kept(device(status=status), View(sightings=sightings, told=told), now=NOW, timing=TIMING).status


def said_in(status: DeviceStatus) -> Discovered:
    """What the latest Instance told, whenever it did."""
    assert status.discovered is not None
    return replace(status.discovered, time=None)


def drifted_after(status: DeviceStatus, seen: Sighting) -> bool:
    """Whether the job that left the Device like this shows that it has drifted, once the Instance was looked at."""
    record = FlashRecord(outcome=Outcome.SUCCEEDED, version=status.version, time=FLASHED.time)
    after = device(status=keep(status, seen))
    return drifted(DeviceStanding(uuid="u1", state=DeviceState.DONE, device=after, record=record))


FAILED = flashed(before="", after="", outcome=Outcome.UNREACHABLE)


@pytest.mark.parametrize(
    ("seen", "status", "told"),
    [
        (sighting(), proven(), None),
        (sighting(), proven("3.0.0", last_flash=flashed(before="2.0.0", after="3.0.0")), None),
        (sighting(), proven(last_flash=flashed(before="2.0.0", after="2.0.0", outcome=Outcome.ALREADY_CURRENT)), None),
        (sighting(), proven(last_flash=FAILED), None),
        (sighting(), proven(last_flash=None), None),
        (sighting(VERSION=""), proven(discovered=Discovered(instance="u1", application="thermo")), None),
        (sighting(VERSION="1.1.0"), proven(), ago(20)),
        (sighting(), proven(discovered=None), None),
        (sighting(VERSION="3.0.0"), proven(discovered=None), None),
        (sighting(), proven(discovered=None, last_flash=FAILED), None),
        (sighting(), proven(discovered=Discovered(instance="u2"), instances=("u1", "u2")), None),
        (sighting(), proven(discovered=Discovered(instance="u2"), last_flash=FAILED), None),
        (sighting("u9"), proven(), None),
    ],
    ids=[
        "as before the flash",
        "as before the flash before the last",
        "there was nothing to flash",
        "a later flash that read nothing",
        "learnt between two attempts, before any flash ended",
        "no version",
        "told before the flash, heard after it",
        "not remembered, but older than the flash",
        "not remembered, older than the flash and somebody else's",
        "not remembered, and the last flash read nothing",
        "of another node, older than the flash",
        "of another node, and the last flash read nothing",
        "made in mid-flash",
    ],
)
def test_what_an_instance_has_told_before_does_not_count_again(
    seen: Sighting, status: DeviceStatus, told: datetime | None
) -> None:
    assert is_old_news(seen, status, told)
    after = keep(status, seen, told=told)
    assert (after.version, after.application) == (status.version, "lamp")
    assert said_in(after) == Discovered(instance=seen.uid, application=seen.application, version=seen.version)
    assert keep(after, seen).version == status.version, "nor in any later pass"


@pytest.mark.parametrize(
    ("seen", "status", "told"),
    [
        (sighting(VERSION="1.1.0"), proven(), NOW),
        (sighting(VERSION="1.1.0"), proven(), None),
        (sighting(APPLICATION_TYPE="pump"), proven(), NOW),
        (sighting("u9", since=NOW), proven(), None),
        (sighting("u9", since=NOW), proven(discovered=None), None),
        (sighting("u9"), proven(last_flash=FAILED), None),
        (sighting("u9"), proven(), NOW),
        (sighting(), proven(discovered=None, last_flash=None), None),
        (sighting(), proven(discovered=None, last_flash=LastFlash(version_after="2.0.0")), None),
    ],
    ids=[
        "a change after the flash",
        "a change while no operator ran",
        "another application",
        "a new Instance after the flash",
        "the first Instance, after the flash",
        "a new Instance in a flash that read nothing",
        "a new Instance that changed after the flash",
        "never flashed",
        "a flash without a time",
    ],
)
def test_what_an_instance_tells_again_counts(seen: Sighting, status: DeviceStatus, told: datetime | None) -> None:
    assert not is_old_news(seen, status, told)
    after = keep(status, seen, told=told)
    assert (after.version, after.application) == (seen.version, seen.application)
    assert keep(after, seen).version == seen.version, "and stays"


def test_a_job_shows_a_drift_that_an_instance_tells_of_and_no_other() -> None:
    assert not drifted_after(proven(), sighting())
    assert drifted_after(proven(), sighting(VERSION="1.1.0"))
    assert drifted_after(proven(), sighting("u9", since=NOW))


def test_an_instance_that_is_left_over_does_not_bring_back_what_it_told() -> None:
    """One of two nodes sees the device with its new version, and goes away: the other Instance is as old as ever."""
    old, new = sighting("u1"), sighting("u2", since=ago(5), VERSION="2.1.0", APPLICATION_TYPE="lamp")
    both = keep(proven(), old, new)
    assert both.version == "2.1.0", "somebody changed it after the flash"
    assert said_in(both) == Discovered(instance="u2", application="lamp", version="2.1.0")
    left = keep(both, old)
    assert (left.version, left.application) == ("2.1.0", "lamp")
    assert keep(left, sighting("u1", VERSION="2.2.0"), told=NOW).version == "2.2.0"


# --- between the proof and its record --------------------------------------------------------------------------------

CLAIM = Claim(job=JobReference(namespace="default", name="job", uid="job-1"), uuid="u1", state="s", since=ago(100))
PROVEN = ago(60)
"""When the flasher read 2.0.0; its report is recorded now, a minute later."""


def recorded(status: DeviceStatus, *, observed: datetime | None = PROVEN) -> DeviceStatus:
    """The status once the report of the flasher is written down."""
    report = Report(
        outcome=Outcome.SUCCEEDED,
        version_before="1.0.0",
        version_after="2.0.0",
        application="thermo",
        observed=observed,
        written=True,
    )
    return record(
        device(status=status), CLAIM, report, firmware="r.example/f:2", forced=False, now=NOW, living=lambda _: True
    )


CLAIMED = DeviceStatus(
    version="1.0.0", application="thermo", instances=("u1",), claim=CLAIM, discovered=replace(SAID, time=ago(3600))
)


@pytest.mark.parametrize("first", ["the record", "the Instance"])
@pytest.mark.parametrize(
    ("seen", "told", "runs"),
    [
        pytest.param(sighting(VERSION="0.9.0"), ago(30), "0.9.0", id="its Instance tells it after the proof"),
        pytest.param(sighting(VERSION="0.9.0"), None, "0.9.0", id="its Instance told it while no operator ran"),
        pytest.param(sighting("u9", since=ago(30)), None, "1.0.0", id="it is found again after the proof"),
        pytest.param(sighting("u9", since=ago(90), VERSION="0.9.0"), ago(30), "0.9.0", id="found, then fallen back"),
        pytest.param(sighting("u9", since=ago(30), VERSION=""), None, "2.0.0", id="found again, and tells no version"),
        pytest.param(sighting(VERSION="0.9.0"), ago(70), "2.0.0", id="its Instance told it before the proof"),
        pytest.param(sighting("u9", since=ago(70)), None, "2.0.0", id="it was found again before the proof"),
        pytest.param(sighting(), None, "2.0.0", id="its Instance tells what it always told"),
    ],
)
def test_the_later_observation_wins_whichever_is_written_first(
    seen: Sighting, told: datetime | None, runs: str, first: str
) -> None:
    """A device that falls back between its proof and its record runs what it runs, and not what was proven."""
    if first == "the record":
        after = keep(recorded(CLAIMED), seen, told=told)
    else:
        after = recorded(keep(CLAIMED, seen, told=told))
    assert after.version == runs
    assert keep(after, seen, told=told).version == runs, "and in every later pass"
    (found,) = after.records
    assert (found.outcome, found.version, found.observed, found.time) == ("succeeded", "2.0.0", PROVEN, NOW)
    fell = runs != "2.0.0"
    assert has_regressed(device(status=after), found, Observe()) is fell
    standing = DeviceStanding(uuid="u1", state=DeviceState.DONE, device=device(status=after), record=found)
    assert drifted(standing) is fell


def test_a_device_that_fell_back_and_is_seen_again_by_its_old_version_is_known_to_run_that() -> None:
    """Akri sees the new version, and then the old one again, all before the operator has read the report."""
    up = keep(CLAIMED, sighting("u9", since=ago(65), VERSION="2.0.0"))
    down = keep(up, sighting("u9", since=ago(65), VERSION="1.0.0"), told=ago(20))
    after = recorded(down)
    assert after.version == "1.0.0"
    assert keep(after, sighting("u9", since=ago(65), VERSION="1.0.0"), told=ago(20)).version == "1.0.0"


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(None, id="it tells no time"),
        pytest.param(ago(-60), id="its clock is ahead"),
        pytest.param(ago(200), id="its clock is behind"),
        pytest.param(datetime(2026, 1, 1), id="no time zone"),  # noqa: DTZ001 - as a foreign program may write it
    ],
)
def test_a_flasher_whose_clock_cannot_be_right_is_taken_at_the_time_of_its_record(observed: datetime | None) -> None:
    after = recorded(keep(CLAIMED, sighting(VERSION="0.9.0"), told=ago(30)), observed=observed)
    assert after.version == "2.0.0"
    assert after.last_flash is not None
    assert (after.last_flash.observed, after.last_flash.read) == (None, NOW)
