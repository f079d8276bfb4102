"""An operator that dies at each of its writes, and a Helm that dies at each of its steps, come to the same end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from edgewright.controllers.chart.operator import add_charts
from edgewright.controllers.chart.settings import ChartSettings
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.unit.controllers.chart.stage import SHOP, Stage, staged
from tests.unit.controllers.flashjob.harness import Mortal
from tests.unit.runtime.fakeserver import running

A = Key("default", "a")
_PATIENCE = 60.0
_FEWEST = 3
"""An install has its finalizer, the owner's marks and a status."""


async def dies(stage: Stage, at: int, *, after: bool) -> bool:
    """Runs an operator until its write number `at`; False where it settled before that."""
    manager = Manager(Client(stage.client.config))
    mortal = Mortal(manager.client, at=at, after=after)
    watch = replace(stage.watch)
    add_charts(manager, ChartSettings(served=((watch, SHOP),)), SystemClock(), helm=stage.helm)
    async with running(manager.run()):
        settled = asyncio.create_task(_settled(stage))
        died = asyncio.create_task(mortal.died.wait())
        done, rest = await asyncio.wait({settled, died}, timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        for each in rest:
            each.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        assert done, "it neither settled nor died"
        return died in done


async def _settled(stage: Stage) -> None:
    """Until the Shop is gone or ready as it is."""
    found = await stage.shops.list("default")
    if not found.items:
        return
    if found.items[0]["metadata"].get("deletionTimestamp"):
        await stage.until_gone()
        return
    await stage.until_condition("Ready", "True")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_an_operator_that_dies_at_each_write_comes_to_the_same_end(tmp_path: Path, after: bool) -> None:
    """Helm's own writes are not among them: with those it is killed on the real API server."""
    for at in count(1):
        async with staged(tmp_path / str(at)) as stage:
            await stage.create(greeting="one")
            died = await dies(stage, at, after=after)
            async with stage.operating():
                await stage.until_condition("Ready", "True")
                await stage.until_greeting("one")
            assert (await stage.statuses())[-1] == "deployed"
            assert (await stage.statuses()).count("deployed") == 1
            await stage.change(greeting="two")
            died |= await dies(stage, at, after=after)
            async with stage.operating():
                await stage.until_greeting("two")
                await stage.until_condition("Ready", "True")
            assert (await stage.statuses()).count("deployed") == 1
            await stage.shops.delete(A)
            died |= await dies(stage, at, after=after)
            async with stage.operating():
                await stage.until_gone()
            assert await stage.statuses() == []
            assert await stage.greeting() is None
        if not died:
            break
    assert at > _FEWEST
