"""What is to be done for one device, for every situation that a flash can be in."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from edgewright.api.device import Claim, Device, Mark
from edgewright.api.flash_pod import Outcome, Report
from edgewright.api.flashjob import FlashJob
from edgewright.api.pod import ContainerRunning, ContainerState, ContainerTerminated, Pod, PodStatus
from edgewright.api.service import Service
from edgewright.controllers.flashjob.decisions import (
    Action,
    Adopt,
    AskNode,
    CreatePod,
    CreateService,
    EndPod,
    GiveUp,
    NodeState,
    Record,
    Release,
    RemovePod,
    RemoveService,
    Retry,
    Situation,
    decide,
    decide_orphans,
)
from edgewright.runtime.objects import ObjectMeta
from tests.unit.controllers.flashjob.flash_samples import (
    NOW,
    SETTINGS,
    a_claim,
    a_device,
    a_job,
    a_pod,
    a_record,
    a_service,
    ended,
    foreign,
    running,
    terminated,
    waiting,
)

GOOD = Report(outcome=Outcome.SUCCEEDED, message="well", digest="sha256:1", version_after="1.1.0")
CUT = Report(outcome=Outcome.FAILED, message="the transfer broke off", written=True)
REFUSED = Report(outcome=Outcome.REFUSED, message="the attestation service does not know it")
ADDRESS = "198.51.100.1"


class Scene:
    """A situation in the making: a claimed device and its job, and what a case adds."""

    def __init__(self, *, attempt: int = 1, job: dict[str, Any] | None = None, **claim: Any) -> None:
        self.job = a_job(**(job or {}))
        self.claim = a_claim(self.job, attempt=attempt, **claim)
        self.device = a_device(self.claim)

    def situation(self, **given: Any) -> Situation:
        """The situation with all that is known to be there."""
        pod, service = given.get("pod"), given.get("service")
        return Situation(
            **{
                "device": self.device,
                "job": self.job,
                "pods": (pod,) if pod else (),
                "services": (service,) if service else (),
                "now": NOW,
                **given,
            }
        )

    def pod(self, **given: Any) -> Pod:
        """The claim's Pod."""
        return a_pod(self.job, self.device, self.claim, **given)

    def service(self, **given: Any) -> Service:
        """The claim's Service."""
        return a_service(self.job, self.device, self.claim, **given)


def kinds(actions: tuple[Action, ...]) -> list[type[Action]]:
    return [type(action) for action in actions]


# --- before there is a Pod ------------------------------------------------------------------------------------------


def test_a_claim_begins_with_a_service() -> None:
    assert decide(Scene().situation()).actions == (CreateService(),)


def test_a_driver_that_dials_the_device_needs_no_service() -> None:
    scene = Scene()
    scene.device = a_device(scene.claim, protocol="smp-udp")
    assert decide(scene.situation()).actions == (CreatePod(),)


def test_a_service_with_an_address_is_followed_by_the_pod() -> None:
    scene = Scene()
    assert decide(scene.situation(service=scene.service(address=ADDRESS))).actions == (CreatePod(ADDRESS),)


def test_a_service_that_is_being_deleted_is_waited_for() -> None:
    scene = Scene()
    service = scene.service(address=ADDRESS, deletion_timestamp=NOW)
    assert decide(scene.situation(service=service)).actions == ()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"job": None}, id="job gone"),
        pytest.param({"job": a_job(deleting=True)}, id="job deleting"),
        pytest.param({"job": a_job(paused=True)}, id="paused"),
        pytest.param({"job": a_job(version="2.0.0")}, id="another state wanted"),
        pytest.param({"named": False}, id="uuid removed"),
        pytest.param({"held": True}, id="the original's operator runs"),
        pytest.param({"accepted": False}, id="the spec cannot be acted on any more"),
    ],
)
def test_a_claim_that_nobody_wants_any_more_is_released_before_it_has_a_pod(change: dict[str, Any]) -> None:
    scene = Scene()
    assert decide(scene.situation(**change)).actions == (Release(),)
    service = scene.service(address=ADDRESS)
    assert decide(scene.situation(service=service, **change)).actions == (Release(), RemoveService(service))


