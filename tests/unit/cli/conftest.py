"""One control plane for all tests of client commands: each test uses names of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.cli.typed import Plane


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with Plane(tmp_path_factory.mktemp("plane")) as running:
        yield running
