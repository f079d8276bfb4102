"""The documents of an image, and what is chosen from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.oci.manifests import (
    Config,
    Descriptor,
    Document,
    Platform,
    check_platform,
    is_archive,
    pick_blob,
    pick_entry,
    read,
    read_document,
)

DIGEST = "sha256:" + "a" * 64
TAR = "application/vnd.oci.image.layer.v1.tar"
ATTESTATION = {"vnd.docker.reference.type": "attestation-manifest"}


def entry(platform: str | None, name: str = DIGEST, **more: Any) -> Descriptor:
    where = Platform(*platform.split("/")) if platform is not None else None
    return Descriptor(digest=name, size=1, platform=where, **more)


def index(*entries: Descriptor) -> Document:
    return Document(manifests=entries)


@pytest.mark.parametrize("device", ["esp32s3", "ESP32S3", "esp32-s3"])
def test_the_entry_for_the_device_is_picked_however_it_is_written(device: str) -> None:
    wanted = entry("Custom/Esp32s3", "wanted")
    assert pick_entry(index(entry("custom/esp32"), wanted, entry("linux/amd64")), device, "it") is wanted


@pytest.mark.parametrize(
    ("entries", "device"),
    [
        ([entry("linux/amd64")], "esp32"),
        ([entry(None)], "esp32"),
        ([entry("linux/amd64"), entry("unknown/unknown")], "esp32"),
        ([entry("linux/amd64"), entry(None, annotations=ATTESTATION)], "esp32"),
        ([entry("custom/esp32")], ""),
    ],
    ids=["of a machine", "of no platform", "next to an unknown", "next to an attestation", "of a device not known"],
)
def test_the_only_entry_is_picked_where_none_is_for_devices(entries: list[Descriptor], device: str) -> None:
    assert pick_entry(index(*entries), device, "it") is entries[0]


@pytest.mark.parametrize(
    ("entries", "device", "says"),
    [
        ([entry("custom/esp32")], "esp32s3", "no firmware for esp32s3: it has custom/esp32$"),
        ([entry("custom/a"), entry("custom/b")], "", "a device of no known type: it has custom/a, custom/b"),
        ([entry("linux/amd64"), entry(None)], "esp32", "it has an entry for no platform, linux/amd64"),
        ([], "esp32", "it has nothing"),
    ],
    ids=["another device", "two", "two machines", "empty"],
)
def test_an_index_without_the_device_is_incompatible(entries: list[Descriptor], device: str, says: str) -> None:
    with pytest.raises(Ended, match=says) as ended:
        pick_entry(index(*entries), device, "it")
    assert ended.value.outcome is Outcome.INCOMPATIBLE


@pytest.mark.parametrize(
    ("config", "device", "fits"),
    [
        (Config(os="custom", architecture="ESP32"), "esp32", True),
        (Config(os="custom", architecture=""), "esp32", True),
        (Config(os="linux", architecture="amd64"), "esp32", True),
        (Config(os="custom", architecture="esp32"), "", True),
        (Config(os="custom", architecture="esp32s2"), "esp32", False),
    ],
)
def test_an_image_for_another_device_is_incompatible(config: Config, device: str, fits: bool) -> None:
    if fits:
        check_platform(config, device, "it")
        return
    with pytest.raises(Ended, match="is for esp32s2 and not for esp32") as ended:
        check_platform(config, device, "it")
    assert ended.value.outcome is Outcome.INCOMPATIBLE


@pytest.mark.parametrize(
    ("media_type", "annotations", "archive"),
    [
        (TAR, None, True),
        (f"{TAR}+gzip", None, True),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", None, True),
        (f"{TAR}+gzip", {"org.opencontainers.image.title": "d", "io.deis.oras.content.unpack": "true"}, True),
        (TAR, {"org.opencontainers.image.title": "fw.bin"}, False),
        ("application/octet-stream", None, False),
        ("", None, False),
    ],
)
def test_archives_are_told_from_plain_files(media_type: str, annotations: dict[str, str] | None, archive: bool) -> None:
    assert is_archive(Descriptor(digest=DIGEST, size=1, media_type=media_type, annotations=annotations)) is archive


def blob(title: str) -> Descriptor:
    return Descriptor(digest=DIGEST, size=1, annotations={"org.opencontainers.image.title": title})


def test_of_plain_files_the_named_or_the_only_one_is_picked() -> None:
    one, two = blob("a.bin"), blob("b.bin")
    assert pick_blob((one,), "", "it") is one
    assert pick_blob((one, two), "/b.bin", "it") is two


@pytest.mark.parametrize(
    ("layers", "path", "says"),
    [
        ((), "", "0 files"),
        ((blob("a"), blob("b")), "", "2 files"),
        ((blob("a"),), "/c", "not the file '/c'"),
        ((blob("a"), blob("a")), "a", "not the file 'a'"),
    ],
    ids=["none", "two", "another", "twice"],
)
def test_without_one_file_an_image_is_incompatible(layers: tuple[Descriptor, ...], path: str, says: str) -> None:
    with pytest.raises(Ended, match=says) as ended:
        pick_blob(layers, path, "it")
    assert ended.value.outcome is Outcome.INCOMPATIBLE


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"config": {"digest": DIGEST, "size": 1}},
        {"layers": [{"digest": "sha256:short", "size": 1}]},
        {"layers": [{"digest": "../../etc/passwd", "size": 1}]},
        {"manifests": [{"digest": DIGEST, "size": -1}]},
        {"layers": [], "config": {"digest": "md5:x", "size": 1}},
        {"layers": [{"size": 1}]},
        {"layers": "x"},
    ],
    ids=str,
)
def test_a_document_that_is_none_is_corrupt(document: Any) -> None:
    with pytest.raises(Ended) as ended:
        read_document(json.dumps(document).encode(), "it")
    assert ended.value.outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    "config", [b"{}", b'{"config": null}', b'{"config": {}}', b'{"config": {"Labels": null}, "os": ""}'], ids=str
)
def test_an_image_may_have_no_labels(config: bytes) -> None:
    assert read(config, Config, "it").labels == {}