def test_between_two_attempts_nothing_is_made_and_the_service_goes() -> None:
    scene = Scene(attempt=2, not_before=NOW + timedelta(seconds=10))
    service = scene.service(address=ADDRESS)
    assert decide(scene.situation(service=service)).actions == (RemoveService(service),)
    assert decide(scene.situation()).actions == ()


@pytest.mark.parametrize("what", ["pod", "service"])
def test_somebody_elses_object_of_our_name_fails_the_attempt_with_its_name(what: str) -> None:
    scene = Scene()
    made: Pod | Service = scene.pod() if what == "pod" else scene.service()
    theirs = msgspec.structs.replace(made, metadata=ObjectMeta(name=made.metadata.name, namespace="default", uid="x"))
    (action,) = decide(scene.situation(**{what: theirs, "pods": (), "services": ()})).actions
    assert isinstance(action, Retry)
    assert theirs.metadata.name in action.report.message


def test_an_object_of_ours_of_another_device_is_waited_for() -> None:
    scene = Scene()
    other = scene.service(annotations={Mark.DEVICE.value: "another"})
    assert decide(scene.situation(service=other, services=())).actions == ()


# --- while there is one ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [PodStatus(phase="Pending"), running()], ids=["pending", "running"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="wanted"),
        pytest.param({"job": a_job(paused=True)}, id="paused"),
        pytest.param({"job": a_job(version="2.0.0")}, id="another state wanted"),
        pytest.param({"named": False}, id="uuid removed"),
        pytest.param({"held": True}, id="the original's operator runs"),
    ],
)
def test_a_pod_finishes_first_whatever_people_want_meanwhile(status: PodStatus, change: dict[str, Any]) -> None:
    scene = Scene()
    decision = decide(scene.situation(pod=scene.pod(status=status), service=scene.service(address=ADDRESS), **change))
    assert decision.actions == ()
    assert decision.after is not None
    assert decision.after > 0


@pytest.mark.parametrize("job", [None, a_job(deleting=True)], ids=["gone", "deleting"])
def test_a_pod_whose_job_is_gone_is_asked_to_stop_once(job: FlashJob | None) -> None:
    scene = Scene()
    pod = scene.pod(node="node-1", status=running())
    assert decide(scene.situation(job=job, pod=pod)).actions == (EndPod(pod),)
    stopping = scene.pod(node="node-1", status=running(), deletion_timestamp=NOW + timedelta(seconds=30))
    decision = decide(scene.situation(job=job, pod=stopping))
    assert decision.actions == ()
    assert decision.after == pytest.approx(30 + SETTINGS.timing.grace)


def failed_flasher(*, code: int = 3, ago: float, verify: ContainerState | None = None) -> PodStatus:
    """A flasher of others has ended so long ago, and ours next to it waits for the device."""
    ended_at = NOW - timedelta(seconds=ago)
    theirs = ContainerState(terminated=ContainerTerminated(exit_code=code, started_at=NOW, finished_at=ended_at))
    ours = verify or ContainerState(running=ContainerRunning(started_at=NOW))
    return foreign(terminated(), theirs, ours, phase="Running", start_time=NOW)


@pytest.mark.parametrize(
    ("status", "ends", "after"),
    [
        pytest.param(failed_flasher(ago=29), False, 1, id="a moment ago"),
        pytest.param(failed_flasher(ago=30), True, None, id="long ago"),
        pytest.param(failed_flasher(ago=300), True, None, id="very long ago"),
        pytest.param(failed_flasher(code=0, ago=300), False, None, id="it ended well"),
        pytest.param(failed_flasher(ago=300, verify=terminated(code=1)), False, None, id="ours has ended too"),
    ],
)
def test_a_flasher_of_others_that_failed_ends_the_attempt_after_a_short_grace(
    status: PodStatus, ends: bool, after: float | None
) -> None:
    scene = Scene(job={"flashjob_pod_image": "registry.example/other:1"})
    pod = scene.pod(node="node-1", status=status)
    decision = decide(scene.situation(pod=pod))
    assert decision.actions == ((EndPod(pod),) if ends else ())
    if after is not None:
        assert decision.after == pytest.approx(after)
    stopping = scene.pod(node="node-1", status=status, deletion_timestamp=NOW + timedelta(seconds=30))
    assert decide(scene.situation(pod=stopping)).actions == ()


