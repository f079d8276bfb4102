"""Pulls the firmware for one device from a registry: resolve, check the signature, pick the entry, fetch, unpack.

The flasher calls `pull` before it touches the device. What it returns was checked against digests from the reference
down to the file; it writes nothing to a disk and never runs longer than its caller lets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edgewright.api.flash_pod import Outcome
from edgewright.api.reference import Reference, is_digest
from edgewright.devices.drivers.driver import Ended, Image
from edgewright.devices.http import Session
from edgewright.devices.oci.access import Access
from edgewright.devices.oci.layers import firmware_in
from edgewright.devices.oci.limits import Limits
from edgewright.devices.oci.manifests import (
    CONFIG_TYPES,
    PATH_LABEL,
    VERSION_LABEL,
    Config,
    Document,
    check_platform,
    is_archive,
    pick_blob,
    pick_entry,
    read,
    read_document,
)
from edgewright.devices.oci.repository import Repository
from edgewright.devices.oci.signature import check_signature

_DEEPEST: Final = 3


async def pull(
    reference: Reference,
    *,
    device: str,
    access: Access,
    pinned: str = "",
    public_key: bytes | None = None,
    limits: Limits = Limits(),  # noqa: B008  # it is immutable
    log: Callable[[str], None] = lambda _line: None,
) -> Image:
    """The firmware for a device; `pinned` is a digest to take instead of the tag, and a key must have signed it.

    Ended says why there is none: REFUSED (credentials, signature, plain HTTP), CORRUPT (digests, sizes, paths),
    INCOMPATIBLE (nothing for this device), FAILED (no such image, or the registry does not answer).
    """
    if pinned and not is_digest(pinned):
        raise Ended(Outcome.FAILED, f"{pinned[:100]!r} is no digest that the firmware could be pinned to")
    target = reference.digest or pinned or reference.target
    async with Session(tls=access.tls) as session:
        repository = Repository(session, reference, access=access, limits=limits, log=log)
        content, digest = await repository.manifest(target)
        log(f"{reference} is {digest}")
        if public_key is not None:
            await check_signature(repository, digest, public_key, limits)
            log(f"{digest} is signed with the key that was asked for")
        manifest = await _manifest_for(repository, content, device, str(reference))
        firmware, labels = await _firmware(repository, manifest, device, str(reference), limits)
    if not firmware:
        raise Ended(Outcome.CORRUPT, f"the firmware in {reference} is empty")
    log(f"the firmware has {len(firmware)} bytes")
    return Image(content=firmware, digest=digest, label_version=labels.get(VERSION_LABEL, ""))


async def _manifest_for(repository: Repository, content: bytes, device: str, name: str) -> Document:
    """The manifest of the image for a device, through the index where there is one."""
    for _ in range(_DEEPEST):
        document = read_document(content, f"the manifest of {name}")
        if not document.is_index:
            return document
        content, _digest = await repository.manifest(pick_entry(document, device, name).digest)
    raise Ended(Outcome.CORRUPT, f"{name} is an index of indexes of indexes")


async def _firmware(
    repository: Repository, manifest: Document, device: str, name: str, limits: Limits
) -> tuple[bytes, dict[str, str]]:
    """The firmware file of an image, and the image's labels."""
    layers = manifest.layers or ()
    size = sum(layer.size for layer in layers)
    if size > limits.layer:
        raise Ended(Outcome.CORRUPT, f"the layers of {name} have {size} bytes, more than the {limits.layer} allowed")
    labels = dict(manifest.annotations or {})
    if manifest.config is not None and manifest.config.media_type in CONFIG_TYPES:
        config = read(await repository.blob(manifest.config, limits.manifest), Config, f"the configuration of {name}")
        check_platform(config, device, name)
        labels |= config.labels
    path = labels.get(PATH_LABEL, "")
    archives = [layer for layer in layers if is_archive(layer)]
    if not archives:
        return await repository.blob(pick_blob(layers, path, name), limits.layer), labels
    contents = [await repository.blob(layer, limits.layer) for layer in archives]
    return firmware_in(contents, path=path, allowed=limits.unpacked, name=name), labels
