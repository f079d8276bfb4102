"""The options of the operator: how they are read, and what cannot be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from edgewright.api import CUSTOM_KINDS
from edgewright.cli import operating
from edgewright.controllers.settings import Settings
from tests.unit.cli.planes import planes

TYPED: dict[str, Any] = {"plain_registries": None, "attestation": "", "nat": False}


def test_what_was_typed_becomes_the_settings_of_the_operator() -> None:
    assert operating.settings(**TYPED) == Settings()
    assert operating.settings(
        plain_registries=["10.0.0.5:5000", "registry.example"],
        attestation="http://10.0.0.5:8000",
        nat=True,
        flasher_image="registry.example/flasher:1",
        local=True,
    ) == Settings(
        plain_registries=("10.0.0.5:5000", "registry.example"),
        attestation="http://10.0.0.5:8000",
        nat=True,
        flasher_image="registry.example/flasher:1",
        local=True,
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"plain_registries": ["http://10.0.0.5:5000"]}, "is not HOST or HOST:PORT"),
        ({"plain_registries": [""]}, "is not HOST or HOST:PORT"),
        ({"attestation": "10.0.0.5:8000"}, "is not a URL"),
        ({"attestation": "http://"}, "is not a URL"),
        ({"attestation": "http://[::1"}, "is not a URL"),
    ],
    ids=["a URL", "nothing", "no scheme", "no host", "half an address"],
)
def test_what_cannot_be_meant_is_wrong_usage(typed: dict[str, Any], said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        operating.settings(**TYPED | typed)


async def test_our_kinds_are_served_once_they_are_installed_and_installing_again_changes_nothing(
    tmp_path: Path,
) -> None:
    async with planes(tmp_path / "data") as client:
        await operating.install_kinds(client)
        await operating.install_kinds(client)
        for kind in CUSTOM_KINDS:
            assert (await client.of(kind).list()).items == []
