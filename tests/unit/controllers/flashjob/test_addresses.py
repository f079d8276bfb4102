"""Services that get no address in time: their devices give the place to others, and are tried again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from edgewright.api.device import Claim, Device
from edgewright.api.flash_pod import Outcome, Report
from edgewright.api.flashjob import DeviceState
from edgewright.api.service import Service
from edgewright.controllers.flashjob.claims import wishes_of
from edgewright.controllers.flashjob.decisions import (
    Action,
    CreatePod,
    CreateService,
    NoAddress,
    Release,
    RemoveService,
    Situation,
    decide,
)
from edgewright.controllers.flashjob.outcomes import next_attempt, set_aside
from edgewright.controllers.flashjob.progress import DeviceStanding, JobSnapshot, Need, survey
from edgewright.controllers.flashjob.status import status_of
from edgewright.controllers.settings import Timing
from tests.unit.controllers.flashjob.flash_samples import (
    NOW,
    SETTINGS,
    a_claim,
    a_device,
    a_job,
    a_pod,
    a_record,
    a_service,
    running,
)

ADDRESS = "198.51.100.1"
LATE = NOW + timedelta(seconds=600)
JOB = a_job()
CLAIM = a_claim(JOB)
DEVICE = a_device(CLAIM)
SERVICE = a_service(JOB, DEVICE, CLAIM)
ASIDE = set_aside(CLAIM, now=LATE, timing=SETTINGS.timing)


# --- what is to be done ---------------------------------------------------------------------------------------------


def situation(
    claim: Claim = CLAIM, *, service: Service | None = SERVICE, now: datetime = LATE, **given: Any
) -> Situation:
    services = (service,) if service is not None else ()
    common = {"device": a_device(claim), "job": JOB, "service": service, "services": services, "now": now}
    return Situation(**{**common, **given})


GOING = a_service(JOB, DEVICE, CLAIM, deletion_timestamp=LATE)
ADDRESSED = a_service(JOB, DEVICE, CLAIM, address=ADDRESS)


@pytest.mark.parametrize(
    ("given", "actions"),
    [
        pytest.param({"now": LATE - timedelta(seconds=1)}, (), id="in time"),
        pytest.param({}, (NoAddress(SERVICE, ASIDE), RemoveService(SERVICE)), id="its time is over"),
        pytest.param({"service": ADDRESSED}, (CreatePod(ADDRESS),), id="its time is over and it has an address"),
        pytest.param({"service": GOING}, (), id="it is going"),
        pytest.param({"service": None}, (CreateService(),), id="it is gone"),
        pytest.param({"job": a_job(timeout_seconds=601)}, (), id="the job gives more time by now"),
        pytest.param({"job": a_job(paused=True)}, (Release(), RemoveService(SERVICE)), id="paused meanwhile"),
        pytest.param({"job": a_job(deleting=True)}, (Release(), RemoveService(SERVICE)), id="deleted meanwhile"),
        pytest.param({"job": a_job(version="2")}, (Release(), RemoveService(SERVICE)), id="changed meanwhile"),
        pytest.param({"named": False}, (Release(), RemoveService(SERVICE)), id="removed meanwhile"),
        pytest.param({"held": True}, (Release(), RemoveService(SERVICE)), id="the original runs meanwhile"),
        pytest.param({"claim": ASIDE}, (RemoveService(SERVICE),), id="set aside before a crash"),
        pytest.param(
            {"claim": ASIDE, "service": ADDRESSED}, (RemoveService(ADDRESSED),), id="set aside, and the address comes"
        ),
        pytest.param({"claim": ASIDE, "service": GOING}, (), id="set aside, and its Service is going"),
        pytest.param({"claim": ASIDE, "service": None}, (), id="set aside"),
        pytest.param(
            {"claim": ASIDE, "job": a_job(paused=True), "service": None}, (Release(),), id="set aside and paused"
        ),
    ],
)
def test_a_service_without_an_address_has_the_time_of_an_attempt(
    given: dict[str, Any], actions: tuple[Action, ...]
) -> None:
    assert decide(situation(**given)).actions == actions


def test_it_is_looked_at_again_when_its_time_is_over_and_not_after_that() -> None:
    assert decide(situation(now=NOW)).after == 600
    assert decide(situation()).after is None


def test_a_device_that_another_pod_has_waits_for_that_one_and_not_for_an_address() -> None:
    theirs = a_job("other", uid="job-2")
    other = a_pod(theirs, DEVICE, a_claim(theirs), status=running(), uid="pod-2")
    assert decide(situation(pods=(other,))).actions == ()


# --- how long it waits ----------------------------------------------------------------------------------------------


def test_the_attempt_stays_the_same_and_every_wait_is_longer_up_to_a_limit() -> None:
    timing = Timing(first_backoff=10, longest_backoff=35)
    claim, pauses = a_claim(JOB, attempt=2, check=True, last_message="cut off"), []
    for _ in range(4):
        claim = set_aside(claim, now=NOW, timing=timing)
        assert claim.not_before is not None
        pauses.append((claim.not_before - NOW).total_seconds())
        claim = msgspec.structs.replace(claim, not_before=None)
    assert pauses == [10, 20, 35, 35]
    assert claim == a_claim(JOB, attempt=2, check=True, last_message="cut off", waits=4)


def test_a_wait_without_end_does_not_break_the_arithmetic() -> None:
    claim = set_aside(a_claim(JOB, waits=100_000), now=NOW, timing=SETTINGS.timing)
    assert claim.not_before == NOW + timedelta(seconds=SETTINGS.timing.longest_backoff)


def test_the_next_attempt_begins_to_count_again() -> None:
    cut = Report(outcome=Outcome.FAILED, message="cut off")
    following = next_attempt(JOB, a_claim(JOB, waits=7), cut, now=NOW, timing=SETTINGS.timing)
    assert following is not None
    assert (following.attempt, following.waits) == (2, 0)
    assert following.not_before == NOW + timedelta(seconds=SETTINGS.timing.first_backoff)


# --- who goes first, and what is shown ------------------------------------------------------------------------------

NAMES = tuple("abcd")
MANY = a_job(uuid=NAMES)


def standings(devices: dict[str, Device], **snapshot: Any) -> list[DeviceStanding]:
    return survey(MANY, JobSnapshot(devices=devices, observed=NOW, now=LATE, **snapshot))


def named(uuid: str, claim: Claim | None = None, **more: Any) -> Device:
    own = None if claim is None else msgspec.structs.replace(claim, uuid=uuid)
    return a_device(own, name=uuid, **more)


def claimed(**changes: Any) -> Claim:
    return a_claim(MANY, **changes)


def test_those_that_waited_in_vain_come_after_all_others() -> None:
    devices = {
        "a": named("a", claimed(waits=1, not_before=NOW)),
        "b": named("b"),
        "c": named("c", claimed(attempt=2, not_before=NOW)),
        "d": named("d", claimed(waits=3, not_before=LATE + timedelta(seconds=1))),
    }
    assert [wish.device for wish in wishes_of(MANY, standings(devices))] == ["c", "b", "a", "d"]


def test_why_a_device_waits_is_shown_with_its_service_and_when_it_is_tried_again() -> None:
    until = LATE + timedelta(seconds=20)
    (each, *_) = standings({"a": named("a", claimed(waits=2, not_before=until))})
    assert each.message == "no address for Service job-service-a in 600 s; tried again at 12:10:20"
    assert (each.state, each.need, each.due, each.addressless) == (DeviceState.WAITING, Need.RESUME, until, True)


def test_that_it_waits_for_a_place_does_not_hide_that_it_waits_for_an_address() -> None:
    each = standings({"a": named("a", claimed(waits=2, not_before=LATE))})
    status = status_of(MANY, each, observed=NOW, now=LATE, waiting={"a": "waiting for a free slot"})
    shown = {device.uuid: device.message for device in status.devices}
    assert shown["a"] == "no address for Service job-service-a in 600 s; tried again as soon as there is a place"


ASIDE_NOW = claimed(waits=1, not_before=LATE + timedelta(seconds=10))
DONE = {"a": a_device(None, a_record(MANY, uuid="a"), name="a")}


@pytest.mark.parametrize(
    ("devices", "snapshot", "reason"),
    [
        pytest.param({"a": named("a", ASIDE_NOW)}, {}, "NoAddress", id="one waits to be tried again"),
        pytest.param({"a": named("a", ASIDE_NOW), "b": named("b")}, {}, "NoAddress", id="another has no place yet"),
        pytest.param(
            {"a": named("a", ASIDE_NOW), "b": named("b", claimed())}, {}, "NoAddress", id="another waits for its own"
        ),
        pytest.param({"a": named("a", claimed(waits=1))}, {}, "NoAddress", id="it is being tried again"),
        pytest.param({**DONE, "b": named("b", ASIDE_NOW)}, {}, "NoAddress", id="another is done"),
        pytest.param({"a": named("a", claimed())}, {}, "Flashing", id="it waits for the first time"),
        pytest.param(
            {"a": named("a", claimed(waits=1))},
            {"services": {"a": ADDRESSED}},
            "Flashing",
            id="the address is there",
        ),
        pytest.param(
            {"a": named("a", ASIDE_NOW), "b": named("b", claimed(), protocol="smp-udp")},
            {},
            "Flashing",
            id="another needs none",
        ),
        pytest.param(
            {"a": named("a", ASIDE_NOW), "b": named("b", claimed())},
            {"pods": {"b": a_pod(MANY, DEVICE, claimed(), status=running())}},
            "Flashing",
            id="another is being flashed",
        ),
    ],
)
def test_a_job_that_does_not_get_on_for_want_of_addresses_says_so(
    devices: dict[str, Device], snapshot: dict[str, Any], reason: str
) -> None:
    status = status_of(MANY, standings(devices, **snapshot), observed=NOW, now=LATE)
    said = {each.type: (each.status, each.reason) for each in status.conditions}
    assert status.phase == "InProgress"
    assert said["Ready"] == ("False" if reason == "NoAddress" else "Unknown", reason)
    assert said["Reconciling"] == ("True", reason)
    assert ("load balancer" in status.message) is (reason == "NoAddress")


REFUSED = "the Pod cannot be created: exceeded quota"


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        pytest.param({}, "NotMade", id="it alone"),
        pytest.param({"b": named("b")}, "NotMade", id="another has no place yet"),
        pytest.param({"b": named("b", claimed(), protocol="smp-udp")}, "Flashing", id="another is on its way"),
    ],
)
def test_a_job_of_which_nothing_can_be_made_for_now_says_why(others: dict[str, Device], reason: str) -> None:
    aside = claimed(waits=1, waits_for=REFUSED, not_before=LATE + timedelta(seconds=10))
    status = status_of(MANY, standings({"a": named("a", aside), **others}), observed=NOW, now=LATE)
    said = {each.type: each.reason for each in status.conditions}
    assert (said["Ready"], said["Reconciling"]) == (reason, reason)
    assert (REFUSED in status.message) is (reason == "NotMade")
    shown = {device.uuid: device.message for device in status.devices}
    assert shown["a"] == f"{REFUSED}; tried again at 12:10:10"
