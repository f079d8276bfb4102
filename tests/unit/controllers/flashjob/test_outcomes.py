"""What came of a Pod, and what is written down of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.device import MAX_RECORDS, Claim, DeviceStatus, Firmware, FlashRecord, Mark
from edgewright.api.flash_pod import FLASH_CONTAINER, INSPECTED_EXIT_CODE, Outcome, Report, encode_report
from edgewright.api.pod import ContainerState, ContainerStatus, ContainerTerminated, Pod, PodStatus
from edgewright.controllers.flashjob.outcomes import (
    FORGET_AFTER,
    attempt_of,
    claim_of,
    next_attempt,
    record,
    recorded,
    report_of,
    retried,
)
from edgewright.controllers.settings import Timing
from edgewright.runtime.objects import Condition
from tests.unit.controllers.flashjob.flash_samples import (
    NOW,
    a_claim,
    a_device,
    a_job,
    a_pod,
    a_record,
    ended,
    foreign,
    running,
    terminated,
    waiting,
)

GOOD = Report(outcome=Outcome.SUCCEEDED, message="well", digest="sha256:2", version_before="1", version_after="2")
CUT = Report(outcome=Outcome.FAILED, message="cut", written=True)
THEIRS = "registry.example/their/flasher:1"


def pod(status: PodStatus, *, job: dict[str, Any] | None = None, **given: Any) -> Pod:
    the_job = a_job(**(job or {}))
    return a_pod(the_job, a_device(), a_claim(the_job), status=status, **given)


def text(report: Report) -> str:
    return encode_report(report).decode()


# --- reading a Pod --------------------------------------------------------------------------------------------------


def test_a_report_of_our_flasher_is_the_outcome_whatever_the_exit_code() -> None:
    assert report_of(pod(ended(GOOD))) == GOOD
    assert report_of(pod(ended(CUT, code=1))) == CUT
    assert report_of(pod(ended(GOOD, code=137, reason="DeadlineExceeded"))) == GOOD


UNSCHEDULED = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/3 nodes")


@pytest.mark.parametrize(
    ("status", "outcome", "said"),
    [
        pytest.param(ended(code=137, reason="OOMKilled"), Outcome.FAILED, "exit code 137 (OOMKilled)", id="memory"),
        pytest.param(ended(code=0), Outcome.FAILED, "without a report: exit code 0", id="nothing said"),
        pytest.param(ended("Traceback …", code=1), Outcome.FAILED, "exit code 1", id="no JSON"),
        pytest.param(ended("[]", code=1), Outcome.FAILED, "exit code 1", id="other JSON"),
        pytest.param(ended(code=139, signal=11), Outcome.FAILED, "signal 11", id="signal"),
        pytest.param(ended(code=1, reason="Evicted", phase="Failed"), Outcome.FAILED, "(Evicted)", id="container"),
        pytest.param(
            msgspec.structs.replace(running(), phase="Failed", reason="Evicted", message="disk pressure"),
            Outcome.FAILED,
            "Evicted: disk pressure",
            id="evicted",
        ),
        pytest.param(
            msgspec.structs.replace(running(), phase="Failed"), Outcome.FAILED, "said nothing more", id="silent"
        ),
        pytest.param(
            msgspec.structs.replace(running(), phase="Failed", reason="DeadlineExceeded"),
            Outcome.TIMED_OUT,
            "deadline",
            id="deadline",
        ),
        pytest.param(
            msgspec.structs.replace(waiting("ErrImagePull", "no such"), phase="Failed", reason="DeadlineExceeded"),
            Outcome.FAILED,
            "never started: ErrImagePull: no such",
            id="image",
        ),
        pytest.param(
            PodStatus(phase="Failed", conditions=(UNSCHEDULED,)), Outcome.FAILED, "Unschedulable: 0/3", id="scheduler"
        ),
        pytest.param(PodStatus(phase="Failed", reason="Shutdown"), Outcome.FAILED, "Shutdown", id="reason alone"),
        pytest.param(PodStatus(phase="Failed"), Outcome.FAILED, "nobody said why", id="nobody knows"),
    ],
)
def test_an_end_without_a_report_is_told_by_what_the_pod_says(status: PodStatus, outcome: Outcome, said: str) -> None:
    report = report_of(pod(status))
    assert report.outcome is outcome
    assert said in report.message


def test_a_pod_that_was_deleted_before_it_started_was_cancelled() -> None:
    report = report_of(pod(PodStatus(phase="Pending"), deletion_timestamp=NOW))
    assert (report.outcome, report.written) == (Outcome.CANCELLED, False)


def test_a_pod_that_was_given_up_says_why() -> None:
    report = report_of(pod(PodStatus(phase="Failed"), marks={Mark.GIVEN_UP.value: "no room"}, deletion_timestamp=NOW))
    assert (report.outcome, report.message) == (Outcome.FAILED, "the flash Pod never started: no room")


def test_what_is_not_known_counts_as_written() -> None:
    assert report_of(pod(ended(code=1))).written
    assert report_of(pod(running(), node="n"), lost="gone").written
    assert report_of(pod(PodStatus(phase="Failed"), node="n")).written
    assert not report_of(pod(waiting("ErrImagePull"), node="n")).written


def test_a_flasher_that_says_not_found_has_failed() -> None:
    report = report_of(pod(ended(Report(outcome=Outcome.NOT_FOUND, message="x"), code=1)))
    assert report.outcome is Outcome.FAILED


NOTHING = ContainerState()
CURRENT = Report(outcome=Outcome.ALREADY_CURRENT, message="runs it")


@pytest.mark.parametrize(
    ("status", "outcome", "said"),
    [
        pytest.param(
            foreign(terminated(text(CURRENT), code=INSPECTED_EXIT_CODE), NOTHING, NOTHING),
            Outcome.ALREADY_CURRENT,
            "runs it",
            id="nothing to flash",
        ),
        pytest.param(
            foreign(terminated(), terminated("fine", code=0), terminated(text(CUT), code=1)),
            Outcome.FAILED,
            "cut (the flasher itself ended with exit code 0)",
            id="exits 0 on failure",
        ),
        pytest.param(
            foreign(terminated(), terminated(code=3), terminated(text(GOOD))),
            Outcome.SUCCEEDED,
            "well (the flasher itself ended with exit code 3)",
            id="exits 3 on success",
        ),
        pytest.param(
            foreign(terminated(), terminated(text(GOOD)), terminated("", code=1)),
            Outcome.FAILED,
            "without a report",
            id="its own word is not believed",
        ),
        pytest.param(
            foreign(terminated(), NOTHING, terminated(text(GOOD))), Outcome.SUCCEEDED, "well", id="it never ended"
        ),
    ],
)
def test_next_to_a_foreign_flasher_only_ours_decide(status: PodStatus, outcome: Outcome, said: str) -> None:
    report = report_of(pod(status, job={"flashjob_pod_image": THEIRS}))
    assert report.outcome is outcome
    assert said in report.message


def test_a_pod_tells_for_which_claim_it_was_made() -> None:
    job = a_job()
    claim = a_claim(job, attempt=3)
    made = claim_of(a_pod(job, a_device(), claim))
    assert (made.job, made.uuid, made.state, made.attempt) == (claim.job, claim.uuid, claim.state, 3)
    assert attempt_of(a_pod(job, a_device(), claim, annotations={Mark.ATTEMPT.value: "many"})) == 0


# --- another attempt ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_what_may_end_otherwise_is_tried_again(outcome: Outcome) -> None:
    job = a_job()
    following = next_attempt(job, a_claim(job), Report(outcome=outcome), now=NOW, timing=Timing())
    again = {"unreachable", "timed-out", "failed", "reverted", "corrupt", "cancelled"}
    assert (following is not None) is (outcome in again)


@pytest.mark.parametrize(("retries", "attempts"), [(None, 3), (0, 1), (5, 6)])
def test_a_job_says_how_many_attempts_there_are(retries: int | None, attempts: int) -> None:
    job = a_job(retries=retries)
    claim: Claim | None = a_claim(job)
    count = 0
    while claim is not None:
        count += 1
        claim = next_attempt(job, claim, CUT, now=NOW, timing=Timing())
    assert count == attempts


def test_the_wait_doubles_and_has_a_limit() -> None:
    job = a_job(retries=1_000_000)
    timing = Timing(first_backoff=10, longest_backoff=300)
    waits = []
    for attempt in (1, 2, 3, 5, 6, 7, 5000):
        claim = next_attempt(job, a_claim(job, attempt=attempt), CUT, now=NOW, timing=timing)
        assert claim is not None
        assert claim.not_before is not None
        waits.append((claim.not_before - NOW).total_seconds())
    assert waits == [10, 20, 40, 160, 300, 300, 300]


@pytest.mark.parametrize(
    ("report", "check"),
    [
        (Report(outcome=Outcome.FAILED, written=True, version_before="1"), True),
        (Report(outcome=Outcome.TIMED_OUT, written=True, version_before="1", image_version="2"), True),
        (Report(outcome=Outcome.FAILED, written=False, version_before="1"), False),
        (Report(outcome=Outcome.FAILED, written=True), False),
        (Report(outcome=Outcome.FAILED, written=True, version_before="2"), False),
        (Report(outcome=Outcome.FAILED, written=True, version_before="1", image_version="1"), False),
    ],
    ids=["killed", "too slow", "nothing written", "nobody asked", "the same version", "the image's version"],
)
def test_an_attempt_whose_end_nobody_saw_is_followed_by_one_that_asks_the_device_first(
    report: Report, check: bool
) -> None:
    job = a_job(version="2")
    following = next_attempt(job, a_claim(job), report, now=NOW, timing=Timing())
    assert following is not None
    assert following.check is check
    later = next_attempt(job, following, Report(outcome=Outcome.UNREACHABLE), now=NOW, timing=Timing())
    assert later is not None
    assert later.check is check


# --- writing it down ------------------------------------------------------------------------------------------------


def everybody(_: FlashRecord) -> bool:
    return True


def written(status: DeviceStatus, report: Report, **given: Any) -> DeviceStatus:
    job = a_job()
    device = msgspec.structs.replace(a_device(), status=status)
    settings = {"firmware": "registry.example/f:2", "forced": False, "now": NOW, "living": everybody, **given}
    return record(device, given.pop("claim", None) or a_claim(job), report, **settings)


def test_a_success_is_recorded_learnt_and_frees_the_claim_in_one() -> None:
    claim = a_claim(a_job(), attempt=2)
    before = Firmware(reference="registry.example/f:1", digest="sha256:1", version="1")
    status = DeviceStatus(claim=claim, firmware=before, last_seen=NOW)
    report = msgspec.structs.replace(GOOD, application="lamp", certificate="ab", image_version="2", log=("x",))
    device = msgspec.structs.replace(a_device(), status=status)
    after = record(device, claim, report, firmware="registry.example/f:2", forced=True, now=NOW, living=everybody)
    assert after.claim is None
    assert (after.version, after.application, after.certificate, after.last_seen) == ("2", "lamp", "ab", NOW)
    assert after.firmware == Firmware(reference="registry.example/f:2", digest="sha256:2", version="2")
    assert after.previous_firmware == before
    (one,) = after.records
    assert (one.job, one.uuid, one.state) == (claim.job, claim.uuid, claim.state)
    assert (one.outcome, one.version, one.digest, one.image_version) == ("succeeded", "2", "sha256:2", "2")
    assert (one.attempts, one.forced, one.time) == (2, True, NOW)
    assert after.last_flash is not None
    assert (after.last_flash.version_before, after.last_flash.version_after, after.last_flash.log) == ("1", "2", ())
    assert recorded(after, claim)
    assert not recorded(after, a_claim(a_job(), attempt=3))
    assert not recorded(DeviceStatus(), claim)


def test_the_same_firmware_again_does_not_push_out_the_previous_one() -> None:
    before = Firmware(reference="registry.example/f:1", digest="sha256:1", version="1")
    current = Firmware(reference="registry.example/f:2", digest="sha256:2", version="2")
    already = Report(outcome=Outcome.ALREADY_CURRENT, digest="sha256:2", version_before="2")
    after = written(DeviceStatus(firmware=current, previous_firmware=before), already)
    assert (after.firmware, after.previous_firmware) == (current, before)
    assert after.records[0].version == "2"


@pytest.mark.parametrize(
    ("report", "kept"),
    [
        (Report(outcome=Outcome.UNREACHABLE), True),
        (Report(outcome=Outcome.REVERTED, written=True), True),
        (Report(outcome=Outcome.FAILED, written=True), False),
        (Report(outcome=Outcome.TIMED_OUT, written=True), False),
    ],
    ids=["never touched", "reverted", "failed", "timed out"],
)
def test_what_a_device_runs_is_forgotten_only_where_it_may_run_something_else(report: Report, kept: bool) -> None:
    before = Firmware(reference="registry.example/f:1", digest="sha256:1", version="1")
    status = DeviceStatus(firmware=before)
    after = written(status, report)
    assert (after.firmware == before) is kept
    claim = a_claim(a_job(), attempt=2)
    between = retried(
        msgspec.structs.replace(a_device(), status=status), claim, report, firmware="registry.example/f:2", now=NOW
    )
    assert (between.firmware == before) is kept
    assert between.claim == claim
    assert between.last_flash == after.last_flash, "the next attempt may never be made"
    assert (after.previous_firmware == before) is not kept


def test_a_failure_keeps_its_log_and_no_version_that_nobody_reported() -> None:
    report = msgspec.structs.replace(CUT, log=tuple(f"line {number}" for number in range(30)), version_before="1")
    after = written(DeviceStatus(), report)
    assert after.last_flash is not None
    assert after.last_flash.log == tuple(f"line {number}" for number in range(10, 30))
    assert after.records[0].version == ""
    assert after.version == "1"


def test_another_jobs_claim_stays() -> None:
    theirs = a_claim(a_job("other", uid="job-2"))
    assert written(DeviceStatus(claim=theirs), GOOD).claim == theirs


def test_one_record_a_job_and_those_of_jobs_that_are_gone_go_after_a_while() -> None:
    mine = a_record(a_job(), state="before", time=NOW - timedelta(days=1))
    living = a_record(a_job("b", uid="job-2"), time=NOW - timedelta(days=1))
    gone = a_record(a_job("c", uid="job-3"), time=NOW - FORGET_AFTER)
    unseen = a_record(a_job("d", uid="job-4"), time=NOW - FORGET_AFTER / 2)
    after = written(
        DeviceStatus(records=(mine, living, gone, unseen)),
        GOOD,
        living=lambda record: record.job.uid in {"job-1", "job-2"},
    )
    assert [each.job.uid for each in after.records] == ["job-2", "job-4", "job-1"]
    assert after.records[-1].state == a_claim(a_job()).state


def test_there_are_never_more_records_than_the_server_takes() -> None:
    dead = tuple(a_record(a_job(uid=f"dead-{number}")) for number in range(120))
    alive = tuple(a_record(a_job(uid=f"alive-{number}")) for number in range(120))
    after = written(DeviceStatus(records=dead + alive), GOOD, living=lambda record: record.job.uid.startswith("alive"))
    assert [each.job.uid for each in after.records[:-1]] == [each.job.uid for each in alive]
    full = tuple(a_record(a_job(uid=f"job-x{number}")) for number in range(MAX_RECORDS))
    assert len(written(DeviceStatus(records=full), GOOD).records) == MAX_RECORDS


@given(st.text(max_size=5000), st.lists(st.text(max_size=3000), max_size=40))
def test_whatever_a_report_holds_fits_the_schema(word: str, log: list[str]) -> None:
    report = Report(
        outcome=Outcome.FAILED,
        message=word,
        digest=word,
        image_version=word,
        version_before=word,
        version_after=word,
        application=word,
        certificate=word,
        log=tuple(log),
    )
    after = written(DeviceStatus(), report, firmware=word)
    (one,) = after.records
    assert max(map(len, (one.digest, one.version, one.image_version, after.version, after.application))) <= 256
    assert len(one.message) <= 2048
    assert after.last_flash is not None
    assert len(after.last_flash.log) <= 20
    assert all(len(line) <= 1024 for line in after.last_flash.log)
    assert len(after.last_flash.firmware) <= 1024


@pytest.mark.parametrize(
    ("started_at", "written"), [(NOW, True), (None, False)], ids=["it ran at the last moment", "it never ran"]
)
def test_a_pod_that_was_given_up_and_ran_all_the_same_may_have_changed_the_device(
    started_at: datetime | None, written: bool
) -> None:
    killed = ContainerTerminated(exit_code=137, reason="ContainerStatusUnknown", started_at=started_at)
    status = PodStatus(
        phase="Failed",
        container_statuses=(ContainerStatus(name=FLASH_CONTAINER, state=ContainerState(terminated=killed)),),
    )
    report = report_of(pod(status, node="node-1", marks={Mark.GIVEN_UP.value: "no room"}, deletion_timestamp=NOW))
    assert (report.outcome, report.written) == (Outcome.FAILED, written)
