"""The loop that tells, with rollouts that are carried out on a real API server of ours and a real receiver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from edgewright.api.device import FlashRecord
from edgewright.api.firmwarerollout import NOTIFICATIONS_ANNOTATION
from edgewright.api.flash_pod import Outcome
from edgewright.controllers.flashjob import job_loop
from edgewright.controllers.notifications.loop import add_notifications
from edgewright.controllers.notifications.webhook import Webhook
from edgewright.controllers.rollout.loop import add_rollouts
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.manager import LeaseSettings, Manager
from edgewright.runtime.objects import Kind
from tests.unit.controllers.flashjob.jobs_stage import eventually
from tests.unit.controllers.notifications.receivers import SECRET, Receiver
from tests.unit.controllers.rollout.rollout_stage import ROLLOUTS, Stage, stage
from tests.unit.runtime.fakeserver import running

EVENTS = Kind(group="", version="v1", kind="Event", plural="events").path("default")
APPROVED = [{"name": "canary", "size": 1, "gate": {"approval": "manual"}}]
BAD = FlashRecord(outcome=Outcome.REVERTED, message="it went back", version="0.9.0")


@pytest.fixture(autouse=True)
def quick_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the tests of the rollout loop."""
    monkeypatch.setattr(job_loop, "PASS_EVERY", 0.02)


@asynccontextmanager
async def told(folder: Path, receiver: Receiver, **given: Any) -> AsyncIterator[Stage]:
    """A stage whose operator tells the receiver, and is quick to try again."""
    file = folder / "secret"
    file.write_text(SECRET, encoding="utf-8")
    patience = {"first_retry": 0.02, "longest_retry": 0.1, **given}
    webhook = Webhook(url=receiver.url, secret_file=file, plain=True, **patience)
    async with stage(folder, webhook=webhook) as on:
        yield on


async def until(holds: Callable[[], object]) -> None:
    async def look() -> bool:
        return bool(holds())

    await eventually(look)


def counted(on: Stage, result: str) -> float:
    return sample(on, "edgewright_webhook_deliveries_total", result=result) or 0


def sample(on: Stage, name: str, **labels: str) -> float | None:
    assert on.manager is not None
    return on.manager.metrics.registry.get_sample_value(name, labels)


async def annotation(on: Stage, name: str = "rollout") -> str:
    return str((await on.rollout(name))["metadata"].get("annotations", {}).get(NOTIFICATIONS_ANNOTATION, ""))


async def settled(on: Stage, name: str = "rollout") -> None:
    """Nothing waits to be told of a rollout, and that is written down."""

    async def look() -> bool:
        text = await annotation(on, name)
        return bool(text) and "pending" not in text

    await eventually(look)


async def test_each_transition_is_told_once_also_by_a_receiver_that_was_away_and_after_a_restart(
    tmp_path: Path,
) -> None:
    receiver = Receiver()
    async with told(tmp_path, receiver) as on:
        await on.make_fleet(3)
        async with on.rolling():
            await on.make_rollout(batches=APPROVED)
            await until(lambda: counted(on, "failed") >= 3)
            assert sample(on, "edgewright_webhook_pending") == 1
            async with receiver.up():
                await until(lambda: receiver.types == ["approval-needed"])
                await on.change(f"{ROLLOUTS}/rollout", {"spec": {"approvals": ["canary"]}})
                await until(lambda: receiver.types == ["approval-needed", "completed"])
                await settled(on)
                assert sample(on, "edgewright_webhook_pending") == 0
                assert counted(on, "delivered") == 2
        async with on.rolling(), receiver.up():
            # Rollouts that are there are looked at before this one, and would have been told by then.
            await on.make_rollout("next", paused=True)
            await until(lambda: len(receiver.events) == 3)
            await settled(on, "next")
            assert counted(on, "delivered") == 1
    assert receiver.types == ["approval-needed", "completed", "paused"]
    assert len({event["id"] for event in receiver.events}) == 3
    assert [headers["webhook-id"] for headers, _ in receiver.requests] == [each["id"] for each in receiver.events]
    assert receiver.events[0]["data"]["batch"] == {"number": 1, "name": "canary"}
    assert receiver.events[1]["data"]["progress"] == "3/3"


async def test_what_is_refused_at_first_comes_again_the_same_and_later_ones_keep_their_turn(tmp_path: Path) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.Response(status=503)

    receiver = Receiver(answer=refuse)
    async with told(tmp_path, receiver) as on, receiver.up():
        await on.make_fleet(2)
        async with on.rolling():
            await on.make_rollout(paused=True)
            await until(lambda: len(receiver.requests) >= 3)
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"paused": None}})
            await on.phase("Completed")
            receiver.answer = None
            await until(lambda: receiver.types == ["paused", "completed"])
            await settled(on)
    refused = [(headers["webhook-id"], body) for headers, body in receiver.requests[:-1]]
    assert len(set(refused)) == 1


