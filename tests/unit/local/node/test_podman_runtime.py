"""What the node asks podman for, and what it makes of the answers; the suite in tests/edge runs it on the real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edgewright.containers import Image, Podman, PodmanUnavailable
from edgewright.local.node.folders import PODMAN, NodeFolder, PodRecord, State
from edgewright.local.node.lifecycle import Start
from edgewright.local.node.podman_runtime import PodmanRuntime, Wanted
from edgewright.local.node.podman_service import PodmanService
from edgewright.local.node.podman_spec import LABEL, POD_UID, container_name, pod_name
from edgewright.local.node.volumes import Mount
from edgewright.runtime.clock import SystemClock
from tests.unit.containers.fake_podman import FakePodman
from tests.unit.local.node.podspecs import NOW, pod

NETWORK = (
    b'{"name": "n", "network_interface": "nobody0", "subnets": [{"subnet": "10.9.0.0/24", "gateway": "10.9.0.1"}]}'
)
NAME = container_name("u", "main", 0)


class Stage:
    """A runtime whose podman answers from memory."""

    def __init__(self, fake: FakePodman, folder: NodeFolder, runtime: PodmanRuntime, pid: int) -> None:
        self.fake = fake
        self.folder = folder
        self.runtime = runtime
        self.pid = pid

    def wanted(self, mounts: tuple[Mount, ...] = ()) -> Wanted:
        record = PodRecord(
            uid="u", namespace="default", name="pod", boot="b", taken_in=NOW, address="10.9.0.5", runtime=PODMAN
        )
        folder = self.folder.pod("u")
        folder.take_in(record)
        asked = pod(containers=[{"name": "main", "image": "web"}])
        image = Image(id="abc")
        return Wanted(
            pod=asked, record=record, folder=folder, start=Start(asked.containers[0]), image=image, mounts=mounts
        )

    def inspected(self, **state: object) -> None:
        content = {"Id": "c", "State": {"Status": "initialized", "Pid": self.pid, "ConmonPid": self.pid, **state}}
        self.fake.raw["containers/c/json"] = (200, json.dumps(content).encode())


@asynccontextmanager
async def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """A runtime, while the context lasts."""
    sleeper = await asyncio.create_subprocess_exec("sleep", "600")
    async with FakePodman() as fake:
        podman = Podman(fake.socket)

        async def client(_: PodmanService) -> Podman:
            return podman

        monkeypatch.setattr(PodmanService, "client", client)
        folder = NodeFolder(tmp_path / "node")
        folder.open()
        runtime = PodmanRuntime(folder.path, clock=SystemClock(), changed=lambda _: None)
        found = Stage(fake, folder, runtime, sleeper.pid)
        fake.raw[f"networks/{runtime.network.name}/json"] = (200, NETWORK)
        fake.add_pod(pod_name("u"), labels={LABEL: str(folder.path), POD_UID: "u"})
        fake.raw["containers/infra/start"] = fake.raw["containers/c/init"] = fake.raw["containers/c/start"] = (204, b"")
        fake.raw["containers/infra/json"] = (200, b'{"Id": "infra", "State": {"Pid": 0}}')
        fake.raw["containers/create"] = (201, b'{"Id": "c"}')
        found.inspected()
        try:
            yield found
        finally:
            await runtime.close()
            folder.close()
            sleeper.kill()
            await sleeper.wait()


async def test_a_pod_gets_an_address_of_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(tmp_path, monkeypatch) as stage:
        address = await stage.runtime.address("u")
        assert address.startswith("10.9.0.")
        assert address not in {"10.9.0.0", "10.9.0.1", "10.9.0.255"}
        assert await stage.runtime.address("u") == address


async def test_a_process_joins_the_network_of_a_pod_by_its_first_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path, monkeypatch) as stage:
        wanted = stage.wanted()
        with pytest.raises(PodmanUnavailable, match=f"podman lost pod {pod_name('u')}"):
            await stage.runtime.network_of(wanted.pod, wanted.record)
        stage.fake.raw["containers/infra/json"] = (200, b'{"Id": "infra", "State": {"Pid": 7}}')
        assert await stage.runtime.network_of(wanted.pod, wanted.record) == "/proc/7/ns/net"


async def test_who_runs_a_container_is_written_down_before_it_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path, monkeypatch) as stage:
        wanted = stage.wanted()
        await stage.runtime.start(wanted)
        attempt = wanted.attempt.read()
        assert attempt is not None
        assert attempt.running
        assert attempt.image == "sha256:abc"
        assert attempt.state is not None
        assert (attempt.state.container, attempt.state.stop) == ("c", 15)
        asked = [each for each in stage.fake.asked if "containers" in each]
        assert asked[-4:] == [
            "POST containers/create", "POST containers/c/init", "GET containers/c/json", "POST containers/c/start",
        ]  # fmt: skip


async def test_what_podman_refuses_to_start_is_an_end_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path, monkeypatch) as stage:
        stage.fake.raw["containers/c/init"] = (500, b'{"message": "no such program"}')
        wanted = stage.wanted()
        await stage.runtime.start(wanted)
        attempt = wanted.attempt.read()
        assert attempt is not None
        assert attempt.end is not None
        assert (attempt.end.code, attempt.end.error) == (128, "no such program")
        assert f"DELETE containers/{NAME}" in stage.fake.asked


async def test_where_podman_is_lost_nothing_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(tmp_path, monkeypatch) as stage:
        stage.fake.raw["containers/c/json"] = (404, b"{}")
        wanted = stage.wanted()
        with pytest.raises(PodmanUnavailable):
            await stage.runtime.start(wanted)
        assert wanted.attempt.read() is None


@pytest.mark.parametrize(
    ("said", "code", "lost", "out_of_memory"),
    [
        ({"Status": "exited", "ExitCode": 3, "FinishedAt": "2026-01-01T12:00:00.123456789Z"}, 3, False, False),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": True, "FinishedAt": "no time"}, 137, False, True),
        (None, 137, True, False),
    ],
)
async def test_an_end_is_what_podman_says_of_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: dict[str, object] | None,
    code: int,
    lost: bool,
    out_of_memory: bool,
) -> None:
    async with staged(tmp_path, monkeypatch) as stage:
        if said is None:
            del stage.fake.raw["containers/c/json"]
            stage.fake.raw["containers/c/json"] = (404, b"{}")
        else:
            stage.inspected(**said)
        end = await stage.runtime.end_of(State(container="c", started=1))
        assert (end.code, end.lost, end.out_of_memory) == (code, lost, out_of_memory)


async def test_older_watchers_say_by_a_file_that_memory_ran_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path, monkeypatch) as stage:
        own = stage.folder.path / "podman"
        own.mkdir()
        (own / "oom").touch()
        stage.inspected(Status="exited", ExitCode=137)
        assert (await stage.runtime.end_of(State(container="c"))).out_of_memory
        assert not (await stage.runtime.end_of(State(container="c"))).out_of_memory


async def test_what_belongs_to_no_pod_is_removed_and_others_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path, monkeypatch) as stage:
        await stage.runtime.sweep([])
        assert not any(each.startswith("DELETE") for each in stage.fake.asked)  # podman was never used here
        (stage.folder.path / "podman").mkdir()
        stage.fake.add_pod("foreign", labels={LABEL: "/another", POD_UID: "x"})
        await stage.runtime.sweep(["u"])
        assert set(stage.fake.pods) == {pod_name("u"), "foreign"}
        await stage.runtime.sweep([])
        assert set(stage.fake.pods) == {"foreign"}
        stage.fake.raw[f"networks/{stage.runtime.network.name}"] = (200, b"[]")
        await stage.runtime.close()
        assert not (stage.folder.path / "podman").exists()
