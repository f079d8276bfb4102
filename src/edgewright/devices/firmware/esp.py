"""ESP32 application images: what one says of itself, and whether it is whole and for this chip.

The ESP32 drivers call `check_esp_image` before anything is sent, since a device learns only after the whole transfer
that an image is damaged. Pure: it looks at bytes, and never at a device or a file.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended, Facts

CHIPS: Final = {
    "esp32": 0x00,
    "esp32s2": 0x02,
    "esp32c3": 0x05,
    "esp32s3": 0x09,
    "esp32c2": 0x0C,
    "esp32c6": 0x0D,
    "esp32h2": 0x10,
    "esp32p4": 0x12,
    "esp32c61": 0x14,
    "esp32c5": 0x17,
}
"""The id that an image's header has, by type of device."""
LARGEST: Final = 16 << 20
"""No device of this family has a slot for a longer image."""

_MAGIC: Final = 0xE9
_HEADER_SIZE: Final = 24
_CHIP_AT: Final = 12
_HASHED_AT: Final = 23
_SEGMENT: Final = struct.Struct("<II")
_MAX_SEGMENTS: Final = 16
_CHECKSUM_SEED: Final = 0xEF
_BLOCK: Final = 16
_HASH_SIZE: Final = 32
_DESCRIPTOR_MAGIC: Final = 0xABCD5432
_DESCRIPTOR: Final = struct.Struct("<I12x32s32s64x32s")
"""Magic, version, project, the hash of the ELF file; it is the first thing in the first segment."""
_DESCRIPTOR_AT: Final = _HEADER_SIZE + _SEGMENT.size


class BadImage(ValueError):
    """The bytes are no whole ESP32 application image; the message says what is wrong with "it"."""


@dataclass(frozen=True, kw_only=True)
class EspImage:
    """What an image says of itself."""

    chip: int
    """The id of the chip that it is for."""
    version: str
    project: str
    build: str
    """The SHA-256 of the ELF file it was made from, in hex; empty where the image has none."""
    hashed: bool
    """Whether a hash in the image covers all of it; where not, only a one-byte checksum does."""


def chip_of(device: str) -> int | None:
    """The chip's id for a type of device as people and devices write it (esp32s3, ESP32-S3); None: not known."""
    return CHIPS.get("".join(letter for letter in device.lower() if letter.isalnum()))


def read_esp_image(content: bytes) -> EspImage:
    """Reads the image and verifies its lengths, checksum and hash; BadImage says what is wrong.

    What follows the image is left alone: a signed image has its signature there.
    """
    if not content:
        raise BadImage("it is empty")
    if content[0] != _MAGIC:
        raise BadImage(f"it is no ESP32 image: it begins with 0x{content[0]:02X} and not with 0x{_MAGIC:02X}")
    if len(content) < _HEADER_SIZE:
        raise BadImage(f"it ends within its header: it has {len(content)} bytes only")
    end, checksum = _walk(content)
    end = (end // _BLOCK + 1) * _BLOCK  # the checksum is the last byte of a block
    hashed = content[_HASHED_AT] == 1
    whole = end + _HASH_SIZE * hashed
    if len(content) < whole:
        raise BadImage(f"it is cut off: it has {len(content)} of {whole} bytes")
    if content[end - 1] != checksum:
        raise BadImage(f"it is damaged: its checksum is 0x{checksum:02X} and should be 0x{content[end - 1]:02X}")
    if hashed and hashlib.sha256(memoryview(content)[:end]).digest() != content[end:whole]:
        raise BadImage("it is damaged: the SHA-256 at its end is not that of its content")
    return _described(content, hashed=hashed)


def check_esp_image(content: bytes, device: str) -> Facts:
    """The facts of an image that may go to this type of device; Ended(CORRUPT or INCOMPATIBLE) where it may not.

    The chip of a device type that is not known here cannot be compared and is not.
    """
    if len(content) > LARGEST:
        raise Ended(
            Outcome.INCOMPATIBLE,
            f"the firmware has {len(content):,} bytes; no ESP32 has room for more than {LARGEST:,}",
        )
    try:
        image = read_esp_image(content)
    except BadImage as error:
        raise Ended(Outcome.CORRUPT, f"the firmware cannot be used: {error}") from None
    wanted = chip_of(device)
    if wanted is not None and image.chip != wanted:
        raise Ended(Outcome.INCOMPATIBLE, f"the firmware is for {_chip_name(image.chip)}, and the device is {device}")
    return Facts(version=image.version, build=image.build)


def _walk(content: bytes) -> tuple[int, int]:
    """Where the segments end, and the checksum over their content."""
    count = content[1]
    if not 1 <= count <= _MAX_SEGMENTS:
        raise BadImage(f"it is damaged: it says that it has {count} segments; 1 to {_MAX_SEGMENTS} are possible")
    position, checksum = _HEADER_SIZE, _CHECKSUM_SEED
    for number in range(1, count + 1):
        start = position + _SEGMENT.size
        if start > len(content):
            raise BadImage(f"it is cut off before segment {number} of {count}")
        _address, length = _SEGMENT.unpack_from(content, position)
        position = start + length
        if position > len(content):
            raise BadImage(f"it is cut off within segment {number} of {count}")
        checksum ^= _xor(content[start:position])
    return position, checksum


def _described(content: bytes, *, hashed: bool) -> EspImage:
    first_segment = _SEGMENT.unpack_from(content, _HEADER_SIZE)[1]
    if first_segment < _DESCRIPTOR.size:
        raise BadImage("it is no application: its first segment has no room for an application descriptor")
    magic, version, project, elf = _DESCRIPTOR.unpack_from(content, _DESCRIPTOR_AT)
    if magic != _DESCRIPTOR_MAGIC:
        raise BadImage("it is no application (a boot loader, or a whole flash?): it has no application descriptor")
    return EspImage(
        chip=int.from_bytes(content[_CHIP_AT : _CHIP_AT + 2], "little"),
        version=_text(version),
        project=_text(project),
        build=elf.hex() if any(elf) else "",
        hashed=hashed,
    )


def _chip_name(chip: int) -> str:
    return next((name for name, number in CHIPS.items() if number == chip), f"a chip with the id {chip}")


def _text(field: bytes) -> str:
    """A C string in a field of fixed size; what cannot be shown is left out."""
    text = field.partition(b"\0")[0].decode("utf-8", "replace")
    return "".join(letter for letter in text if letter.isprintable()).strip()


def _xor(data: bytes) -> int:
    """All bytes exclusive-or'ed: by folding one long number, which is a thousand times faster than byte by byte."""
    number, size = int.from_bytes(data, "little"), len(data)
    while size > 1:
        half = (size + 1) // 2
        number = (number >> (8 * half)) ^ (number & ((1 << (8 * half)) - 1))
        size = half
    return number
