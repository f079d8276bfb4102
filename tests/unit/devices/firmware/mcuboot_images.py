"""MCUboot images made byte by byte, right ones and wrong ones."""

from __future__ import annotations

import hashlib
import struct

PROGRAM = bytes(range(256)) * 2


def entry(kind: int, value: bytes) -> bytes:
    return struct.pack("<HH", kind, len(value)) + value


def trailer(entries: bytes, *, magic: int = 0x6907, size: int | None = None) -> bytes:
    return struct.pack("<HH", magic, 4 + len(entries) if size is None else size) + entries


def head(
    *,
    version: tuple[int, int, int, int] = (1, 2, 3, 4),
    size: int = len(PROGRAM),
    header: int = 32,
    flags: int = 0,
    protected: int = 0,
    magic: int = 0x96F3B83D,
) -> bytes:
    fields = struct.pack("<IIHHIIBBHII", magic, 0, header, protected, size, flags, *version, 0)
    return fields.ljust(header, b"\0")


def image(
    *,
    version: tuple[int, int, int, int] = (1, 2, 3, 4),
    program: bytes = PROGRAM,
    header: int = 32,
    flags: int = 0,
    protected: bytes = b"",
    algorithm: str = "sha256",
    kind: int = 0x10,
    more: bytes = b"",
) -> bytes:
    """A whole image, as imgtool would make it."""
    shielded = trailer(protected, magic=0x6908) if protected else b""
    start = head(version=version, size=len(program), header=header, flags=flags, protected=len(shielded))
    content = start + program + shielded
    return content + trailer(entry(kind, hashlib.new(algorithm, content).digest()) + more)
