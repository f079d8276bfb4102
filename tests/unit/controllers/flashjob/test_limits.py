"""The limits of rollouts: each as a line of a table, and none is ever exceeded whatever is wished."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.device import QUARANTINED, STALE, Claim, Device, DeviceStatus, JobReference, LastFlash
from edgewright.api.firmwarerollout import Budget, FirmwareRollout, FirmwareRolloutSpec, Window
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJob
from edgewright.api.fleet import Fleet, FleetSpec
from edgewright.controllers.flashjob.admission import Held, Wish, admit
from edgewright.controllers.flashjob.limits import (
    GroupCount,
    Owner,
    RolloutLimits,
    allowed_in,
    groups_of,
    is_broken,
    owner_of,
    stop_of,
)
from edgewright.controllers.flashjob.waits import Wait
from edgewright.runtime.objects import Condition, Key, ObjectMeta, OwnerReference

NOW = datetime(2026, 6, 1, 12, 0, 30, tzinfo=UTC)
JOB = JobReference(namespace="default", name="job", uid="job")
OTHER = JobReference(namespace="plant", name="other", uid="other")
OWNER = Owner(Key("default", "spring"), "uid")
OPEN = Window(cron="0 12 * * *", duration_seconds=3600)
CLOSED = Window(cron="0 2 * * *", duration_seconds=3600)


def rollout(**spec: Any) -> FirmwareRollout:
    metadata = ObjectMeta(name="spring", namespace="default", uid="uid")
    return FirmwareRollout(metadata=metadata, spec=FirmwareRolloutSpec(**spec))


def seconds_ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("spec", "wait", "told"),
    [
        ({}, None, ""),
        ({"windows": (OPEN,)}, None, ""),
        ({"windows": (CLOSED, OPEN)}, None, ""),
        ({"windows": (CLOSED,)}, Wait.WINDOW, "the next one of rollout spring opens at 2026-06-02 02:00 UTC"),
        ({"windows": (Window(cron="x", duration_seconds=60),)}, Wait.WINDOW, "opens never again"),
        ({"paused": True}, Wait.PAUSED, "rollout spring is paused"),
        ({"aborted": True, "paused": True}, Wait.ABORTED, "rollout spring is aborted"),
    ],
)
def test_a_rollout_stops_its_jobs_and_says_why(spec: dict[str, Any], wait: Wait | None, told: str) -> None:
    stop = stop_of(None, OWNER, rollout(**spec), NOW)
    assert (stop.wait if stop is not None else None) == wait
    assert stop is None or told in stop.message
    assert stop_of(None, None, None, NOW) is None


def test_a_job_whose_rollout_is_gone_or_another_one_or_going_starts_nothing() -> None:
    other = FirmwareRollout(metadata=ObjectMeta(name="spring", namespace="default", uid="a later one"))
    going = FirmwareRollout(metadata=ObjectMeta(name="spring", uid="uid", deletion_timestamp=NOW))
    for found in (None, other, going):
        stop = stop_of(None, OWNER, found, NOW)
        assert stop is not None
        assert (stop.wait, stop.message) == (Wait.ABORTED, "rollout spring is gone: nothing more is started for it")


def test_a_frozen_fleet_stops_every_job_with_its_reason() -> None:
    fleet = Fleet(spec=FleetSpec(frozen=True, reason="storm", by="ops"))
    for owner in (None, OWNER):
        stop = stop_of(fleet, owner, rollout(), NOW)
        assert stop is not None
        assert (stop.wait, stop.message) == (Wait.FROZEN, "the fleet is frozen by ops: storm")
    assert stop_of(Fleet(), None, None, NOW) is None


@pytest.mark.parametrize(
    ("reference", "belongs"),
    [
        ({}, True),
        ({"controller": None}, False),
        ({"kind": "FlashJob"}, False),
        ({"api_version": "example.com/v1"}, False),
        ({"api_version": "edgewright.dev/v1"}, True),
    ],
)
def test_only_the_controller_of_a_job_is_its_rollout(reference: dict[str, Any], belongs: bool) -> None:
    given = {"api_version": "edgewright.dev/v1alpha1", "kind": "FirmwareRollout", "name": "spring", "uid": "uid"}
    owner = OwnerReference(**{"controller": True, **given, **reference})
    job = FlashJob(metadata=ObjectMeta(name="job", namespace="default", owner_references=(owner,)))
    assert owner_of(job) == (OWNER if belongs else None)


@pytest.mark.parametrize(
    ("limit", "size", "allowed"),
    [
        (1, 10, 1),
        (0, 10, 0),
        (-3, 10, 0),
        ("2", 10, 2),
        ("10%", 100, 10),
        ("10%", 19, 1),
        ("10%", 5, 1),
        ("0%", 100, 1),
        ("ten", 100, 0),
        ("%", 100, 0),
        ("-5%", 100, 0),
        ("", 100, 0),
        (None, 100, 0),
    ],
)
def test_a_share_is_rounded_down_but_to_one_and_what_cannot_be_read_allows_none(
    limit: int | str | None, size: int, allowed: int
) -> None:
    assert allowed_in(Budget(label="site", max_unavailable=limit), size) == allowed


@pytest.mark.parametrize(
    ("status", "broken"),
    [
        ({}, False),
        ({"last_flash": LastFlash(outcome=Outcome.SUCCEEDED)}, False),
        ({"last_flash": LastFlash(outcome=Outcome.CANCELLED)}, False),
        ({"last_flash": LastFlash(outcome=Outcome.FAILED)}, True),
        ({"last_flash": LastFlash(outcome=Outcome.REVERTED)}, True),
        ({"conditions": (Condition(type=QUARANTINED, status="True"),)}, True),
        ({"conditions": (Condition(type=STALE, status="True"),)}, True),
        ({"conditions": (Condition(type=STALE, status="False"),)}, False),
    ],
)
def test_a_device_is_broken_by_its_last_flash_its_quarantine_or_its_absence(
    status: dict[str, Any], broken: bool
) -> None:
    assert is_broken(Device(status=DeviceStatus(**status))) is broken


def test_a_device_is_in_the_groups_of_the_labels_that_it_has() -> None:
    budgets = (Budget(label="site", max_unavailable=1), Budget(label="floor", max_unavailable=1))
    device = Device(metadata=ObjectMeta(name="d", labels={"site": "athens", "other": "x"}))
    assert groups_of(rollout(budgets=budgets), device) == (("site", "athens"),)


SITE = ("site", "athens")


def of(**limits: Any) -> dict[str, RolloutLimits]:
    return {"uid": RolloutLimits(name="spring", **limits)}


def site(allowed: int, *, claimed: str = "", broken: str = "") -> dict[str, Any]:
    return {"groups": {SITE: GroupCount(size=4, allowed=allowed, claimed=frozenset(claimed), broken=frozenset(broken))}}


@pytest.mark.parametrize(
    ("limits", "claims", "starts", "wait"),
    [
        (of(), "", "abc", {}),
        ({}, "", "", dict.fromkeys("abc", Wait.ABORTED)),
        (of(max_concurrent=2), "", "ab", {"c": Wait.SLOT}),
        (of(max_concurrent=2), "x", "a", {"b": Wait.SLOT, "c": Wait.SLOT}),
        (of(max_concurrent=2, lingering=1), "", "a", {"b": Wait.SLOT, "c": Wait.SLOT}),
        (of(max_per_minute=2, starts={"x": seconds_ago(59)}), "", "a", {"b": Wait.RATE, "c": Wait.RATE}),
        (of(max_per_minute=2, starts={"x": seconds_ago(61)}), "", "ab", {"c": Wait.RATE}),
        (of(max_per_minute=2, pending=frozenset("x")), "x", "a", {"b": Wait.RATE, "c": Wait.RATE}),
        (of(max_per_minute=1, starts={"a": seconds_ago(5)}), "", "a", {"b": Wait.RATE, "c": Wait.RATE}),
        (of(**site(1)), "", "a", {"b": Wait.BUDGET, "c": Wait.BUDGET}),
        (of(**site(1, claimed="x")), "", "", dict.fromkeys("abc", Wait.BUDGET)),
        (of(**site(1, broken="x")), "", "", dict.fromkeys("abc", Wait.BUDGET)),
        (of(**site(1, broken="b")), "", "b", {"a": Wait.BUDGET, "c": Wait.BUDGET}),
        (of(**site(2, broken="ab")), "", "ab", {"c": Wait.BUDGET}),
        (of(**site(1, broken="abc")), "", "a", {"b": Wait.BUDGET, "c": Wait.BUDGET}),
        (of(**site(0)), "", "", dict.fromkeys("abc", Wait.BUDGET)),
    ],
)
def test_a_wish_of_a_rollout_starts_within_all_its_limits(
    limits: dict[str, RolloutLimits], claims: str, starts: str, wait: dict[str, Wait]
) -> None:
    wishes = [Wish(device=name, job=JOB, rollout="uid", groups=(SITE,)) for name in "abc"]
    held = [Held(name, Claim(job=OTHER, rollout="uid")) for name in claims]
    admission = admit(wishes, held, now=NOW, limits=limits)
    assert "".join(wish.device for wish in admission.start) == starts
    assert admission.waits == wait


def test_jobs_of_no_rollout_know_no_limits_of_rollouts() -> None:
    wishes = [Wish(device=name, job=JOB) for name in "abc"]
    assert len(admit(wishes, [], now=NOW, limits=of(max_concurrent=1)).start) == 3


def test_whose_turn_comes_is_told_and_looked_at_again_then() -> None:
    limits = of(max_per_minute=1, starts={"x": seconds_ago(20)})
    admission = admit([Wish(device="a", job=JOB, rollout="uid")], [], now=NOW, limits=limits)
    assert admission.due == NOW + timedelta(seconds=41)
    assert admission.waiting["a"] == (
        "waiting for its turn: rollout spring starts at most 1 devices per minute; the next one at 12:01:11"
    )


def test_a_device_that_is_barred_waits_for_what_bars_it() -> None:
    barred = Wish(device="a", job=JOB, barred=(Wait.QUARANTINE, "it is quarantined"))
    admission = admit([barred], [], now=NOW)
    assert admission.waits == {"a": Wait.QUARANTINE}


NAMES = [f"d{number}" for number in range(10)]
SITES = [("site", "athens"), ("site", "berlin")]
PLACE = {name: SITES[number % 2] for number, name in enumerate(NAMES)}


@given(
    claims=st.dictionaries(
        st.sampled_from(NAMES),
        st.builds(
            Claim,
            job=st.sampled_from([JOB, OTHER]),
            rollout=st.sampled_from(["uid", "other", ""]),
            not_before=st.sampled_from([None, NOW]),
        ),
    ),
    broken=st.sets(st.sampled_from(NAMES)),
    wished=st.lists(st.sampled_from(NAMES), unique=True),
    started=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 120).map(seconds_ago)),
    concurrent=st.none() | st.integers(1, 6),
    rate=st.none() | st.integers(1, 6),
    allowed=st.integers(0, 4),
    lingering=st.integers(0, 3),
)
def test_no_limit_of_a_rollout_is_ever_exceeded(
    claims: dict[str, Claim],
    broken: set[str],
    wished: list[str],
    started: dict[str, datetime],
    concurrent: int | None,
    rate: int | None,
    allowed: int,
    lingering: int,
) -> None:
    groups = {
        group: GroupCount(
            size=5,
            allowed=allowed,
            claimed=frozenset(name for name in claims if PLACE[name] == group),
            broken=frozenset(name for name in broken if PLACE[name] == group),
        )
        for group in SITES
    }
    active = {name for name, claim in claims.items() if claim.rollout == "uid" and claim.not_before is None}
    limits = RolloutLimits(
        name="spring",
        max_concurrent=concurrent,
        max_per_minute=rate,
        lingering=lingering,
        starts=started,
        pending=frozenset(active),
        groups=groups,
    )
    wishes = [Wish(device=name, job=JOB, rollout="uid", groups=(PLACE[name],)) for name in wished]
    held = [Held(name, claim) for name, claim in claims.items()]
    admission = admit(wishes, held, now=NOW, limits={"uid": limits})
    new = {wish.device for wish in admission.start}

    before = len(active) + lingering
    if concurrent is not None:
        assert before + len(new) <= max(concurrent, before)
    recent = {name for name, time in started.items() if time > seconds_ago(60)} | active
    if rate is not None:
        assert len(recent | new) <= max(rate, len(recent))
    for group, count in groups.items():
        joining = {name for name in new if PLACE[name] == group}
        unavailable = count.claimed | count.broken
        assert len(unavailable | joining) <= max(allowed, len(unavailable))
        assert len(count.claimed | joining) <= max(allowed, len(count.claimed))
    assert {*new, *admission.waiting} == set(wished)
