"""The Secrets of a job: which are asked for, how often, and what is said where one cannot be used."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewright.api.device import Device, DeviceSpec
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.controllers.flashjob.secrets import Secrets
from edgewright.controllers.settings import Settings
from edgewright.runtime.client import Client
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import ApiError, Forbidden, NotFound, Status
from edgewright.runtime.objects import Key, ObjectMeta


class Kept(msgspec.Struct):
    data: dict[str, str]


class Server:
    """Stands for the client's verbs: the keys of each Secret, or how it is refused."""

    def __init__(self, **secrets: Any) -> None:
        self.secrets = secrets
        self.asked: list[str] = []

    async def get(self, key: Key) -> Kept:
        self.asked.append(key.name)
        found = self.secrets.get(key.name)
        if found is None:
            raise NotFound(Status(code=404))
        if isinstance(found, ApiError):
            raise found
        return Kept(dict.fromkeys(found, "secret"))


def looking(server: Server, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> Secrets:
    client = Client(Config(server="http://127.0.0.1:1"), clock=clock)
    monkeypatch.setattr(client, "of", lambda _: server)
    return Secrets(client, clock, every=30)


def job(**spec: Any) -> FlashJob:
    return FlashJob(metadata=ObjectMeta(name="job", namespace="default"), spec=FlashJobSpec(**spec))


def devices(*protocols: str) -> list[Device]:
    return [Device(spec=DeviceSpec(protocol=protocol)) for protocol in protocols]


@pytest.mark.parametrize(
    ("secrets", "spec", "protocols", "said"),
    [
        ({"ota-agent-tls": ["tls.crt", "tls.key"]}, {}, ["", "esp32"], None),
        ({}, {}, ["smp-udp"], None),
        ({}, {}, ["smp-udp", ""], "spec.tlsSecretName: there is no Secret ota-agent-tls in namespace default"),
        ({}, {"tls_secret_name": "mine"}, [""], "spec.tlsSecretName: there is no Secret mine"),
        ({"mine": ["tls.crt"]}, {"tls_secret_name": "mine"}, [""], "namespace default has no tls.key"),
        ({}, {"flashjob_pod_image": "registry.example/theirs"}, [""], None),
        ({"key": []}, {"signature_public_key_secret": "key"}, ["smp-udp"], "spec.signaturePublicKeySecret: Secret key"),
        ({"key": ["cosign.pub"]}, {"signature_public_key_secret": "key"}, ["smp-udp"], None),
        (
            {"pull": Forbidden(Status(code=403))},
            {"firmware_pull_secret": "pull"},
            ["smp-udp"],
            "spec.firmwarePullSecret: the operator may not get Secret pull",
        ),
    ],
)
async def test_each_secret_that_a_pod_mounts_must_be_there(
    secrets: dict[str, Any],
    spec: dict[str, Any],
    protocols: list[str],
    said: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = looking(Server(**secrets), VirtualClock(), monkeypatch)
    problem = await found.problem(job(**spec), devices(*protocols), Settings())
    assert (problem is None) if said is None else (problem is not None and said in str(problem))
    assert "secret" not in repr(problem).replace("Secret", "")


async def test_a_secret_is_looked_at_again_only_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, server = VirtualClock(), Server()
    found = looking(server, clock, monkeypatch)
    for _ in range(3):
        assert await found.problem(job(), devices(""), Settings()) is not None
    assert server.asked == ["ota-agent-tls"]
    server.secrets["ota-agent-tls"] = ["tls.crt", "tls.key"]
    await clock.advance(31)
    assert await found.problem(job(), devices(""), Settings()) is None
    assert len(server.asked) == 2


async def test_where_the_switch_is_off_no_secret_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    secrets = looking(server, VirtualClock(), monkeypatch)
    assert await secrets.problem(job(), devices("esp32"), Settings(check_secrets=False)) is None
    assert server.asked == []
