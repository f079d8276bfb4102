"""What tests with real parts ask for: a board in QEMU each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.zephyr import Board, microbit, mps2


@pytest.fixture
def microbit_board(tmp_path: Path) -> Iterator[Board]:
    """A micro:bit that runs version 0.0.0."""
    with Board(microbit(), tmp_path) as board:
        yield board


@pytest.fixture
def mps2_board(tmp_path: Path) -> Iterator[Board]:
    """An MPS2 that runs version 0.0.0 and has a large buffer."""
    with Board(mps2(), tmp_path) as board:
        yield board
