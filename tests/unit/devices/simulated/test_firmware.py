"""Images that are made here are sound, and a boot loader finds every fault in one that is not."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.devices.simulated.firmware import CHIPS, BadImage, esp_image, expected_size, read_image

IMAGE = esp_image(version="1.2.3", project="thermometer", chip="esp32s3", size=4096)


def changed(at: int, new: bytes) -> bytes:
    return IMAGE[:at] + new + IMAGE[at + len(new) :]


def test_an_image_has_its_facts_where_the_format_has_them() -> None:
    assert len(IMAGE) == 4096
    assert (IMAGE[0], IMAGE[12:14], IMAGE[23]) == (0xE9, b"\x09\x00", 1)
    assert IMAGE[32:36] == 0xABCD5432.to_bytes(4, "little")
    assert IMAGE[48:80].rstrip(b"\0") == b"1.2.3"
    assert IMAGE[80:112].rstrip(b"\0") == b"thermometer"
    assert IMAGE[-32:] == hashlib.sha256(IMAGE[:-32]).digest()
    found = read_image(IMAGE, chip="esp32s3")
    assert (found.version, found.project, found.size) == ("1.2.3", "thermometer", 4096)
    assert found.sha256 == hashlib.sha256(IMAGE).hexdigest()
    assert found.elf_sha256 == IMAGE[176:208].hex()


@given(
    size=st.integers(0, 5000),
    chip=st.sampled_from(sorted(CHIPS)),
    version=st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=31),
    seed=st.integers(0, 10),
)
def test_every_image_that_is_made_would_start(size: int, chip: str, version: str, seed: int) -> None:
    image = esp_image(version=version, project="p", chip=chip, size=size, seed=seed)
    assert read_image(image, chip=chip).version == version
    assert size <= len(image) < max(size, 400) + 16
    assert expected_size(image) == len(image)


def test_the_same_arguments_give_the_same_bytes_and_another_seed_gives_others() -> None:
    again = esp_image(version="1.2.3", project="thermometer", chip="esp32s3", size=4096)
    other = esp_image(version="1.2.3", project="thermometer", chip="esp32s3", size=4096, seed=1)
    assert again == IMAGE
    assert other != IMAGE
    assert read_image(other, chip="esp32s3").elf_sha256 != read_image(IMAGE, chip="esp32s3").elf_sha256


@given(at=st.integers(0, len(IMAGE) - 1), flip=st.integers(1, 255))
def test_no_changed_byte_is_overlooked(at: int, flip: int) -> None:
    with pytest.raises(BadImage):
        read_image(changed(at, bytes((IMAGE[at] ^ flip,))), chip="esp32s3")


@given(length=st.integers(0, len(IMAGE) - 1))
def test_no_shortened_image_would_start(length: int) -> None:
    with pytest.raises(BadImage):
        read_image(IMAGE[:length], chip="esp32s3")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "first byte is not 0xE9"),
        (b"\xe9 too short", "11 bytes only"),
        (changed(12, b"\0\0"), "chip with the id 0, and not for esp32s3"),
        (changed(1, b"\0"), "0 segments"),
        (changed(1, b"\x11"), "17 segments"),
        (IMAGE[: 32 + 256], "ends before segment 2"),
        (IMAGE[:2000], "ends within segment 2"),
        (IMAGE[:-32], "before its checksum and hash"),
        (changed(1000, bytes((IMAGE[1000] ^ 1,))), "checksum is wrong"),
        (changed(4, bytes((IMAGE[4] ^ 1,))), "hash is wrong"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_image_is_refused_with_a_reason(content: bytes, why: str) -> None:
    with pytest.raises(BadImage, match=why):
        read_image(content, chip="esp32s3")


def test_an_image_that_does_not_describe_itself_is_refused() -> None:
    # Two bytes are changed alike, so that the checksum stays right, and there is no hash that tells.
    wrong = bytearray(changed(23, b"\0"))
    wrong[32] ^= 1
    wrong[36] ^= 1
    with pytest.raises(BadImage, match="does not describe itself"):
        read_image(bytes(wrong[:-32]), chip="esp32s3")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"version": "1", "project": "p", "chip": "z80"}, "no chip that is known here; known: esp32,"),
        ({"version": "1" * 32, "project": "p"}, "the version '1+' is longer than 31 bytes"),
        ({"version": "1", "project": "ü" * 16}, "the project 'ü+' is longer than 31 bytes"),
    ],
    ids=["chip", "version", "project"],
)
def test_what_has_no_room_in_an_image_is_refused(arguments: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        esp_image(**arguments)  # type: ignore[arg-type]  # the table has texts only


@pytest.mark.parametrize("length", [0, 23, 31, 290], ids=str)
def test_how_long_an_image_will_be_is_not_known_from_too_few_bytes(length: int) -> None:
    assert expected_size(IMAGE[:length]) is None


def test_how_long_an_image_will_be_is_known_from_its_beginning() -> None:
    assert expected_size(IMAGE[:300]) == len(IMAGE)