@pytest.mark.parametrize("report", [GOOD, REFUSED], ids=["good", "final"])
def test_a_final_outcome_is_recorded_before_anything_is_removed(report: Report) -> None:
    scene = Scene()
    pod, service = scene.pod(status=ended(report, code=0 if report is GOOD else 11)), scene.service(address=ADDRESS)
    actions = decide(scene.situation(pod=pod, service=service)).actions
    assert actions == (Record(scene.claim, report, pod), RemovePod(pod), RemoveService(service))


def test_a_failure_that_may_go_better_keeps_the_claim_for_the_next_attempt() -> None:
    scene = Scene()
    pod, service = scene.pod(status=ended(CUT, code=1)), scene.service(address=ADDRESS)
    retry, *rest = decide(scene.situation(pod=pod, service=service)).actions
    assert isinstance(retry, Retry)
    assert (retry.claim.attempt, retry.claim.since) == (2, scene.claim.since)
    assert retry.claim.not_before == NOW + timedelta(seconds=SETTINGS.timing.first_backoff)
    assert retry.claim.last_message == "failed: the transfer broke off"
    assert rest == [RemovePod(pod), RemoveService(service)]


def test_the_last_attempt_is_final() -> None:
    scene = Scene(attempt=3)
    pod = scene.pod(status=ended(CUT, code=1))
    assert kinds(decide(scene.situation(pod=pod)).actions) == [Record, RemovePod]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"job": None}, id="job gone"),
        pytest.param({"job": a_job(deleting=True)}, id="job deleting"),
        pytest.param({"job": a_job(version="2.0.0")}, id="another state wanted"),
        pytest.param({"named": False}, id="uuid removed"),
    ],
)
def test_a_failure_is_final_where_nobody_wants_another_try(change: dict[str, Any]) -> None:
    scene = Scene()
    pod = scene.pod(status=ended(CUT, code=1))
    assert kinds(decide(scene.situation(pod=pod, **change)).actions) == [Record, RemovePod]


# --- Pods that do not come to an end --------------------------------------------------------------------------------


def test_a_pod_that_never_starts_is_given_up_with_the_reason_when_its_time_is_over() -> None:
    scene = Scene()
    early = scene.pod(age=719, node="node-1", status=waiting("ErrImagePull", "no such image"))
    decision = decide(scene.situation(pod=early))
    assert decision.actions == ()
    assert decision.after == pytest.approx(1)
    late = scene.pod(age=720, node="node-1", status=waiting("ErrImagePull", "no such image"))
    assert decide(scene.situation(pod=late)).actions == (GiveUp(late, "ErrImagePull: no such image"), EndPod(late))


def test_a_pod_that_nobody_schedules_is_over_as_soon_as_it_is_deleted() -> None:
    scene = Scene()
    pod = scene.pod(deletion_timestamp=NOW, marks={Mark.GIVEN_UP.value: "Unschedulable: no room"})
    retry, remove = decide(scene.situation(pod=pod)).actions
    assert isinstance(retry, Retry)
    assert "Unschedulable: no room" in retry.report.message
    assert remove == RemovePod(pod, at_once=True)


def test_the_node_is_asked_about_only_when_a_pod_should_have_ended() -> None:
    scene = Scene()
    stopping = scene.pod(node="node-1", status=running(), deletion_timestamp=NOW - timedelta(seconds=31))
    assert decide(scene.situation(pod=stopping)).actions == (AskNode(stopping),)
    there = decide(scene.situation(pod=stopping, nodes={"node-1": NodeState.THERE}))
    assert (there.actions, there.after) == ((), SETTINGS.timing.recheck)
    retry, remove = decide(scene.situation(pod=stopping, nodes={"node-1": NodeState.GONE})).actions
    assert isinstance(retry, Retry)
    assert "node-1" in retry.report.message
    assert remove == RemovePod(stopping, at_once=True)


