"""Layers of an image: what is found in them, and every trick that is refused."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.oci import layers
from edgewright.devices.oci.layers import firmware_in

Entry = tuple[str, bytes] | tarfile.TarInfo
MEBIBYTE = 1 << 20


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    return member


def folder(name: str) -> tarfile.TarInfo:
    return special(name, tarfile.DIRTYPE)


def layer(*entries: Entry, form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
            else:
                member = tarfile.TarInfo(entry[0])
                member.size = len(entry[1])
                archive.addfile(member, io.BytesIO(entry[1]))
    return buffer.getvalue()


def find(*contents: bytes, path: str = "", allowed: int = MEBIBYTE) -> bytes:
    return firmware_in(contents, path=path, allowed=allowed, name="the image")


FW = ("firmware/app.bin", b"firmware")
LONG = "firmware/" + "x" * 200 + "/app.bin"


@pytest.mark.parametrize("squeeze", [bytes, gzip.compress], ids=["tar", "tar+gzip"])
@pytest.mark.parametrize("path", ["/firmware/app.bin", "firmware/app.bin", "./firmware//app.bin", ""])
def test_the_firmware_is_found_at_its_path_or_as_the_only_file(squeeze: Callable[[bytes], bytes], path: str) -> None:
    assert find(squeeze(layer(folder("firmware"), FW)), path=path) == b"firmware"


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_long_names_are_read_in_every_format(form: int) -> None:
    assert find(layer((LONG, b"x"), form=form), path=f"/{LONG}") == b"x"


def test_gzip_members_may_follow_each_other() -> None:
    archive = layer(FW)
    assert find(gzip.compress(archive[:700]) + gzip.compress(archive[700:]), path="firmware/app.bin") == b"firmware"


def test_what_follows_a_gzip_file_and_is_none_is_left_alone() -> None:
    assert find(gzip.compress(layer(FW)) + b"\0" * 100) == b"firmware"


@given(st.binary(max_size=200_000))
def test_any_content_comes_back_as_it_was(content: bytes) -> None:
    archive = layer(("a", b"other"), ("fw", content))
    assert find(gzip.compress(archive, 1), path="/fw") == find(archive, path="/fw") == content


@pytest.mark.parametrize(
    ("upper", "expected"),
    [
        (layer(("firmware/app.bin", b"new")), b"new"),
        (layer(("firmware/.wh.other", b"")), b"firmware"),
        (layer(("firmware/.wh..wh..opq", b""), ("firmware/app.bin", b"new")), b"new"),
        (layer(("firmware/app.bin", b"new"), ("firmware/.wh..wh..opq", b"")), b"new"),
        (layer(("firmware/app.bin", b"new"), (".wh.firmware", b"")), b"new"),
        (layer(folder("firmware")), b"firmware"),
        (layer(("firmware", b"now a file"), folder("firmware"), ("firmware/app.bin", b"again")), b"again"),
    ],
    ids=["replaced", "other gone", "opaque", "opaque after", "whiteout after", "folder again", "file and folder"],
)
def test_upper_layers_lie_over_lower_ones(upper: bytes, expected: bytes) -> None:
    assert find(layer(folder("firmware"), FW), upper, path="firmware/app.bin") == expected


@pytest.mark.parametrize(
    "upper",
    [
        layer(("firmware/.wh.app.bin", b"")),
        layer((".wh.firmware", b"")),
        layer(("firmware/.wh..wh..opq", b"")),
        layer((".wh..wh..opq", b"")),
        layer(("firmware", b"a file where the folder was")),
        layer(folder("firmware/app.bin")),
    ],
    ids=["file", "folder", "opaque", "all opaque", "replaced by a file", "replaced by a folder"],
)
def test_what_an_upper_layer_takes_away_is_gone(upper: bytes) -> None:
    with pytest.raises(Ended, match=r"has no file 'firmware/app\.bin'") as ended:
        find(layer(folder("firmware"), FW), upper, path="firmware/app.bin")
    assert ended.value.outcome is Outcome.INCOMPATIBLE


@pytest.mark.parametrize("entries", [[], [FW, ("other", b"")]], ids=["none", "two"])
def test_without_a_label_there_must_be_one_file(entries: list[Entry]) -> None:
    with pytest.raises(Ended, match=r"files: name the firmware with the label com\.urunc\.iot\.path") as ended:
        find(layer(*entries))
    assert ended.value.outcome is Outcome.INCOMPATIBLE


def header(name: str, kind: bytes, size: int) -> bytes:
    member = special(name, kind)
    member.size = size
    return member.tobuf(tarfile.USTAR_FORMAT)


def extended(records: bytes) -> bytes:
    """A header of the form that describes the next file by records, and may be of any length."""
    return header("pax", tarfile.XHDTYPE, len(records)) + records + bytes(-len(records) % 512)


def sparse(count: int) -> bytes:
    """A file whose map of holes, which is read with its header, has so many entries."""
    records = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n25 GNU.sparse.realsize=1\n26 GNU.sparse.name=a_file\n"
    holes = b"%d\n" % count + b"0\n" * 2 * count
    return extended(records) + header("file", tarfile.REGTYPE, len(holes)) + holes + bytes(-len(holes) % 512)


SPARSE = special("firmware/app.bin", tarfile.GNUTYPE_SPARSE)


TRICKS = {
    "absolute": (layer(("/firmware/app.bin", b"x")), "firmware/app.bin", "points out of it"),
    "upwards": (layer(FW, ("../etc/passwd", b"x")), "firmware/app.bin", "points out of it"),
    "inner upwards": (layer(FW, ("a/../../b", b"x")), "firmware/app.bin", "points out of it"),
    "label upwards": (layer(FW), "../firmware/app.bin", "points out of it"),
    "label with zero": (layer(FW), "firmware/\0", "points out of it"),
    "symlink": (layer(special("firmware/app.bin", tarfile.SYMTYPE, "/etc/passwd")), "firmware/app.bin", "is a link"),
    "hard link": (
        layer(("x", b"y"), special("firmware/app.bin", tarfile.LNKTYPE, "x")),
        "firmware/app.bin",
        "is a link",
    ),
    "link above": (layer(special("firmware", tarfile.SYMTYPE, "/etc"), FW), "firmware/app.bin", "is a link"),
    "device": (layer(special("firmware/app.bin", tarfile.CHRTYPE)), "firmware/app.bin", "is a link or a device"),
    "fifo": (layer(special("firmware/app.bin", tarfile.FIFOTYPE)), "firmware/app.bin", "is a link or a device"),
    "sparse": (layer(SPARSE), "firmware/app.bin", "is a link or a device"),
    "large": (layer(("firmware/app.bin", b"x" * 3 * MEBIBYTE)), "firmware/app.bin", "larger than 1048576 bytes"),
    "bomb": (gzip.compress(layer(("a", bytes(50 * MEBIBYTE)), FW)), "firmware/app.bin", "larger than 1048576 bytes"),
    "many": (gzip.compress(layer(*[(f"f{n}", bytes(9000)) for n in range(200)])), "f1", "larger than 1048576 bytes"),
    "endless header": (gzip.compress(extended(b"9 abcd=x\n" * 60_000) + layer(FW)), "firmware/app.bin", "headers"),
    "endless header after a device": (
        header("device", tarfile.CHRTYPE, 900_000) + extended(b"9 abcd=x\n" * 60_000) + layer(FW),
        "firmware/app.bin",
        "headers",
    ),
    "endless map": (gzip.compress(sparse(200_000) + layer(FW)), "firmware/app.bin", "headers"),
    "cut gzip": (gzip.compress(layer(FW))[:-20], "firmware/app.bin", "ends in the middle"),
    "bad gzip": (gzip.compress(layer(FW))[:20] + b"\xff" * 50, "firmware/app.bin", "cannot be unpacked"),
    "cut tar": (layer(FW)[:600], "", "no tar archive"),
    "no tar": (b"no archive at all, but long enough " * 100, "", "no tar archive"),
    "empty": (b"", "", "no tar archive"),
}


@pytest.mark.parametrize(("content", "path", "says"), TRICKS.values(), ids=TRICKS)
def test_tricks_and_damage_are_corrupt(content: bytes, path: str, says: str) -> None:
    with pytest.raises(Ended, match=says) as ended:
        find(content, path=path)
    assert ended.value.outcome is Outcome.CORRUPT


def test_large_files_and_headers_of_usual_length_are_no_endless_headers() -> None:
    content = bytes(MEBIBYTE)
    archive = sparse(10) + layer(("other", content), ("firmware/app.bin", content), ("last", content))
    assert find(archive, path="firmware/app.bin", allowed=9 * MEBIBYTE) == content


def test_the_limit_is_for_all_layers_together() -> None:
    half = layer(("a", bytes(600_000)))
    with pytest.raises(Ended, match="larger than"):
        find(half, half, path="a")


def test_an_image_with_very_many_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_MAX_ENTRIES", 5)
    with pytest.raises(Ended, match="more than 5 files"):
        find(layer(*[(f"f{n}", b"") for n in range(6)]))


def test_zstd_is_named_as_what_it_is() -> None:
    with pytest.raises(Ended, match="zstd, which is not supported"):
        find(b"\x28\xb5\x2f\xfd" + bytes(100))


@given(st.binary(max_size=3000))
def test_no_bytes_break_the_unpacking(noise: bytes) -> None:
    archive = bytearray(layer(FW))
    archive[: len(noise)] = noise[: len(archive)]
    for content in (noise, bytes(archive), zlib.compress(noise, wbits=31)):
        with suppress(Ended):
            assert isinstance(find(content, path="firmware/app.bin"), bytes)
