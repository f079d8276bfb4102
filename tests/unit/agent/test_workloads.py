"""Passes over workloads with a podman from memory: what is done, what is told, and that a second pass does nothing."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edgewright.agent.events import Events
from edgewright.agent.firewall import FirewallError
from edgewright.agent.manifest import Port
from edgewright.agent.state import State
from edgewright.agent.surroundings import Surroundings
from edgewright.agent.workloads import Workloads
from edgewright.api.edge_protocol import DeviceConfigurationMessage, WireSecret, Workload
from edgewright.containers import Podman, PodmanUnavailable
from edgewright.runtime.clock import VirtualClock
from tests.unit.containers.fake_podman import FakePodman

SPEC = "containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 9090}]}]"
SECRET_SPEC = "containers: [{name: c, image: i, envFrom: [{secretRef: {name: s}}]}]"


class MemoryFirewall:
    """A firewall that a test can look into."""

    def __init__(self) -> None:
        self.ports: dict[str, list[Port]] = {}
        self.fail = ""

    async def open(self, ports: Mapping[str, Sequence[Port]]) -> None:
        if self.fail:
            raise FirewallError(self.fail)
        self.ports = {name: list(each) for name, each in ports.items() if each}

    async def clear(self) -> None:
        await self.open({})


class Stage:
    """Workloads with everything around them from memory."""

    def __init__(self, podman: FakePodman, folder: Path) -> None:
        self.podman = podman
        self.firewall = MemoryFirewall()
        self.events = Events()
        self.clock = VirtualClock()
        self.state = State(folder)
        self.workloads = self.other()

    def other(self) -> Workloads:
        """The workloads as another process would take them up."""
        around = Surroundings(
            device="dev-1",
            podman=Podman(self.podman.socket),
            state=self.state,
            events=self.events,
            clock=self.clock,
            rng=random.Random(1),
        )
        return Workloads(around, firewall=self.firewall)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(each.reason, each.message) for each in self.events.to_send()]


@asynccontextmanager
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with FakePodman() as podman:
        yield Stage(podman, tmp_path)


def configuration(*workloads: Workload, secrets: tuple[WireSecret, ...] = ()) -> DeviceConfigurationMessage:
    return DeviceConfigurationMessage(workloads=workloads, secrets=secrets)


WEB = Workload(name="web", specification=SPEC)


async def test_a_workload_is_started_and_a_second_pass_changes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        assert await on.workloads.statuses(configuration(WEB)) == {"web": "Deploying"}
        await on.workloads.apply(configuration(WEB))
        assert await on.workloads.statuses(configuration(WEB)) == {"web": "Running"}
        assert on.firewall.ports == {"web": [Port("tcp", 9090)]}
        assert on.state.volume("web").is_dir()
        assert on.told == [("WorkloadStarted", "web: started")]
        on.podman.asked.clear()
        assert await on.workloads.apply(configuration(WEB)) is True
        assert {each.split()[0] for each in on.podman.asked} == {"GET"}


async def test_a_changed_workload_is_replaced_and_an_unwanted_one_removed(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.workloads.apply(
            configuration(WEB, Workload(name="old", specification=SECRET_SPEC.replace("s}", "s, optional: true}")))
        )
        changed = Workload(name="web", specification=SPEC.replace("9090", "9091"))
        await on.workloads.apply(configuration(changed))
        assert sorted(on.podman.pods) == ["web"]
        assert on.firewall.ports == {"web": [Port("tcp", 9091)]}
        assert await on.workloads.apply(configuration(changed)) is True


async def test_secrets_come_with_their_workload_and_go_with_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.podman.secrets["foreign"] = b"x"
        wanted = Workload(name="web", specification=SECRET_SPEC)
        secret = WireSecret(name="s", data='{"k":"YQ=="}')
        await on.workloads.apply(configuration(wanted, secrets=(secret,)))
        assert sorted(on.podman.secrets.values()) == [b"x", b'{"k":"YQ=="}']
        del on.podman.pods["web"]
        on.clock._elapsed += 1000
        await on.workloads.apply(configuration(wanted, secrets=(secret,)))
        assert len(on.podman.secrets) == 2
        other = WireSecret(name="s", data='{"k":"Yg=="}')
        await on.workloads.apply(configuration(wanted, secrets=(other,)))
        assert sorted(on.podman.secrets.values()) == [b"x", b'{"k":"Yg=="}']
        await on.workloads.apply(configuration())
        assert on.podman.secrets == {"foreign": b"x"}


async def test_a_refused_workload_is_told_once_and_tried_again_with_growing_waits(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.podman.refuse["play web"] = "no such image"
        good = Workload(name="good", specification="containers: [{name: c, image: i}]")
        for _ in range(3):
            await on.workloads.apply(configuration(WEB, good))
        assert on.podman.asked.count("POST play/kube") == 2
        assert ("WorkloadFailed", "web: no such image") in on.told
        assert len([each for each in on.told if each[0] == "WorkloadFailed"]) == 1
        assert await on.workloads.statuses(configuration(WEB, good)) == {"good": "Running", "web": "Error"}
        await on.clock.advance(400)
        await on.workloads.apply(configuration(WEB, good))
        assert on.podman.asked.count("POST play/kube") == 3
        on.podman.refuse.clear()
        await on.clock.advance(400)
        await on.workloads.apply(configuration(WEB, good))
        assert on.told[-1] == ("WorkloadStarted", "web: started after all")
        assert on.events.problems == {}


async def test_containers_that_cannot_start_are_told(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.podman.container_errors = ["port 9090 is busy"]
        await on.workloads.apply(configuration(WEB))
        assert on.events.problems == {"workload web": "web: port 9090 is busy"}


async def test_a_pod_that_stopped_is_started_and_one_that_will_not_is_told(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.workloads.apply(configuration(WEB))
        on.podman.pods["web"]["Status"] = "Exited"
        await on.clock.advance(400)
        await on.workloads.apply(configuration(WEB))
        assert on.podman.pods["web"]["Status"] == "Running"
        on.podman.pods["web"]["Status"] = "Exited"
        on.podman.refuse["start"] = "cannot start"
        await on.clock.advance(400)
        await on.workloads.apply(configuration(WEB))
        assert on.events.problems == {"workload web": "web: cannot start"}
        on.podman.pods["web"]["Status"] = "Running"
        await on.workloads.apply(configuration(WEB))
        assert on.events.problems == {}


async def test_a_pod_of_somebody_else_is_never_touched(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.podman.add_pod("web")
        on.podman.add_pod("other", labels={"edgewright.dev/device": "dev-2"})
        await on.workloads.apply(configuration(WEB))
        await on.workloads.remove_all()
        assert sorted(on.podman.pods) == ["other", "web"]
        assert "not the agent's" in on.told[0][1]


async def test_a_bad_workload_is_told_with_its_field_and_what_runs_of_it_goes_on(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.workloads.apply(configuration(WEB))
        bad = Workload(name="web", specification="containers: []")
        assert await on.workloads.apply(configuration(bad)) is False
        assert on.podman.pods["web"]["Status"] == "Running"
        assert on.firewall.ports == {"web": [Port("tcp", 9090)]}
        assert "specification.containers" in on.events.problems["workload web"]
        await on.workloads.apply(configuration())
        assert on.events.problems == {}
        assert on.podman.pods == {}


async def test_without_its_ports_a_workload_is_not_started(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.firewall.fail = "not permitted"
        closed = Workload(name="closed", specification="containers: [{name: c, image: i}]")
        await on.workloads.apply(configuration(WEB, closed))
        assert sorted(on.podman.pods) == ["closed"]
        assert on.events.problems["firewall"] == "ports cannot be opened: not permitted"
        on.firewall.fail = ""
        await on.clock.advance(400)
        await on.workloads.apply(configuration(WEB, closed))
        assert sorted(on.podman.pods) == ["closed", "web"]
        on.firewall.fail = "not permitted"
        await on.workloads.remove_all()
        assert on.podman.pods == {}
        assert on.events.problems["firewall"] == "not permitted"


async def test_a_pod_that_cannot_be_stopped_is_removed_and_one_that_cannot_be_removed_is_told(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.workloads.apply(configuration(WEB))
        on.podman.refuse |= {"stop": "no", "remove": "busy"}
        await on.workloads.apply(configuration(Workload(name="web", specification=SPEC.replace("9090", "1"))))
        assert on.events.problems["workload web"].endswith("pod already exists")
        on.podman.refuse.pop("remove")
        await on.workloads.apply(configuration())
        assert on.podman.pods == {}


@pytest.mark.parametrize("away", ["play", "stop", "remove"])
async def test_podman_that_goes_away_in_a_pass_ends_the_pass(tmp_path: Path, away: str) -> None:
    async with stage(tmp_path) as on:
        path = {"play": "play/kube", "stop": "pods/web/stop", "remove": "pods/web"}[away]
        if away != "play":
            await on.workloads.apply(configuration(WEB))
        on.podman.raw[path] = (200, b"<html>")
        with pytest.raises(PodmanUnavailable):
            await on.workloads.apply(configuration(*((WEB,) if away == "play" else ())))
