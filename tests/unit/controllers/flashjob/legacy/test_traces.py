"""Devices that the original operator has had, step by step: who waits, who is checked, and what may go when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from edgewright.api.device import Claim, Device, DeviceSpec, DeviceStatus, JobReference, LastFlash, Mark
from edgewright.api.flash_pod import (
    FLASH_CONTAINER,
    INSPECT_CONTAINER,
    VERIFY_CONTAINER,
    Outcome,
    Report,
    Variable,
    encode_report,
)
from edgewright.api.flashjob import DeviceState, FlashJob, FlashJobSpec
from edgewright.api.pod import (
    Container,
    ContainerState,
    ContainerTerminated,
    ContainerWaiting,
    EnvVar,
    Pod,
    PodSpec,
    PodStatus,
)
from edgewright.api.service import Service, ServicePort, ServiceSpec
from edgewright.controllers.flashjob.decisions import EndPod, GiveUp, Situation, decide
from edgewright.controllers.flashjob.legacy.leftovers import Leftovers, clearable, recognise, to_remember
from edgewright.controllers.flashjob.manifests import pod_for
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.flashjob.outcomes import claim_of, report_of
from edgewright.controllers.flashjob.progress import DeviceStanding, Need, survey
from edgewright.controllers.settings import Settings
from edgewright.runtime.objects import ObjectMeta
from tests.unit.controllers.flashjob import flash_samples as samples
from tests.unit.controllers.flashjob.legacy.left import snapshot_with

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OURS = JobReference(namespace="default", name="job", uid="job-uid")


def job(*uuids: str) -> FlashJob:
    metadata = ObjectMeta(name="job", namespace="default", uid="job-uid", generation=1)
    spec = FlashJobSpec(uuid=uuids or ("one",), firmware="registry.example/f:1", version="1", timeout_seconds=60)
    return FlashJob(metadata=metadata, spec=spec)


def pod(name: str, phase: str = "Running", *, told: str = "", order: tuple[str, str] = ("", "")) -> Pod:
    metadata = ObjectMeta(name=name, namespace="default", labels={"app": "job"}, creation_timestamp=NOW)
    given = {Variable.UUID: told, Variable.FIRMWARE: order[0], Variable.VERSION: order[1]}
    env = tuple(EnvVar(name=name, value=value) for name, value in given.items() if value)
    spec = PodSpec(containers=(Container(name=FLASH_CONTAINER, env=env),))
    return Pod(metadata=metadata, spec=spec, status=PodStatus(phase=phase))


def service(name: str) -> Service:
    metadata = ObjectMeta(name=name, namespace="default", labels={"app": "job"}, creation_timestamp=NOW)
    return Service(metadata=metadata, spec=ServiceSpec(ports=(ServicePort(port=4433),)))


def standing(claim: Claim | None = None, **snapshot: Any) -> DeviceStanding:
    device = Device(
        metadata=ObjectMeta(name="dev"), spec=DeviceSpec(endpoint="192.0.2.1"), status=DeviceStatus(claim=claim)
    )
    (each,) = survey(job(), snapshot_with(job(), devices={"one": device}, observed=NOW, now=NOW, **snapshot))
    return each


# --- where its devices stand ----------------------------------------------------------------------------------------

OVERDUE = frozenset({"job-flashing-pod"})


@pytest.mark.parametrize(
    ("snapshot", "state", "need", "check"),
    [
        ({"foreign": {"one": pod("p")}}, DeviceState.FLASHING, Need.NOTHING, False),
        ({"foreign": {"": pod("p")}}, DeviceState.FLASHING, Need.NOTHING, False),
        ({"foreign": {"": pod("p", "Failed")}}, DeviceState.WAITING, Need.START, True),
        (
            {"foreign": {"one": pod("job-flashing-pod")}, "overdue": OVERDUE},
            DeviceState.WAITING,
            Need.START,
            True,
        ),
        ({"had": frozenset({"one"})}, DeviceState.WAITING, Need.START, True),
        ({"had": frozenset({"two"})}, DeviceState.WAITING, Need.START, False),
        ({"occupied": frozenset({"one"})}, DeviceState.WAITING, Need.NOTHING, False),
        ({"occupied": frozenset({""})}, DeviceState.WAITING, Need.NOTHING, False),
        ({"occupied": frozenset({"two"})}, DeviceState.WAITING, Need.START, False),
    ],
    ids=[
        "its Pod runs",
        "the job's only Pod runs",
        "the job's only Pod has ended",
        "its Pod never ends",
        "it was counted as done",
        "another was counted as done",
        "its Service is left",
        "the shared Service is left",
        "another's Service is left",
    ],
)
def test_a_device_that_the_original_had_waits_or_is_checked(
    snapshot: dict[str, Any], state: DeviceState, need: Need, check: bool
) -> None:
    each = standing(**snapshot)
    assert (each.state, each.need, each.trace.check) == (state, need, check)


@pytest.mark.parametrize(
    ("order", "check"),
    [
        (("registry.example/f:1", "1"), True),
        (("registry.example/another:1", "1"), False),
        (("registry.example/f:1", "2"), False),
    ],
    ids=["the same", "another firmware", "another version"],
)
def test_what_the_original_had_another_order_for_is_flashed_once_its_pod_is_gone(
    order: tuple[str, str], check: bool
) -> None:
    left = pod("job-flashing-pod-one", "Succeeded", order=order)
    each = standing(foreign={"one": left}, occupied=frozenset({"one"}))
    assert (each.need, each.trace.check, bool(each.trace.blocked)) == (Need.START, check, True)
    assert bool(to_remember(job(), Leftovers({"one": left}))) is check


@pytest.mark.parametrize(
    ("last", "check"),
    [
        (None, True),
        (LastFlash(time=NOW - timedelta(days=1)), True),
        (LastFlash(time=NOW + timedelta(minutes=1)), False),
        (LastFlash(), False),
    ],
    ids=["never", "before there was the job", "since then", "at some time"],
)
def test_what_we_have_flashed_since_is_not_what_the_original_left(last: LastFlash | None, check: bool) -> None:
    asked = job()
    asked = msgspec.structs.replace(asked, metadata=msgspec.structs.replace(asked.metadata, creation_timestamp=NOW))
    device = Device(
        metadata=ObjectMeta(name="dev"),
        spec=DeviceSpec(endpoint="192.0.2.1"),
        status=DeviceStatus(last_flash=last),
    )
    (each,) = survey(asked, snapshot_with(asked, devices={"one": device}, observed=NOW, now=NOW, had={"one"}))
    assert each.trace.check is check


@pytest.mark.parametrize(("left", "need"), [("", Need.NOTHING), ("one", Need.NOTHING), ("two", Need.RESUME)])
def test_a_check_begins_when_nothing_of_the_original_leads_to_its_pod(left: str, need: Need) -> None:
    claim = Claim(job=OURS, uuid="one", state=state_of(job().spec), since=NOW, not_before=NOW, check=True)
    assert standing(claim, occupied=frozenset({left})).need is need


# --- what it left ---------------------------------------------------------------------------------------------------


def test_a_pod_without_a_uuid_in_its_name_is_for_the_device_that_it_tells() -> None:
    only = pod("job-flashing-pod", told="two")
    assert recognise(job("one", "two"), [only], []).pods == {"two": only}
    assert recognise(job("one"), [only], []).pods == {"two": only}
    silent = pod("job-flashing-pod")
    assert recognise(job("one", "two"), [silent], []).pods == {"": silent}


STUCK, DEAD = pod("job-flashing-pod"), pod("job-flashing-pod", "Failed")
OWN = service("job-service")


@pytest.mark.parametrize(
    ("leftovers", "settled", "goes"),
    [
        (Leftovers({"one": STUCK}, {"one": OWN}), [], []),
        (Leftovers({"one": STUCK}, {"one": OWN}), ["one"], [STUCK]),
        (Leftovers({"three": STUCK}, {}), [], [STUCK]),
        (Leftovers({"": DEAD}, {"": OWN}), ["one"], []),
        (Leftovers({"": DEAD}, {"": OWN}), ["one", "two"], [DEAD, OWN]),
    ],
    ids=[
        "a Pod that never ends stays until its device is claimed",
        "then it is ended, and its Service goes after it",
        "one that is for no entry is ended",
        "the job's only Pod stays until all devices are claimed",
        "then it goes",
    ],
)
def test_that_there_was_a_pod_is_never_forgotten(
    leftovers: Leftovers, settled: list[str], goes: list[Pod | Service]
) -> None:
    assert clearable(job("one", "two"), leftovers, settled=settled, late=OVERDUE) == goes


# --- the Pod that checks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", [True, False], ids=["to be checked", "not"])
def test_a_check_before_the_flasher_of_others_is_the_inspections(check: bool) -> None:
    asked = samples.a_job(flashjob_pod_image="registry.example/ota-agent:1")
    claim = samples.a_claim(asked, check=check)
    made = pod_for(asked, samples.a_device(claim), claim, address="198.51.100.1", digest="", settings=Settings())
    (inspecting,) = made["spec"]["initContainers"]
    flasher = made["spec"]["containers"][0]
    assert inspecting["name"] == INSPECT_CONTAINER
    assert ({"name": Variable.CHECK, "value": "true"} in inspecting["env"]) is check
    assert Variable.CHECK not in {each["name"] for each in flasher["env"]}


@pytest.mark.parametrize("image", ["", "registry.example/ota-agent:1"], ids=["ours", "of others"])
@pytest.mark.parametrize("check", [True, False], ids=["to be checked", "not"])
def test_a_claim_that_is_found_again_from_its_pod_is_still_one_to_check(image: str, check: bool) -> None:
    asked = samples.a_job(flashjob_pod_image=image or None)
    claim = samples.a_claim(asked, check=check)
    assert claim_of(samples.a_pod(asked, samples.a_device(claim), claim)).check is check


# --- a flasher of others that never starts --------------------------------------------------------------------------

UNPULLED = ContainerState(waiting=ContainerWaiting(reason="ErrImagePull", message="nobody has it"))
LATE = Report(outcome=Outcome.TIMED_OUT, message="it took too long", written=True)


def with_sidecar(flasher: ContainerState, *, marks: dict[str, str] | None = None) -> tuple[Situation, Pod]:
    """A device whose Pod has somebody else's flasher in this state, and next to it ours, which has ended."""
    asked = samples.a_job(flashjob_pod_image="registry.example/nobody:1")
    claim = samples.a_claim(asked)
    device = samples.a_device(claim)
    verified = samples.terminated(encode_report(LATE).decode(), code=14)
    status = samples.foreign(samples.terminated(), flasher, verified, phase="Pending")
    made = samples.a_pod(asked, device, claim, node="node-1", status=status, marks=marks)
    assert [each.name for each in made.spec.containers] == [FLASH_CONTAINER, VERIFY_CONTAINER]
    return Situation(device=device, job=asked, pod=made, pods=(made,), now=samples.NOW), made


