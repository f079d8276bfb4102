"""Images that are fetched in the background: who waits, who is told, and how often a registry is asked."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any, cast

import pytest

from edgewright.containers import Podman
from edgewright.local.node.image_pulls import ImagePulls, NoImage, credentials_of, default_policy
from edgewright.local.node.sources import Missing, Sources
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.objects import Key
from tests.unit.containers.fake_podman import FakePodman

KEY = Key("default", "web")
WEB = {"name": "main", "image": "web:1"}


@pytest.mark.parametrize(
    ("reference", "policy"),
    [
        ("web", "Always"),
        ("web:latest", "Always"),
        ("host.example:5000/web", "Always"),
        ("host.example:5000/web:1", "IfNotPresent"),
        ("web@sha256:abc", "IfNotPresent"),
    ],
)
def test_what_is_called_latest_is_fetched_each_time(reference: str, policy: str) -> None:
    assert default_policy(reference) == policy


async def test_an_image_is_waited_for_and_then_it_is_there() -> None:
    told = asyncio.Queue[Key]()
    async with FakePodman() as fake:
        podman, pulls = Podman(fake.socket), ImagePulls(clock=SystemClock(), changed=told.put_nowait)
        with pytest.raises(NoImage) as waits:
            await pulls.get(podman, WEB, KEY, {})
        assert (waits.value.reason, waits.value.retry) == ("ContainerCreating", None)
        assert await told.get() == KEY
        fake.raw["images/abc/json"] = (200, b'{"Id": "abc", "Config": {"User": "7"}}')
        found = await pulls.get(podman, WEB, KEY, {})
        assert (found.id, found.config.user) == ("abc", "7")
        await pulls.close()


async def test_a_registry_that_fails_is_asked_less_and_less_often() -> None:
    told = asyncio.Queue[Key]()
    async with FakePodman() as fake:
        fake.refuse["pull"] = "manifest unknown"
        podman, pulls = Podman(fake.socket), ImagePulls(clock=SystemClock(), changed=told.put_nowait)
        with pytest.raises(NoImage):
            await pulls.get(podman, WEB, KEY, {})
        await told.get()
        with pytest.raises(NoImage, match="manifest unknown") as failed:
            await pulls.get(podman, WEB, KEY, {})
        assert failed.value.reason == "ErrImagePull"
        assert failed.value.retry is not None
        assert 5 < failed.value.retry <= 10
        assert sum("images/pull" in each for each in fake.asked) == 1
        with pytest.raises(NoImage) as never:
            await pulls.get(podman, {**WEB, "imagePullPolicy": "Never"}, KEY, {})
        assert never.value.reason == "ErrImageNeverPull"
        await pulls.close()


class _Secrets:
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def secret(self, name: str, *, optional: bool) -> dict[str, bytes] | None:
        return {".dockerconfigjson": self._content} if name == "there" and optional else None


async def test_pull_secrets_are_read_as_docker_writes_them() -> None:
    auth = base64.b64encode(b"ann:s3:cret").decode()
    auths: dict[str, Any] = {"one.example": {"auth": auth}, "two.example": {"username": "b", "password": "c"}}
    sources = cast("Sources", _Secrets(json.dumps({"auths": auths}).encode()))
    spec = {"imagePullSecrets": [{"name": "there"}, {"name": "missing"}]}
    assert await credentials_of(spec, sources) == {
        "one.example": {"username": "ann", "password": "s3:cret"},
        "two.example": {"username": "b", "password": "c"},
    }
    with pytest.raises(Missing, match="cannot be read"):
        await credentials_of(spec, cast("Sources", _Secrets(b"{")))
