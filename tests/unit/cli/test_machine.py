"""The options of what runs on this machine: how they are read, and what is said of those that cannot be."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
import typer

from edgewright.cli import machine
from edgewright.cli.failure import Failed
from edgewright.local.node import podman_service


@pytest.mark.parametrize(
    ("environment", "given", "found"),
    [
        ({"HOME": "/home/me"}, None, "/home/me/.local/share/edgewright"),
        ({"HOME": "/home/me", "XDG_DATA_HOME": "/data"}, None, "/data/edgewright"),
        ({"HOME": "/home/me", "XDG_DATA_HOME": "relative"}, None, "/home/me/.local/share/edgewright"),
        ({"HOME": "/home/me", "XDG_DATA_HOME": ""}, None, "/home/me/.local/share/edgewright"),
        ({"HOME": "/home/me", "XDG_DATA_HOME": "/data"}, Path("/mine"), "/mine"),
        ({"HOME": "/home/me"}, Path("mine"), str(Path("mine").absolute())),
    ],
)
def test_where_the_data_is(
    environment: dict[str, str], given: Path | None, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert machine.data_directory(given) == Path(found)


def test_a_user_without_a_home_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(Failed, match="is not known: set HOME, or name the directory with --data"):
        machine.data_directory(None)
    assert machine.data_directory(Path("/mine")) == Path("/mine")


def test_an_image_is_a_name_and_a_command_as_a_shell_reads_it() -> None:
    given = ["web=python3 -m http.server", "edge.example/a/b:v1=/bin/echo 'a b' c=d", "web=later"]
    assert machine.images(given) == {"web": ["later"], "edge.example/a/b:v1": ["/bin/echo", "a b", "c=d"]}
    assert machine.images(None) == {}


@pytest.mark.parametrize("text", ["web", "web=", "=python3", "web='open", "web= "])
def test_an_image_without_a_name_or_a_command_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=text[:3]) as wrong:
        machine.images([text])
    assert getattr(wrong.value, "param_hint") == "--image"  # noqa: B009 - not in its type


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("127.0.0.7", ("127.0.0.7",)),
        ("127.0.0.8, 127.0.0.7,127.0.0.8", ("127.0.0.8", "127.0.0.7")),
    ],
)
def test_addresses_keep_their_order(text: str, found: tuple[str, ...]) -> None:
    assert machine.addresses(text) == found


@pytest.mark.parametrize("text", ["here", "127.0.0.1,", "127.0.0.0/24", "0.0.0.0", "224.0.0.1", "::1", "192.0.2.7"])
def test_what_is_no_address_of_this_machine_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is not an IPv4 address|is no address of this machine"):
        machine.addresses(text)


@pytest.mark.parametrize("text", ["", "127.0.0.1,127.0.0.2"])
def test_where_one_address_is_asked_for_it_must_be_one(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        machine.addresses(text, option="--address", most=1)


@pytest.mark.parametrize(
    ("given", "host", "found"),
    [
        (None, "Edge_7.Example", "edge-7.example"),
        (None, "..", "edgewright"),
        (None, "h" * 60, "edgewright"),
        ("mine", "host", "mine"),
    ],
)
def test_a_node_is_called_as_asked_or_as_the_machine(
    given: str | None, host: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert machine.node_name(given, option="--name") == found


@pytest.mark.parametrize("given", ["", "Mine", "a_b", "-a", "n" * 53])
def test_what_cannot_be_the_name_of_a_node_is_wrong_usage(given: str) -> None:
    with pytest.raises(typer.BadParameter, match="no name of a Node"):
        machine.node_name(given, option="--name")


@pytest.mark.parametrize(
    ("runtime", "problem", "used"),
    [
        ("process", None, False),
        ("auto", None, True),
        ("auto", "podman is not installed", False),
        ("podman", None, True),
    ],
)
def test_podman_is_used_where_it_may_and_can_be(
    runtime: str, problem: str | None, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podman_service, "unusable", lambda: problem)
    assert machine.podman(runtime) is used


def test_podman_that_is_asked_for_and_cannot_be_used_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podman_service, "unusable", lambda: "podman is not installed")
    with pytest.raises(Failed, match="--runtime podman: podman is not installed"):
        machine.podman("podman")
    with pytest.raises(typer.BadParameter, match="'docker' is not auto, process or podman"):
        machine.podman("docker")


def test_what_podman_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"podman", "ip", "nsenter"}
    monkeypatch.setattr(shutil, "which", lambda name: name if name in there else None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert podman_service.unusable() is None
    there.discard("ip")
    assert "ip and nsenter" in (podman_service.unusable() or "")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "as root" in (podman_service.unusable() or "")
    there.clear()
    assert podman_service.unusable() == "podman is not installed"
