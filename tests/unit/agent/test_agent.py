"""The whole agent in one process, with a stub of the gateway over mutual TLS and a podman from memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from edgewright.agent import Agent, load
from edgewright.api.edge_protocol import DeviceConfigurationMessage, S3Configuration
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.tls import ConfigError
from tests.edge.stub_gateway import Seen, StubGateway
from tests.edge.support import configuration, workload
from tests.harness.waiting import wait_until_async
from tests.unit.agent.test_uploads import MemoryBucket
from tests.unit.agent.test_workloads import MemoryFirewall
from tests.unit.containers.fake_podman import FakePodman

ID = "dev-1"


class HastyClock(SystemClock):
    """A clock on which nobody waits longer than a moment."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.05))


class Stage:
    """An agent, the gateway and podman; the agent can be stopped and started."""

    def __init__(self, gateway: StubGateway, podman: FakePodman, folder: Path) -> None:
        self.gateway, self.podman = gateway, podman
        self.config = gateway.write_config(folder, device=ID, podman_socket=str(podman.socket), firewall="none")
        self.firewall, self.bucket = MemoryFirewall(), MemoryBucket()
        self.asked: list[S3Configuration] = []
        self.task: asyncio.Task[None] | None = None

    @property
    def seen(self) -> Seen:
        return self.gateway.devices[ID]

    def start(self, clock: Clock | None = None) -> Agent:
        """Starts an agent, as after a boot."""
        agent = Agent(
            load(self.config), clock=clock or HastyClock(), firewall=self.firewall, bucket=lambda _: self.bucket
        )
        self.task = asyncio.create_task(agent.run())
        return agent

    async def stop(self) -> None:
        """Ends it."""
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError):
                await self.task

    async def until(self, condition: object, what: str) -> None:
        """Waits, unless the agent has ended."""
        assert callable(condition)
        assert self.task is not None

        def holds() -> object:
            assert not self.task.done(), self.task  # type: ignore[union-attr]
            return condition()

        await wait_until_async(holds, what=what)


@asynccontextmanager
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with StubGateway(tmp_path / "gateway", listen="127.0.0.1") as gateway, FakePodman() as podman:
        on = Stage(gateway, podman, tmp_path / "agent")
        try:
            yield on
        finally:
            await on.stop()


async def test_a_device_registers_runs_its_workload_and_removes_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.start()
        await on.until(lambda: on.seen.heartbeats, "a heartbeat")
        on.gateway.serve(ID, configuration(workload(data=True), device=ID, s3=S3Configuration(bucket_name="b")))
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")
        folder = tmp_path / "agent" / "state" / "volumes" / "nginx" / "out"
        folder.mkdir()
        (folder / "f").write_text("x")
        await on.until(lambda: on.bucket.objects == {"nginx/f": b"x"}, "its data")
        await on.until(lambda: on.seen.unchanged, "a poll that costs nothing")
        await on.until(lambda: on.seen.heartbeats[-1].version, "the version")
        on.gateway.serve(ID, configuration(device=ID))
        await on.until(lambda: not on.podman.pods, "it is removed")
        await on.until(lambda: on.seen.statuses == {}, "that is told")


