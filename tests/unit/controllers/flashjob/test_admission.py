"""Who may start: one claim a device, so many devices a job."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.device import Claim, JobReference
from edgewright.controllers.flashjob.admission import ForeignFlash, Held, Wish, admit

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
OURS = JobReference(namespace="default", name="ours", uid="ours")
THEIRS = JobReference(namespace="plant", name="theirs", uid="theirs")


def held(device: str, job: JobReference = OURS, not_before: datetime | None = None) -> Held:
    return Held(device, Claim(job=job, not_before=not_before))


def wish(device: str, limit: int = 20) -> Wish:
    return Wish(device=device, job=OURS, limit=limit)


@pytest.mark.parametrize(
    ("wishes", "claims", "starts", "why"),
    [
        ([], [], [], {}),
        ([wish("a"), wish("b")], [], ["a", "b"], {}),
        ([wish("a", 1), wish("b", 1)], [], ["a"], {"b": "waiting for a free slot: spec.maxConcurrent is 1"}),
        ([wish("b", 1)], [held("a")], [], {"b": "waiting for a free slot: spec.maxConcurrent is 1"}),
        ([wish("b", 1)], [held("a", THEIRS)], ["b"], {}),
        ([wish("b", 1)], [held("a", OURS, LATER)], ["b"], {}),
        (
            [wish("a")],
            [held("a", THEIRS)],
            [],
            {"a": "waiting for another job, which is flashing it"},
        ),
        (
            [wish("a")],
            [held("a", THEIRS, LATER)],
            [],
            {"a": "waiting for another job, which is flashing it"},
        ),
        ([wish("a")], [held("a")], [], {"a": "it is claimed already"}),
        ([wish("a", 1)], [held("a", OURS, NOW)], ["a"], {}),
        ([wish("a", 1)], [held("a", OURS, LATER)], [], {"a": "it is tried again at 00:00:30"}),
        (
            [wish("a", 1)],
            [held("a", OURS, NOW), held("b")],
            [],
            {"a": "waiting for a free slot: spec.maxConcurrent is 1"},
        ),
        ([wish("a"), wish("a")], [], ["a"], {"a": "it is claimed already"}),
    ],
    ids=[
        "nothing wished",
        "room for all",
        "the first comes first",
        "no place",
        "another job's claims take up no place",
        "a claim between attempts takes up no place",
        "another job has it",
        "another job has it between attempts",
        "we have it",
        "the time has come",
        "the time has not come",
        "the time has come and there is no place",
        "wished twice",
    ],
)
def test_a_wish_starts_or_says_why_it_waits(
    wishes: list[Wish], claims: list[Held], starts: list[str], why: dict[str, str]
) -> None:
    admission = admit(wishes, claims, now=NOW)
    assert [each.device for each in admission.start] == starts
    assert admission.waiting == why


def test_what_is_left_of_a_flash_takes_up_a_place_until_it_is_gone() -> None:
    wishes = [wish("a", 2), wish("b", 2)]
    assert [each.device for each in admit(wishes, [], now=NOW, lingering={"ours": 1}).start] == ["a"]
    assert [each.device for each in admit(wishes, [], now=NOW, lingering={"theirs": 5}).start] == ["a", "b"]


JOBS = st.sampled_from([OURS, THEIRS])
NAMES = st.sampled_from([f"device-{number}" for number in range(8)])
TIMES = st.sampled_from([None, NOW, LATER])


@given(
    st.lists(st.builds(Wish, device=NAMES, job=JOBS, limit=st.just(3)), max_size=12),
    st.dictionaries(NAMES, st.builds(Claim, job=JOBS, not_before=TIMES)),
)
def test_no_limit_is_ever_broken(wishes: list[Wish], claims: dict[str, Claim]) -> None:
    admission = admit(wishes, [Held(name, claim) for name, claim in claims.items()], now=NOW)
    started = [each.device for each in admission.start]
    assert len(started) == len(set(started))
    before = Counter(claim.job.uid for claim in claims.values() if claim.not_before is None)
    after = before + Counter(each.job.uid for each in admission.start)
    assert all(after[uid] <= max(3, before[uid]) for uid in after)
    for each in admission.start:
        claim = claims.get(each.device)
        assert claim is None or (claim.job == each.job and claim.not_before == NOW)
    assert {each.device for each in wishes} == {*started, *admission.waiting}


def test_one_address_is_used_by_one_device_at_a_time() -> None:
    theirs = Held("a", Claim(job=THEIRS), endpoint="192.0.2.1")
    wishes = [
        Wish(device=name, job=OURS, endpoint=at) for name, at in (("b", "192.0.2.1"), ("c", "192.0.2.2"), ("d", ""))
    ]
    admission = admit(wishes, [theirs], now=NOW)
    assert [each.device for each in admission.start] == ["c", "d"]
    assert admission.waiting == {
        "b": "waits for another Device, which has the same address and is being flashed by another job"
    }
    assert admission.unannounced


def test_a_device_between_two_attempts_keeps_no_other_from_its_address() -> None:
    theirs = Held("a", Claim(job=THEIRS, not_before=LATER), endpoint="192.0.2.1")
    admission = admit([Wish(device="b", job=OURS, endpoint="192.0.2.1")], [theirs], now=NOW)
    assert [each.device for each in admission.start] == ["b"]
    assert not admission.unannounced


def test_a_flash_of_the_original_operator_is_named_to_its_own_namespace_only() -> None:
    for namespace, told in (("default", "waiting for Pod x"), ("plant", "waiting for another job of the original")):
        foreign = ForeignFlash(why="waiting for Pod x", job="x", devices=frozenset("a"), namespace=namespace)
        admission = admit([wish("a")], [], now=NOW, foreign=[foreign])
        assert admission.waiting["a"].startswith(told)


def test_of_two_wishes_for_one_address_the_first_starts() -> None:
    admission = admit([Wish(device=name, job=OURS, endpoint="192.0.2.1") for name in "ab"], [], now=NOW)
    assert [each.device for each in admission.start] == ["a"]
