"""The options of the operator: how they are read, and what cannot be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from edgewright.api import CUSTOM_KINDS
from edgewright.api.probe import Unaskable
from edgewright.cli import operator_options
from edgewright.cli.failure import Failed
from edgewright.controllers.notifications.webhook import Webhook
from edgewright.controllers.settings import Settings, Timing
from edgewright.devices.timescale import TIME_SCALE
from tests.unit.cli.planes import planes

TYPED: dict[str, Any] = {"plain_registries": None, "attestation": "", "nat": False}


def test_what_was_typed_becomes_the_settings_of_the_operator() -> None:
    assert operator_options.settings(**TYPED) == Settings()
    assert operator_options.settings(
        plain_registries=["10.0.0.5:5000", "registry.example"],
        token_hosts=["auth.example", "[::1]"],
        attestation="http://10.0.0.5:8000",
        nat=True,
        flasher_image="registry.example/flasher:1",
        local=True,
        probe=True,
        probe_every=5.0,
    ) == Settings(
        plain_registries=("10.0.0.5:5000", "registry.example"),
        token_hosts=("auth.example", "::1"),
        attestation="http://10.0.0.5:8000",
        nat=True,
        flasher_image="registry.example/flasher:1",
        local=True,
        probe=True,
        timing=Timing(probe_every=5.0),
    )


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        (None, "edgewright"),
        ("flux", "edgewright"),
        ("charts,flux", "edgewright"),
        ("charts", "edgewright-charts"),
    ],
)
def test_an_operator_of_charts_alone_does_not_wait_for_the_leader_of_our_kinds(typed: str | None, name: str) -> None:
    assert operator_options.lease_of(operator_options.capabilities(typed)) == name


def test_what_flash_pods_may_have_is_open_until_it_is_listed() -> None:
    allowed = operator_options.Allowed(
        flasher_images=["registry.example/"],
        pull_secrets=["harbor"],
        tolerations=["edge"],
        pod_labels=["example.com/"],
        pod_annotations=["team"],
    )
    assert operator_options.settings(**TYPED, allowed=allowed) == Settings(
        flasher_images=("registry.example/",),
        pull_secrets=("harbor",),
        tolerations=("edge",),
        pod_labels=("example.com/",),
        pod_annotations=("team",),
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
        ({"token_hosts": ["https://auth.example"]}, "is not the name of a host"),
        ({"token_hosts": ["auth.example:443"]}, "is not the name of a host"),
        ({"attestation": "10.0.0.5:8000"}, "is not a URL"),
        ({"attestation": "http://10.0.0.5:99999"}, "is not a URL"),
        ({"attestation": "http://10.0.0.5:http"}, "is not a URL"),
        ({"attestation": "http://10.0.0.5:"}, "is not a URL"),
        ({"attestation": "http://"}, "is not a URL"),
        ({"attestation": "http://[::1"}, "is not a URL"),
        ({"allowed": operator_options.Allowed(pod_labels=["a", ""])}, "it would allow everything"),
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
        "a token service by URL",
        "a token service with a port",
        "no scheme",
        "a URL with a port too high",
        "a URL with a port of letters",
        "a URL without its port",
        "no host",
        "half an address",
        "an empty prefix",
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


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_a_webhook_is_a_url_and_a_file_with_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n", encoding="utf-8")
    made = operator_options.webhook("https://hooks.example/x", file, plain=False)
    assert made is not None
    assert operator_options.settings(**TYPED, webhook=made).webhook == Webhook(
        url="https://hooks.example/x", secret_file=file
    )
    assert operator_options.webhook("", None, plain=False) is None
    assert operator_options.webhook("http://127.0.0.1:8095/", file, plain=True) is not None


@pytest.mark.parametrize(
    ("url", "text", "plain", "said"),
    [
        ("", SECRET, False, "is for --webhook alone"),
        ("", None, True, "is for --webhook alone"),
        ("https://hooks.example", None, False, "needs --webhook-secret-file"),
        ("http://hooks.example", SECRET, False, "add --webhook-plain"),
        ("https://169.254.169.254/", SECRET, True, "link-local"),
        ("https://hooks.example", "hunter2", False, "line 1 is no secret"),
        ("https://hooks.example", "", False, "holds 0 secrets"),
    ],
)
def test_half_a_webhook_or_a_bad_one_is_refused(
    url: str, text: str | None, plain: bool, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(typer.BadParameter, match=said) as refused:
        operator_options.webhook(url, None if text is None else file, plain=plain)
    assert "hunter2" not in str(refused.value)


def test_a_secret_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="none: No such file"):
        operator_options.webhook("https://hooks.example", tmp_path / "none", plain=False)


def test_the_flasher_on_a_node_of_ours_lives_as_fast_as_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TIME_SCALE, raising=False)
    program = operator_options.flasher_command()
    assert program[1:] == ["-m", "edgewright.devices.flasher"]
    monkeypatch.setenv(TIME_SCALE, "0.20")
    assert operator_options.flasher_command() == ["env", f"{TIME_SCALE}=0.2", *program]
    assert operator_options.flasher_command(0.15) == ["env", f"{TIME_SCALE}=0.15", *program]
    monkeypatch.setenv(TIME_SCALE, "fast")
    with pytest.raises(Failed, match=TIME_SCALE):
        operator_options.flasher_command()