async def test_a_pause_by_a_rule_an_abort_and_a_failed_gate_are_told(tmp_path: Path) -> None:
    receiver = Receiver()
    async with told(tmp_path, receiver) as on, receiver.up():
        names = await on.make_fleet(2)
        on.outcomes.update(dict.fromkeys(names, BAD))
        async with on.rolling():
            await on.make_rollout(batches=[{"name": "canary", "size": 1}], stop=[{"threshold": 1, "action": "pause"}])
            await until(lambda: receiver.types == ["paused"])
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"aborted": True}})
            await until(lambda: receiver.types == ["paused", "aborted"])
            await on.make_rollout("gated", selector={"names": [names[1]]}, batches=[{"name": "canary", "size": 1}])
            await until(lambda: receiver.types == ["paused", "aborted", "failed"])
    assert receiver.events[0]["data"]["reason"] == "PausedByRule"
    assert receiver.events[2]["subject"] == "default/gated"


async def test_a_process_that_dies_before_it_has_noted_a_delivery_is_followed_by_one_that_repeats_the_id(
    tmp_path: Path,
) -> None:
    def outboxes(method: str, path: str) -> bool:
        return method == "PATCH" and path == f"{ROLLOUTS}/rollout"

    receiver = Receiver()
    async with told(tmp_path, receiver) as on, receiver.up():
        await on.make_fleet(1)
        async with on.rolling() as mortal:
            mortal.arm(2, after=False, counts=outboxes)
            await on.make_rollout(paused=True)
            await mortal.died.wait()
        assert receiver.types == ["paused"]
        async with on.rolling():
            await settled(on)
    assert receiver.types == ["paused", "paused"]
    assert receiver.events[0] == receiver.events[1]


def operator(on: Stage, identity: str) -> Manager:
    """An operator that works on rollouts while it holds the lease."""
    clock, webhook = SystemClock(), on.settings.webhook
    assert webhook is not None
    client = Client(Config(server=on.api.url, tls=on.api.tls), clock=clock)
    manager = Manager(client, clock=clock, lease=LeaseSettings(name="op", namespace="default", identity=identity))
    add_rollouts(manager, on.settings, clock)
    add_notifications(manager, webhook, clock)
    return manager


async def test_only_the_leader_tells_and_the_next_one_repeats_nothing(tmp_path: Path) -> None:
    receiver = Receiver()
    async with told(tmp_path, receiver) as on, receiver.up():
        first, second = operator(on, "first"), operator(on, "second")
        async with running(first.run()) as leading:
            await until(lambda: first.leads)
            async with running(second.run()):
                await on.make_rollout(paused=True)
                await until(lambda: receiver.types == ["paused"])
                await settled(on)
                first.stop()
                await leading
                await until(lambda: second.leads)
                await on.change(f"{ROLLOUTS}/rollout", {"spec": {"aborted": True}})
                await until(lambda: receiver.types == ["paused", "aborted"])
                second.stop()
    for manager in (first, second):
        sent = manager.metrics.registry.get_sample_value("edgewright_webhook_deliveries_total", {"result": "delivered"})
        assert sent == 1


async def test_a_receiver_that_never_answers_holds_up_no_rollout(tmp_path: Path) -> None:
    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    receiver = Receiver(answer=never)
    async with told(tmp_path, receiver, timeout=600) as on, receiver.up():
        await on.make_fleet(3)
        async with on.rolling():
            await on.make_rollout(batches=APPROVED)
            await until(lambda: receiver.requests)
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"approvals": ["canary"]}})
            await on.phase("Completed")
            for name in ("second", "third"):  # more than the loop that tells has workers
                await on.make_rollout(name)
                await on.phase("Completed", name)
    assert receiver.events == []


async def test_what_nobody_takes_is_given_up_after_a_time_and_people_are_told(tmp_path: Path) -> None:
    receiver = Receiver()
    async with told(tmp_path, receiver, give_up=0) as on:
        await on.make_fleet(1)
        async with on.rolling():
            await on.make_rollout(paused=True)
            await until(lambda: counted(on, "dropped") == 1)
            await settled(on)

            async def look() -> list[Any]:
                found = (await on.api("GET", EVENTS)).body["items"]
                return [each for each in found if each["reason"] == "WebhookDropped"]

            (event,) = await eventually(look)
            assert event["type"] == "Warning"
            assert "was not delivered within 0 s" in event["message"]
