"""The published agent's weak points, which ours must not have: what is not its own, the way data goes, and patience."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from edgewright.agent import Agent, load
from edgewright.api.edge_protocol import DataPath, S3Configuration, WireSecret
from tests.edge.support import configuration, workload
from tests.unit.agent.test_agent import ID, HastyClock, stage

SECRET = WireSecret(name="login", data='{"key":"d29yZHM="}')
ENV: list[dict[str, object]] = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "login", "key": "key"}}}]


async def test_weak_point_10_pods_and_secrets_that_are_not_the_agents_stay(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.podman.add_pod("foreign")
        on.podman.secrets["login"] = b"foreign"
        on.start()
        on.gateway.serve(ID, configuration(workload(env=ENV), device=ID, secrets=(SECRET,)))
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")
        assert len(on.podman.secrets) == 2
        on.gateway.serve(ID, configuration(device=ID))
        await on.until(lambda: set(on.podman.pods) == {"foreign"}, "only its own pod is removed")
        await on.until(lambda: on.podman.secrets == {"login": b"foreign"}, "only its own secret is removed")
        on.gateway.commands[ID].append("disconnect")
        assert on.task is not None
        await asyncio.wait_for(on.task, 60)
        assert set(on.podman.pods) == {"foreign"}
        assert on.podman.secrets == {"login": b"foreign"}


async def test_weak_point_10_what_came_from_the_bucket_is_not_uploaded(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.bucket.objects["models/m1"] = b"model"
        both_ways = workload(data=True, ingress=(DataPath(source="models", target="in"),))
        on.gateway.serve(ID, configuration(both_ways, device=ID, s3=S3Configuration(bucket_name="b")))
        on.start()
        volume = tmp_path / "agent" / "state" / "volumes" / "nginx"
        await on.until((volume / "in" / "m1").is_file, "the model is there")
        (volume / "out").mkdir(exist_ok=True)
        (volume / "out" / "f").write_text("x")
        await on.until(lambda: "nginx/f" in on.bucket.objects, "its data")
        assert on.bucket.puts == ["nginx/f"]


class PatientClock(HastyClock):
    """Notes how long somebody would have waited."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await super().sleep(seconds)


async def test_weak_point_10_agents_without_a_gateway_wait_longer_and_longer_and_not_all_alike(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.gateway.stop()
        waits = []
        for seed in (1, 2):
            clock = PatientClock()
            agent = Agent(load(on.config), clock=clock, firewall=on.firewall, rng=random.Random(seed))
            on.task = asyncio.create_task(agent.run())
            await on.until(lambda clock=clock: len(clock.waits) >= 12, "it has tried often")
            await on.stop()
            waits.append(clock.waits[:12])
        for each in waits:
            assert max(each) > 8 * min(each), "the waits grow"
        assert waits[0] != waits[1], "a fleet does not come back in one moment"
