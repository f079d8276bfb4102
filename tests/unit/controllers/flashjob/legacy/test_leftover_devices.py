"""Which devices the original's Pods are on: found by uid or address, under every name, and kept from everybody else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edgewright.api.device import Claim, Device, DeviceSpec, DeviceStatus, FlashRecord, JobReference, LastFlash
from edgewright.api.endpoint import normalize_endpoint
from edgewright.api.flash_pod import FLASH_CONTAINER, Outcome, Variable
from edgewright.api.flashjob import DeviceState, FlashJob, FlashJobSpec
from edgewright.api.pod import (
    Container,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    EnvVar,
    Pod,
    PodSpec,
    PodStatus,
)
from edgewright.api.service import Service
from edgewright.controllers.flashjob.admission import ForeignFlash, Wish, admit
from edgewright.controllers.flashjob.legacy.leftovers import Leftovers, meant_by, with_namesakes
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.flashjob.progress import DeviceStanding, Need, survey
from edgewright.runtime.objects import ObjectMeta
from tests.unit.controllers.flashjob.legacy.left import snapshot_with

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OURS = JobReference(namespace="default", name="job", uid="job-uid")
THEIRS = JobReference(namespace="plant", name="other", uid="other-uid")


def job(*uuids: str, **spec: Any) -> FlashJob:
    metadata = ObjectMeta(name="job", namespace="default", uid="job-uid", generation=1, creation_timestamp=NOW)
    spec = {"uuid": uuids, "firmware": "registry.example/f:1", "version": "1", **spec}
    return FlashJob(metadata=metadata, spec=FlashJobSpec(**spec))


def device(name: str, *instances: str, at: str = "192.0.2.1", kind: str = "esp32", **status: Any) -> Device:
    return Device(
        metadata=ObjectMeta(name=name),
        spec=DeviceSpec(endpoint=at, type=kind),
        status=DeviceStatus(instances=instances, **status),
    )


def pod(name: str, phase: str = "Running", *, at: str = "", kind: str = "", age: int = 0, **status: Any) -> Pod:
    env = (EnvVar(name=Variable.HOST_ENDPOINT, value=at), EnvVar(name=Variable.DEVICE, value=kind))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", creation_timestamp=NOW - timedelta(seconds=age)),
        spec=PodSpec(containers=(Container(name=FLASH_CONTAINER, env=env),)),
        status=PodStatus(phase=phase, **status),
    )


class Listed:
    """A directory of these Devices."""

    def __init__(self, *devices: Device) -> None:
        self.devices = devices

    def named(self, name: str) -> Device | None:
        return next((each for each in self.devices if each.metadata.name == name), None)

    def known_as(self, uid: str) -> Sequence[Device]:
        return [each for each in self.devices if uid in each.status.instances]

    def at(self, endpoint: str) -> Sequence[Device]:
        return [each for each in self.devices if normalize_endpoint(each.spec.endpoint) == endpoint]


# --- which device it is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "found"),
    [
        (pod("p"), None),
        (pod("p", at="192.0.2.1"), "dev"),
        (pod("p", at="http://192.0.2.1:80"), "dev"),
        (pod("p", at="192.0.2.1", kind="ESP32"), "dev"),
        (pod("p", at="192.0.2.1", kind="esp32s3"), None),
        (pod("p", at="192.0.2.2"), None),
        (pod("p", at="no address"), None),
    ],
    ids=["it tells nothing", "its address", "in another spelling", "its type", "another type", "another", "none"],
)
def test_a_uid_that_nobody_knows_is_of_the_device_at_the_address_of_its_pod(left: Pod, found: str | None) -> None:
    meant = meant_by(job("gone"), Leftovers({"gone": left}), Listed(device("dev", "new")))
    assert {uuid: each.metadata.name for uuid, each in meant.devices.items()} == ({"gone": found} if found else {})
    assert meant.told == (frozenset({"gone"}) if found else frozenset())


def test_a_uid_that_is_known_counts_more_than_an_address() -> None:
    known, there = device("known", "u1", at="192.0.2.7"), device("there", at="192.0.2.1")
    meant = meant_by(job("u1"), Leftovers({"u1": pod("p", at="192.0.2.1")}), Listed(known, there))
    assert meant.devices == {"u1": known}
    assert not meant.told


OLD, NEW = pod("old", age=100), pod("new", age=1)
ENDED = pod("ended", "Succeeded")


@pytest.mark.parametrize(
    ("pods", "of_u2"),
    [
        ({"u1": NEW}, NEW),
        ({"u1": NEW, "u2": ENDED}, NEW),
        ({"u1": ENDED, "u2": OLD}, OLD),
        ({"u1": NEW, "u2": OLD}, NEW),
        ({"u3": NEW}, NEW),
        ({"u9": NEW}, None),
    ],
    ids=[
        "of the other",
        "one runs",
        "the other has ended",
        "the younger",
        "of none that is named",
        "of another device",
    ],
)
def test_what_is_left_of_a_device_is_left_under_all_its_names(pods: dict[str, Pod], of_u2: Pod | None) -> None:
    directory = Listed(device("dev", "u1", "u2", "u3"), device("another", "u9", at="192.0.2.9"))
    meant = meant_by(job("u1", "u2"), Leftovers(pods), directory)
    assert meant.leftovers.pods.get("u2") == of_u2
    assert meant.leftovers.uuids >= pods.keys()


def test_a_service_under_another_name_is_in_the_way_too() -> None:
    left = Leftovers(services={"u1": Service(metadata=ObjectMeta(name="s"))})
    assert meant_by(job("u1", "u2"), left, Listed(device("dev", "u1", "u2"))).leftovers.uuids == {"u1", "u2"}


def test_what_the_original_had_under_one_name_it_had_under_all() -> None:
    dev = device("dev")
    devices = {"u1": dev, "u2": dev, "u3": device("another")}
    assert with_namesakes(frozenset({"u1", "unknown"}), devices) == {"u1", "u2", "unknown"}
    assert with_namesakes(frozenset(), devices) == frozenset()


# --- where it stands ------------------------------------------------------------------------------------------------


def standing(asked: FlashJob, found: Device | None = None, **snapshot: Any) -> DeviceStanding:
    devices = {asked.spec.uuids[0]: found} if found is not None else {}
    (each,) = survey(asked, snapshot_with(asked, **{"devices": devices, "observed": NOW, "now": NOW, **snapshot}))
    return each


LATER = NOW + timedelta(seconds=700)
FLASHED = ContainerState(terminated=ContainerTerminated(finished_at=NOW + timedelta(seconds=300)))
JUST_ENDED = pod("p", "Succeeded", container_statuses=(ContainerStatus(name=FLASH_CONTAINER, state=FLASHED),))


@pytest.mark.parametrize(
    ("spec", "snapshot", "state", "due"),
    [
        ({}, {}, DeviceState.FAILED, None),
        ({"paused": True}, {}, DeviceState.WAITING, None),
        ({}, {"foreign": {"u1": NEW}}, DeviceState.FLASHING, None),
        ({"paused": True}, {"foreign": {"": NEW}}, DeviceState.FLASHING, None),
        ({}, {"foreign": {"u1": NEW}, "overdue": frozenset({"new"})}, DeviceState.FAILED, None),
        ({}, {"foreign": {"u1": ENDED}}, DeviceState.FAILED, None),
        ({}, {"foreign": {"u1": JUST_ENDED}}, DeviceState.WAITING, NOW + timedelta(seconds=900)),
    ],
    ids=[
        "not found in time",
        "paused has no deadline",
        "being flashed by the original",
        "that is told of a paused job too",
        "for too long",
        "it ended long ago",
        "it is waited for from the end of its flash on",
    ],
)
def test_a_device_that_nobody_has_discovered(
    spec: dict[str, Any], snapshot: dict[str, Any], state: DeviceState, due: datetime | None
) -> None:
    each = standing(job("u1", **spec), now=LATER, **snapshot)
    assert (each.state, each.due, each.need) == (state, due, Need.NOTHING)
    assert (each.outcome == Outcome.NOT_FOUND) is (state is DeviceState.FAILED)


def test_a_claim_goes_on_only_when_nothing_is_left_under_any_name_of_the_device() -> None:
    asked = job("u2")
    claim = Claim(job=OURS, uuid="u1", state=state_of(asked.spec), since=NOW, not_before=NOW, check=True)
    assert standing(asked, device("dev", claim=claim), occupied=frozenset({"u2"})).need is Need.NOTHING
    assert standing(asked, device("dev", claim=claim)).need is Need.RESUME


@pytest.mark.parametrize(
    ("last", "records", "check"),
    [
        (LastFlash(job=OURS, outcome=Outcome.UNREACHABLE, time=NOW), (), True),
        (LastFlash(job=THEIRS, outcome=Outcome.SUCCEEDED, time=NOW), (), False),
        (LastFlash(job=OURS, outcome=Outcome.FAILED, time=NOW), (FlashRecord(job=OURS, state="old"),), False),
    ],
    ids=["an attempt that was given up", "another job's", "an outcome of its own"],
)
def test_an_attempt_that_was_given_up_is_followed_by_a_check_again(
    last: LastFlash, records: tuple[FlashRecord, ...], check: bool
) -> None:
    found = device("dev", last_flash=last, records=records)
    assert standing(job("u1"), found, had=frozenset({"u1"})).trace.check is check


# --- who waits for it -----------------------------------------------------------------------------------------------

WHY = "waiting for Pod p of the original operator in namespace default, which is flashing it"
POD = ForeignFlash(why=WHY, job="job-uid", devices=frozenset({"dev"}), endpoint="192.0.2.1")


@pytest.mark.parametrize(
    ("wish", "overdue", "starts"),
    [
        (Wish(device="dev", job=OURS), False, False),
        (Wish(device="dev", job=OURS), True, True),
        (Wish(device="dev", job=OURS, endpoint="192.0.2.1"), True, True),
        (Wish(device="dev", job=THEIRS), False, False),
        (Wish(device="dev", job=THEIRS), True, False),
        (Wish(device="twin", job=OURS, endpoint="192.0.2.1"), False, False),
        (Wish(device="twin", job=OURS, endpoint="192.0.2.1"), True, False),
        (Wish(device="twin", job=OURS, endpoint="192.0.2.2"), False, True),
        (Wish(device="twin", job=OURS), False, True),
    ],
    ids=[
        "its own job",
        "its own job ends what is overdue",
        "at its own address",
        "another job",
        "another job, though it is overdue",
        "another Device at the address",
        "that one does not end it",
        "another address",
        "no address",
    ],
)
def test_nobody_else_starts_with_a_device_that_the_original_is_flashing(
    wish: Wish, overdue: bool, starts: bool
) -> None:
    foreign = ForeignFlash(why=WHY, job=POD.job, devices=POD.devices, endpoint=POD.endpoint, overdue=overdue)
    admission = admit([wish], [], now=NOW, foreign=[foreign])
    assert [each.device for each in admission.start] == ([wish.device] if starts else [])
    assert admission.waiting == ({} if starts else {wish.device: WHY})
    assert admission.unannounced is not starts


def test_a_pod_of_which_nothing_is_known_keeps_nobody_waiting() -> None:
    unknown = ForeignFlash(why=WHY, job=POD.job, devices=frozenset())
    assert admit([Wish(device="dev", job=OURS)], [], now=NOW, foreign=[unknown]).start
