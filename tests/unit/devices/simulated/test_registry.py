"""The registry in the process, as any client sees it."""

from __future__ import annotations

import pytest

from edgewright.devices.http import Answer, request
from edgewright.devices.simulated.registry import Registry


async def ask(registry: Registry, path: str, method: str = "GET", **headers: str) -> Answer:
    return await request(method, f"{registry.url}{path}", headers=headers)


async def test_it_says_that_it_is_a_registry() -> None:
    async with Registry() as registry:
        assert (await ask(registry, "/v2/")).status == 200


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/", "GET"),
        ("/v2/team/fw/tags", "GET"),
        ("/v2/team/fw/manifests/none", "GET"),
        ("/v2/team/fw/blobs/sha256:none", "GET"),
        ("/v2/team/fw/manifests/1", "DELETE"),
    ],
)
async def test_what_is_not_there_is_not_found(path: str, method: str) -> None:
    async with Registry() as registry:
        registry.add_image("team/fw", "1", b"x")
        assert (await ask(registry, path, method)).status == 404


@pytest.mark.parametrize(
    ("asked", "status", "body", "range_"),
    [
        ("bytes=2-", 206, b"cdef", "bytes 2-5/6"),
        ("bytes=2-3", 206, b"cd", "bytes 2-3/6"),
        ("bytes=2-99", 206, b"cdef", "bytes 2-5/6"),
        ("bytes=6-", 416, None, None),
        ("lines=1-", 200, b"abcdef", None),
    ],
)
async def test_ranges_are_given(asked: str, status: int, body: bytes | None, range_: str | None) -> None:
    async with Registry() as registry:
        digest = registry.add_blob(b"abcdef", "text/plain")["digest"]
        answer = await ask(registry, f"/v2/team/fw/blobs/{digest}", Range=asked)
    assert (answer.status, answer.headers.get("content-range")) == (status, range_)
    assert body is None or answer.body == body


async def test_the_same_image_has_the_same_digest() -> None:
    async with Registry() as one, Registry() as two:
        digests = {registry.add_image("team/fw", "1", {"esp32": b"x"}, version="1") for registry in (one, two)}
        assert len(digests) == 1
        assert one.host != two.host


async def test_a_registry_that_was_never_entered_can_be_left() -> None:
    await Registry().__aexit__(None, None, None)