def test_what_is_known_of_one_node_says_nothing_of_another() -> None:
    scene = Scene()
    late = NOW - timedelta(seconds=31)
    pods = tuple(
        scene.pod(node=node, status=running(), deletion_timestamp=late, uid=node) for node in ("node-1", "node-2")
    )
    nodes = {"node-1": NodeState.GONE, "node-2": NodeState.THERE}
    situation = Situation(device=a_device(None, a_record(scene.job)), pods=pods, nodes=nodes, now=NOW)
    assert decide(situation).actions == (RemovePod(pods[0], at_once=True),)


def test_a_pod_that_is_silent_long_after_its_deadline_has_timed_out() -> None:
    scene = Scene()
    deadline = 600 + SETTINGS.timing.start_grace + 2 * SETTINGS.timing.grace
    before = scene.pod(age=5000, node="node-1", status=running(started=deadline - 1))
    decision = decide(scene.situation(pod=before))
    assert decision.actions == ()
    assert decision.after == pytest.approx(1)
    after = scene.pod(age=5000, node="node-1", status=running(started=deadline))
    retry, remove = decide(scene.situation(pod=after)).actions
    assert isinstance(retry, Retry)
    assert retry.report.outcome is Outcome.TIMED_OUT
    assert remove == RemovePod(after, at_once=True)


# --- what is left over ----------------------------------------------------------------------------------------------


def unclaimed(scene: Scene, device: Device, **given: Any) -> Situation:
    return Situation(device=device, now=NOW, **given)


def test_a_device_without_anything_needs_nothing() -> None:
    decision = decide(Situation(device=a_device(), now=NOW))
    assert (decision.actions, decision.after) == ((), None)


def test_what_a_crash_left_after_the_record_is_removed_without_another() -> None:
    scene = Scene()
    pod, service = scene.pod(status=ended(GOOD)), scene.service(address=ADDRESS)
    device = a_device(None, a_record(scene.job))
    actions = decide(unclaimed(scene, device, pods=(pod,), services=(service,))).actions
    assert actions == (RemovePod(pod), RemoveService(service))


def test_a_service_that_a_crash_left_alone_is_removed() -> None:
    scene = Scene()
    service = scene.service(address=ADDRESS)
    assert decide(unclaimed(scene, a_device(), services=(service,))).actions == (RemoveService(service),)
    going = scene.service(address=ADDRESS, deletion_timestamp=NOW)
    assert decide(unclaimed(scene, a_device(), services=(going,))).actions == ()


@pytest.mark.parametrize("status", [running(), ended(GOOD)], ids=["running", "ended"])
def test_a_pod_that_its_device_has_forgotten_gets_its_claim_back(status: PodStatus) -> None:
    scene = Scene(attempt=2)
    pod, service = scene.pod(status=status), scene.service(address=ADDRESS)
    (adopt,) = decide(unclaimed(scene, a_device(), pods=(pod,), services=(service,))).actions
    assert isinstance(adopt, Adopt)
    expected = scene.claim
    assert (adopt.claim.job, adopt.claim.uuid) == (expected.job, expected.uuid)
    assert (adopt.claim.state, adopt.claim.attempt) == (expected.state, 2)


def test_nothing_is_written_down_of_a_pod_that_no_job_of_its_namespace_has_made() -> None:
    scene = Scene()
    alive = scene.pod(node="node-1", status=running())
    over = scene.pod(status=ended(GOOD))
    strangers = frozenset({"pod-1"})
    assert decide(unclaimed(scene, a_device(), pods=(alive,), strangers=strangers)).actions == (EndPod(alive),)
    assert decide(unclaimed(scene, a_device(), pods=(over,), strangers=strangers)).actions == (RemovePod(over),)


def test_the_pod_of_the_attempt_before_is_removed_and_waited_for() -> None:
    scene = Scene(attempt=2)
    before = a_pod(scene.job, scene.device, a_claim(scene.job), status=ended(CUT, code=1))
    service = scene.service(address=ADDRESS)
    assert decide(scene.situation(pod=before, service=service)).actions == (RemovePod(before),)


