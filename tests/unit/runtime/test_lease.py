"""The lease: who may lead when, on each one's own clock, and what ends it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edgewright.runtime.client import Client
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import LeaseLost
from edgewright.runtime.lease import Leadership, Lease, LeaseSpec, Observed, decide, own_identity
from edgewright.runtime.objects import Key
from tests.unit.runtime.fakeserver import Answer, Asked, FakeServer, Json, fake_server, refusal, running, until

LEASE = Key("system", "operator")
PATH = Lease.kind.path(*LEASE)
COLLECTION = Lease.kind.path("system")


def held_by(holder: str | None, *, seconds: int | None = 15) -> Lease:
    return Lease(spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=seconds))


@pytest.mark.parametrize(
    ("observed", "now", "expected"),
    [
        (None, 0.0, "create"),
        (Observed(held_by(None), 100.0), 100.0, "take"),
        (Observed(held_by(""), 100.0), 100.0, "take"),
        (Observed(held_by("me"), 100.0), 100.0, "take"),
        (Observed(held_by("other"), 100.0), 114.9, "wait"),
        (Observed(held_by("other"), 100.0), 115.0, "take"),
        (Observed(held_by("other", seconds=60), 100.0), 159.9, "wait"),
        (Observed(held_by("other", seconds=60), 100.0), 160.0, "take"),
        (Observed(held_by("other", seconds=None), 100.0), 119.9, "wait"),
        (Observed(held_by("other", seconds=None), 100.0), 120.0, "take"),
        (Observed(held_by("other"), 100.0, gone=True), 114.9, "wait"),
        (Observed(held_by("other"), 100.0, gone=True), 115.0, "create"),
        (Observed(held_by("me"), 100.0, gone=True), 100.0, "create"),
    ],
    ids=[
        *("nobody ever", "given back", "empty", "ours", "another's", "another's, run out", "its promise counts"),
        *("its promise ran out", "no promise: ours counts", "no promise, run out", "deleted", "deleted long ago"),
        "ours, deleted",
    ],
)
def test_who_may_do_what(observed: Observed | None, now: float, expected: str) -> None:
    assert decide(observed, "me", now, duration=20.0) == expected


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 2, 2), (15, 10, 0), (15, 20, 2)])
def test_times_that_cannot_be_kept_are_refused(times: tuple[float, float, float]) -> None:
    duration, renew_within, retry_every = times
    with pytest.raises(ValueError, match="duration > renew_within > retry_every > 0"):
        Leadership(
            Client(Config(server="http://127.0.0.1:1")),
            LEASE,
            duration=duration,
            renew_within=renew_within,
            retry_every=retry_every,
        )


def test_no_two_processes_have_one_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "operator-1")
    assert own_identity() != own_identity()
    assert own_identity().startswith("operator-1_")


class Stored:
    """The lease at the server: conditional writes only, and a way to interfere."""

    def __init__(self, server: FakeServer) -> None:
        self.spec: dict[str, Any] | None = None
        self.version = 0
        self.instead: list[Answer] = []
        self.hold_back: asyncio.Event | None = None
        server.on(f"GET {PATH}", self.get)
        server.on(f"POST {COLLECTION}", self.create)
        server.on(f"PATCH {PATH}", self.patch)

    @property
    def holder(self) -> str | None:
        return (self.spec or {}).get("holderIdentity")

    def body(self) -> Json:
        metadata = {"name": LEASE.name, "namespace": LEASE.namespace, "resourceVersion": str(self.version)}
        return Json({"metadata": metadata, "spec": self.spec})

    def get(self, _: Asked) -> Answer:
        return refusal(404, "NotFound") if self.spec is None else self.body()

    def create(self, asked: Asked) -> Answer:
        if self.spec is not None:
            return refusal(409, "AlreadyExists")
        self.write(asked.json["spec"])
        return self.body()

    async def patch(self, asked: Asked) -> Answer:
        if self.instead:
            return self.instead.pop(0)
        if self.spec is None:
            return refusal(404, "NotFound")
        if asked.json["metadata"]["resourceVersion"] != str(self.version):
            return refusal(409, "Conflict")
        self.write({**self.spec, **asked.json["spec"]})
        answer = self.body()
        if self.hold_back is not None:
            await self.hold_back.wait()
        return answer

    def write(self, spec: dict[str, Any] | None) -> None:
        self.spec = None if spec is None else {name: value for name, value in spec.items() if value is not None}
        self.version += 1


class Election:
    def __init__(self, server: FakeServer, client: Client, clock: VirtualClock) -> None:
        self.server, self.client, self.clock = server, client, clock
        self.stored = Stored(server)
        self.me = self.candidate("me")

    def candidate(self, identity: str) -> Leadership:
        return Leadership(self.client, LEASE, identity=identity, clock=self.clock)

    async def until(self, condition: Any, *, step: float = 0.1) -> None:
        await until(condition, clock=self.clock, step=step)

    async def pass_time(self, seconds: float) -> None:
        end = self.clock.elapsed() + seconds
        await self.until(lambda: self.clock.elapsed() >= end)

    async def lead(self) -> None:
        async with running(self.me.acquire()) as task:
            await self.until(task.done)


@asynccontextmanager
async def election() -> AsyncIterator[Election]:
    clock = VirtualClock()
    async with fake_server() as server, Client(server.config, clock=clock) as client:
        yield Election(server, client, clock)


async def test_the_first_makes_the_lease_and_leads() -> None:
    async with election() as it:
        assert it.me.remaining() == -math.inf
        await it.me.acquire()
        assert it.me.remaining() == 10
        assert it.stored.spec == {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }


async def test_a_lease_that_another_renews_is_waited_for_until_it_has_not_changed_for_its_duration() -> None:
    async with election() as it:
        it.stored.write({"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 4})
        async with running(it.me.acquire()):
            for _ in range(4):
                await it.pass_time(10)
                it.stored.write(dict(it.stored.spec or {}))  # renewed
            renewed = it.clock.elapsed()
            assert not it.me.leading
            await it.until(lambda: it.me.leading)
            assert renewed + 15 <= it.clock.elapsed() <= renewed + 21
        assert it.stored.holder == "me"
        assert it.stored.spec is not None
        assert it.stored.spec["leaseTransitions"] == 5


@pytest.mark.parametrize("quicker", [refusal(409, "Conflict"), refusal(404, "NotFound")], ids=["taken", "deleted"])
async def test_one_who_is_too_slow_looks_again(quicker: Answer) -> None:
    async with election() as it:
        it.stored.write({"leaseDurationSeconds": 1})
        it.stored.instead = [quicker]
        await it.lead()
        assert it.stored.holder == "me"
        assert len(it.server.writes()) == 2


async def test_one_who_finds_the_lease_made_meanwhile_waits() -> None:
    async with election() as it:

        def create(asked: Asked) -> Answer:
            it.stored.write({"holderIdentity": "other", "leaseDurationSeconds": 3})
            return it.stored.create(asked)  # the other was quicker by a hair

        it.server._scripts[f"POST {COLLECTION}"].clear()
        it.server.on(f"POST {COLLECTION}", create)
        await it.lead()
        assert it.clock.elapsed() >= 3
        assert it.stored.holder == "me"


async def test_a_server_that_fails_is_asked_again_and_the_problem_is_told() -> None:
    async with election() as it:
        it.server._scripts[f"GET {PATH}"].clear()
        it.server.on(f"GET {PATH}", refusal(403, "Forbidden", "may not"), it.stored.get)
        async with running(it.me.acquire()):
            await until(lambda: it.me.problem)
            assert "may not" in (it.me.problem or "")
            await it.until(lambda: it.me.leading)
            assert it.me.problem is None


async def test_an_answer_that_came_too_late_is_no_leadership() -> None:
    async with election() as it:
        it.stored.write({"leaseDurationSeconds": 1})
        it.stored.hold_back = asyncio.Event()
        async with running(it.me.acquire()) as task:
            await until(lambda: it.stored.holder == "me")
            await it.clock.advance(11)
            it.stored.hold_back.set()
            await it.until(task.done)
            assert it.me.leading, "it asked once more"
        assert len(it.server.writes()) == 2


async def test_a_leader_renews_and_its_time_runs_from_the_start_of_each_request() -> None:
    async with election() as it:
        await it.lead()
        async with running(it.me.hold()):
            before = it.stored.version
            await it.until(lambda: it.clock.elapsed() >= 30)
            assert it.me.leading
            assert 10 <= it.stored.version - before <= 16
            it.stored.hold_back = asyncio.Event()
            version = it.stored.version
            await it.until(lambda: it.stored.version > version)
            left = it.me.remaining()
            await it.clock.advance(3)
            assert it.me.remaining() == pytest.approx(left - 3), "not confirmed yet"
            it.stored.hold_back.set()
            await until(lambda: it.me.remaining() > left - 3)
            assert it.me.remaining() == pytest.approx(7), "three seconds of the ten are gone"


@pytest.mark.parametrize("answer", [refusal(500), refusal(403), None], ids=["fails", "refuses", "does not answer"])
async def test_a_leader_that_cannot_renew_in_time_loses_the_lease(answer: Answer | None) -> None:
    async with election() as it:
        await it.lead()
        if answer is None:
            it.stored.hold_back = asyncio.Event()
        else:
            it.stored.instead = [answer] * 100
        confirmed = it.clock.elapsed()
        task = asyncio.create_task(it.me.hold())
        await it.until(lambda: it.clock.elapsed() >= confirmed + 9.5)
        assert not task.done()
        await it.until(task.done)
        assert it.clock.elapsed() <= confirmed + 10.5
        with pytest.raises(LeaseLost, match="could not be renewed in 10 s"):
            await task
        assert not it.me.leading
        assert it.me.problem


async def lost(it: Election, match: str) -> None:
    """Holds until the lease is lost."""
    task = asyncio.create_task(it.me.hold())
    await it.until(task.done)
    with pytest.raises(LeaseLost, match=match):
        await task
    assert it.me.remaining() == -math.inf


async def test_a_leader_that_finds_another_in_its_place_stops() -> None:
    async with election() as it:
        await it.lead()
        it.stored.write({**(it.stored.spec or {}), "holderIdentity": "other"})
        await lost(it, "is held by other now")


async def test_a_leader_whose_lease_was_deleted_stops() -> None:
    async with election() as it:
        await it.lead()
        it.stored.write(None)
        await lost(it, "is held by nobody now")


async def test_a_renewal_that_got_through_unheard_is_not_a_loss() -> None:
    async with election() as it:
        await it.lead()
        it.stored.write(dict(it.stored.spec or {}))  # ours, with a version that we have not heard of
        version = it.stored.version
        async with running(it.me.hold()):
            await it.until(lambda: it.stored.version > version + 1)
            assert it.me.leading


async def test_a_leader_that_cannot_look_again_tries_until_its_time_is_over() -> None:
    async with election() as it:
        await it.lead()
        it.stored.write({**(it.stored.spec or {}), "holderIdentity": "other"})
        it.server._scripts[f"GET {PATH}"].clear()
        it.server.on(f"GET {PATH}", refusal(500))
        task = asyncio.create_task(it.me.hold())
        await it.until(task.done)
        with pytest.raises(LeaseLost, match="could not be renewed"):
            await task


async def test_a_machine_that_was_suspended_knows_at_once_that_its_lease_is_over() -> None:
    async with election() as it:
        await it.lead()
        fenced = it.client.fenced(it.me)
        it.clock._elapsed += 60  # no timer has fired yet, as after a suspend
        assert not it.me.leading
        before = len(it.server.asked)
        with pytest.raises(LeaseLost):
            await fenced.of(Lease).get(LEASE)
        assert len(it.server.asked) == before
        await fenced.close()


async def test_a_lease_that_is_given_back_is_free_at_once_and_the_fence_is_shut_first() -> None:
    async with election() as it:
        await it.lead()
        it.stored.hold_back = asyncio.Event()
        async with running(it.me.release()) as task:
            await until(lambda: it.stored.holder is None)
            assert not it.me.leading, "shut before the answer"
            it.stored.hold_back.set()
            await it.until(task.done)
        other = it.candidate("other")
        before = it.clock.elapsed()
        await other.acquire()
        assert it.clock.elapsed() == before
        assert it.stored.holder == "other"
        await it.me.release()
        assert it.stored.holder == "other", "who does not lead gives nothing back"


async def test_a_lease_is_given_back_after_a_renewal_that_was_cut_off_got_through() -> None:
    async with election() as it:
        await it.lead()
        it.stored.hold_back = asyncio.Event()
        version = it.stored.version
        async with running(it.me.hold()):
            await it.until(lambda: it.stored.version > version)  # and the answer is never heard
        it.stored.hold_back = None
        await it.me.release()
        assert it.stored.holder is None


async def test_a_lease_that_another_has_meanwhile_is_left_to_him() -> None:
    async with election() as it:
        await it.lead()
        it.stored.write({**(it.stored.spec or {}), "holderIdentity": "other"})
        await it.me.release()
        assert it.stored.holder == "other"
        assert not it.me.leading


async def test_a_lease_that_cannot_be_given_back_runs_out() -> None:
    async with election() as it:
        await it.lead()
        it.stored.instead = [refusal(500)]
        await it.me.release()
        assert not it.me.leading
        assert it.stored.holder == "me"
