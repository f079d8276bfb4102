"""ESP32 images: what they say of themselves, and every way in which they can be wrong."""

from __future__ import annotations

import functools
import hashlib
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.firmware.esp import CHIPS, LARGEST, BadImage, check_esp_image, chip_of, read_esp_image
from edgewright.devices.simulated.firmware import CHIPS as SIMULATED
from edgewright.devices.simulated.firmware import esp_image

IMAGE = esp_image(version="1.2.3", project="thermometer", chip="esp32s3", size=2_000)


def changed(position: int, value: int, content: bytes = IMAGE) -> bytes:
    """The image with another byte at a position."""
    return content[:position] + bytes((value,)) + content[position + 1 :]


def sealed(content: bytes, *, hashed: bool = True) -> bytes:
    """The image with a new checksum and hash over what is in it."""
    body = changed(23, int(hashed), content)[:-32]
    position, checksum = 24, 0xEF
    for _ in range(body[1]):
        length = int.from_bytes(body[position + 4 : position + 8], "little")
        checksum ^= functools.reduce(operator.xor, body[position + 8 : position + 8 + length], 0)
        position += 8 + length
    body = changed(len(body) - 1, checksum, body)
    return body + hashlib.sha256(body).digest() if hashed else body


def test_an_image_says_what_it_is() -> None:
    image = read_esp_image(IMAGE)
    assert (image.chip, image.version, image.project, image.hashed) == (9, "1.2.3", "thermometer", True)
    assert image.build == IMAGE[176:208].hex()


def test_an_image_without_a_hash_is_covered_by_its_checksum() -> None:
    content = sealed(IMAGE, hashed=False)
    assert not read_esp_image(content).hashed
    with pytest.raises(BadImage, match="its checksum is"):
        read_esp_image(changed(1000, content[1000] ^ 1, content))


def test_a_signature_behind_the_image_is_left_alone() -> None:
    assert read_esp_image(IMAGE + bytes(4096)) == read_esp_image(IMAGE)


def test_a_build_that_is_not_told_is_empty() -> None:
    content = sealed(IMAGE[:176] + bytes(32) + IMAGE[208:])
    assert read_esp_image(content).build == ""


def test_a_version_that_cannot_be_shown_loses_what_cannot() -> None:
    content = sealed(IMAGE[:48] + b"1.\x1b2\xff".ljust(32, b"\0") + IMAGE[80:])
    assert read_esp_image(content).version == "1.2\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "it is empty", id="nothing"),
        pytest.param(b"\x7fELF" + bytes(100), "begins with 0x7F", id="an ELF file"),
        pytest.param(IMAGE[:20], "within its header", id="a piece of a header"),
        pytest.param(changed(1, 0), "0 segments", id="no segments"),
        pytest.param(changed(1, 17), "17 segments", id="too many segments"),
        pytest.param(IMAGE[:30], "cut off before segment 1 of 2", id="cut before a segment"),
        pytest.param(IMAGE[:500], "cut off within segment 2 of 2", id="cut within a segment"),
        pytest.param(IMAGE[:-1], "it has 1999 of 2000 bytes", id="cut at the end"),
        pytest.param(changed(1000, IMAGE[1000] ^ 1), "its checksum is", id="a wrong bit"),
        pytest.param(changed(40, IMAGE[40] ^ 1, changed(41, IMAGE[41] ^ 1)), "the SHA-256", id="two wrong bits"),
        pytest.param(sealed(changed(32, 0)), "no application descriptor", id="a boot loader"),
    ],
)
def test_what_is_wrong_with_an_image_is_said(content: bytes, reason: str) -> None:
    with pytest.raises(BadImage, match=reason):
        read_esp_image(content)
    with pytest.raises(Ended, match=reason) as caught:
        check_esp_image(content, "esp32s3")
    assert caught.value.outcome is Outcome.CORRUPT


def test_an_image_with_a_first_segment_too_short_is_no_application() -> None:
    header = bytes((0xE9, 1)) + bytes(21) + b"\0"
    body = (header + bytes(4) + (4).to_bytes(4, "little") + bytes(4)).ljust(47, b"\0") + b"\xef"
    with pytest.raises(BadImage, match="no room for an application descriptor"):
        read_esp_image(body)


@given(st.integers(0, len(IMAGE) - 1), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(position: int, difference: int) -> None:
    with pytest.raises(BadImage):
        read_esp_image(changed(position, IMAGE[position] ^ difference))


@given(st.binary(max_size=300).map(lambda noise: b"\xe9" + noise))
def test_noise_is_never_more_than_a_bad_image(noise: bytes) -> None:
    with pytest.raises(BadImage):
        read_esp_image(noise)


@pytest.mark.parametrize("chip", sorted(SIMULATED))
def test_an_image_goes_to_its_own_chip_and_to_no_other(chip: str) -> None:
    content = esp_image(version="1.0", project="thermometer", chip=chip, size=2_000)
    assert check_esp_image(content, chip).version == "1.0"
    for other in set(CHIPS) - {chip}:
        with pytest.raises(Ended, match=f"is for {chip}, and the device is {other}") as caught:
            check_esp_image(content, other)
        assert caught.value.outcome is Outcome.INCOMPATIBLE


def test_a_chip_that_has_no_name_here_is_called_by_its_id() -> None:
    with pytest.raises(Ended, match="a chip with the id 99"):
        check_esp_image(sealed(changed(12, 99)), "esp32")


@pytest.mark.parametrize("device", ["esp32s3", "ESP32-S3", "esp32_s3", "ESP32 S3"])
def test_people_write_a_device_in_several_ways(device: str) -> None:
    assert chip_of(device) == 9


def test_an_unknown_device_is_not_compared() -> None:
    assert chip_of("toaster") is None
    facts = check_esp_image(IMAGE, "toaster")
    assert (facts.version, facts.build) == ("1.2.3", IMAGE[176:208].hex())


def test_an_image_that_no_device_has_room_for_is_incompatible() -> None:
    with pytest.raises(Ended, match="no ESP32 has room") as caught:
        check_esp_image(bytes(LARGEST + 1), "esp32")
    assert caught.value.outcome is Outcome.INCOMPATIBLE
