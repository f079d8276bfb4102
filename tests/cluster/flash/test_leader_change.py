"""Two operators and one lease, which is taken from whoever leads again and again while devices with faults are flashed.

The leader is killed, or stopped until its lease is over and the other leads, and then goes on in the belief that it
leads. Whatever it was about to do, no device may be written by two at once, or again after a recorded success.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cluster.flash.matrix import FLEET, LASTING, Part, side_by_side
from tests.cluster.flash.operators import Trouble
from tests.harness import ApiServer, repetition

SHORT = {"once": Part(0), "again": Part(3, tuple("" if fault in LASTING else fault for fault in FLEET))}
"""A run of 40 devices that has every fault, and not all of them again and again."""


async def test_no_device_suffers_from_a_change_of_leader(flash_cluster: ApiServer, tmp_path: Path) -> None:
    await side_by_side({"real": flash_cluster}, tmp_path, Trouble(changes=3), seed=0, parts=SHORT)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(1, 7))
async def test_no_device_suffers_from_many_changes_of_leader(
    flash_cluster: ApiServer, flash_plane: ApiServer, tmp_path: Path, number: int
) -> None:
    seed = f"{repetition.seed()} {number}"
    chance = random.Random(seed)
    trouble = Trouble(changes=chance.randrange(3, 9), behind=chance.choice((0.0, chance.uniform(0, 4))))
    await side_by_side({"real": flash_cluster, "local": flash_plane}, tmp_path, trouble, seed=seed)


@pytest.mark.soak
async def test_no_device_suffers_from_a_change_of_leader_of_the_command(
    flash_cluster: ApiServer, flash_plane: ApiServer, tmp_path: Path
) -> None:
    seed = repetition.seed()
    trouble = Trouble(changes=3, command=True)
    await side_by_side({"real": flash_cluster, "local": flash_plane}, tmp_path, trouble, seed=seed, parts=SHORT)