def test_a_pod_whose_flasher_never_came_is_given_up_when_nobody_waits_for_its_work_any_more() -> None:
    situation, made = with_sidecar(UNPULLED)
    assert decide(situation).actions == (GiveUp(made, "ErrImagePull: nobody has it"), EndPod(made))
    running, _ = with_sidecar(samples.running().container_statuses[0].state)
    assert decide(running).actions == ()


GIVEN_UP = {Mark.GIVEN_UP.value: "ErrImagePull"}
UNKNOWN = ContainerState(terminated=ContainerTerminated(exit_code=137, reason="ContainerStatusUnknown"))


@pytest.mark.parametrize(
    ("flasher", "marks", "written", "says"),
    [
        (UNPULLED, GIVEN_UP, False, "never started: ErrImagePull"),
        (UNPULLED, {}, False, "never started: ErrImagePull: nobody has it"),
        (UNKNOWN, GIVEN_UP, False, "never started: ErrImagePull"),
        (UNKNOWN, {}, True, "ended with exit code 137 (ContainerStatusUnknown)"),
        (samples.terminated(code=3), GIVEN_UP, True, "ended with exit code 3"),
    ],
    ids=["given up", "its Pod's time was over", "forgotten by its node", "lost by its node", "at the last moment"],
)
def test_an_attempt_whose_flasher_never_came_says_why(
    flasher: ContainerState, marks: dict[str, str], written: bool, says: str
) -> None:
    _, made = with_sidecar(flasher, marks=marks)
    report = report_of(made)
    assert (report.outcome, report.written) == (Outcome.TIMED_OUT, written)
    assert report.message == f"it took too long (the flasher itself {says})"
