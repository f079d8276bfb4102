"""The options of the operator: how they are read, and what cannot be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from edgewright.api import CUSTOM_KINDS
from edgewright.api.probe import Unaskable
from edgewright.cli import operator_options
from edgewright.controllers.settings import Settings, Timing
from tests.unit.cli.planes import planes

TYPED: dict[str, Any] = {"plain_registries": None, "attestation": "", "nat": False}


def test_what_was_typed_becomes_the_settings_of_the_operator() -> None:
    assert operator_options.settings(**TYPED) == Settings()
    assert operator_options.settings(
        plain_registries=["10.0.0.5:5000", "registry.example"],
        attestation="http://10.0.0.5:8000",
        nat=True,
        flasher_image="registry.example/flasher:1",
        local=True,
        probe=True,
        probe_every=5.0,
    ) == Settings(
        plain_registries=("10.0.0.5:5000", "registry.example"),
        attestation="http://10.0.0.5:8000",
        nat=True,
        flasher_image="registry.example/flasher:1",
        local=True,
        probe=True,
        timing=Timing(probe_every=5.0),
    )


@pytest.mark.parametrize("host", ["registry", "registry.example", "10.0.0.5:5000", "[::1]:5000", "[fd00::5]"])
def test_a_registry_is_named_by_host_and_port(host: str) -> None:
    assert operator_options.settings(**TYPED | {"plain_registries": [host]}).plain_registries == (host,)


async def test_devices_are_asked_only_where_that_is_chosen_and_on_this_machine_only_where_they_may_be() -> None:
    assert operator_options.prober(Settings()) is None
    for local in (False, True):
        asks = operator_options.prober(Settings(probe=True, local=local))
        assert asks is not None
        answer = await asks.ask("morse", "127.0.0.1")
        assert isinstance(answer, Unaskable)
        assert ("loopback" in answer.reason) is not local


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"plain_registries": ["http://10.0.0.5:5000"]}, "is not HOST or HOST:PORT"),
        ({"plain_registries": [""]}, "is not HOST or HOST:PORT"),
        ({"plain_registries": ["host:notaport"]}, "is not HOST or HOST:PORT"),
        ({"plain_registries": ["host:70000"]}, "is not HOST or HOST:PORT"),
        ({"plain_registries": ["host:"]}, "is not HOST or HOST:PORT"),
        ({"plain_registries": ["me@host:5000"]}, "is not HOST or HOST:PORT"),
        ({"plain_registries": ["host,other"]}, "is not HOST or HOST:PORT"),
        ({"plain_registries": ["[::1"]}, "is not HOST or HOST:PORT"),
        ({"attestation": "10.0.0.5:8000"}, "is not a URL"),
        ({"attestation": "http://10.0.0.5:99999"}, "is not a URL"),
        ({"attestation": "http://10.0.0.5:http"}, "is not a URL"),
        ({"attestation": "http://10.0.0.5:"}, "is not a URL"),
        ({"attestation": "http://"}, "is not a URL"),
        ({"attestation": "http://[::1"}, "is not a URL"),
        ({"probe_every": 0.5}, "0.5 is not a number of seconds from 1 to 86400"),
        ({"probe_every": float("nan")}, "nan is not a number of seconds"),
        ({"probe_every": float("inf")}, "inf is not a number of seconds"),
    ],
    ids=[
        "a URL",
        "nothing",
        "a port of letters",
        "a port too high",
        "no port",
        "a user",
        "two hosts",
        "half an IPv6 address",
        "no scheme",
        "a URL with a port too high",
        "a URL with a port of letters",
        "a URL without its port",
        "no host",
        "half an address",
        "too often",
        "no number",
        "never",
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(typed: dict[str, Any], said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        operator_options.settings(**TYPED | typed)


async def test_our_kinds_are_served_once_they_are_installed_and_installing_again_changes_nothing(
    tmp_path: Path,
) -> None:
    async with planes(tmp_path / "data") as client:
        await operator_options.install_kinds(client)
        await operator_options.install_kinds(client)
        for kind in CUSTOM_KINDS:
            assert (await client.of(kind).list()).items == []
