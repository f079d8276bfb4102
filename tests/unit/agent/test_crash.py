"""The agent dies before each of its writes in turn, and the next one comes to the same end: nothing is lost."""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.process
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from edgewright.api.edge_protocol import DeviceConfigurationMessage, S3Configuration
from tests.edge.stub_gateway import StubGateway
from tests.edge.support import configuration, workload
from tests.harness.repetition import times
from tests.harness.waiting import wait_until_async
from tests.unit.agent import mortal_agent
from tests.unit.containers.fake_podman import FakePodman

ID = "dev-1"
S3 = S3Configuration(bucket_name="b", bucket_host="h", bucket_port=1)
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["tests.unit.agent.mortal_agent"])
STRIDE = times(3, 1)
"""So many tests share the writes among them."""


class Stage:
    """A gateway and podman that outlive the agents."""

    def __init__(self, gateway: StubGateway, podman: FakePodman, folder: Path) -> None:
        self.gateway, self.podman, self.folder = gateway, podman, folder
        self.config = gateway.write_config(
            folder / "agent", device=ID, podman_socket=str(podman.socket), firewall="none", probation_seconds=0.2
        )
        self.bucket = folder / "bucket"
        self.bucket.mkdir(parents=True)
        self.state = folder / "agent" / "state"

    def start(self, last: int) -> multiprocessing.process.BaseProcess:
        """An agent that dies before its Nth write."""
        arguments = (str(self.config), last, str(self.bucket))
        process = FORK.Process(target=mortal_agent.run, args=arguments, daemon=True)
        process.start()
        return process

    async def run(self, last: int, end: Callable[[], bool]) -> bool:
        """Runs an agent until it dies (False) or the end is reached (True)."""
        process = self.start(last)
        try:
            await wait_until_async(lambda: not process.is_alive() or end(), what=f"death {last}, or the end")
            return process.is_alive()
        finally:
            process.kill()
            await asyncio.to_thread(process.join)

    @property
    def whole(self) -> bool:
        """Whether no file is half written, at any moment."""
        for path in self.state.rglob("[!.]*.json"):
            msgspec.json.decode(path.read_bytes())
        return True

    def settled(self, version: str, statuses: dict[str, str], uploads: set[str]) -> bool:
        """Whether the device is as it must be in the end, and has told so."""
        seen = self.gateway.devices[ID]
        good = {path.stem for path in (self.state / "versions").glob("[!.]*.json")}
        ledgers = [path.read_text() for path in (self.state / "uploads").glob("[!.]*.json")]
        return (
            bool(seen.heartbeats)
            and seen.heartbeats[-1].version == version
            and seen.statuses == statuses
            and good == set(statuses)
            and uploads <= {path.name for path in self.bucket.iterdir()}
            and all(f'"{name.replace("_", "/")}"' in "".join(ledgers) for name in uploads)
        )


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    # In memory where that is possible: a kill loses nothing that was written, so no disk is the subject here.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        path = Path(folder)
        async with StubGateway(path / "gateway", listen="127.0.0.1") as gateway, FakePodman() as podman:
            yield Stage(gateway, podman, path)


@pytest.mark.repeated
@pytest.mark.parametrize("offset", range(STRIDE))
async def test_an_agent_that_dies_before_any_of_its_writes_loses_and_repeats_nothing(offset: int) -> None:
    deaths = 0
    for last in range(1 + offset, 500, STRIDE):
        async with stage() as on:
            wanted = configuration(workload("a", data=True), workload("b", host_port=9091), device=ID, s3=S3)
            if not await die_and_come_back(on, wanted, last):
                break  # all that is to be written was written before
        deaths += 1
    assert deaths * STRIDE >= 18


async def die_and_come_back(on: Stage, wanted: DeviceConfigurationMessage, last: int) -> bool:
    """Whether the agent died before its Nth write; another one has come to the end then."""
    on.gateway.serve(ID, wanted)
    volume = on.state / "volumes" / "a" / "out"
    volume.mkdir(parents=True)
    (volume / "one").write_text("1")

    def end() -> bool:
        return on.settled(wanted.version, {"a": "Running", "b": "Running"}, {"a_one"})

    died = not await on.run(last, end)
    if died:
        assert on.whole
        assert set(on.podman.pods) <= {"a", "b"}
        assert await on.run(0, end)
    assert on.whole
    assert set(on.podman.pods) == {"a", "b"}
    assert on.podman.asked.count("POST play/kube") == 2
    keys = {key_of(each.certificate_request) for each in on.gateway.devices[ID].registrations}
    assert len(keys) == 1
    assert [path.name for path in on.state.rglob(".*") if path.is_file()] == []
    return died


def key_of(request: str) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    key = x509.load_pem_x509_csr(request.encode()).public_key()
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
