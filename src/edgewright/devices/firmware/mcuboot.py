"""MCUboot images: what one says of itself, and whether it is whole.

The SMP drivers call `check_mcuboot_image` before anything is sent, since a device learns only at its next start that an
image is damaged. Pure: it looks at bytes, never at a device or a file, and it has no key to check a signature with.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended, Facts

LARGEST: Final = 64 << 20
"""No microcontroller that MCUboot runs on has a slot for a longer image."""

_MAGIC: Final = 0x96F3B83D
_HEADER: Final = struct.Struct("<IIHHIIBBHI4x")
"""Magic, load address, size of the header, of the protected trailer, of the content, flags, version, padding."""
_TRAILER: Final = struct.Struct("<HH")
"""Magic of a trailer and its size with this head; and, within it, type and length of an entry."""
_TRAILER_MAGIC: Final = 0x6907
_PROTECTED_MAGIC: Final = 0x6908
_ENCRYPTED: Final = 0x0C
"""The flags of content that is encrypted, by a key of 128 or of 256 bits."""
_HASHES: Final = {0x10: "sha256", 0x11: "sha384", 0x12: "sha512"}
_SIGNATURES: Final = frozenset({0x20, 0x21, 0x22, 0x23, 0x24, 0x25})


class BadImage(ValueError):
    """The bytes are no whole MCUboot image; the message says what is wrong with "it"."""


@dataclass(frozen=True, kw_only=True)
class McubootImage:
    """What an image says of itself."""

    version: str
    """As a device reports it: 1.2.3, or 1.2.3.4 where there is a build number (imgtool writes 1.2.3+4)."""
    build: str
    """The hash that the bootloader checks and the device reports, in hex."""
    signed: bool
    """Whether it carries a signature; whether that is the right one only the bootloader knows."""
    encrypted: bool
    """Whether the content is encrypted: then the hash is that of the plain content, and cannot be checked here."""


def version_text(major: int, minor: int, revision: int, build: int) -> str:
    """A version as SMP servers write it: the build number only where there is one."""
    return f"{major}.{minor}.{revision}" + (f".{build}" if build else "")


def read_mcuboot_image(content: bytes) -> McubootImage:
    """Reads the image and verifies its sizes and its hash; BadImage says what is wrong.

    What follows the image is left alone: one that is padded to its slot has filling there.
    """
    if not content:
        raise BadImage("it is empty")
    if len(content) > LARGEST:
        raise BadImage(f"it has {len(content)} bytes, and no MCUboot device takes more than {LARGEST}")
    if len(content) < _HEADER.size:
        raise BadImage(f"it ends after {len(content)} bytes, within the header of an MCUboot image")
    magic, _, header, protected, size, flags, major, minor, revision, number = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise BadImage(f"it is no MCUboot image: it begins with 0x{magic:08x} and not with 0x{_MAGIC:08x}")
    if header < _HEADER.size:
        raise BadImage(f"its header says that it has {header} bytes, which is less than a header has")
    if not size:
        raise BadImage("its header says that there is nothing in it")
    end = header + size
    if end + protected + _TRAILER.size > len(content):
        raise BadImage(f"it is cut off: it has {len(content)} bytes, and by its header there are more than {end}")
    if protected:
        list(_entries(content, end, _PROTECTED_MAGIC, protected))
    entries = list(_entries(content, end + protected, _TRAILER_MAGIC))
    algorithm, build = _hash_of(entries)
    encrypted = bool(flags & _ENCRYPTED)
    if not encrypted and hashlib.new(algorithm, memoryview(content)[: end + protected]).digest() != build:
        raise BadImage(f"its content does not match the {algorithm.upper()} in it")
    return McubootImage(
        version=version_text(major, minor, revision, number),
        build=build.hex(),
        signed=any(kind in _SIGNATURES for kind, _ in entries),
        encrypted=encrypted,
    )


def check_mcuboot_image(content: bytes) -> Facts:
    """What a driver must know of an image before it is sent; Ended(CORRUPT) where it is none, or damaged."""
    try:
        image = read_mcuboot_image(content)
    except BadImage as error:
        raise Ended(Outcome.CORRUPT, f"the firmware cannot be used: {error}") from error
    return Facts(version=image.version, build=image.build)


def _entries(content: bytes, start: int, magic: int, wanted: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Type and value of what is in one trailer, which must begin at this place."""
    found, size = _TRAILER.unpack_from(content, start)
    if found != magic:
        raise BadImage(f"there is no trailer where its header says: 0x{found:04x} instead of 0x{magic:04x}")
    end = start + size
    if end > len(content) or (wanted is not None and size != wanted):
        raise BadImage(f"the size of its trailer is wrong: {size} bytes")
    place = start + _TRAILER.size
    while place < end:
        if place + _TRAILER.size > end:
            raise BadImage("its trailer ends within an entry")
        kind, length = _TRAILER.unpack_from(content, place)
        place += _TRAILER.size
        if place + length > end:
            raise BadImage("its trailer ends within an entry")
        yield kind, content[place : place + length]
        place += length


def _hash_of(entries: list[tuple[int, bytes]]) -> tuple[str, bytes]:
    hashes = [(_HASHES[kind], value) for kind, value in entries if kind in _HASHES]
    if not hashes:
        raise BadImage("there is no hash in its trailer, without which no device can tell it from others")
    if len(hashes) > 1:
        raise BadImage("there are several hashes in its trailer, and a device takes one only")
    algorithm, value = hashes[0]
    if len(value) != hashlib.new(algorithm).digest_size:
        raise BadImage(f"the {algorithm.upper()} in its trailer has {len(value)} bytes")
    return algorithm, value