def test_a_pod_whose_outcome_stands_already_is_ended_where_it_still_runs() -> None:
    scene = Scene()
    pod = scene.pod(node="node-1", status=running())
    device = a_device(None, a_record(scene.job))
    assert decide(unclaimed(scene, device, pods=(pod,))).actions == (EndPod(pod),)


def test_another_jobs_pod_has_the_device_until_it_ends_and_is_recorded_then() -> None:
    other = a_job("other", uid="job-2")
    scene = Scene()
    alive = a_pod(other, scene.device, a_claim(other), status=running(), uid="pod-2")
    assert decide(scene.situation(pods=(alive,))).actions == ()
    over = a_pod(other, scene.device, a_claim(other), status=ended(GOOD), uid="pod-2")
    record, remove, create = decide(scene.situation(pods=(over,))).actions
    assert isinstance(record, Record)
    assert record.claim.job.uid == "job-2"
    assert (remove, create) == (RemovePod(over), CreateService())


def test_of_two_pods_of_a_device_the_one_without_the_claim_is_ended() -> None:
    other = a_job("other", uid="job-2")
    scene = Scene()
    mine = scene.pod(node="node-1", status=running())
    theirs = a_pod(other, scene.device, a_claim(other), node="node-1", status=running(), uid="pod-2")
    assert decide(scene.situation(pod=mine, pods=(mine, theirs))).actions == (EndPod(theirs),)


def test_a_service_of_another_claim_goes_and_that_of_this_one_stays() -> None:
    scene = Scene()
    old = a_job("old", uid="job-0")
    theirs = a_service(old, scene.device, a_claim(old), uid="service-0")
    mine = scene.service()
    actions = decide(scene.situation(service=mine, services=(mine, theirs))).actions
    assert actions == (RemoveService(theirs),)


def test_what_was_made_for_a_device_that_is_no_more_is_ended_and_goes() -> None:
    scene = Scene()
    alive = scene.pod(node="node-1", status=running())
    over = a_pod(scene.job, scene.device, scene.claim, status=ended(GOOD), uid="pod-2")
    lost = scene.pod(node="node-1", status=running(), deletion_timestamp=NOW - timedelta(seconds=60), uid="pod-3")
    service = scene.service()
    situation = unclaimed(scene, a_device(), pods=(alive, over, lost), services=(service,))
    actions = decide_orphans(situation).actions
    assert actions == (EndPod(alive), RemovePod(over), AskNode(lost), RemoveService(service))
    gone = decide_orphans(replace(situation, nodes={"node-1": NodeState.GONE})).actions
    assert RemovePod(lost, at_once=True) in gone


def test_deciding_twice_in_one_situation_gives_the_same() -> None:
    scene = Scene()
    situation = scene.situation(pod=scene.pod(status=ended(CUT, code=1)), service=scene.service(address=ADDRESS))
    assert decide(situation) == decide(situation)


def test_a_claim_is_compared_by_job_state_and_attempt() -> None:
    scene = Scene()
    claim: Claim = scene.claim
    for other in (a_claim(a_job(uid="job-9")), a_claim(a_job(version="9")), a_claim(scene.job, attempt=9)):
        pod = a_pod(scene.job, scene.device, claim, status=ended(GOOD))
        actions = decide(replace(scene.situation(pod=pod), device=a_device(other))).actions
        assert Record(claim, GOOD, pod) not in actions


@pytest.mark.parametrize("kind", ["pod", "service"])
def test_what_another_device_has_under_the_name_is_looked_at_again(kind: str) -> None:
    scene = Scene()
    other = a_device(scene.claim, name="device-2")
    pod, service = a_pod(scene.job, other, scene.claim), a_service(scene.job, other, scene.claim)
    situation = scene.situation()
    decision = decide(replace(situation, pod=pod) if kind == "pod" else replace(situation, service=service))
    assert (decision.actions, decision.after) == ((), SETTINGS.timing.recheck)
