"""The fault matrix: every fault of a device, tried again or not, while the operator is killed or sees all too late.

A run is 20 devices with every fault for a job that tries nothing again, and 20 for a job that does: 66 attempts at the
least, so that eight runs have more than 500, in `make soak`. A witness asks the devices what happened to them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cluster.flash.matrix import WHOLE, side_by_side
from tests.cluster.flash.operators import Trouble
from tests.harness import ApiServer, repetition

TROUBLES = {
    "steady": Trouble(),
    "killed": Trouble(kills=4),
    "behind": Trouble(behind=2.0),
    "both": Trouble(kills=3, behind=2.0),
}


def test_the_runs_have_as_many_attempts_as_they_must() -> None:
    assert 2 * len(TROUBLES) * sum(part.least for part in WHOLE.values()) >= 500


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(trouble, id=name, marks=() if name == "both" else pytest.mark.soak)
        for name, trouble in TROUBLES.items()
    ],
)
async def test_every_fault_is_told_as_it_was_whatever_befalls_the_operator(
    flash_cluster: ApiServer, flash_plane: ApiServer, tmp_path: Path, trouble: Trouble
) -> None:
    both = {"real": flash_cluster, "local": flash_plane}
    await side_by_side(both, tmp_path, trouble, seed=list(TROUBLES.values()).index(trouble))


@pytest.mark.soak
@pytest.mark.parametrize("number", range(1, 11))
async def test_every_fault_is_told_as_it_was_many_times_over(
    flash_cluster: ApiServer, flash_plane: ApiServer, tmp_path: Path, number: int
) -> None:
    seed = f"{repetition.seed()} {number}"
    chance = random.Random(seed)
    trouble = Trouble(kills=chance.randrange(8), behind=chance.choice((0.0, chance.uniform(0, 6))))
    await side_by_side({"real": flash_cluster, "local": flash_plane}, tmp_path, trouble, seed=seed)
