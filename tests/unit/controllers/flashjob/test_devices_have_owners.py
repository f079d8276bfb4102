"""Finding 5 of the security audit: a Device has an owner, and no tenant blocks, redirects or spies on another's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.device import Device, DeviceSpec
from edgewright.api.endpoint import normalize_endpoint
from edgewright.api.flash_pod import Outcome, Report
from edgewright.api.flashjob import FlashJobSpec
from edgewright.controllers.flashjob.decisions import Record, Release, Situation, decide
from edgewright.controllers.flashjob.manifests import endpoint_of, overrides
from edgewright.controllers.flashjob.outcomes import next_attempt
from edgewright.controllers.inventory.device_state import spec_of
from edgewright.controllers.settings import Settings, Timing
from tests.unit.controllers.flashjob.flash_samples import NOW, a_claim, a_device, a_job
from tests.unit.controllers.flashjob.jobs_stage import DEVICES, JOBS, Stage, stage
from tests.unit.controllers.flashjob.test_job_loop import claims, completed
from tests.unit.controllers.inventory.fleet import sighting

FAILED = Report(outcome=Outcome.FAILED, message="the transfer broke off")
NOT_ALLOWED = "may not be flashed by jobs of namespace default"


@asynccontextmanager
async def operating(tmp_path: Path) -> AsyncIterator[Stage]:
    """The loop over FlashJobs at work."""
    async with stage(tmp_path) as here, here.operating():
        yield here


def told(text: str) -> Any:
    return lambda status: text in status["devices"][0]["message"]


async def test_a_job_of_a_namespace_that_a_device_does_not_allow_waits_and_claims_nothing(tmp_path: Path) -> None:
    async with operating(tmp_path) as here:
        await here.make_device("one", allowedNamespaces=["plant"])
        await here.make_job("job", "one")
        status = await here.shown(told(NOT_ALLOWED))
        assert "plant" not in status["devices"][0]["message"]
        assert not await claims(here)
        await here.change(f"{DEVICES}/one", {"spec": {"allowedNamespaces": ["plant", "default"]}})
        await here.shown(completed)


async def test_a_job_cannot_reach_the_device_of_another_owner_under_a_name_of_its_own(tmp_path: Path) -> None:
    async with operating(tmp_path) as here:
        await here.make_device("one", endpoint="192.0.2.9", allowedNamespaces=["plant"])
        await here.make_job("job", "mine", hostEndpoint="http://192.0.2.9:80/")
        status = await here.shown(told(NOT_ALLOWED))
        assert "one" not in status["devices"][0]["message"]
        assert not await claims(here)


async def test_a_job_cannot_send_the_flash_of_a_device_to_another_address(tmp_path: Path) -> None:
    async with operating(tmp_path) as here:
        await here.make_device("one", endpoint="192.0.2.9")
        await here.make_job("job", "one", hostEndpoint="192.0.2.66")
        status = await here.shown(lambda status: status["phase"] == "Failed")
        assert "spec.hostEndpoint" in status["devices"][0]["message"]
        assert not here.flashed
        await here.change(f"{DEVICES}/one", {"spec": {"allowEndpointOverride": True}})
        await here.shown(completed)


async def test_a_device_that_a_job_introduced_may_be_found_elsewhere_by_the_next_job(tmp_path: Path) -> None:
    async with operating(tmp_path) as here:
        await here.make_job("job", "desk", hostEndpoint="192.0.2.9")
        await here.shown(completed)
        assert (await here.api("DELETE", f"{JOBS}/job")).code == 200
        await here.make_job("again", "desk", hostEndpoint="192.0.2.10", force=True)
        await here.shown(completed, "again")


@pytest.mark.parametrize(
    ("asked", "own", "refused", "used"),
    [
        ("192.0.2.9", "192.0.2.9", False, "192.0.2.9"),
        ("http://192.0.2.9/", "192.0.2.9", False, "192.0.2.9"),
        ("192.0.2.9:80", "192.0.2.9", False, "192.0.2.9"),
        ("::ffff:192.0.2.9", "192.0.2.9", False, "192.0.2.9"),
        ("Board.Example.", "board.example", False, "board.example"),
        ("192.0.2.9", "192.0.2.9:8080", False, "192.0.2.9:8080"),
        ("192.0.2.9:8080", "192.0.2.9:8080", False, "192.0.2.9:8080"),
        ("192.0.2.9:8081", "192.0.2.9:8080", True, ""),
        ("192.0.2.9:8081", "192.0.2.9", True, ""),
        ("192.0.2.10", "192.0.2.9", True, ""),
        ("board.example", "192.0.2.9", True, ""),
        ("192.0.2.10", "", False, "192.0.2.10"),
        ("", "192.0.2.9", False, "192.0.2.9"),
        (None, "192.0.2.9", False, "192.0.2.9"),
    ],
)
def test_an_address_is_the_devices_own_however_it_is_written(
    asked: str | None, own: str, refused: bool, used: str
) -> None:
    spec, device = FlashJobSpec(host_endpoint=asked), Device(spec=DeviceSpec(endpoint=own))
    assert overrides(spec, device) is refused
    if not refused:
        assert normalize_endpoint(endpoint_of(spec, device)) == normalize_endpoint(used)
    allowing = Device(spec=DeviceSpec(endpoint=own, allow_endpoint_override=True))
    assert not overrides(spec, allowing)
    assert endpoint_of(spec, allowing) == (asked or own)


def test_the_inventory_leaves_the_owner_of_a_device_alone() -> None:
    known = DeviceSpec(endpoint="192.0.2.1", allowed_namespaces=("plant",), allow_endpoint_override=True)
    kept = spec_of(sighting("uid"), known)
    assert (kept.allowed_namespaces, kept.allow_endpoint_override) == (("plant",), True)


def test_no_further_attempt_is_made_for_a_claim_that_is_a_day_old() -> None:
    job = a_job(retries=20, timeout_seconds=86_400)
    young, old = (a_claim(job, since=NOW - timedelta(hours=hours)) for hours in (23, 24))
    assert next_attempt(job, young, FAILED, now=NOW, timing=Timing()) is not None
    assert next_attempt(job, old, FAILED, now=NOW, timing=Timing()) is None


@pytest.mark.parametrize(
    ("claim", "action"),
    [
        ({"waits": 1, "since": NOW - timedelta(minutes=59), "not_before": NOW}, None),
        ({"waits": 1, "since": NOW - timedelta(minutes=60), "not_before": NOW}, Release),
        ({"waits": 1, "attempt": 2, "since": NOW - timedelta(hours=9), "not_before": NOW - timedelta(hours=1)}, Record),
        ({"attempt": 2, "since": NOW - timedelta(hours=9), "not_before": NOW - timedelta(minutes=59)}, None),
        ({"attempt": 2, "since": NOW - timedelta(hours=9), "not_before": NOW - timedelta(hours=1)}, Record),
    ],
)
def test_a_claim_that_cannot_go_on_is_given_back_after_an_hour(claim: dict[str, Any], action: type | None) -> None:
    job = a_job()
    device = a_device(a_claim(job, **claim))
    decision = decide(Situation(device=device, job=job, now=NOW, settings=Settings()))
    assert [type(each) for each in decision.actions] == ([action] if action is not None else [])
    if action is None:
        assert decision.after is not None
        later = Situation(device=device, job=job, now=NOW + timedelta(seconds=decision.after), settings=Settings())
        assert decide(later).actions


def test_an_attempt_that_was_made_and_could_not_be_repeated_says_how_it_ended() -> None:
    job = a_job()
    claim = a_claim(job, attempt=2, not_before=NOW - timedelta(hours=2), last_message="failed: the cable")
    (action,) = decide(Situation(device=a_device(claim), job=job, now=NOW, settings=Settings())).actions
    assert isinstance(action, Record)
    assert action.report.outcome is Outcome.FAILED
    assert "failed: the cable" in action.report.message
