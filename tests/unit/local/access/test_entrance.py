"""All that a control plane needs to let people and its own parts in."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from multidict import CIMultiDict

from edgewright.local.access import ADMINISTRATOR, Entrance, user_of_connection
from edgewright.runtime import config
from edgewright.runtime.clock import SystemClock
from tests.unit.local.access.handshakes import handshake, presented
from tests.unit.local.access.test_authority import SetClock


@pytest.fixture
def entrance(tmp_path: Path) -> Entrance:
    return Entrance(tmp_path, host="127.0.0.1", names=["10.96.0.1"], clock=SystemClock())


def known_as(entrance: Entrance, client: ssl.SSLContext) -> tuple[str, tuple[str, ...]]:
    user = user_of_connection(handshake(entrance.tls, client, "10.96.0.1"))
    assert user is not None
    return user.name, user.groups


def test_each_part_is_known_by_its_own_name(entrance: Entrance) -> None:
    assert known_as(entrance, entrance.node("edge-1")) == (
        "system:node:edge-1",
        ("system:nodes", "system:authenticated"),
    )
    assert known_as(entrance, entrance.component("controllers")) == (
        "system:controllers",
        ("system:masters", "system:authenticated"),
    )


def test_the_token_is_the_administrator(entrance: Entrance) -> None:
    headers = CIMultiDict({"Authorization": f"Bearer {entrance.token}"})
    assert entrance.authentication.identify(headers, None) is ADMINISTRATOR


def test_the_kubeconfig_is_the_same_administrator(entrance: Entrance, tmp_path: Path) -> None:
    from edgewright.local.access import kubeconfig

    kubeconfig.write(tmp_path / "kubeconfig", entrance.kubeconfig("https://127.0.0.1:1"))
    tls = config.load(kubeconfig=tmp_path / "kubeconfig", environ={}).tls
    assert tls is not None
    assert known_as(entrance, tls) == (ADMINISTRATOR.name, ADMINISTRATOR.groups)


def test_the_node_gives_logs_to_the_server_and_to_nobody_without_a_certificate(entrance: Entrance) -> None:
    serves = entrance.node_logs("edge-1", "127.64.0.1")
    user = user_of_connection(handshake(serves, entrance.logs_client, "127.64.0.1"))
    assert user is not None
    assert user.name == "kube-apiserver-kubelet-client"
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        handshake(serves, ssl.create_default_context(cafile=entrance.authority.file), "127.64.0.1")


def test_a_server_that_runs_for_a_year_gives_new_connections_a_new_certificate(tmp_path: Path) -> None:
    clock = SetClock()
    entrance = Entrance(tmp_path, host="127.0.0.1", clock=clock)
    first = presented(entrance.tls)
    entrance.renew()
    assert presented(entrance.tls) == first
    clock.time += timedelta(days=350)
    entrance.renew()
    assert presented(entrance.tls) != first
