"""Agent, podman, bucket, disk and the whole site fail, also at random moments: the end is the same, no file is lost.

All of it at a real site, gateway included, which a test can kill.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.edge.bucket import S3Server
from tests.edge.site import Site
from tests.edge.support import workload
from tests.harness import wait_until
from tests.harness.repetition import numbers

WRITES = (
    "/bin/busybox mkdir -p /export/out; for i in $(/bin/busybox seq 1 40); do echo $i > /export/out/$i; done; "
    "exec /bin/busybox sleep 3600"
)
LIMIT = 400
NUMBERS = {str(number): f"{number}\n" for number in range(1, 41)}


def content(folder: Path) -> dict[str, str]:
    """What is in a bucket below a folder, without what rclone is about to put there."""
    return {path.name: path.read_text() for path in folder.glob("[!.]*")} if folder.is_dir() else {}


@pytest.mark.repeated
@pytest.mark.parametrize("seed", numbers(3, 20))
def test_an_agent_killed_at_random_moments_comes_to_the_same_end(seed: int, site: Site, tmp_path: Path) -> None:
    rng = random.Random(seed)
    with S3Server(tmp_path / "s3", addresses=[site.machine.gateway]) as s3:
        device = site.device(tmp_path, s3)

        def kill_and_start(times: int) -> None:
            for _ in range(times):
                device.agent.start()
                time.sleep(rng.uniform(0.2, 3.0))  # the random moment
                device.agent.kill()
            device.agent.start()

        device.serve(workload("first", host_port=None, script=WRITES, data=True), workload("second", host_port=9091))
        kill_and_start(1)
        device.configure()
        device.agent.kill()
        kill_and_start(3)
        device.runs("first", "second")
        device.agent.kill()

        device.serve(workload("second", host_port=9092), workload("third", host_port=9090))
        kill_and_start(3)
        device.page(9092)
        device.page(9090)
        device.runs("second", "third")
        device.until(lambda: device.pods() == ["second", "third"], "podman runs no other")
        device.until(lambda: device.open_ports(range(9090, 9093)) == [9090, 9092], "no other port is open")
        uploaded = s3.bucket(device.name) / "first"
        device.until(lambda: content(uploaded) == NUMBERS, "every file of the first")
        device.until(lambda: not list((device.state / "uploads").glob("*.json")), "nothing waits for upload")


def test_files_written_while_the_bucket_is_unavailable_are_uploaded_when_it_is_back(site: Site, tmp_path: Path) -> None:
    with S3Server(tmp_path / "s3", addresses=[site.machine.gateway]) as s3:
        device = site.device(tmp_path, s3)
        s3.process.kill()
        device.agent.start()
        device.configure()
        device.serve(workload(script=WRITES, data=True))
        device.until(lambda: "DataUploadFailed" in device.reasons(), "the bucket is missed")
        device.serve()
        device.until(lambda: device.workloads == {} and device.pods() == [], "it is removed")
        s3.process.start()
        device.until(lambda: content(s3.bucket(device.name) / "nginx") == NUMBERS, "every file")
        device.until(lambda: device.status["phase"] == "up", "all is well")


def test_a_device_without_podman_says_so_and_goes_on_when_it_is_back(site: Site, tmp_path: Path) -> None:
    with S3Server(tmp_path / "s3", addresses=[site.machine.gateway]) as s3:
        device = site.device(tmp_path, s3)
        device.agent.start()
        device.configure()
        site.machine.stop_podman()
        try:
            device.serve(workload())
            device.until(lambda: "PodmanUnavailable" in device.reasons(), "podman is missed")
            device.until(lambda: device.status.get("phase") == "degraded", "the device says so")
        finally:
            site.machine.start_podman()
        device.runs("nginx")
        device.until(lambda: device.status.get("phase") == "up", "all is well")


def test_a_device_that_reboots_while_the_site_is_unavailable_starts_its_workloads(site: Site, tmp_path: Path) -> None:
    with S3Server(tmp_path / "s3", addresses=[site.machine.gateway]) as s3:
        device = site.device(tmp_path, s3)
        device.agent.start()
        device.configure()
        device.serve(workload())
        device.runs("nginx")
        certificate = (device.state / "device.pem").read_bytes()
        device.agent.kill()
        site.kill()
        try:
            asyncio.run(site.machine.podman.stop_pod("nginx", grace=0))
            table = ("table", "inet", "edgewright_agent")
            site.machine.run("nft", "delete", *table)
            device.agent.start()

            def serves() -> bool:
                is_open = "9090" in site.machine.run("nft", "list", *table, check=False)
                return is_open and site.machine.fetch(9090, "/out/hello.txt") == f"{device.name}\n"

            wait_until(serves, what="its workload serves, and the port is open", timeout=LIMIT, interval=0.2)
        finally:
            site.start()
        device.serve(workload(host_port=9091))  # what it is told from now on counts again
        device.page(9091)
        device.runs("nginx")
        assert (device.state / "device.pem").read_bytes() == certificate  # it did not register again


PATIENT = (
    "/bin/busybox mkdir -p /export/out; for i in $(/bin/busybox seq 1 40); do "
    "until echo $i > /export/out/$i; do /bin/busybox sleep 1; done; done; exec /bin/busybox sleep 3600"
)
"""Writes its files also where the disk is full for a while."""


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of its own for the agent's state, which can be filled."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leaves no byte free."""
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    with suppress(OSError), (folder / "filler").open("ab", buffering=0) as file:
        while True:
            file.write(b"x")


@pytest.mark.repeated
@pytest.mark.parametrize("seed", numbers(3, 20))
def test_whatever_fails_the_device_comes_to_the_same_end(seed: int, site: Site, tmp_path: Path) -> None:
    rng = random.Random(seed)
    state = tmp_path / "state"
    with small_disk(state), S3Server(tmp_path / "s3", addresses=[site.machine.gateway]) as s3:
        device = site.device(tmp_path, s3, state=state)
        device.agent.start()
        device.configure()

        def away(stop: Callable[[], object], start: Callable[[], object]) -> None:
            stop()
            time.sleep(rng.uniform(0.2, 2.0))  # the random moment
            start()

        faults: list[Callable[[], object]] = [
            lambda: away(device.agent.kill, device.agent.start),
            lambda: away(site.machine.stop_podman, site.machine.start_podman),
            lambda: away(s3.process.kill, s3.process.start),
            lambda: away(lambda: fill(state), (state / "filler").unlink),
            lambda: away(site.kill, site.start),
            lambda: None,
        ]
        rng.shuffle(faults)
        files = workload("files", host_port=None, script=PATIENT, data=True)
        for port, fault in enumerate(faults, start=9091):
            device.serve(files, workload("web", host_port=port))
            fault()

        device.page(port)
        device.runs("files", "web")
        device.until(lambda: device.pods() == ["files", "web"], "podman runs no other")
        device.until(lambda: content(s3.bucket(device.name) / "files") == NUMBERS, "every file")
        device.until(lambda: device.status["phase"] == "up", "all is well")
        device.until(lambda: device.open_ports(range(9090, 9099)) == [port], "no other port is open")
        device.agent.kill()
