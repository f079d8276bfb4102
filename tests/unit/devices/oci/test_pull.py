"""Pulling firmware: what comes out of an image, and what is found wrong with it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.oci import Limits
from edgewright.devices.simulated.registry import Registry, pack
from tests.unit.devices.oci.keys import SigningKey, ecdsa_key, ed25519_key, rsa_key
from tests.unit.devices.oci.registries import FIRMWARE, pull_from

TAR = "application/vnd.oci.image.layer.v1.tar"
INDEX = "application/vnd.oci.image.index.v1+json"


def manifest(layers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": layers, **more}


async def test_an_image_is_pulled_by_its_tag() -> None:
    async with Registry() as registry:
        digest = registry.add_image("team/fw", "1", FIRMWARE, version="1.2.0")
        image = await pull_from(registry)
    assert (image.content, image.digest, image.label_version) == (FIRMWARE, digest, "1.2.0")


async def test_the_entry_for_the_device_is_pulled_and_the_digest_is_the_index_s() -> None:
    async with Registry() as registry:
        digest = registry.add_image("team/fw", "1", {"esp32": b"one", "esp32s3": b"two"})
        image = await pull_from(registry, device="ESP32S3")
    assert (image.content, image.digest, image.label_version) == (b"two", digest, "")


async def test_a_digest_is_pulled_and_not_the_tag_that_moved() -> None:
    async with Registry() as registry:
        old = registry.add_image("team/fw", "1", b"old")
        new = registry.add_image("team/fw", "1", b"new")
        assert (await pull_from(registry)).content == b"new"
        assert (await pull_from(registry, pinned=old)).content == b"old"
        assert (await pull_from(registry, f"team/fw:1@{old}")).content == b"old"
        assert (await pull_from(registry, f"team/fw:1@{old}", pinned=new)).content == b"old"
        assert (await pull_from(registry, pinned=old)).digest == old


async def test_what_is_no_digest_is_not_pinned_to() -> None:
    async with Registry() as registry:
        with pytest.raises(Ended, match="'latest' is no digest"):
            await pull_from(registry, pinned="latest")


async def test_a_plain_file_is_pulled_as_oras_pushes_it() -> None:
    async with Registry() as registry:
        title = {"org.opencontainers.image.title": "fw.bin"}
        layer = registry.add_blob(b"raw", TAR, annotations=title)
        config = registry.add_blob(b"{}", "application/vnd.oci.empty.v1+json")
        version = {"org.opencontainers.image.version": "3"}
        registry.add_document("team/fw", "1", manifest([layer], config=config, annotations=version))
        image = await pull_from(registry)
    assert (image.content, image.label_version) == (b"raw", "3")


async def test_layers_are_laid_over_each_other() -> None:
    async with Registry() as registry:
        layers = [registry.add_blob(pack({"fw.bin": content}), TAR) for content in (b"lower", b"upper")]
        registry.add_document("team/fw", "1", manifest(layers))
        assert (await pull_from(registry)).content == b"upper"


async def test_an_index_in_an_index_is_followed() -> None:
    async with Registry() as registry:
        inner = registry.add_image("team/fw", "", {"esp32": FIRMWARE})
        entry = {"digest": inner, "size": 1, "mediaType": INDEX}
        registry.add_document("team/fw", "1", {"mediaType": INDEX, "manifests": [entry]})
        assert (await pull_from(registry)).content == FIRMWARE


async def test_indexes_without_end_are_refused() -> None:
    async with Registry() as registry:
        digest = registry.add_image("team/fw", "", {"esp32": FIRMWARE})
        for _ in range(3):
            entry = {"digest": digest, "size": 1, "mediaType": INDEX}
            digest = registry.add_document("team/fw", "1", {"mediaType": INDEX, "manifests": [entry]})
        with pytest.raises(Ended, match="an index of indexes") as ended:
            await pull_from(registry)
    assert ended.value.outcome is Outcome.CORRUPT


async def test_firmware_for_another_device_is_incompatible() -> None:
    async with Registry() as registry:
        registry.add_image("team/fw", "1", {"esp32s3": FIRMWARE})
        with pytest.raises(Ended, match="no firmware for esp32: it has custom/esp32s3") as ended:
            await pull_from(registry)
    assert ended.value.outcome is Outcome.INCOMPATIBLE


async def test_an_empty_firmware_is_corrupt() -> None:
    async with Registry() as registry:
        registry.add_image("team/fw", "1", b"")
        with pytest.raises(Ended, match="is empty") as ended:
            await pull_from(registry)
    assert ended.value.outcome is Outcome.CORRUPT


async def test_a_tampered_layer_is_corrupt() -> None:
    async with Registry() as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        registry.tamper(registry.layers("team/fw", "1")[0])
        with pytest.raises(Ended, match="another digest than sha256:") as ended:
            await pull_from(registry)
    assert ended.value.outcome is Outcome.CORRUPT


async def test_a_tampered_manifest_is_corrupt() -> None:
    async with Registry() as registry:
        digest = registry.add_image("team/fw", "1", FIRMWARE)
        registry.tamper(digest)
        with pytest.raises(Ended, match="is damaged") as ended:
            await pull_from(registry, f"team/fw@{digest}")
    assert ended.value.outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(manifest=100), "manifest of .* is too large"),
        (Limits(layer=100), "more than the 100 allowed"),
        (Limits(unpacked=1000), "larger than 1000 bytes when unpacked"),
    ],
    ids=["manifest", "layer", "unpacked"],
)
async def test_what_is_too_large_is_corrupt(limits: Limits, says: str) -> None:
    async with Registry() as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        with pytest.raises(Ended, match=says) as ended:
            await pull_from(registry, limits=limits)
    assert ended.value.outcome is Outcome.CORRUPT


async def test_a_configuration_that_is_too_large_is_not_fetched() -> None:
    async with Registry() as registry:
        config = registry.add_blob(b" " * 5000, "application/vnd.oci.image.config.v1+json")
        registry.add_document("team/fw", "1", manifest([], config=config))
        with pytest.raises(Ended, match="5000 bytes, more than the 2000 that are allowed"):
            await pull_from(registry, limits=Limits(manifest=2000))
        assert not any("blobs" in asked.path for asked in registry.requests)


async def test_a_blob_that_is_longer_than_the_manifest_says_is_corrupt() -> None:
    async with Registry() as registry:
        layer = {**registry.add_blob(b"x" * 1000, "application/octet-stream"), "size": 10}
        registry.add_document("team/fw", "1", manifest([layer]))
        with pytest.raises(Ended, match="longer than the 10 bytes") as ended:
            await pull_from(registry)
    assert ended.value.outcome is Outcome.CORRUPT


@pytest.mark.parametrize("make", [ecdsa_key, ed25519_key, rsa_key])
async def test_an_image_that_the_key_has_signed_is_pulled(make: Any) -> None:
    key: SigningKey = make()
    lines: list[str] = []
    async with Registry() as registry:
        digest = registry.add_image("team/fw", "1", FIRMWARE)
        registry.sign("team/fw", digest, key.sign)
        assert (await pull_from(registry, public_key=key.public, log=lines.append)).content == FIRMWARE
    assert any("is signed with the key" in line for line in lines)


async def test_an_image_that_nobody_signed_is_refused() -> None:
    async with Registry() as registry:
        registry.add_image("team/fw", "1", FIRMWARE)
        with pytest.raises(Ended, match="is not signed") as ended:
            await pull_from(registry, public_key=ecdsa_key().public)
        assert not any("blobs" in asked.path for asked in registry.requests)
    assert ended.value.outcome is Outcome.REFUSED


async def test_a_signature_by_another_key_is_refused() -> None:
    async with Registry() as registry:
        registry.sign("team/fw", registry.add_image("team/fw", "1", FIRMWARE), ecdsa_key().sign)
        with pytest.raises(Ended, match=r"no signature of the image .* was made with the key") as ended:
            await pull_from(registry, public_key=ecdsa_key().public)
    assert ended.value.outcome is Outcome.REFUSED


async def test_a_signature_of_another_image_is_refused() -> None:
    key = ecdsa_key()
    async with Registry() as registry:
        other = registry.add_image("team/fw", "0", b"other")
        registry.sign("team/fw", registry.add_image("team/fw", "1", FIRMWARE), key.sign, claim=other)
        with pytest.raises(Ended, match="no signature") as ended:
            await pull_from(registry, public_key=key.public)
    assert ended.value.outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("payload", "annotation"),
    [
        (b"no json", None),
        (b'{"critical": {"image": {"docker-manifest-digest": "DIGEST"}, "type": "something else"}}', None),
        (b"{}", "%%%"),
        (b"{}", ""),
    ],
    ids=["no payload", "another kind", "no base64", "no signature"],
)
async def test_what_is_no_signature_counts_as_none(payload: bytes, annotation: str | None) -> None:
    key = ecdsa_key()
    async with Registry() as registry:
        digest = registry.add_image("team/fw", "1", FIRMWARE)
        payload = payload.replace(b"DIGEST", digest.encode())
        text = b64encode(key.sign(payload)).decode() if annotation is None else annotation
        layer = registry.add_blob(
            payload,
            "application/vnd.dev.cosign.simplesigning.v1+json",
            annotations={"dev.cosignproject.cosign/signature": text},
        )
        registry.add_document("team/fw", f"{digest.replace(':', '-')}.sig", manifest([layer]))
        with pytest.raises(Ended, match="no signature") as ended:
            await pull_from(registry, public_key=key.public)
    assert ended.value.outcome is Outcome.REFUSED


X25519 = (
    b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEAhSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n"
    b"-----END PUBLIC KEY-----\n"
)


@pytest.mark.parametrize(
    ("key", "says"), [(b"no key", "no public key in PEM"), (X25519, "neither ECDSA")], ids=["no key", "cannot sign"]
)
async def test_a_key_that_cannot_check_signatures_is_refused(key: bytes, says: str) -> None:
    async with Registry() as registry:
        registry.sign("team/fw", registry.add_image("team/fw", "1", FIRMWARE), ecdsa_key().sign)
        with pytest.raises(Ended, match=says) as ended:
            await pull_from(registry, public_key=key)
    assert ended.value.outcome is Outcome.REFUSED
