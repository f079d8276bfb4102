"""`edgewright agent` as people type it: its settings, what it says, how it ends, and how little it loads."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgewright.agent import load
from edgewright.agent.settings import Settings
from edgewright.cli import agent
from edgewright.runtime.tls import ConfigError
from tests.edge.stub_gateway import StubGateway
from tests.harness.waiting import wait_until_async
from tests.unit.cli.command import PROGRAM, edgewright, environment, sentence
from tests.unit.containers.fake_podman import FakePodman

LIGHT = """
import sys
import edgewright.agent
heavy = {"aiohttp", "rich", "edgewright.runtime.client", "edgewright.runtime.manager", "edgewright.local"}
print(sorted(heavy & set(sys.modules)))
"""


async def test_an_agent_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    async with StubGateway(tmp_path / "gateway", listen="127.0.0.1") as gateway, FakePodman() as podman:
        config = gateway.write_config(tmp_path / "agent", device="dev-1", podman_socket=str(podman.socket))
        checked = await asyncio.to_thread(edgewright, "agent", "--config", config, "--check")
        assert checked.stdout == f"{config}: device dev-1, gateway 127.0.0.1:{gateway.port}\n"
        process = await asyncio.create_subprocess_exec(
            *(PROGRAM, "agent", "--config", config, "--state", tmp_path / "other", "--podman", podman.socket),
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
        )
        await wait_until_async(lambda: gateway.devices["dev-1"].heartbeats, what="a heartbeat")
        process.send_signal(signal.SIGTERM)
        _, said = await process.communicate()
        assert process.returncode == 0, said
        assert b"registered" in said
        assert (tmp_path / "other" / "device.pem").is_file()


def test_settings_that_cannot_be_used_are_one_sentence(tmp_path: Path) -> None:
    done = edgewright("agent", "--config", tmp_path / "none.toml")
    assert done.returncode == 2
    assert sentence(done).endswith("none.toml: cannot be read: No such file or directory")


def settings(gateway: StubGateway, folder: Path) -> Settings:
    return load(gateway.write_config(folder, device="dev-1"))


async def test_what_ends_the_agent_is_told_without_a_group_around_it(tmp_path: Path) -> None:
    async with StubGateway(tmp_path / "gateway", listen="127.0.0.1") as gateway:
        found = settings(gateway, tmp_path / "agent")
        Path(found.cert_file).unlink()  # noqa: ASYNC240 - a test
        with pytest.raises(ConfigError, match="cert-file"):
            await agent.run(found)


def test_flags_override_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.toml"
    path.write_text('server = "a"\nclient-id = "dev-1"\ncert-file = "c"\nkey-file = "k"\nca-root = ["r"]\n')
    agent.agent(config=path, server="b:1", check=True)
    assert capsys.readouterr().out == f"{path}: device dev-1, gateway b:1\n"


def test_the_agent_loads_no_kubernetes_client_and_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
