"""The documents that make an OCI image, and the choices made from them: which entry, which layers, which path.

`pull` fetches and hands them over. Pure. A document that cannot be read, or that has nothing for the device, ends
the flash with the outcome that says so.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from edgewright.api.device_type import same_type
from edgewright.api.flash_pod import Outcome
from edgewright.api.reference import is_digest
from edgewright.devices.drivers.driver import Ended

INDEX_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ACCEPT: Final = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))
CONFIG_TYPES: Final = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
)
PATH_LABEL: Final = "com.urunc.iot.path"
VERSION_LABEL: Final = "org.opencontainers.image.version"
TITLE: Final = "org.opencontainers.image.title"
DEVICE_OS: Final = "custom"
_ATTESTATION: Final = "vnd.docker.reference.type"
_UNPACK: Final = "io.deis.oras.content.unpack"


class Platform(msgspec.Struct, frozen=True):
    """What an entry of an index is for."""

    os: str = ""
    architecture: str = ""


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A thing in the registry: where it is by its digest, how long it is, what it is."""

    digest: str
    size: int
    media_type: str = ""
    platform: Platform | None = None
    annotations: dict[str, str] | None = None

    def annotation(self, name: str) -> str:
        """An annotation's value; empty where it has none."""
        return (self.annotations or {}).get(name, "")


class Document(msgspec.Struct, frozen=True, rename="camel"):
    """An index or a manifest, as far as we read it."""

    media_type: str = ""
    manifests: tuple[Descriptor, ...] | None = None
    config: Descriptor | None = None
    layers: tuple[Descriptor, ...] | None = None
    annotations: dict[str, str] | None = None

    @property
    def is_index(self) -> bool:
        """Whether it lists manifests and is none itself."""
        return self.manifests is not None and self.layers is None


class _ConfigDetails(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = msgspec.field(name="Labels", default=None)


class Config(msgspec.Struct, frozen=True):
    """An image's configuration, as far as we read it."""

    os: str = ""
    architecture: str = ""
    config: _ConfigDetails | None = None

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the image."""
        return (self.config.labels if self.config else None) or {}


T = TypeVar("T")


def read(content: bytes, kind: type[T], name: str) -> T:
    """One of the documents; Ended(CORRUPT) where it is none."""
    try:
        document = msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Ended(Outcome.CORRUPT, f"{name} cannot be read: {error}") from None
    return document


def read_document(content: bytes, name: str) -> Document:
    """An index or a manifest whose digests and sizes can be worked with."""
    document = read(content, Document, name)
    if document.manifests is None and document.layers is None:
        raise Ended(Outcome.CORRUPT, f"{name} is neither an index nor a manifest of an image")
    for each in (*(document.manifests or ()), *(document.layers or ()), *filter(None, (document.config,))):
        if not is_digest(each.digest) or each.size < 0:
            raise Ended(Outcome.CORRUPT, f"{name} names something by {each.digest[:100]!r}, {each.size} bytes")
    return document


def pick_entry(index: Document, device: str, name: str) -> Descriptor:
    """The entry of an index for a device; where no entry is for devices, the only one that there is."""
    entries = [each for each in index.manifests or () if not _is_attestation(each)]
    ours = [each for each in entries if _for_devices(each)]
    for each in ours:
        if each.platform is not None and same_type(each.platform.architecture, device):
            return each
    if len(entries) == 1 and (not ours or not device):
        return entries[0]
    there = ", ".join(sorted({_platform(each) for each in entries})) or "nothing"
    raise Ended(
        Outcome.INCOMPATIBLE, f"{name} has no firmware for {device or 'a device of no known type'}: it has {there}"
    )


def check_platform(config: Config, device: str, name: str) -> None:
    """Ended(INCOMPATIBLE) where an image says that it is for another device."""
    architecture = config.architecture
    if config.os.casefold() == DEVICE_OS and architecture and device and not same_type(architecture, device):
        raise Ended(Outcome.INCOMPATIBLE, f"{name} is for {architecture} and not for {device}")


def is_archive(layer: Descriptor) -> bool:
    """Whether a layer is a tar archive, compressed or not, by what the manifest calls it.

    ORAS calls a plain file a tar archive too; it is told by its title.
    """
    plain_file = bool(layer.annotation(TITLE)) and layer.annotation(_UNPACK) != "true"
    return ".tar" in layer.media_type and not plain_file


def pick_blob(layers: tuple[Descriptor, ...], path: str, name: str) -> Descriptor:
    """Of layers that are files themselves the one with this name, or the only one."""
    wanted = path.strip("/")
    titled = [each for each in layers if wanted and each.annotation(TITLE).strip("/") == wanted]
    if len(titled) == 1:
        return titled[0]
    if len(layers) == 1 and not wanted:
        return layers[0]
    what = f"not the file {path!r}, which its label {PATH_LABEL} names" if path else f"{len(layers)} files, not one"
    raise Ended(Outcome.INCOMPATIBLE, f"{name} has {what}")


def _for_devices(entry: Descriptor) -> bool:
    return entry.platform is not None and entry.platform.os.casefold() == DEVICE_OS


def _is_attestation(entry: Descriptor) -> bool:
    """Build tools put what they say about an image next to it, as an entry for an unknown platform."""
    platform = entry.platform
    unknown = platform is not None and platform.os == platform.architecture == "unknown"
    return unknown or bool(entry.annotation(_ATTESTATION))


def _platform(entry: Descriptor) -> str:
    platform = entry.platform
    return f"{platform.os}/{platform.architecture}" if platform is not None else "an entry for no platform"
