"""Firmware from a real registry that others wrote: by digest, with a password, damaged, cut off, signed and not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.api.reference import parse_reference
from edgewright.devices.drivers.driver import Ended, Image
from edgewright.devices.oci import Access, Credentials, Limits, Login, pull
from edgewright.devices.simulated.registry import Registry as SimulatedRegistry
from tests.e2e.registry import PASSWORD, USER, RealRegistry
from tests.harness.certificates import Authority
from tests.harness.proxy import Proxy
from tests.unit.devices.oci.keys import ecdsa_key

FIRMWARE = random.Random(5).randbytes(2_000_000)  # noise: it does not get shorter by being packed


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """A registry over plain HTTP that lets everybody in."""
    with RealRegistry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[RealRegistry]:
    """A registry with TLS that wants a password."""
    with RealRegistry(tmp_path_factory.mktemp("locked"), authority=authority, password=True) as running:
        yield running


async def pull_plainly(
    host: str, image: str, *, public_key: bytes | None = None, log: list[str] | None = None
) -> Image:
    return await pull(
        parse_reference(f"{host}/{image}"),
        device="esp32",
        access=Access(plain_hosts=frozenset({host})),
        public_key=public_key,
        limits=Limits(pause=0.01),
        log=(log if log is not None else []).append,
    )


async def test_an_image_is_pulled_by_tag_and_by_digest(registry: RealRegistry) -> None:
    images = SimulatedRegistry()
    old = images.add_image("fleet/moving", "1", {"esp32": b"old", "esp32s3": b"other"}, version="1.0.0")
    await registry.push(images)
    images = SimulatedRegistry()
    new = images.add_image("fleet/moving", "1", {"esp32": FIRMWARE}, version="1.0.1")
    await registry.push(images)
    by_tag = await pull_plainly(registry.host, "fleet/moving:1")
    assert (by_tag.content, by_tag.digest, by_tag.label_version) == (FIRMWARE, new, "1.0.1")
    by_digest = await pull_plainly(registry.host, f"fleet/moving:1@{old}")
    assert (by_digest.content, by_digest.digest, by_digest.label_version) == (b"old", old, "1.0.0")


async def test_an_image_that_does_not_exist_is_named(registry: RealRegistry) -> None:
    with pytest.raises(Ended, match=r"has no 7 of fleet/none: manifest unknown") as ended:
        await pull_plainly(registry.host, "fleet/none:7")
    assert ended.value.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("login", "outcome"),
    [(Login(USER, PASSWORD), None), (Login(USER, "wrong"), Outcome.REFUSED), (None, Outcome.REFUSED)],
    ids=["right", "wrong", "none"],
)
async def test_a_registry_with_a_password_wants_the_right_one(
    locked: RealRegistry,
    authority: Authority,
    login: Login | None,
    outcome: Outcome | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trusted = tmp_path / "authority.crt"
    trusted.write_bytes(authority.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))  # as in a Pod whose registry has an authority of its own
    images = SimulatedRegistry()
    digest = images.add_image("fleet/locked", "1", FIRMWARE)
    await locked.push(images)
    access = Access(credentials=Credentials(((locked.host, login),) if login is not None else ()))
    reference = parse_reference(f"{locked.host}/fleet/locked:1")
    if outcome is None:
        image = await pull(reference, device="esp32", access=access)
        assert (image.content, image.digest) == (FIRMWARE, digest)
        return
    with pytest.raises(Ended) as ended:
        await pull(reference, device="esp32", access=access)
    assert ended.value.outcome is outcome


async def test_a_blob_that_was_tampered_with_is_refused(registry: RealRegistry) -> None:
    images = SimulatedRegistry()
    images.add_image("fleet/tampered", "1", FIRMWARE[:100_000])
    await registry.push(images)
    registry.damage(images.layers("fleet/tampered", "1")[0])
    with pytest.raises(Ended, match="is damaged: its content has another digest") as ended:
        await pull_plainly(registry.host, "fleet/tampered:1")
    assert ended.value.outcome is Outcome.CORRUPT


async def test_a_connection_that_is_cut_is_resumed(registry: RealRegistry) -> None:
    images = SimulatedRegistry()
    images.add_image("fleet/cut", "1", FIRMWARE)
    await registry.push(images)
    lines: list[str] = []
    with Proxy("127.0.0.1", registry.port) as proxy:
        proxy.cut_new_after(700_000)
        image = await pull_plainly(f"127.0.0.1:{proxy.port}", "fleet/cut:1", log=lines)
        assert proxy.count >= 3
    assert image.content == FIRMWARE
    resumed = [int(line.split("going on after ")[1].split()[0]) for line in lines if "going on after" in line]
    assert len(resumed) >= 2
    assert resumed == sorted(set(resumed))


async def test_an_image_that_the_key_signed_is_pulled(registry: RealRegistry) -> None:
    key, images = ecdsa_key(), SimulatedRegistry()
    images.sign("fleet/signed", images.add_image("fleet/signed", "1", FIRMWARE), key.sign)
    await registry.push(images)
    assert (await pull_plainly(registry.host, "fleet/signed:1", public_key=key.public)).content == FIRMWARE


@pytest.mark.parametrize(
    ("signed", "says"), [(True, "no signature of the image"), (False, "is not signed")], ids=["by another", "by nobody"]
)
async def test_an_image_that_the_key_did_not_sign_is_refused(registry: RealRegistry, signed: bool, says: str) -> None:
    images = SimulatedRegistry()
    repository = f"fleet/wrong-{signed}".lower()
    digest = images.add_image(repository, "1", FIRMWARE[:1000])
    if signed:
        images.sign(repository, digest, ecdsa_key().sign)
    await registry.push(images)
    with pytest.raises(Ended, match=says) as ended:
        await pull_plainly(registry.host, f"{repository}:1", public_key=ecdsa_key().public)
    assert ended.value.outcome is Outcome.REFUSED
