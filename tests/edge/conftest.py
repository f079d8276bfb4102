"""What tests with edge devices share: the image that workloads run, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edge.machine import build_image


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of the workloads as a docker-archive."""
    return build_image(tmp_path_factory.mktemp("image"))
