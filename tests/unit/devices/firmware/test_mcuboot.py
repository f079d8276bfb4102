from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.firmware.mcuboot import (
    LARGEST,
    BadImage,
    check_mcuboot_image,
    read_mcuboot_image,
    version_text,
)
from tests.unit.devices.firmware.mcuboot_images import PROGRAM, entry, head, image, trailer


def test_an_image_says_its_version_and_the_hash_that_a_device_reports() -> None:
    content = image()
    read = read_mcuboot_image(content)
    assert read.version == "1.2.3.4"
    assert read.build == hashlib.sha256(head() + PROGRAM).hexdigest()
    assert (read.signed, read.encrypted) == (False, False)
    facts = check_mcuboot_image(content)
    assert (facts.version, facts.build) == (read.version, read.build)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((1, 2, 3, 4), "1.2.3.4"), ((0, 0, 0, 0), "0.0.0"), ((255, 255, 65535, 2**32 - 1), "255.255.65535.4294967295")],
)
def test_a_version_is_written_as_devices_write_it(numbers: tuple[int, int, int, int], text: str) -> None:
    assert version_text(*numbers) == text
    assert read_mcuboot_image(image(version=numbers)).version == text


@pytest.mark.parametrize(("algorithm", "kind"), [("sha256", 0x10), ("sha384", 0x11), ("sha512", 0x12)])
def test_every_hash_that_mcuboot_has_is_verified(algorithm: str, kind: int) -> None:
    content = image(algorithm=algorithm, kind=kind)
    assert len(read_mcuboot_image(content).build) == 2 * hashlib.new(algorithm).digest_size
    with pytest.raises(BadImage, match=f"does not match the {algorithm.upper()}"):
        read_mcuboot_image(content[:40] + b"!" + content[41:])


def test_the_protected_trailer_is_under_the_hash() -> None:
    content = image(protected=entry(0x50, b"security counter"))
    read_mcuboot_image(content)
    with pytest.raises(BadImage, match="does not match"):
        read_mcuboot_image(content.replace(b"security counter", b"security_counter"))


def test_a_signature_is_noticed_and_filling_after_the_image_is_not() -> None:
    content = image(more=entry(0x01, b"key") + entry(0x22, b"signature"), header=512)
    assert read_mcuboot_image(content + b"\xff" * 100).signed


def test_an_encrypted_image_cannot_be_checked_against_its_hash() -> None:
    content = image(flags=0x04)
    read = read_mcuboot_image(content[:40] + b"!" + content[41:])
    assert read.encrypted


WHOLE = entry(0x10, bytes(32))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", "it is empty", id="empty"),
        pytest.param(b"\x3d\xb8\xf3\x96", "within the header", id="too short"),
        pytest.param(b"\xe9" * 64, "no MCUboot image: it begins with 0xe9e9e9e9", id="an image of another kind"),
        pytest.param(head(header=32).replace(b"\x20\0", b"\x10\0", 1) + PROGRAM, "has 16 bytes", id="header too small"),
        pytest.param(head(size=0) + trailer(WHOLE), "nothing in it", id="no program"),
        pytest.param(image()[:400], "it is cut off", id="cut within the program"),
        pytest.param(image()[:-1], "size of its trailer is wrong", id="cut within the trailer"),
        pytest.param(head() + PROGRAM + bytes(40), "no trailer", id="no trailer"),
        pytest.param(head(protected=8) + PROGRAM + bytes(80), "no trailer", id="no protected trailer"),
        pytest.param(
            head(protected=8) + PROGRAM + trailer(bytes(4), magic=0x6908, size=12) + bytes(40),
            "size of its trailer is wrong",
            id="protected trailer of another size",
        ),
        pytest.param(head() + PROGRAM + trailer(b"\x10\0"), "within an entry", id="half a head of an entry"),
        pytest.param(head() + PROGRAM + trailer(b"\x10\0\x20\0"), "within an entry", id="half an entry"),
        pytest.param(head() + PROGRAM + trailer(b""), "no hash", id="no hash"),
        pytest.param(head() + PROGRAM + trailer(WHOLE + WHOLE), "several hashes", id="two hashes"),
        pytest.param(head() + PROGRAM + trailer(entry(0x10, b"short")), "has 5 bytes", id="short hash"),
        pytest.param(head() + PROGRAM + trailer(WHOLE), "does not match the SHA256", id="wrong hash"),
        pytest.param(bytes(LARGEST + 1), "takes more than", id="too large"),
    ],
)
def test_what_is_wrong_with_an_image_is_said(content: bytes, told: str) -> None:
    with pytest.raises(BadImage, match=told):
        read_mcuboot_image(content)
    with pytest.raises(Ended) as ended:
        check_mcuboot_image(content)
    assert ended.value.outcome is Outcome.CORRUPT


@given(at=st.integers(0, len(image()) - 1), bit=st.integers(0, 7))
def test_no_damage_of_one_bit_goes_unnoticed(at: int, bit: int) -> None:
    whole = image()
    damaged = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
    try:
        read = read_mcuboot_image(damaged)
    except BadImage:
        return
    assert read.encrypted  # the flag was what was damaged: then only the bootloader can tell


@given(st.binary(max_size=200))
def test_whatever_bytes_come_the_answer_is_a_sentence(content: bytes) -> None:
    with pytest.raises(BadImage):
        read_mcuboot_image(content)


@given(st.binary(max_size=64))
def test_whatever_follows_a_program_the_answer_is_a_sentence(rest: bytes) -> None:
    with pytest.raises(BadImage):
        read_mcuboot_image(head() + PROGRAM + rest)
