"""A rollout whose operator is taken from its work again and again: no limit is exceeded, and every device gets there.

Two operators and one lease. The leader is killed, or stopped until the other leads. Limits are measured at the devices.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.cluster.flash.operators import Trouble, at_work
from tests.cluster.flash.rolling import rolling
from tests.cluster.flash.stage import Stage
from tests.harness import ApiServer, repetition

DEVICES, SITES, AT_ONCE = 200, 20, 10


async def roll(server: ApiServer, namespace: str, directory: Path, *, changes: int, devices: int, seed: object) -> None:
    """Takes a fleet to another version while the leader changes so often."""
    stage = Stage(server, namespace, devices=devices, operator=False)
    chance = random.Random(str(seed))
    async with (
        stage,
        at_work(stage, directory, Trouble(changes=changes), chance),
        rolling(stage, sites=SITES) as rollouts,
    ):
        await rollouts.make(
            batches=[{"name": "canary", "size": 2}, {"name": "tenth", "size": "10%"}],
            maxConcurrent=AT_ONCE,
            budgets=[{"label": "site", "maxUnavailable": 1}],
            template={"retries": 5},
        )
        status = await rollouts.until_phase("Completed", patience=1200)
        assert status.counts is not None
        assert status.counts.succeeded == devices
        assert set(rollouts.versions().values()) == {"0.2.0"}
        assert rollouts.most_at_once() <= AT_ONCE
        assert all(rollouts.most_at_once(site) <= 1 for site in rollouts.sites().values())
        assert not any(device.journal.written_by_two_at_once for device in stage.fleet)


def test_no_limit_of_a_rollout_is_exceeded_when_the_leader_changes_ten_times(
    flash_cluster: ApiServer, tmp_path: Path
) -> None:
    namespace = flash_cluster.create_namespace("rollout-leaders")
    # 200 devices take longer than other scenarios may.
    asyncio.run(roll(flash_cluster, namespace, tmp_path, changes=10, devices=DEVICES, seed=0))


@pytest.mark.soak
@pytest.mark.parametrize("number", range(10))
def test_no_limit_of_a_rollout_is_exceeded_however_often_the_leader_changes(
    flash_cluster: ApiServer, tmp_path: Path, number: int
) -> None:
    namespace = flash_cluster.create_namespace(f"rollout-leaders-{number}")
    seed = f"{repetition.seed()} {number}"
    asyncio.run(roll(flash_cluster, namespace, tmp_path, changes=10, devices=DEVICES, seed=seed))