async def test_a_new_period_takes_effect_without_a_restart(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.gateway.serve(ID, configuration(device=ID, period=3600))
        on.start()
        await on.until(lambda: on.seen.heartbeats and on.seen.heartbeats[-1].version, "a heartbeat")
        await on.until(lambda: on.seen.unchanged > 3, "polls go on")
        heard = len(on.seen.heartbeats)
        await on.until(lambda: on.seen.unchanged > 8, "polls go on")
        assert len(on.seen.heartbeats) - heard <= 1
        on.gateway.serve(ID, configuration(device=ID, period=1))
        await on.until(lambda: len(on.seen.heartbeats) > heard + 4, "heartbeats")


async def test_a_device_boots_without_the_gateway(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.gateway.serve(ID, configuration(workload(), device=ID))
        on.start()
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")
        await on.stop()
        await on.gateway.stop()
        on.podman.pods["nginx"]["Status"] = "Exited"
        agent = on.start()
        await on.until(lambda: on.podman.pods["nginx"]["Status"] == "Running", "it runs again")
        await on.until(lambda: "gateway" in agent.events.problems, "the gateway is missed")
        await on.gateway.start()
        heard = len(on.seen.heartbeats)
        await on.until(lambda: len(on.seen.heartbeats) > heard, "a heartbeat")
        assert len(on.seen.registrations) == 1


@pytest.mark.parametrize("what", ["heartbeat", "configuration", "command"])
async def test_a_401_to_anything_begins_a_new_registration(tmp_path: Path, what: str) -> None:
    async with stage(tmp_path) as on:
        on.start()
        await on.until(lambda: on.seen.heartbeats, "a heartbeat")
        on.gateway.serve(ID, configuration(device=ID))
        on.gateway.refuse[what] = [401]
        await on.until(lambda: len(on.seen.presented) == 2, "a registration")
        assert on.seen.presented == ["register", ID]
        heard = len(on.seen.heartbeats)
        await on.until(lambda: len(on.seen.heartbeats) > heard, "a heartbeat")


async def test_a_certificate_that_has_expired_registers_again_with_itself(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.gateway.lifetime = timedelta(seconds=-1)
        on.start()
        await on.until(lambda: len(on.seen.presented) >= 2, "a second registration")
        on.gateway.lifetime = timedelta(days=1)
        await on.until(lambda: on.seen.heartbeats, "a heartbeat")
        assert set(on.seen.presented) == {"register", ID}


async def test_a_long_poll_brings_a_change_at_once_and_heartbeats_go_on_meanwhile(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        text = on.config.read_text().replace("long-poll-seconds = 0", "long-poll-seconds = 600")
        on.config.write_text(text.replace("poll-seconds = 0.3", "poll-seconds = 3600", 1))
        on.gateway.serve(ID, configuration(device=ID))
        on.start()
        await on.until(lambda: on.gateway.long_polls == 1, "a long poll")
        polls, heard = on.seen.polls, len(on.seen.heartbeats)
        await on.until(lambda: len(on.seen.heartbeats) > heard + 2, "heartbeats")
        assert (on.gateway.long_polls, on.seen.polls) == (1, polls)
        on.gateway.serve(ID, configuration(workload(), device=ID))
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "the change")


async def test_a_gateway_that_answers_a_long_poll_at_once_is_asked_only_every_few_seconds(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.config.write_text(on.config.read_text().replace("long-poll-seconds = 0", "long-poll-seconds = 600"))
        waits: list[float] = []

        class CountingClock(HastyClock):
            async def sleep(self, seconds: float) -> None:
                waits.append(seconds)
                await super().sleep(seconds)

        async def at_once(seconds: float) -> None:
            assert seconds == 600

        on.gateway._wait_for_news = at_once  # type: ignore[method-assign]
        on.gateway.serve(ID, configuration(device=ID, period=3600))
        agent = Agent(load(on.config), clock=CountingClock(), firewall=on.firewall, bucket=lambda _: on.bucket)
        on.task = asyncio.create_task(agent.run())
        await on.until(lambda: on.seen.unchanged > 3, "polls")
        assert sum(0.2 < each < 0.4 for each in waits) >= 3


async def test_a_gateway_that_refuses_what_it_has_signed_is_not_asked_without_end(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        waits: list[float] = []

        class CountingClock(HastyClock):
            async def sleep(self, seconds: float) -> None:
                waits.append(seconds)
                await super().sleep(seconds)

        agent = Agent(load(on.config), clock=CountingClock(), firewall=on.firewall, bucket=lambda _: on.bucket)
        on.gateway.refuse |= {"heartbeat": [401] * 1000, "configuration": [401] * 1000, "command": [401] * 1000}
        on.task = asyncio.create_task(agent.run())
        await on.until(lambda: len(on.seen.registrations) >= 6, "registrations")
        assert max(waits) > 4.0


@pytest.mark.parametrize("what", ["play", "volume"])
async def test_a_state_directory_that_cannot_be_written_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async with stage(tmp_path) as on:
        agent = on.start()
        await on.until(lambda: on.seen.heartbeats, "a heartbeat")

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device", "uploads")

        with monkeypatch.context() as patched:
            patched.setattr(agent.state, "keep_ledger" if what == "play" else "make_volume", full)
            on.gateway.serve(ID, configuration(workload(data=True), device=ID))
            await on.until(lambda: any("No space left" in each[2] for each in on.seen.events), "it is told")
        on.gateway.serve(ID, configuration(workload(), device=ID))
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")


@pytest.mark.parametrize("status", [404, 403, 500, 429])
async def test_a_gateway_that_refuses_a_device_removes_nothing_on_it(tmp_path: Path, status: int) -> None:
    async with stage(tmp_path) as on:
        on.gateway.serve(ID, configuration(workload(), device=ID))
        agent = on.start()
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")
        on.gateway.refuse |= {"configuration": [status] * 3, "heartbeat": [status] * 3, "command": [status] * 3}
        await on.until(lambda: "gateway" in agent.events.problems, "the refusal")
        await on.until(lambda: "gateway" not in agent.events.problems, "it is over")
        assert on.podman.pods["nginx"]["Status"] == "Running"
        assert len(on.seen.registrations) == 1


async def test_podman_that_is_unavailable_is_told_and_waited_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.podman.stop()
        on.gateway.serve(ID, configuration(workload(), device=ID))
        on.start()
        await on.until(lambda: any(each[1] == "PodmanUnavailable" for each in on.seen.events), "podman is missed")
        assert on.seen.heartbeats[-1].status == "degraded"
        await on.podman.start()
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")


async def test_a_configuration_that_cannot_be_read_is_told_and_the_last_one_stays(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        good = configuration(workload(), device=ID)
        on.gateway.serve(ID, good)
        on.start()
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")
        on.gateway.configurations[ID] = b'{"workloads": 7}'
        await on.until(lambda: any(each[1] == "ConfigurationInvalid" for each in on.seen.events), "it is told")
        assert on.podman.pods["nginx"]["Status"] == "Running"
        kept = (tmp_path / "agent" / "state" / "configuration.json").read_bytes()
        assert msgspec.json.decode(kept, type=DeviceConfigurationMessage) == good


async def test_a_damaged_configuration_on_the_disk_waits_for_a_new_one(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        state = tmp_path / "agent" / "state"
        state.mkdir()
        (state / "configuration.json").write_text("{")
        on.gateway.serve(ID, configuration(workload(), device=ID))
        on.start()
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")


async def test_a_disk_that_is_full_is_told_and_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage(tmp_path) as on:
        agent = on.start()
        await on.until(lambda: on.seen.heartbeats, "a heartbeat")

        def full(content: bytes) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(agent.state, "keep_configuration", full)
            on.gateway.serve(ID, configuration(workload(), device=ID))
            await on.until(lambda: any("No space left" in each[2] for each in on.seen.events), "it is told")
            assert on.podman.pods == {}
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")


async def test_commands_are_obeyed_and_a_disconnect_ends_the_agent(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.gateway.serve(ID, configuration(workload(), device=ID))
        on.start()
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")
        on.gateway.commands[ID] += ["ping", "dance", "reconnect"]
        await on.until(lambda: on.seen.control, "a pong")
        heard = on.seen.polls
        await on.until(lambda: on.seen.polls > heard + 5, "polls go on")
        assert on.task is not None
        on.gateway.commands[ID].append("disconnect")
        await wait_until_async(on.task.done, what="the end")
        await on.task
        assert on.podman.pods == {}
        assert not (tmp_path / "agent" / "state" / "device.pem").exists()


async def test_a_disconnect_without_podman_still_forgets_the_device(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.start()
        await on.until(lambda: on.seen.heartbeats, "a heartbeat")
        await on.podman.stop()
        on.gateway.commands[ID].append("disconnect")
        assert on.task is not None
        await wait_until_async(on.task.done, what="the end")
        await on.task
        assert not (tmp_path / "agent" / "state" / "device.pem").exists()


async def test_a_gateway_that_has_another_authority_now_gets_a_new_registration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path) as on:
        on.start()
        await on.until(lambda: on.seen.heartbeats, "a heartbeat")
        await on.stop()
        # The device's certificate is signed by somebody whom the gateway does not know (any more).
        from edgewright.agent.identity import certificate_request, new_key
        from tests.harness.certificates import Authority

        key = new_key()
        known, on.gateway.authority = on.gateway.authority, Authority("another")
        certificate = on.gateway.sign(ID, certificate_request(key, ID).encode()).encode()
        on.gateway.authority = known
        (tmp_path / "agent" / "state" / "device.pem").write_bytes(certificate + key)
        heard = len(on.seen.heartbeats)
        on.start()
        await on.until(lambda: len(on.seen.heartbeats) > heard, "a heartbeat")
        assert on.seen.presented == ["register", "register"]


async def test_a_second_agent_on_the_same_directory_does_not_start(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.start()
        await on.until(lambda: on.seen.heartbeats, "a heartbeat")
        with pytest.raises(ConfigError, match="in use by another agent"):
            await Agent(load(on.config)).run()


class JumpingClock(HastyClock):
    """A clock whose wall time can be set; what has elapsed goes on evenly."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def test_a_clock_that_jumps_neither_stops_the_agent_nor_changes_its_workloads(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.gateway.serve(ID, configuration(workload(), device=ID))
        clock = JumpingClock()
        on.start(clock)
        await on.until(lambda: on.seen.statuses == {"nginx": "Running"}, "it runs")
        for days in (400, -20_000, 0):  # far beyond its certificate, long before 1970's end, and right again
            clock.ahead = timedelta(days=days)
            heard, polls = len(on.seen.heartbeats), on.seen.unchanged
            await on.until(lambda heard=heard: len(on.seen.heartbeats) > heard + 2, "heartbeats go on")
            await on.until(lambda polls=polls: on.seen.unchanged > polls + 2, "polls go on")
            assert on.seen.statuses == {"nginx": "Running"}
        assert on.podman.asked.count("POST play/kube") == 1, "its workload was never started again"
        assert len(on.seen.registrations) <= 3, "a renewal before its time, and no busy loop"


async def test_a_certificate_is_renewed_after_two_thirds_of_its_life_and_before_it_expires(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.gateway.serve(ID, configuration(device=ID))
        clock = JumpingClock()
        on.start(clock)
        await on.until(lambda: on.seen.unchanged, "its configuration")
        for days, presented in ((19, ["register"]), (25, ["register", ID])):  # of 30
            await on.stop()
            clock.ahead = timedelta(days=days)
            on.start(clock)
            heard, many = len(on.seen.heartbeats), len(presented)
            await on.until(lambda heard=heard: len(on.seen.heartbeats) > heard + 2, "heartbeats go on")
            await on.until(lambda many=many: len(on.seen.presented) >= many, "it has registered so often")
            assert on.seen.presented[:2] == presented
