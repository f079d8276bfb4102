"""A process that begins to lead with caches that are behind: it catches up with its predecessor before it works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from edgewright.api import Device, Lease, Pod, Service
from edgewright.controllers.flashjob.claims import Claims
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.device_loop import Flashes, add_flashes
from edgewright.controllers.flashjob.outcomes import record
from edgewright.runtime.client import INITIAL_EVENTS_END, Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.controller import Result
from edgewright.runtime.manager import LeaseSettings, Manager
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.behind import D1, given_address, made_pod, made_service, quiet
from tests.unit.controllers.flashjob.harness import GOOD, QUICK, Mortal, Stage
from tests.unit.runtime.fakeserver import running

LEASE = LeaseSettings(name="test", namespace="default", duration=60.0, renew_within=50.0, retry_every=0.1)


@dataclass
class Successor:
    """An operator that waits for leadership, and whose watches have told nothing since their lists."""

    on: Stage
    context: Context
    mortal: Mortal
    works: asyncio.Event = field(default_factory=asyncio.Event)
    passes: list[Key] = field(default_factory=list)

    async def lead(self) -> None:
        """The leader gives its lease back; returns when the successor has begun to work."""
        await self.on.client.of(Lease).patch(Key("default", LEASE.name), {"spec": {"holderIdentity": None}})
        async with asyncio.timeout(60):
            await self.works.wait()

    async def passed(self) -> None:
        """Returns when there was a whole pass over the device."""
        await wait_until_async(lambda: D1 in self.passes, what="the first pass over the device")


def say_nothing_after_the_list(client: Client) -> None:
    """Lets every watch of a client go silent when its list is complete."""
    send = client.transport.stream

    async def silent(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in content:
            yield chunk
            if INITIAL_EVENTS_END.encode() in chunk:
                await asyncio.Event().wait()

    @asynccontextmanager
    async def stream(path: str, query: Mapping[str, str], **given: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        async with send(path, query, **given) as content:
            yield silent(content)

    client.transport.stream = stream  # type: ignore[method-assign] # the one door for watches


@asynccontextmanager
async def successor(config: Config, on: Stage, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Successor]:
    """Such an operator, with the loop for Devices, once its caches are full of what there is at its start."""
    held = {"holderIdentity": "the leader", "leaseDurationSeconds": 3600}
    about = {"name": LEASE.name, "namespace": LEASE.namespace}
    body = {"apiVersion": Lease.kind.api_version, "kind": Lease.kind.kind, "metadata": about, "spec": held}
    await on.client.raw(Lease.kind).create(body)
    client = Client(config)
    say_nothing_after_the_list(client)
    manager = Manager(client, lease=LEASE)
    one = Successor(on, Context(manager, QUICK, SystemClock()), Mortal(manager.client))
    reconcile = Flashes.reconcile

    async def noted(self: Flashes, key: Key) -> Result:
        result = await reconcile(self, key)
        one.passes.append(key)
        return result

    async def working() -> None:
        one.works.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Flashes, "reconcile", noted)
    add_flashes(manager, one.context)
    manager.background("note that it works", working)
    async with running(manager.run()):
        context = one.context
        for cache in (context.jobs, context.devices.cache, context.pods.cache, context.services.cache):
            await cache.wait_synced()
        yield one


async def test_a_device_whose_outcome_our_cache_has_not_seen_is_not_flashed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with quiet(tmp_path) as (config, on):
        job = await on.job("job", "d1", exposure="None")
        claimed = await on.claim(job, await on.device("d1"))
        service = await made_service(on, job, claimed)  # gives the device a pass though it is done
        assert claimed.status.claim is not None
        done = record(
            claimed, claimed.status.claim, GOOD, firmware="f", forced=False, now=SystemClock().now(), living=bool
        )
        async with successor(config, on, monkeypatch) as operator:
            await on.client.of(Device).write_status(claimed, done)
            seen = operator.context.devices.get(D1)
            assert seen is not None
            assert seen.status.claim is not None, "it is behind"
            await operator.lead()
            await operator.passed()
            removed = ("DELETE", f"/api/v1/namespaces/default/services/{service.metadata.name}")
            assert set(operator.mortal.writes) <= {removed}
            assert await on.pods() == []


async def test_an_address_that_the_leader_before_gave_back_is_not_told_to_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with quiet(tmp_path) as (config, on):
        job = await on.job("job", "d1")
        claimed = await on.claim(job, await on.device("d1"))
        service = await given_address(on, await made_service(on, job, claimed), "198.51.100.1")
        async with successor(config, on, monkeypatch) as operator:
            await on.client.of(Service).delete(service.key)
            await on.claim(job, claimed, attempt=2)
            seen = operator.context.services.get(service.key)
            assert seen is not None, "it is behind"
            assert seen.external_address
            await operator.lead()
            await operator.passed()
            assert await on.pods() == []
            writes = [(method, path.rpartition("/")[2]) for method, path in operator.mortal.writes]
            assert writes == [("POST", "services")]


async def test_the_outcome_of_a_pod_that_is_gone_is_not_taken_for_that_of_the_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with quiet(tmp_path) as (config, on):
        job = await on.job("job", "d1", exposure="None", force=True)
        claimed = await on.claim(job, await on.device("d1"))
        before = await made_pod(on, job, claimed, finalizers=[])
        await on.client.of(Pod).patch(before.key, {"status": {"phase": "Succeeded"}}, subresource="status")
        async with successor(config, on, monkeypatch) as operator:
            await on.client.of(Pod).delete(before.key, grace_seconds=0)
            now = await made_pod(on, job, claimed)
            seen = operator.context.pods.get(now.key)
            assert seen is not None, "it is behind"
            assert (seen.metadata.uid, seen.finished) == (before.metadata.uid, True)
            await operator.lead()
            await operator.passed()
            assert operator.mortal.writes == []
            assert (await on.status("d1")).claim is not None


async def test_claims_that_the_cache_has_not_seen_are_learnt_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with quiet(tmp_path) as (config, on):
        job = await on.job("job", "d1")
        device = await on.device("d1")
        async with successor(config, on, monkeypatch) as operator:
            claims = Claims(operator.context)
            await on.claim(job, device)
            assert claims.known() == []
            await operator.lead()
            assert [held.device for held in claims.known()] == ["d1"]
