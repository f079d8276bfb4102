"""`edgewright demo`: the whole of it in the test's own process, how it is interrupted, and what it refuses.

`tests/local/test_demo.py` runs it as people do.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from rich.console import Console

from edgewright.api.service import Service
from edgewright.cli import demo, machine
from edgewright.cli.demo_screen import OLD
from edgewright.cli.failure import Failed
from edgewright.devices.simulated.fleet import Fleet
from edgewright.runtime.objects import Key
from tests.harness import wait_until_async
from tests.unit.cli.planes import planes
from tests.unit.devices.simulated.pod import pair

NOTHING_ANSWERS = "127.32.66.1:9"


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Devices of its own, and the signals as they were."""
    monkeypatch.setattr(demo, "_FIRST_ADDRESS", "127.32.66.1")
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def a_console(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    said = io.StringIO()
    return Console(file=said, highlight=False, soft_wrap=True, force_terminal=terminal, width=110), said


async def test_it_shows_and_proves_what_it_claims_and_stays_as_long_as_it_is_wanted(tmp_path: Path) -> None:
    console, said = a_console(terminal=True)

    signed_in: list[int] = []

    async def interrupt() -> None:
        await wait_until_async(lambda: "docs/README.md" in said.getvalue(), what="it says how to go on")
        link = re.search(r"^  (http://127\.0\.0\.1:\d+)/sign-in#(\S+)", said.getvalue(), re.MULTILINE)
        assert link is not None
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{link[1]}/api/v1/session", json={"secret": link[2]}) as answer,
        ):
            signed_in.append(answer.status)
        os.kill(os.getpid(), signal.SIGINT)

    held, _ = await asyncio.gather(demo.run(tmp_path / "data", console, keep=True), interrupt())
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.getvalue())
    assert held, shown
    assert signed_in == [204]
    assert shown.count("✓") == 8
    assert "✗" not in shown
    assert (tmp_path / "data" / "kubeconfig").exists()


@asynccontextmanager
async def opened(_: Path) -> AsyncIterator[Any]:
    """A scene without anything on it, that ends by a signal."""

    async def serve_until(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()

    yield SimpleNamespace(client="client", running=SimpleNamespace(serve_until=serve_until))


async def never(*_: object, **__: object) -> bool:
    await asyncio.Event().wait()
    return True


async def fails(*_: object, **__: object) -> bool:
    raise Failed("in vain")


@pytest.mark.parametrize("show", [never, fails], ids=["by a signal", "by a failure"])
async def test_one_that_ends_too_soon_ends_its_flash_pods_too(
    show: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called_off: list[Any] = []

    async def call_off(client: Any) -> None:
        called_off.append(client)

    monkeypatch.setattr(demo, "opened", opened)
    monkeypatch.setattr(demo, "show", show)
    monkeypatch.setattr(demo, "called_off", call_off)
    with nullcontext() if show is never else pytest.raises(Failed, match="in vain"):
        assert await demo.run(tmp_path, a_console()[0], keep=False) is None
    assert called_off == ["client"]


async def test_to_call_off_what_was_not_declared_is_no_mistake(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        await demo.called_off(client)


def test_a_signal_ends_the_command_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(demo, "run", run)
    with pytest.raises(KeyboardInterrupt):
        demo.demo()


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(Failed, match="is not an empty folder"):
        demo.demo(data=tmp_path)
    with pytest.raises(Failed, match="is not an empty folder"):
        demo.demo(data=tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.parametrize("given", [True, False], ids=["a folder of one's own", "a folder that goes"])
@pytest.mark.parametrize("held", [True, False], ids=["all is so", "not all is so"])
def test_it_ends_well_only_if_all_is_as_claimed(
    given: bool, held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    async def run(folder: Path, console: Console, *, keep: bool) -> bool:
        folders.append(folder)
        assert console.width
        assert not keep
        return held

    monkeypatch.setattr(demo, "run", run)
    if held:
        demo.demo(data=tmp_path if given else None)
    else:
        with pytest.raises(Failed, match="not everything that the demo claims is so"):
            demo.demo(data=tmp_path if given else None)
    assert (folders == [tmp_path]) is given
    assert folders[0].exists() is given


async def test_devices_are_at_other_ports_where_somebody_has_theirs(tmp_path: Path) -> None:
    usual = 80 if os.geteuid() == 0 else 8080
    server = await asyncio.start_server(lambda *_: None, "127.32.66.3", usual)
    async with server, demo.opened(tmp_path / "data") as scene:
        rows = await demo.discovered(scene)
        answers = await demo.asked(scene.fleet)
    assert [row.number for row in rows] == list(answers)
    assert set(answers.values()) == {OLD}
    assert all(":" in row.endpoint and not row.endpoint.endswith(f":{usual}") for row in rows)


async def test_addresses_that_cannot_be_had_at_all_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    async def refused(self: Fleet) -> None:
        tried.append(len(self))
        raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")

    monkeypatch.setattr(Fleet, "__aenter__", refused)
    with pytest.raises(Failed, match=r"Cannot assign requested address: the simulated devices cannot listen at"):
        async with demo.listening(pair().certificate):
            pytest.fail("it runs")
    assert len(tried) == 2


def test_where_no_pod_can_run_it_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    monkeypatch.setattr("edgewright.local.node.container_start.program_folders", lambda: [tmp_path / "closed"])
    monkeypatch.setattr("edgewright.local.node.mount_check.mounts_work", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Failed, match=r"nobody but root may enter .*: install it in another folder, such as /opt, or"):
        demo.demo()
    monkeypatch.setattr("edgewright.local.node.mount_check.mounts_work", lambda: True)
    assert machine.no_pod_can_run() is None
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("edgewright.local.node.mount_check.mounts_work", lambda: False)
    assert machine.no_pod_can_run() is None


async def test_a_device_that_does_not_answer_is_no_proof() -> None:
    class Silent:
        number, endpoint = 1, NOTHING_ANSWERS

    assert (await demo.asked([Silent()]))[1].startswith("no answer (")  # type: ignore[arg-type]


async def test_waiting_ends_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_PATIENCE", 0.01)
    with pytest.raises(Failed, match=r"waited 0 s in vain until pigs fly"):
        await demo.soon(asyncio.Event(), "pigs fly")


async def test_what_does_not_go_in_time_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_TIDYING", 0.2)
    async with planes(tmp_path / "data") as client:
        assert await demo.left_over(client) == []
        await client.raw(Service.kind).create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "left", "namespace": "default"},
                "spec": {"ports": [{"port": 4433}]},
            }
        )
        assert await demo.left_over(client) == [Key("default", "left")]


def test_how_to_go_on_is_as_it_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/edgewright", "demo"])
    assert ".venv/bin/edgewright demo --keep" in demo.how_to_go_on(Path("/d/kubeconfig"))
    told = demo.how_to_go_on(Path("/a b/kubeconfig"), link="http://127.0.0.1:1/sign-in#s")
    assert "export KUBECONFIG='/a b/kubeconfig'" in told
    assert "\n  http://127.0.0.1:1/sign-in#s\n" in told
