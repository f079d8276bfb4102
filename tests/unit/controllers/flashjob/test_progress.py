"""Where each device of a job stands, from the Devices and what is there to flash them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edgewright.api.device import (
    MAX_NAMESPACE_RECORDS,
    MAX_RECORDS,
    Claim,
    Device,
    DeviceSpec,
    DeviceStatus,
    FlashRecord,
    JobReference,
)
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import DeviceState, FlashJob, FlashJobSpec
from edgewright.api.pod import ContainerState, ContainerStatus, ContainerWaiting, Pod, PodStatus
from edgewright.api.service import LoadBalancerIngress, LoadBalancerStatus, Service, ServiceStatus
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.flashjob.predecessor import Trace
from edgewright.controllers.flashjob.progress import DeviceStanding, JobSnapshot, Need, Survey, survey
from edgewright.runtime.objects import Condition, ObjectMeta

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OURS = JobReference(namespace="default", name="job", uid="job-uid")
THEIRS = JobReference(namespace="plant", name="other", uid="other-uid")
SPEC: dict[str, Any] = {"uuid": ("one",), "firmware": "registry.example/f:1", "version": "1"}
STATE = state_of(FlashJobSpec(**SPEC))
WAITING, FLASHING, DONE, FAILED = DeviceState.WAITING, DeviceState.FLASHING, DeviceState.DONE, DeviceState.FAILED


def job(**spec: Any) -> FlashJob:
    metadata = ObjectMeta(name="job", namespace="default", uid="job-uid", generation=1)
    return FlashJob(metadata=metadata, spec=FlashJobSpec(**{**SPEC, **spec}))


def device(protocol: str = "", endpoint: str = "192.0.2.1", **status: Any) -> Device:
    return Device(
        metadata=ObjectMeta(name="dev"),
        spec=DeviceSpec(protocol=protocol, endpoint=endpoint),
        status=DeviceStatus(**status),
    )


def claim(job: JobReference = OURS, **fields: Any) -> Claim:
    return Claim(**{"job": job, "uuid": "one", "state": STATE, "since": NOW, **fields})


def record(outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> FlashRecord:
    return FlashRecord(**{"job": OURS, "state": STATE, "outcome": outcome, "message": "so", "time": NOW, **fields})


def pod(phase: str, *conditions: Condition, waiting: ContainerWaiting | None = None) -> Pod:
    containers = (ContainerStatus(name="flash-container", state=ContainerState(waiting=waiting)),)
    return Pod(
        metadata=ObjectMeta(name="the-pod"),
        status=PodStatus(phase=phase, conditions=conditions, container_statuses=containers),
    )


def traced(**trace: Any) -> dict[str, Any]:
    """A snapshot in which another operator left this trace of every device."""
    return {"traces": lambda uuid, device: Trace(**trace)}


def service(address: str = "") -> Service:
    status = LoadBalancerStatus(ingress=(LoadBalancerIngress(ip=address),) if address else ())
    return Service(metadata=ObjectMeta(name="the-service"), status=ServiceStatus(load_balancer=status))


def many(namespace: str) -> tuple[FlashRecord, ...]:
    """As many records as jobs of one namespace may have."""
    jobs = [JobReference(namespace=namespace, uid=str(number)) for number in range(MAX_NAMESPACE_RECORDS)]
    return tuple(record(job=each) for each in jobs)


def standing(found: Device | None, asked: FlashJob | None = None, **snapshot: Any) -> DeviceStanding:
    devices = {"one": found} if found is not None else {}
    (each,) = survey(asked or job(), JobSnapshot(**{"devices": devices, "observed": NOW, "now": NOW, **snapshot}))
    return each


CLAIMED = device(claim=claim())
PULL = ContainerWaiting(reason="ImagePullBackOff", message="no such image")
UNSCHEDULED = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")


@pytest.mark.parametrize(
    ("found", "snapshot", "state", "need", "message"),
    [
        (None, {}, WAITING, Need.NOTHING, "waiting to be discovered"),
        (device(), {}, WAITING, Need.START, "has not started"),
        (
            device(claim=claim(THEIRS)),
            {},
            WAITING,
            Need.START,
            "waiting for another job, which is flashing it",
        ),
        (CLAIMED, {}, WAITING, Need.NOTHING, "waiting for the address"),
        (
            CLAIMED,
            {"services": {"dev": service()}},
            WAITING,
            Need.NOTHING,
            "waiting for the address of Service the-service",
        ),
        (
            CLAIMED,
            {"services": {"dev": service("192.0.2.9")}},
            WAITING,
            Need.NOTHING,
            "its flash Pod is about to be made",
        ),
        (device("smp-udp", claim=claim()), {}, WAITING, Need.NOTHING, "its flash Pod is about to be made"),
        (
            CLAIMED,
            {"pods": {"dev": pod("Pending", waiting=PULL)}},
            WAITING,
            Need.NOTHING,
            "waiting for its flash Pod: ImagePullBackOff (no such image)",
        ),
        (
            CLAIMED,
            {"pods": {"dev": pod("Pending", waiting=ContainerWaiting(reason="ContainerCreating"))}},
            WAITING,
            Need.NOTHING,
            "waiting for its flash Pod: it is starting",
        ),
        (
            CLAIMED,
            {"pods": {"dev": pod("Pending", UNSCHEDULED)}},
            WAITING,
            Need.NOTHING,
            "waiting for its flash Pod: Unschedulable (0/1 nodes)",
        ),
        (CLAIMED, {"pods": {"dev": pod("Running")}}, FLASHING, Need.NOTHING, "is being flashed"),
        (CLAIMED, {"pods": {"dev": pod("Failed")}}, FLASHING, Need.NOTHING, "its flash Pod has ended"),
        (
            device(claim=claim(attempt=2)),
            {"pods": {"dev": pod("Running")}},
            FLASHING,
            Need.NOTHING,
            "is being flashed; attempt 2",
        ),
        (
            device(claim=claim(attempt=2, not_before=NOW, last_message="cut off")),
            {},
            WAITING,
            Need.RESUME,
            "attempt 2 starts at 12:00:00; the one before: cut off",
        ),
        (
            device(claim=claim(attempt=2, not_before=NOW, state="old")),
            {},
            WAITING,
            Need.NOTHING,
            "attempt 2 starts at 12:00:00",
        ),
        (device(records=(record(),)), {}, DONE, Need.NOTHING, "so"),
        (device(records=(record(Outcome.ALREADY_CURRENT),)), {}, DONE, Need.NOTHING, "so"),
        (device(records=(record(Outcome.REVERTED),)), {}, FAILED, Need.NOTHING, "so"),
        (device(records=(record(state="old"),)), {}, WAITING, Need.START, "has not started"),
        (device(records=(record(job=THEIRS),)), {}, WAITING, Need.START, "has not started"),
        (
            device(records=(record(state="old"),), claim=claim(state="old")),
            {"pods": {"dev": pod("Running")}},
            FLASHING,
            Need.NOTHING,
            "is being flashed",
        ),
        (
            device(records=tuple(record(job=JobReference(uid=str(n))) for n in range(MAX_RECORDS))),
            {},
            WAITING,
            Need.NOTHING,
            "200 jobs have an outcome on it: delete those that are no longer needed",
        ),
        (
            device(
                records=tuple(
                    record(job=JobReference(namespace="plant", uid=str(n))) for n in range(MAX_NAMESPACE_RECORDS)
                )
            ),
            {},
            WAITING,
            Need.START,
            "has not started",
        ),
        (
            device(
                records=tuple(
                    record(job=JobReference(namespace="default", uid=str(n))) for n in range(MAX_NAMESPACE_RECORDS)
                )
            ),
            {},
            WAITING,
            Need.NOTHING,
            "100 jobs of namespace default have an outcome on it: delete those that are no longer needed",
        ),
        (
            device(records=tuple(record(job=JobReference(uid=str(n))) for n in range(MAX_RECORDS))),
            {"living": lambda record: record.job.uid != "7"},
            WAITING,
            Need.START,
            "has not started",
        ),
        (device(), traced(busy="they flash it"), FLASHING, Need.NOTHING, "they flash it"),
        (device(), traced(busy="they flash it", blocked="theirs"), FLASHING, Need.NOTHING, "they flash it"),
        (device(), traced(blocked="theirs"), WAITING, Need.NOTHING, "theirs"),
        (device(), traced(blocked="theirs", claimable=True), WAITING, Need.START, "has not started"),
        (
            device(),
            {"pods": {"dev": pod("Running")}},
            WAITING,
            Need.NOTHING,
            "what is left of its last flash is cleared away",
        ),
        (
            device(records=(record(state="old"),)),
            {"services": {"dev": service()}},
            WAITING,
            Need.NOTHING,
            "what is left of its last flash is cleared away",
        ),
    ],
)
def test_a_device_stands_where_its_device_object_says(
    found: Device | None, snapshot: dict[str, Any], state: DeviceState, need: Need, message: str
) -> None:
    each = standing(found, **snapshot)
    assert (each.state, each.need, each.message) == (state, need, message)


@pytest.mark.parametrize(
    ("forced", "need"), [(False, Need.START), (True, Need.NOTHING)], ids=["not yet", "already forced"]
)
def test_force_flashes_what_is_done_once_more_and_only_once(forced: bool, need: Need) -> None:
    assert standing(device(records=(record(forced=forced),)), job(force=True)).need is need


def test_a_device_that_stays_unknown_is_not_found_in_time() -> None:
    deadline = NOW + timedelta(seconds=600)
    assert standing(None).due == deadline
    each = standing(None, now=deadline)
    assert (each.state, each.outcome, each.due) == (FAILED, Outcome.NOT_FOUND, None)
    assert standing(None, job(discovery_timeout_seconds=0)).state is FAILED


def test_an_address_is_shown_as_soon_as_there_is_one() -> None:
    assert standing(CLAIMED, services={"dev": service("192.0.2.9")}).address == "192.0.2.9"


def test_an_attempt_is_due_when_its_time_has_come() -> None:
    later = NOW + timedelta(seconds=10)
    waits = device(claim=claim(attempt=2, not_before=later))
    assert standing(waits).due == later
    assert standing(waits, now=later).due is None


def test_a_device_that_another_operator_had_is_to_be_checked() -> None:
    assert standing(device(), **traced(check=True)).trace.check
    assert not standing(device()).trace.check


def test_an_attempt_begins_only_when_what_another_operator_left_is_gone() -> None:
    checking = device(claim=claim(check=True, not_before=NOW))
    assert standing(checking, **traced(blocked="theirs", claimable=True)).need is Need.NOTHING
    assert standing(checking).need is Need.RESUME


@pytest.mark.parametrize("endpoint", ["", "127.0.0.1", "no address"])
def test_a_device_without_an_address_is_refused_and_says_where_it_stands(endpoint: str) -> None:
    each = standing(device(endpoint=endpoint))
    assert (each.state, each.outcome, each.need) == (FAILED, Outcome.REFUSED, Need.NOTHING)
    assert each.message.startswith("spec.endpoint of Device dev: ")


def test_the_address_in_the_job_counts_more_than_that_of_the_device() -> None:
    assert standing(device(endpoint=""), job(host_endpoint="192.0.2.1")).need is Need.START


def test_a_device_on_this_machine_is_flashed_where_devices_may_be_there() -> None:
    assert standing(device(endpoint="127.32.0.1"), local=True).need is Need.START


RETRY = device(claim=claim(not_before=NOW + timedelta(minutes=1)))
FULL = device(records=many("default"))
SCENES: tuple[dict[str, Any], ...] = (
    {},
    {"now": NOW + timedelta(days=1)},
    {"devices": {"one": device()}},
    {"devices": {"one": device(claim=claim(THEIRS))}},
    {"devices": {"one": device()}, "pods": {"dev": pod("Running")}},
    {"devices": {"one": device()}, "traces": lambda uuid, device: Trace(busy="so")},
    {"devices": {"one": CLAIMED}},
    {"devices": {"one": CLAIMED}, "services": {"dev": service()}},
    {"devices": {"one": CLAIMED}, "services": {"dev": service("198.18.0.1")}},
    {"devices": {"one": CLAIMED}, "services": {"dev": service("198.18.0.1")}, "pods": {"dev": pod("Running")}},
    {"devices": {"one": CLAIMED}, "services": {"dev": service("198.18.0.1")}, "pods": {"dev": pod("Succeeded")}},
    {"devices": {"one": RETRY}},
    {"devices": {"one": RETRY}, "now": NOW + timedelta(minutes=2)},
    {"devices": {"one": device(records=(record(),))}},
    {"devices": {"one": FULL}},
    {"devices": {"one": FULL}, "living": lambda _: False},
)


@pytest.mark.parametrize("before", SCENES)
@pytest.mark.parametrize("after", SCENES)
def test_a_survey_that_knows_the_one_before_says_the_same_as_one_that_does_not(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    first, second = (JobSnapshot(**{"devices": {}, "observed": NOW, "now": NOW, **each}) for each in (before, after))
    for asked in (job(), job(version="2"), job(force=True)):
        known = Survey()
        survey(job(), first, known)
        assert survey(asked, second, known) == survey(asked, second)
        assert survey(job(), first, known) == survey(job(), first)


def test_a_device_that_stands_as_it_did_is_not_looked_at_once_more() -> None:
    known = Survey()
    snapshot = JobSnapshot(devices={"one": CLAIMED}, observed=NOW, now=NOW)
    (before,) = survey(job(), snapshot, known)
    (after,) = survey(job(), snapshot, known)
    assert after is before
