"""Whether the original operator runs, as far as its Lease tells."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from edgewright.controllers.flashjob.legacy.original import ORIGINAL_LEASE, Original, Running, running
from edgewright.runtime.client import Client, Page
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import Forbidden, Status
from edgewright.runtime.lease import Lease, LeaseSpec
from edgewright.runtime.objects import Key, ObjectMeta

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
FRESH = "2026-01-01T11:59:50.000000Z"
OLD = "2026-01-01T11:00:00.000000Z"


def lease(renewed: str | None, holder: str | None = "pod-0", duration: int | None = 15) -> Lease:
    return Lease(
        metadata=ObjectMeta(name=ORIGINAL_LEASE, namespace="operator-system"),
        spec=LeaseSpec(holder_identity=holder, renew_time=renewed, lease_duration_seconds=duration),
    )


KEY = lease(FRESH).key


@pytest.mark.parametrize(
    ("leases", "before", "runs"),
    [
        ([], {}, False),
        ([lease(FRESH)], {}, True),
        ([lease(FRESH, duration=None)], {}, True),
        ([lease(OLD)], {}, False),
        ([lease(OLD)], {KEY: OLD}, False),
        ([lease(OLD)], {KEY: "2026-01-01T10:59:50.000000Z"}, True),
        ([lease(FRESH, holder="")], {}, False),
        ([lease(None)], {}, False),
        ([lease("yesterday")], {}, False),
        ([lease("2026-01-01T11:59:50")], {}, True),
        ([lease(OLD), lease(FRESH)], {}, True),
    ],
    ids=[
        "no lease",
        "renewed just now",
        "without a duration",
        "renewed long ago",
        "not renewed since the last look",
        "renewed since the last look by a clock that is wrong",
        "given back",
        "never renewed",
        "no time",
        "a time without a zone",
        "one of two",
    ],
)
def test_it_runs_while_its_lease_is_renewed(leases: list[Lease], before: dict[Key, str], runs: bool) -> None:
    assert running(leases, before, NOW) == (Running("operator-system") if runs else None)


def test_the_message_names_the_command_that_stops_it() -> None:
    command = "kubectl -n operator-system scale deployment operator-controller-manager --replicas=0"
    assert Running("operator-system").message.endswith(command)


class Leases:
    """Stands for the client's verbs; answers with what a test puts there."""

    def __init__(self, *items: Lease) -> None:
        self.items = list(items)
        self.asked = 0
        self.refusing = False

    async def list(self, *, fields: str) -> Page[Any]:
        assert fields == f"metadata.name={ORIGINAL_LEASE}"
        self.asked += 1
        await asyncio.sleep(0)
        if self.refusing:
            raise Forbidden(Status(code=403))
        return Page(self.items, "1")


def looking(leases: Leases, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> Original:
    client = Client(Config(server="http://127.0.0.1:1"), clock=clock)
    monkeypatch.setattr(client, "of", lambda _: leases)
    return Original(client, clock, every=30)


async def test_many_who_ask_at_once_make_one_look_and_the_next_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, leases = VirtualClock(NOW), Leases(lease(FRESH))
    original = looking(leases, clock, monkeypatch)
    assert await asyncio.gather(*(original.look() for _ in range(5))) == [Running("operator-system")] * 5
    assert leases.asked == 1
    await clock.advance(31)
    assert await original.look() is None
    assert leases.asked == 2


async def test_leases_that_may_not_be_read_do_not_stop_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    leases = Leases()
    leases.refusing = True
    assert await looking(leases, VirtualClock(NOW), monkeypatch).look() is None
