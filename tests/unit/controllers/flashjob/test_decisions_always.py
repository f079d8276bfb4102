"""What holds in every situation, however it came about."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.flash_pod import Outcome, Report
from edgewright.api.flashjob import FlashJob
from edgewright.api.pod import Pod, PodStatus
from edgewright.controllers.flashjob.decisions import (
    Adopt,
    CreatePod,
    CreateService,
    EndPod,
    NodeState,
    Record,
    Release,
    RemovePod,
    RemoveService,
    Retry,
    Situation,
    decide,
    life_of,
)
from edgewright.controllers.flashjob.manifests import pod_key, service_key
from edgewright.controllers.flashjob.outcomes import claim_of, recorded
from tests.unit.controllers.flashjob.flash_samples import (
    NOW,
    a_claim,
    a_device,
    a_job,
    a_pod,
    a_record,
    a_service,
    ended,
    running,
    waiting,
)

GOOD = Report(outcome=Outcome.SUCCEEDED, message="well", digest="sha256:1", version_after="1.1.0")
CUT = Report(outcome=Outcome.FAILED, message="cut", written=True)
JOBS = {name: a_job(name, uid=f"uid-{name}") for name in ("one", "two")}
STATUSES = [PodStatus(phase="Pending"), waiting("ErrImagePull"), running(), ended(GOOD), ended(CUT, code=1)]


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """A device in any state, also in those that should never come about."""
    owner = draw(st.sampled_from([None, *JOBS]))
    between = NOW + timedelta(seconds=draw(st.sampled_from([-5, 5])))
    claim = None
    if owner is not None:
        not_before = draw(st.sampled_from([None, between]))
        claim = a_claim(JOBS[owner], attempt=draw(st.integers(1, 3)), not_before=not_before)
    records = [a_record(job, attempts=draw(st.integers(1, 3))) for job in JOBS.values() if draw(st.booleans())]
    device = a_device(claim, *records)
    pods, services = [], []
    for name, job in JOBS.items():
        if draw(st.booleans()):
            its = a_claim(job, attempt=draw(st.integers(1, 3)))
            pods.append(
                a_pod(
                    job,
                    device,
                    its,
                    status=draw(st.sampled_from(STATUSES)),
                    node=draw(st.sampled_from(["", "node-1"])),
                    age=draw(st.sampled_from([10, 800, 5000])),
                    uid=f"pod-{name}",
                    deletion_timestamp=draw(st.sampled_from([None, NOW, NOW - timedelta(seconds=60)])),
                )
            )
        if draw(st.booleans()):
            address = draw(st.sampled_from(["", "198.51.100.1"]))
            services.append(a_service(job, device, a_claim(job), address=address, uid=f"service-{name}"))
    asking: FlashJob | None = None
    if claim is not None and owner is not None:
        variants = [
            None,
            JOBS[owner],
            a_job(owner, uid=f"uid-{owner}", paused=True),
            a_job(owner, uid=f"uid-{owner}", deleting=True),
            a_job(owner, uid=f"uid-{owner}", version="9"),
        ]
        asking = draw(st.sampled_from(variants))
    return Situation(
        device=device,
        job=asking,
        named=draw(st.booleans()),
        held=draw(st.booleans()),
        pod=next((pod for pod in pods if claim and pod.key == pod_key(claim)), None),
        service=next((service for service in services if claim and service.key == service_key(claim)), None),
        pods=tuple(pods),
        services=tuple(services),
        strangers=frozenset(pod.metadata.uid for pod in pods if draw(st.integers(0, 9)) == 0),
        nodes=draw(st.sampled_from([{}, {"node-1": NodeState.THERE}, {"node-1": NodeState.GONE}])),
        now=NOW,
    )


def accounted(pod: Pod, situation: Situation) -> bool:
    """Whether the outcome of a Pod stands on the Device already, or is none that counts."""
    status, its = situation.device.status, claim_of(pod)
    claim = status.claim
    followed = claim is not None and claim.job == its.job and claim.attempt > its.attempt
    return followed or recorded(status, its) or pod.metadata.uid in situation.strangers


@given(situations())
def test_no_pod_is_made_while_another_of_the_device_may_run(situation: Situation) -> None:
    actions = decide(situation).actions
    if any(isinstance(action, CreatePod) for action in actions):
        assert all(life_of(pod, situation).report is not None for pod in situation.pods)
        assert situation.pod is None


@given(situations())
def test_nothing_is_started_for_a_job_that_does_not_want_it(situation: Situation) -> None:
    actions = decide(situation).actions
    job = situation.job
    if any(isinstance(action, CreatePod | CreateService) for action in actions):
        assert job is not None
        assert not job.deleting
        assert not job.spec.paused
        assert situation.named
        assert not situation.held


@given(situations())
def test_no_pod_is_removed_before_its_outcome_is_written_down(situation: Situation) -> None:
    written: set[tuple[str, int]] = set()
    for action in decide(situation).actions:
        if isinstance(action, Record):
            written.add((action.claim.job.uid, action.claim.attempt))
        if isinstance(action, Retry):
            written.add((action.claim.job.uid, action.claim.attempt - 1))
        if isinstance(action, RemovePod):
            its = claim_of(action.pod)
            assert (its.job.uid, its.attempt) in written or accounted(action.pod, situation)
            assert life_of(action.pod, situation).report is not None


@given(situations())
def test_a_claim_is_released_only_where_it_has_no_pod(situation: Situation) -> None:
    claim = situation.device.status.claim
    if any(isinstance(action, Release) for action in decide(situation).actions):
        assert claim is not None
        theirs = [claim_of(pod) for pod in situation.pods]
        assert not any(its.job == claim.job and its.attempt == claim.attempt for its in theirs)


@given(situations())
def test_a_claim_that_stands_is_never_overwritten_by_another(situation: Situation) -> None:
    if any(isinstance(action, Adopt) for action in decide(situation).actions):
        assert situation.device.status.claim is None


@given(situations())
def test_nothing_is_stranded(situation: Situation) -> None:
    """Whatever is there is needed, is being worked on, or is waited for with a time to look again."""
    decision = decide(situation)
    claim = situation.device.status.claim
    touched = {action.pod.metadata.uid for action in decision.actions if isinstance(action, EndPod | RemovePod)}
    for pod in situation.pods:
        adopted = any(isinstance(action, Adopt) and action.claim == claim_of(pod) for action in decision.actions)
        assert pod.metadata.uid in touched or adopted or decision.after is not None or decision.actions
    removed = {action.service.metadata.uid for action in decision.actions if isinstance(action, RemoveService)}
    if claim is None and not situation.pods:
        assert removed == {service.metadata.uid for service in situation.services}
