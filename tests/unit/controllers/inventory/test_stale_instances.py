"""What a flash proved stands until discovery tells something else: Akri's Instances go on telling what once was."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from edgewright.api.device import DeviceStatus, Discovered, FlashRecord, LastFlash
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import DeviceState
from edgewright.controllers.flashjob.progress import DeviceStanding
from edgewright.controllers.flashjob.status import drifted
from edgewright.controllers.inventory.device_state import View, is_old_news, kept
from edgewright.controllers.inventory.sightings import Sighting
from edgewright.controllers.settings import Timing
from tests.unit.controllers.inventory.fleet import NOW, ago, device, flashed, sighting

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
    assert after.discovered == Discovered(instance=seen.uid, application=seen.application, version=seen.version)
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
def test_what_an_instance_tells_anew_counts(seen: Sighting, status: DeviceStatus, told: datetime | None) -> None:
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
    assert both.discovered == Discovered(instance="u2", application="lamp", version="2.1.0")
    left = keep(both, old)
    assert (left.version, left.application) == ("2.1.0", "lamp")
    assert keep(left, sighting("u1", VERSION="2.2.0"), told=NOW).version == "2.2.0"
