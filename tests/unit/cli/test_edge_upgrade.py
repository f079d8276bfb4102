"""`edgewright edge upgrade` with a real gateway and real agents: a new program is kept, or taken back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgewright.agent import upgrade
from edgewright.agent.state import State
from edgewright.api.edgedevice import EdgeDevice
from edgewright.cli.edge import files_of
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock, VirtualClock
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.stage import NAMESPACE, gateway_of, registration_of

REAL = Path(sys.executable).parent / "edgewright"
GOOD = f'exec "{REAL}" "$@"\n'
SILENT = f'case "$*" in *--check*) exec "{REAL}" "$@";; esac\nexit 1\n'
"""It understands the settings, and ends when it is started."""
LOST = f'case "$*" in *--check*) exec "{REAL}" "$@";; esac\nexec "{REAL}" "$@" --server 127.0.0.1:1\n'
"""It runs, and never reaches the gateway."""
CONFUSED = "echo 'no such setting' >&2; exit 1\n"


@dataclass
class Box:
    """A device: its agent is whatever the link points to."""

    folder: Path
    client: Client

    @property
    def link(self) -> Path:
        return self.folder / "edgewright"

    @property
    def state(self) -> State:
        return State(self.folder / "etc" / "state")

    def environment(self, name: str, script: str) -> Path:
        """An environment with a program in it."""
        program = self.folder / name / "bin" / "edgewright"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{script}")
        program.chmod(0o755)
        return program

    def pid(self) -> int:
        """The process that was started last."""
        return int((self.folder / "pid").read_text())

    async def restart(self) -> None:
        process = await asyncio.create_subprocess_exec(str(self.folder / "restart"))
        assert await process.wait() == 0

    async def upgrade(self, *words: str) -> asyncio.subprocess.Process:
        """Types the command."""
        options = ["--link", str(self.link), "--restart", str(self.folder / "restart")]
        config = ["--config", str(self.folder / "etc" / "config.toml")]
        return await asyncio.create_subprocess_exec(
            str(REAL),
            *("edge", "upgrade", *options, *config, *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def upgraded(self, *words: str) -> tuple[int, str]:
        """The exit code of the command, and what it printed, in one line."""
        process = await self.upgrade(*words)
        output, _ = await process.communicate()
        return process.returncode or 0, " ".join(output.decode().split())

    async def online(self) -> None:
        """Waits until the gateway has heard the device."""

        async def heard() -> bool:
            try:
                found = await self.client.of(EdgeDevice).get(Key(NAMESPACE, "box"))
            except NotFound:
                return False
            return any(each.type == "Online" and each.status == "True" for each in found.status.conditions)

        await wait_until_async(heard, what="the device is heard")


@asynccontextmanager
async def box(directory: Path) -> AsyncIterator[Box]:
    """A device that runs its old agent, and its gateway."""
    async with AsyncExitStack() as stack:
        config = await stack.enter_async_context(plane(directory))
        client = await stack.enter_async_context(Client(config))
        gateway = await stack.enter_async_context(gateway_of(config))
        folder = directory / "box"
        made = Box(folder, client)
        ca, registration = await registration_of(client)
        files = files_of(
            ca,
            registration,
            server=f"127.0.0.1:{gateway.port}",
            server_name="",
            device_id="box",
            target_namespace="",
        )
        files["config.toml"] += b'state-dir = "state"\nfirewall = "none"\npodman-socket = "podman"\n'
        (folder / "etc").mkdir(parents=True)
        for name, content in files.items():
            (folder / "etc" / name).write_bytes(content)
        made.link.symlink_to(made.environment("old", GOOD))
        # As systemd does: the old process ends before the new one starts. In a session of its own it outlives this.
        (folder / "restart").write_text(
            f'#!/bin/sh\ncd "{folder}"\n[ -e pid ] && kill "$(cat pid)" 2>/dev/null\n'
            '[ -e pid ] && while kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.05; done\n'
            "setsid ./edgewright agent --config etc/config.toml >> log 2>&1 &\necho $! > pid\n"
        )
        (folder / "restart").chmod(0o755)
        try:
            await made.restart()
            await made.online()
            yield made
        finally:
            with suppress(ProcessLookupError):
                os.kill(made.pid(), signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody asked for counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_new_agent_that_reaches_the_gateway_stays(tmp_path: Path) -> None:
    async with box(tmp_path) as device:
        new, before = device.environment("new", GOOD), device.pid()
        code, said = await device.upgraded("--to", str(device.folder / "new"))
        assert (code, device.link.readlink()) == (0, new), said
        assert "The old one is still at" in said
        assert device.pid() != before
        assert alive(device.pid())
        assert upgrade.under_way(device.state) is None
        assert await device.upgraded("--finish") == (0, "No upgrade is under way.")


async def test_a_new_agent_that_does_not_reach_the_gateway_is_taken_back(tmp_path: Path) -> None:
    async with box(tmp_path) as device:
        device.environment("new", SILENT)
        old = device.link.readlink()
        code, said = await device.upgraded("--to", str(device.folder / "new"), "--within", "2")
        assert (code, device.link.readlink()) == (1, old)
        assert "the new agent did not reach the gateway in time" in said
        assert alive(device.pid()), "the old one runs again"
        assert upgrade.under_way(device.state) is None


async def test_a_new_agent_that_cannot_read_the_settings_is_never_started(tmp_path: Path) -> None:
    async with box(tmp_path) as device:
        device.environment("new", CONFUSED)
        old, before = device.link.readlink(), device.pid()
        code, said = await device.upgraded("--to", str(device.folder / "new"))
        assert (code, device.link.readlink(), device.pid()) == (1, old, before)
        assert "nothing was changed: no such setting" in said
        assert alive(before)


async def test_an_upgrade_that_was_cut_off_is_finished_by_the_next(tmp_path: Path) -> None:
    async with box(tmp_path) as device:
        device.environment("new", SILENT)
        old = device.link.readlink()
        process = await device.upgrade("--to", str(device.folder / "new"), "--within", "3")
        await wait_until_async(lambda: device.link.readlink() != old, what="the link is switched")
        process.kill()
        await process.communicate()
        code, said = await device.upgraded("--to", str(device.folder / "new"))
        assert (code, "an upgrade is under way" in said) == (1, True)
        code, said = await device.upgraded("--finish")
        assert (code, device.link.readlink()) == (1, old), said
        await wait_until_async(lambda: alive(device.pid()), what="the old one runs")
        assert upgrade.under_way(device.state) is None


@asynccontextmanager
async def power_cut(device: Box, script: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """An upgrade that is cut off with everything else, and what the device starts when it has power again."""
    os.kill(device.pid(), signal.SIGKILL)
    await wait_until_async(lambda: not alive(device.pid()), what="nothing runs")
    upgrade.begin(device.state, device.link, device.environment("new", script), seconds=2, clock=SystemClock())
    started = await asyncio.create_subprocess_exec(
        str(device.link),
        *("agent", "--config", str(device.folder / "etc" / "config.toml")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            started.kill()
        await started.communicate()


async def test_after_a_power_cut_a_new_agent_that_does_not_reach_the_gateway_goes_back_by_itself(
    tmp_path: Path,
) -> None:
    async with box(tmp_path) as device:
        old = device.link.readlink()
        async with power_cut(device, LOST) as started:
            output, _ = await asyncio.wait_for(started.communicate(), 120)
        assert started.returncode == 1, "systemd starts an agent again that failed"
        assert "this agent did not reach the gateway" in " ".join(output.decode().split())
        assert (device.link.readlink(), upgrade.under_way(device.state)) == (old, None)


async def test_one_that_was_cut_off_before_the_switch_has_changed_nothing(tmp_path: Path) -> None:
    state, link = State(tmp_path), tmp_path / "link"
    link.symlink_to("old")
    trial = upgrade.begin(state, link, Path("new"), seconds=60, clock=SystemClock())
    assert str(link.readlink()) == "new"
    upgrade.point(link, "old")
    assert upgrade.under_way(state) == trial
    assert not await upgrade.settle(state, trial, clock=SystemClock(), restart=lambda: None)
    assert (str(link.readlink()), upgrade.under_way(state)) == ("old", None)


async def test_one_that_was_cut_off_before_the_switch_is_over_when_the_old_agent_starts(tmp_path: Path) -> None:
    state, link = State(tmp_path), tmp_path / "link"
    link.symlink_to("old")
    trial = upgrade.begin(state, link, Path("new"), seconds=60, clock=SystemClock())
    assert upgrade.own(state) == trial
    upgrade.point(link, "old")
    assert upgrade.own(state) is None
    assert upgrade.under_way(state) is None


async def test_a_trial_that_the_agent_has_ended_is_what_the_agent_made_of_it(tmp_path: Path) -> None:
    state, link, clock = State(tmp_path), tmp_path / "link", VirtualClock()
    link.symlink_to("old")
    for confirmed in (True, False):
        trial = upgrade.begin(state, link, Path("new"), seconds=60, clock=clock)
        watching = asyncio.create_task(upgrade.watch(state, trial, clock=clock))
        if confirmed:
            upgrade.confirm(state, trial)
        await clock.advance(64)
        assert not watching.done(), "the command, which knows more, comes first"
        await clock.advance(2)
        (ended,) = await asyncio.gather(watching, return_exceptions=True)
        assert isinstance(ended, upgrade.WentBack) is not confirmed
        assert (str(link.readlink()), upgrade.under_way(state)) == ("new" if confirmed else "old", None)
        if confirmed:
            assert await upgrade.settle(state, trial, clock=clock, restart=lambda: None)
            upgrade.point(link, "old")


async def test_an_agent_that_has_been_on_trial_for_hours_has_no_more_chances(tmp_path: Path) -> None:
    state, link, clock = State(tmp_path), tmp_path / "link", VirtualClock()
    link.symlink_to("old")
    trial = upgrade.begin(state, link, Path("new"), seconds=300, clock=clock)
    await clock.advance(7200)
    watching = asyncio.create_task(upgrade.watch(state, trial, clock=clock))
    await clock.advance(10)
    with pytest.raises(upgrade.WentBack, match="is old again"):
        await watching


async def test_wheels_of_an_offline_bundle_are_installed_next_to_what_is_there(tmp_path: Path) -> None:
    """The wheel is made here: it hands on to the real program."""
    async with box(tmp_path) as device:
        folder = tmp_path / "wheels"
        folder.mkdir()
        about = "edgewright-99.0.dist-info"
        module = f"import os, sys\n\n\ndef main():\n    os.execv({str(REAL)!r}, [{str(REAL)!r}, *sys.argv[1:]])\n"
        contents = {
            "handover.py": module,
            f"{about}/METADATA": "Metadata-Version: 2.1\nName: edgewright\nVersion: 99.0\n",
            f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{about}/entry_points.txt": "[console_scripts]\nedgewright = handover:main\n",
        }
        contents[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*contents, f"{about}/RECORD"])
        with zipfile.ZipFile(folder / "edgewright-99.0-py3-none-any.whl", "w") as wheel:
            for name, text in contents.items():
                wheel.writestr(name, text)
        code, said = await device.upgraded("--wheels", str(folder), "--version", "98.0")
        assert (code, "edgewright==98.0 cannot be installed" in said) == (1, True), said
        assert sorted(each.name for each in device.folder.glob("edgewright-*")) == [], "nothing is left of it"
        code, said = await device.upgraded("--wheels", str(folder))
        assert code == 0, said
        (made,) = device.folder.glob("edgewright-*")
        assert device.link.readlink() == made / "bin" / "edgewright"
        assert alive(device.pid())
