"""`edgewright edge bundle` and `edgewright gateway`: what they write, what they refuse, and how they end."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from edgewright.api.capabilities import EDGE
from edgewright.cli import edge, gateway, operator_options
from edgewright.cli.failure import Failed
from edgewright.gateway.certificates import Issued
from edgewright.gateway.objects import Secret
from edgewright.gateway.rotation import CA_SECRET
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime import config
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key
from tests.harness import wait_until_async
from tests.unit.cli.planes import planes

SETTINGS = GatewaySettings(namespace="default", host="127.0.0.1", port=0)
CA, REGISTRATION = Issued(b"CA", b"ca key"), Issued(b"CERT", b"KEY")


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


async def served(client: Client) -> None:
    """Runs a gateway until its Secrets are there."""

    async def use() -> None:
        async def made() -> bool:
            try:
                await client.of(Secret).get(Key("default", "flotta-host-certificate"))
            except NotFound:
                return False
            return True

        await wait_until_async(made, what="the gateway has its certificates")
        await asyncio.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    using = asyncio.create_task(use())
    await gateway.serve(client.config, SETTINGS, health_host="127.0.0.1", metrics_port=0, health_port=0)
    await using


async def test_a_gateway_needs_its_kinds_and_then_serves_until_a_signal_comes(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        with pytest.raises(Failed, match="run `edgewright crds install` first"):
            await gateway.serve(client.config, SETTINGS, health_host="", metrics_port=None, health_port=None)
        with pytest.raises(Failed, match="there is no gateway in namespace default"):
            await edge.read_bundle(client.config)
        await operator_options.install_kinds(client, [EDGE])
        await served(client)
        ca, registration, names = await edge.read_bundle(client.config)
        assert b"BEGIN CERTIFICATE" in ca.certificate
        assert b"EC PRIVATE KEY" in registration.key
        assert names == {"project-flotta.io", "127.0.0.1", "::1"}
        await client.of(Secret).patch(Key("default", CA_SECRET), {"data": {"ca.key": None}})
        with pytest.raises(Failed, match=r"has no ca\.key"):
            await edge.read_bundle(client.config)
        with pytest.raises(Failed, match=r"has no ca\.key"):
            await gateway.serve(client.config, SETTINGS, health_host="", metrics_port=None, health_port=None)


def test_names_and_addresses_go_into_the_certificate_apart() -> None:
    made = gateway.settings_of(
        "flotta",
        allowed=("plant",),
        host="",
        port=8043,
        names=("gateway.example", "192.0.2.1"),
        automatic=False,
        days=365,
    )
    assert made.domains == ("gateway.example", "project-flotta.io")
    assert made.addresses == ("192.0.2.1", "127.0.0.1", "::1")
    assert (made.allowed_namespaces, made.automatic_approval) == (("flotta", "plant"), False)


def test_a_number_of_days_that_is_none_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="0 is not from 1 to 3650"):
        gateway.gateway(certificate_days=0)


def test_what_was_typed_reaches_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[GatewaySettings] = []

    async def serve(_: config.Config, settings: GatewaySettings, **__: object) -> None:
        seen.append(settings)

    monkeypatch.setattr(gateway, "serve", serve)
    monkeypatch.setattr(config, "load", lambda **_: config.Config(server="https://x", namespace="flotta"))
    gateway.gateway(port=1, name=["gateway.example"], allow_namespace=["plant"], certificate_days=7)
    (made,) = seen
    assert (made.namespace, made.port, made.device_days, made.namespaces) == ("flotta", 1, 7, ("plant",))


def files(**given: str) -> dict[str, bytes]:
    wanted = {"server": "gw.example:8043", "server_name": "", "device_id": "", "target_namespace": ""} | given
    return edge.files_of(CA, REGISTRATION, **wanted)


def test_a_bundle_is_for_its_owner_alone_and_overwrites_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "bundle"
    edge.write(directory, files())
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == dict.fromkeys(
        ("ca.pem", "cert.pem", "key.pem", "config.toml", "edgewright-agent.service"), 0o600
    )
    assert (directory / "ca.pem").read_bytes() == b"CA"
    with pytest.raises(Failed, match="is not empty"):
        edge.write(directory, files())


def test_the_settings_are_those_that_the_agent_and_the_published_one_read() -> None:
    assert tomllib.loads(files()["config.toml"].decode()) == {
        "server": "gw.example:8043",
        "protocol": "http",
        "path-prefix": "api/flotta-management/v1",
        "cert-file": "cert.pem",
        "key-file": "key.pem",
        "ca-root": ["ca.pem"],
    }
    given = files(server_name="project-flotta.io", device_id="one", target_namespace="plant")
    assert (
        tomllib.loads(given["config.toml"].decode()).items()
        >= {
            "server-name": "project-flotta.io",
            "client-id": "one",
            "namespace": "plant",
        }.items()
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"server": "a b"}, "is not HOST or HOST:PORT"),
        ({"server": "a:99999"}, "is not HOST or HOST:PORT"),
        ({"server": "a", "device_id": "Bad_Name"}, "cannot be an id"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(
    tmp_path: Path, given: dict[str, str], problem: str
) -> None:
    with pytest.raises(typer.BadParameter, match=problem):
        edge.bundle(tmp_path, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("server", "lines"),
    [
        ("127.0.0.1", ['server = "127.0.0.1:8043"']),
        ("gateway.example:443", ['server = "gateway.example:443"', 'server-name = "project-flotta.io"']),
    ],
)
def test_a_host_that_is_not_in_the_certificate_is_told_which_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], server: str, lines: list[str]
) -> None:
    async def read(_: config.Config) -> tuple[Issued, Issued, set[str]]:
        return CA, REGISTRATION, {"project-flotta.io", "127.0.0.1", "::1"}

    monkeypatch.setattr(edge, "read_bundle", read)
    monkeypatch.setattr(config, "load", lambda **_: config.Config(server="https://x"))
    edge.bundle(tmp_path / "bundle", server=server)
    written = (tmp_path / "bundle" / "config.toml").read_text().splitlines()
    assert [each for each in written if each.startswith("server")] == lines
    assert "systemctl enable --now" in capsys.readouterr().out
