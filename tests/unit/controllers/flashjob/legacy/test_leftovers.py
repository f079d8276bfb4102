"""What the original operator left: what is recognised, and what of it may go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from edgewright.api.device import Mark
from edgewright.api.flashjob import FlashJob, FlashJobSpec, FlashJobStatus
from edgewright.api.pod import Pod, PodStatus
from edgewright.api.service import Service, ServicePort, ServiceSpec
from edgewright.controllers.flashjob.legacy.leftovers import (
    Leftovers,
    clearable,
    had_by_original,
    overdue,
    recognise,
    to_remember,
)
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


# --- what is remembered ---------------------------------------------------------------------------------------------


def noted(asked: FlashJob, *devices: str) -> FlashJob:
    """The job once it is noted that the original had these devices."""
    note = to_remember(asked, Leftovers(dict.fromkeys(devices, ENDED)))
    assert note is not None
    annotations = {Mark.TAKEN_OVER.value: note}
    return msgspec.structs.replace(asked, metadata=msgspec.structs.replace(asked.metadata, annotations=annotations))


def changed(asked: FlashJob, **spec: Any) -> FlashJob:
    return msgspec.structs.replace(asked, spec=msgspec.structs.replace(asked.spec, **spec))


def said(asked: FlashJob, *completed: str, ours: bool = False) -> FlashJob:
    status = FlashJobStatus(completed_uuids=completed, observed_time=NOW if ours else None)
    return msgspec.structs.replace(asked, status=status)


def test_a_job_remembers_the_devices_that_the_original_had_for_what_it_asks_for_now() -> None:
    assert had_by_original(job("one", "two")) == frozenset()
    taken = noted(job("one", "two"), "one")
    assert had_by_original(taken) == {"one"}
    assert had_by_original(changed(taken, paused=True)) == {"one"}
    assert had_by_original(changed(taken, version="2")) == frozenset()
    assert had_by_original(changed(taken, firmware="registry.example/another:1")) == frozenset()


def test_what_was_for_the_whole_job_was_for_all_its_devices() -> None:
    assert had_by_original(noted(job("one", "two"), "")) == {"one", "two"}


def test_a_device_that_the_job_does_not_name_for_a_while_is_remembered_too() -> None:
    taken = noted(job("two"), "one")
    assert had_by_original(taken) == frozenset()
    assert had_by_original(changed(taken, uuid=("one", "two"))) == {"one"}


def test_what_the_original_did_counts_no_more_once_the_job_asked_for_something_else() -> None:
    taken = noted(job("one", "two"), "one")
    assert to_remember(changed(taken, version="2"), Leftovers()) == ""
    second = noted(changed(taken, version="2"), "two")
    assert had_by_original(second) == {"two"}
    assert had_by_original(changed(second, version=taken.spec.version)) == frozenset()


def test_what_is_noted_is_not_noted_again_and_nothing_is_where_the_original_had_nothing() -> None:
    taken = noted(job("one", "two"), "one")
    assert to_remember(taken, Leftovers({"one": ENDED})) is None
    assert to_remember(taken, Leftovers()) is None
    assert to_remember(job(), Leftovers(services={"one": OWN})) is None
    assert had_by_original(noted(taken, "two")) == {"one", "two"}


def test_only_a_status_of_the_originals_own_tells_what_it_counted_as_done() -> None:
    assert to_remember(said(job("one"), "one"), Leftovers()) is not None
    assert to_remember(said(job("one"), "one", ours=True), Leftovers()) is None


def test_a_note_of_five_thousand_devices_is_no_burden() -> None:
    uuids = tuple(f"00000000-0000-4000-8000-{number:012}" for number in range(5000))
    note = to_remember(job(*uuids), Leftovers({"": ENDED}))
    assert note is not None
    assert len(note) < 50_000
