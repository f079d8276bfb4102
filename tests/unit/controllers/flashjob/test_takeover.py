"""What the original operator left: what is recognised, and what of it may go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from edgewright.api.device import Mark
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.api.pod import Pod, PodStatus
from edgewright.api.service import Service, ServicePort, ServiceSpec
from edgewright.controllers.flashjob.takeover import Leftovers, clearable, overdue, recognise
from edgewright.runtime.objects import ObjectMeta

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(*uuids: str, deleting: bool = False) -> FlashJob:
    metadata = ObjectMeta(name="job", namespace="default", deletion_timestamp=NOW if deleting else None)
    return FlashJob(metadata=metadata, spec=FlashJobSpec(uuid=uuids or ("one",), timeout_seconds=60))


def metadata(name: str, namespace: str = "default", /, **labels: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, labels=labels or {"app": "job"}, creation_timestamp=NOW)


def pod(name: str, phase: str = "Running", namespace: str = "default", /, **labels: str) -> Pod:
    return Pod(metadata=metadata(name, namespace, **labels), status=PodStatus(phase=phase))


def service(name: str, port: int = 4433) -> Service:
    return Service(metadata=metadata(name), spec=ServiceSpec(ports=(ServicePort(port=port),)))


@pytest.mark.parametrize(
    ("found", "uuid"),
    [
        (pod("job-flashing-pod"), "one"),
        (pod("job-flashing-pod-one"), "one"),
        (pod("job-flashing-pod-one", "Running", app="job", uuid="one"), "one"),
        (pod("job-flashing-pod-two"), "two"),
        (pod("job-flashing-pod-one", "Running", "elsewhere"), None),
        (pod("job-flashing-pod-one", "Running", app="another"), None),
        (pod("job-flashing-pod-one", "Running", **{"app": "job", Mark.JOB_UID: "u"}), None),
        (pod("another-pod"), None),
        (pod("job-flashing-podium"), None),
    ],
    ids=["first", "in between", "second", "of no entry", "namespace", "app", "ours", "name", "a longer name"],
)
def test_a_pod_of_the_original_is_known_by_name_and_label(found: Pod, uuid: str | None) -> None:
    assert recognise(job(), [found], []).pods == ({uuid: found} if uuid else {})


def test_what_was_made_for_a_whole_job_belongs_to_no_entry_where_there_are_several() -> None:
    shared = service("job-service")
    leftovers = recognise(job("one", "two"), [], [shared])
    assert leftovers.services == {"": shared}
    assert leftovers
    assert not recognise(job(), [], [])


def test_a_service_at_another_port_is_somebodys_own_however_it_is_called() -> None:
    assert not recognise(job(), [], [service("job-service", 80)])


RUNNING, ENDED = pod("job-flashing-pod-one"), pod("job-flashing-pod-one", "Succeeded")
OTHER = pod("job-flashing-pod-two")
OWN, SHARED = service("job-service-one"), service("job-service")


@pytest.mark.parametrize(
    ("leftovers", "settled", "goes"),
    [
        (Leftovers({"one": RUNNING}, {"one": OWN}), ["one"], []),
        (Leftovers({"one": ENDED}, {"one": OWN}), [], []),
        (Leftovers({"one": ENDED}, {"one": OWN}), ["one"], [ENDED, OWN]),
        (Leftovers({}, {"one": OWN}), [], [OWN]),
        (Leftovers({"two": ENDED}, {"two": OWN}), [], [ENDED, OWN]),
        (Leftovers({"one": ENDED, "two": OTHER}, {"": SHARED}), ["one"], [ENDED]),
        (Leftovers({"one": ENDED}, {"": SHARED}), ["one"], [ENDED, SHARED]),
    ],
    ids=[
        "a Pod that runs stays",
        "a Pod that ended stays until the device is claimed",
        "then it goes with its Service",
        "a Service without a Pod goes",
        "what is for no entry goes",
        "a shared Service stays while a Pod needs it",
        "a shared Service goes last",
    ],
)
def test_leftovers_go_when_nobody_needs_them(
    leftovers: Leftovers, settled: list[str], goes: list[Pod | Service]
) -> None:
    assert clearable(job(), leftovers, settled=settled) == goes


def test_all_leftovers_of_a_job_that_is_deleted_go() -> None:
    leftovers = Leftovers({"one": RUNNING}, {"": SHARED})
    assert clearable(job(deleting=True), leftovers, settled=[]) == [RUNNING, SHARED]


@pytest.mark.parametrize(
    ("left", "seconds", "late"),
    [(RUNNING, 71, True), (RUNNING, 69, False), (ENDED, 71, False)],
    ids=["too long", "in time", "ended"],
)
def test_a_pod_that_had_its_time_is_overdue(left: Pod, seconds: float, late: bool) -> None:
    found = overdue(job(), Leftovers({"one": left}), now=NOW + timedelta(seconds=seconds), grace=10)
    assert bool(found) is late
