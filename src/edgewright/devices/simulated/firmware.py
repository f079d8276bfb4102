"""ESP32 firmware that is none: images that every check of the format passes, and the check that a boot loader makes.

Tests, the demo and the simulated devices use it. The reading here is written apart from `devices.firmware.esp`, which
the drivers use, so that a mistake in the one is found by the other. Pure; nothing in an image made here can run.
"""

from __future__ import annotations

import hashlib
import random
import struct
from dataclasses import dataclass
from typing import Final

CHIPS: Final = {
    "esp32": 0x00,
    "esp32s2": 0x02,
    "esp32c3": 0x05,
    "esp32s3": 0x09,
    "esp32c2": 0x0C,
    "esp32c6": 0x0D,
    "esp32h2": 0x10,
}
"""The chip id in an image's header, by type of device."""
SIZE: Final = 64 * 1024
"""How long an image is where nobody says."""

_MAGIC: Final = 0xE9
_DESCRIPTOR_MAGIC: Final = 0xABCD5432
_HEADER: Final = struct.Struct("<BBBBIB3sHBHH4sB")
_SEGMENT: Final = struct.Struct("<II")
_DESCRIPTOR: Final = struct.Struct("<II8s32s32s16s16s32s32s80s")
_DESCRIPTOR_AT: Final = _HEADER.size + _SEGMENT.size
_HASH_FLAG_AT: Final = 23
_HASH_SIZE: Final = 32
_CHECKSUM_START: Final = 0xEF
_BLOCK: Final = 16
_MAX_NAME: Final = 31
_MAX_SEGMENTS: Final = 16
# Header, two segments' headers, the descriptor and the end of the last block with the checksum.
_SMALLEST: Final = _DESCRIPTOR_AT + _DESCRIPTOR.size + _SEGMENT.size + _BLOCK + _HASH_SIZE
_READ_ONLY_DATA, _INSTRUCTIONS, _ENTRY = 0x3F400020, 0x400D0020, 0x40081000


class BadImage(ValueError):
    """A boot loader would not start this; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """What a boot loader finds in an image."""

    version: str
    project: str
    sha256: str
    """Of all bytes."""
    size: int
    elf_sha256: str
    """What tells two builds of one version apart."""


def esp_image(*, version: str, project: str, chip: str = "esp32", size: int = SIZE, seed: int = 0) -> bytes:
    """An image of `size` bytes (in whole blocks of 16) for a chip; the same arguments give the same bytes."""
    if chip not in CHIPS:
        raise ValueError(f"{chip!r} is no chip that is known here; known: {', '.join(CHIPS)}")
    size = -(-max(size, _SMALLEST) // _BLOCK) * _BLOCK
    # The code goes on to four bytes before the checksum's block is full, as segments have whole words.
    length = size - _HASH_SIZE - _DESCRIPTOR_AT - _DESCRIPTOR.size - _SEGMENT.size - 4
    code = random.Random(f"{chip} {version} {project} {seed}").randbytes(length)  # noqa: S311 - not a secret
    descriptor = _DESCRIPTOR.pack(
        _DESCRIPTOR_MAGIC,
        0,
        b"",
        _text(version, "version"),
        _text(project, "project"),
        b"12:00:00",
        b"Jan  1 2026",
        b"v5.3",
        hashlib.sha256(code).digest(),
        b"",
    )
    header = _HEADER.pack(_MAGIC, 2, 2, 0x20, _ENTRY, 0xEE, b"", CHIPS[chip], 0, 0, 0xFFFF, b"", 1)
    image = b"".join(
        (
            header,
            _SEGMENT.pack(_READ_ONLY_DATA, len(descriptor)),
            descriptor,
            _SEGMENT.pack(_INSTRUCTIONS, len(code)),
            code,
            b"\0\0\0",
            bytes((_CHECKSUM_START ^ _folded(descriptor) ^ _folded(code),)),
        )
    )
    return image + hashlib.sha256(image).digest()


def read_image(content: bytes, *, chip: str) -> Contents:
    """What the image holds; BadImage where the boot loader of this chip would not start it."""
    if content[:1] != bytes((_MAGIC,)):
        raise BadImage("it is no firmware: its first byte is not 0xE9")
    if len(content) < _DESCRIPTOR_AT + _DESCRIPTOR.size:
        raise BadImage(f"it has {len(content)} bytes only")
    found = int.from_bytes(content[12:14], "little")
    if found != CHIPS[chip]:
        raise BadImage(f"it is for the chip with the id {found}, and not for {chip}")
    end, folded = _HEADER.size, _CHECKSUM_START
    for number in range(_segments(content)):
        start = end + _SEGMENT.size
        if start > len(content):
            raise BadImage(f"it ends before segment {number + 1}")
        end = start + _SEGMENT.unpack_from(content, end)[1]
        if end > len(content):
            raise BadImage(f"it ends within segment {number + 1}")
        folded ^= _folded(content[start:end])
    end = _whole_blocks(end)
    hashed = bool(content[_HASH_FLAG_AT])
    if len(content) < end + (_HASH_SIZE if hashed else 0):
        raise BadImage("it ends before its checksum and hash")
    if content[end - 1] != folded:
        raise BadImage("its checksum is wrong")
    if hashed and hashlib.sha256(content[:end]).digest() != content[end : end + _HASH_SIZE]:
        raise BadImage("its hash is wrong")
    magic, _, _, version, project, _, _, _, elf, _ = _DESCRIPTOR.unpack_from(content, _DESCRIPTOR_AT)
    if magic != _DESCRIPTOR_MAGIC:
        raise BadImage("it does not describe itself")
    return Contents(
        version=_read_text(version),
        project=_read_text(project),
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        elf_sha256=elf.hex(),
    )


def expected_size(beginning: bytes | bytearray) -> int | None:
    """How long an image will be by its first bytes; None while too few of them are known."""
    if len(beginning) < _HEADER.size:
        return None
    end = _HEADER.size
    for _ in range(beginning[1]):
        if len(beginning) < end + _SEGMENT.size:
            return None
        end += _SEGMENT.size + _SEGMENT.unpack_from(beginning, end)[1]
    return _whole_blocks(end) + (_HASH_SIZE if beginning[_HASH_FLAG_AT] else 0)


def _segments(content: bytes) -> int:
    if not 1 <= content[1] <= _MAX_SEGMENTS:
        raise BadImage(f"it says that it has {content[1]} segments")
    return content[1]


def _whole_blocks(end: int) -> int:
    """Where the block ends whose last byte is the checksum of what ends here."""
    return (end // _BLOCK + 1) * _BLOCK


def _folded(data: bytes) -> int:
    """All bytes, each exclusive-or'ed with the next: halves at a time, as Python is slow byte by byte."""
    length = 1 << max(len(data) - 1, 0).bit_length()
    number = int.from_bytes(data, "little")
    while length > 1:
        length //= 2
        number = (number >> (8 * length)) ^ (number & ((1 << (8 * length)) - 1))
    return number


def _text(text: str, field: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > _MAX_NAME:
        raise ValueError(f"the {field} {text!r} is longer than {_MAX_NAME} bytes, for which an image has no room")
    return encoded


def _read_text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(errors="replace")
