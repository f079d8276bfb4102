"""Many simulated agents at one gateway: an authority that changes under them, and a workload that reaches them all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.cli import simulate_edge
from edgewright.devices.simulated.edge_agents import EdgeAgent, Site, Tally
from edgewright.gateway.gateway import Gateway
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.objects import Key
from tests.harness import repetition
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.stage import NAMESPACE, gateway_of, registration_of
from tests.unit.gateway.test_certificate_matrix import rotate

pytestmark = pytest.mark.repeated
AT_ONCE = 50


@asynccontextmanager
async def agents_of(
    client: Client, gateway: Gateway, count: int, *, prefix: str = "agent", broken: str = ""
) -> AsyncIterator[tuple[list[EdgeAgent], Tally]]:
    """So many agents, all of them registered."""
    ca, registration = await registration_of(client)
    site = Site(
        host="127.0.0.1",
        port=gateway.port,
        server_name="",
        authority=ca.certificate.decode(),
        certificate=registration.certificate,
        key=registration.key,
        period=0.5,
        broken=broken,
    )
    tally = Tally()
    agents = [EdgeAgent(f"{prefix}-{number}", site, tally, SystemClock()) for number in range(count)]
    tasks: list[asyncio.Task[None]] = []
    try:
        for first in range(0, count, AT_ONCE):  # handshakes cost most, and one that is late is given up
            tasks.extend(asyncio.create_task(each.run()) for each in agents[first : first + AT_ONCE])
            await wait_until_async(lambda: tally.registered == len(tasks), what="these are registered", timeout=600)
        yield agents, tally
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_authority_that_changes_under_connected_agents_loses_none(tmp_path: Path) -> None:
    count = repetition.times(12, 1000)
    async with (
        plane(tmp_path) as config,
        Client(config) as client,
        gateway_of(config, certificates_every=0.2, trusted_before_use=1.0) as gateway,
        agents_of(client, gateway, count) as (agents, tally),
    ):
        await wait_until_async(lambda: tally.configurations >= count, what="all have a configuration", timeout=600)
        await rotate(client, gateway)
        before = tally.heartbeats
        body = {
            "apiVersion": EdgeWorkload.kind.api_version,
            "kind": "EdgeWorkload",
            "metadata": {"name": "everywhere", "namespace": NAMESPACE},
            "spec": {
                "type": "pod",
                "deviceSelector": {},
                "pod": {"spec": {"containers": [{"name": "a", "image": "a"}]}},
            },
        }
        await client.raw(EdgeWorkload.kind).create(body)
        await wait_until_async(
            lambda: all(each.workloads == ("everywhere",) for each in agents), what="all have it", timeout=600
        )
        await wait_until_async(lambda: tally.heartbeats >= before + count, what="all are heard", timeout=600)
        assert dict(tally.problems) == {}
        assert simulate_edge.words(tally, count).startswith(f"{count} of {count} registered")
        # New agents come in with the new authority's registration certificate, next to them.
        async with agents_of(client, gateway, 1, prefix="new"):
            pass


async def test_a_simulated_agent_ends_when_it_is_told_to_disconnect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewright.devices.simulated.edge_agents._CONTROL", 0.05)
    monkeypatch.setattr("edgewright.devices.simulated.edge_agents._WAIT", 3600)  # for news that will not come
    async with (
        plane(tmp_path) as config,
        Client(config) as client,
        gateway_of(config) as gateway,
        agents_of(client, gateway, 1) as (_, tally),
    ):
        await wait_until_async(lambda: tally.heartbeats > 0, what="it is heard")
        await client.of(EdgeDevice).delete(Key(NAMESPACE, "agent-0"))
        await wait_until_async(lambda: tally.disconnected == 1, what="it is told")
