"""Rooms whose public names are fetched when they are used: all are there, and nothing else is imported for one."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

ROOMS = ("edgewright.runtime", "edgewright.api")


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_of_a_room_can_be_had(room: str) -> None:
    module = importlib.import_module(room)
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("room", ROOMS)
def test_a_name_that_a_room_has_not_is_said_so(room: str) -> None:
    module = importlib.import_module(room)
    with pytest.raises(AttributeError, match=f"module '{room}' has no attribute 'nonsense'"):
        _ = module.nonsense


def test_a_flasher_starts_without_what_only_the_operator_needs() -> None:
    program = "import edgewright.devices.flasher.program, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "edgewright.api.flash_pod" in loaded
    heavy = {"aiohttp", "yaml", "prometheus_client", "cryptography", "rich", "typer", "edgewright.runtime.client"}
    assert heavy.isdisjoint(loaded)


def test_a_manager_that_serves_no_page_starts_without_what_serves_them() -> None:
    program = """
import asyncio, sys
from edgewright.runtime import Client, Manager
from edgewright.runtime.config import Config

async def run():
    manager = Manager(Client(Config(server="http://127.0.0.1:1")))
    manager.stop()
    await manager.run()

asyncio.run(run())
print(*sys.modules)
"""
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "edgewright.runtime.manager" in loaded
    assert "aiohttp" not in loaded
