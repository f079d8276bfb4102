"""The agent is killed at random moments, and its bucket goes away: the end is the same, and no file is lost."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from tests.edge.bucket import S3Server
from tests.edge.machine import Machine
from tests.edge.stub_gateway import StubGateway
from tests.edge.support import DEVICE, configuration, workload
from tests.harness.waiting import wait_until_async

SEEDS = [int(os.environ["EDGEWRIGHT_SEED"])] if "EDGEWRIGHT_SEED" in os.environ else [1, 2, 3]
WRITES = (
    "/bin/busybox mkdir -p /export/out; for i in $(/bin/busybox seq 1 40); do echo $i > /export/out/$i; done; "
    "exec /bin/busybox sleep 3600"
)
NUMBERS = {str(number): f"{number}\n" for number in range(1, 41)}


def content(folder: Path) -> dict[str, str]:
    """What is in a bucket below a folder, without what rclone is about to put there."""
    return {path.name: path.read_text() for path in folder.glob("[!.]*")} if folder.is_dir() else {}


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_agent_killed_at_random_moments_comes_to_the_same_end(seed: int, image: Path, tmp_path: Path) -> None:
    rng = random.Random(seed)
    with Machine() as machine, S3Server(tmp_path / "s3", addresses=[machine.gateway]) as s3:
        async with StubGateway(tmp_path / "gateway", addresses=[machine.gateway]) as gateway:
            await machine.podman.load_image(image)
            bucket = s3.configuration("data", host=machine.gateway)
            config = gateway.write_config(
                tmp_path / "agent", device=DEVICE, server=machine.gateway, podman_socket=str(machine.socket)
            )
            agent = machine.agent(config)
            seen = gateway.devices[DEVICE]

            async def kill_and_start(times: int) -> None:
                for _ in range(times):
                    agent.start()
                    await asyncio.sleep(rng.uniform(0.2, 3.0))  # the random moment
                    agent.kill()
                agent.start()

            first = workload("first", host_port=None, script=WRITES, data=True)
            second = workload("second", host_port=9091)
            gateway.serve(DEVICE, configuration(first, second, s3=bucket))
            await kill_and_start(3)
            both = {"first": "Running", "second": "Running"}
            await wait_until_async(lambda: seen.statuses == both, what="both run")
            agent.kill()

            third = workload("third", host_port=9090)
            changed = workload("second", host_port=9092)
            gateway.serve(DEVICE, configuration(changed, third, s3=bucket))
            await kill_and_start(3)
            both = {"second": "Running", "third": "Running"}
            await wait_until_async(lambda: seen.statuses == both, what="second and third run")
            await wait_until_async(lambda: machine.fetch(9092, "/out/hello.txt"), what="the second's new port")
            await wait_until_async(lambda: machine.fetch(9090, "/out/hello.txt"), what="the third's page")

            pods = await machine.podman.pods()
            assert sorted(pod.name for pod in pods) == ["second", "third"]
            rules = machine.run("nft", "list", "table", "inet", "edgewright_agent")
            assert [port for port in ("9090", "9091", "9092") if port in rules] == ["9090", "9092"]
            uploaded = s3.bucket("data") / "first"
            await wait_until_async(lambda: content(uploaded) == NUMBERS, what="every file of the first")
            ledgers = tmp_path / "agent" / "state" / "uploads"
            await wait_until_async(lambda: not list(ledgers.glob("*.json")), what="nothing waits for upload")
            assert len({each.certificate_request != "" for each in seen.registrations}) == 1


async def test_files_written_while_the_bucket_is_away_are_uploaded_when_it_is_back(image: Path, tmp_path: Path) -> None:
    with Machine() as machine, S3Server(tmp_path / "s3", addresses=[machine.gateway]) as s3:
        async with StubGateway(tmp_path / "gateway", addresses=[machine.gateway]) as gateway:
            await machine.podman.load_image(image)
            s3.process.kill()
            bucket = s3.configuration("data", host=machine.gateway)
            config = gateway.write_config(
                tmp_path / "agent", device=DEVICE, server=machine.gateway, podman_socket=str(machine.socket)
            )
            machine.agent(config).start()
            seen = gateway.devices[DEVICE]
            gateway.serve(DEVICE, configuration(workload(script=WRITES, data=True), s3=bucket))
            await wait_until_async(
                lambda: any(reason == "DataUploadFailed" for _, reason, _ in seen.events), what="the bucket is missed"
            )
            gateway.serve(DEVICE, configuration(s3=bucket))
            await wait_until_async(lambda: seen.statuses == {} and seen.heartbeats[-1].version, what="it is removed")
            s3.process.start()
            await wait_until_async(lambda: content(s3.bucket("data") / "nginx") == NUMBERS, what="every file")
            await wait_until_async(lambda: seen.heartbeats[-1].status == "up", what="all is well")
