"""A device with real podman at a gateway that answers from memory, where a test reads what the device says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from edgewright.api.edge_protocol import Workload
from tests.edge.machine import Machine
from tests.edge.stub_gateway import Seen, StubGateway
from tests.edge.support import DEVICE, configuration
from tests.harness.processes import Process
from tests.harness.waiting import wait_until_async

HELLO = "/out/hello.txt"


@dataclass
class Device:
    """A device that is registered, and what the gateway sees of it."""

    machine: Machine
    gateway: StubGateway
    agent: Process
    state: Path

    @property
    def seen(self) -> Seen:
        return self.gateway.devices[DEVICE]

    def serve(self, *workloads: Workload, **more: object) -> None:
        self.gateway.serve(DEVICE, configuration(*workloads, **more))  # type: ignore[arg-type]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        def holds() -> object:
            assert self.agent.running or "end" in what, self.agent.output()
            return condition()

        await wait_until_async(holds, what=what)

    async def runs(self, *names: str) -> None:
        expected = dict.fromkeys(names, "Running")
        await self.until(lambda: self.seen.statuses == expected, f"{names} run")

    async def removed(self) -> None:
        """No pod is left: what is not wanted any more is on no list at once, and takes a moment to stop."""

        async def none_left() -> bool:
            return not await self.machine.podman.pods()

        await wait_until_async(none_left, what="the pods are removed")

    async def page(self, port: int = 9090) -> None:
        await self.until(lambda: self.machine.fetch(port, HELLO) == f"{DEVICE}\n", f"the page at {port}")


@asynccontextmanager
async def registered(machine: Machine, tmp_path: Path, **more: object) -> AsyncIterator[Device]:
    gateway = StubGateway(tmp_path / "gateway", addresses=[machine.gateway])
    async with gateway:
        config = gateway.write_config(
            tmp_path / "agent",
            device=DEVICE,
            server=machine.gateway,
            podman_socket=str(machine.socket),
            long_poll_seconds=30,
            **more,
        )
        device = Device(machine, gateway, machine.agent(config), tmp_path / "agent" / "state")
        device.agent.start()
        await device.until(lambda: device.seen.heartbeats, "a heartbeat")
        yield device
        device.agent.kill()
