"""Unpacks the layers of an image in memory and finds the firmware file in them; nothing is written to a disk.

`pull` hands over layers whose digests were checked. Pure. What is larger than allowed, points out of the image or is
no plain file ends the flash as corrupt.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import IO, TYPE_CHECKING, Final, cast

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.oci.manifests import PATH_LABEL

if TYPE_CHECKING:
    import tarfile

_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_STEP: Final = 64 << 10
_MAX_ENTRIES: Final = 10_000
_MAX_HEADERS: Final = 256 << 10
"""What may describe one file: a name, attributes, a map of holes. All of it becomes objects, many times as large."""


class _Kind(Enum):
    FILE = auto()
    FOLDER = auto()
    LINK = auto()
    OTHER = auto()


class Unpacked:
    """A layer as the tar archive that it is, decompressed step by step and never further than allowed."""

    def __init__(self, layer: bytes, allowed: int) -> None:
        if layer.startswith(_ZSTD):
            raise Ended(
                Outcome.FAILED, "a layer of the image is compressed with zstd, which is not supported: use gzip or none"
            )
        self.size = 0
        self._allowed = allowed
        self._known = 0
        self._source = memoryview(layer)
        self._at = 0
        self._gzip = zlib.decompressobj(wbits=31) if layer.startswith(_GZIP) else None
        self._ready = bytearray()

    def read(self, size: int) -> bytes:
        """As many bytes as asked for, fewer only at the end."""
        while len(self._ready) < size and (more := self._more()):
            self.size += len(more)
            if self.size > self._allowed:
                raise Ended(Outcome.CORRUPT, f"the image is larger than {self._allowed} bytes when unpacked")
            if self.size > self._known + _MAX_HEADERS:
                raise Ended(
                    Outcome.CORRUPT,
                    f"a layer of the image has more than {_MAX_HEADERS} bytes of headers for a file",
                )
            self._ready += more
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def expect(self, end: int) -> None:
        """Says that up to there it is the content of a file, and not its headers."""
        self._known = end

    def _more(self) -> bytes:
        if self._gzip is None:
            return self._next()
        try:
            while True:
                if self._gzip.eof:  # members of a gzip file may follow each other
                    rest = self._gzip.unused_data or self._next()
                    if not rest.startswith(_GZIP):
                        return b""
                    self._gzip = zlib.decompressobj(wbits=31)
                else:
                    rest = self._gzip.unconsumed_tail or self._next()
                if data := self._gzip.decompress(rest, _STEP):
                    return data
                if not rest:
                    raise Ended(Outcome.CORRUPT, "a layer of the image ends in the middle")
        except zlib.error as error:
            raise Ended(Outcome.CORRUPT, f"a layer of the image cannot be unpacked: {error}") from None

    def _next(self) -> bytes:
        data = bytes(self._source[self._at : self._at + _STEP])
        self._at += len(data)
        return data


class Tree:
    """What an image holds after its layers were laid over each other; the content of wanted files only is kept."""

    def __init__(self, wanted: str, allowed: int) -> None:
        """`wanted` is the path of the one file that is asked for; empty keeps all."""
        self._wanted = wanted
        self._left = allowed
        self._entries = 0
        self._kinds: dict[str, _Kind] = {}
        self._contents: dict[str, bytes] = {}

    def add(self, layer: bytes) -> None:
        """Lays the next layer over the ones before."""
        import tarfile  # noqa: PLC0415  # it is slow to import, and many images have no archive in them

        unpacked = Unpacked(layer, self._left)
        below = set(self._kinds)  # what a layer takes away is always of the layers below it
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", unpacked), mode="r|") as archive:
                for member in archive:
                    # Of others `size` says nothing of the archive: a file with holes tells how long it is without them.
                    content = member.size if _kind(member) is _Kind.FILE else 0
                    unpacked.expect(member.offset_data + content)
                    self._take(archive, member, below)
                    # Else it keeps the headers of all; the attribute is old, and only its types are missing.
                    archive.members.clear()  # type: ignore[attr-defined]
        except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
            raise Ended(Outcome.CORRUPT, f"a layer of the image is no tar archive that can be read: {error}") from None
        self._left -= unpacked.size

    def file(self, path: str, name: str) -> bytes:
        """The content of the file at a path, or without one of the only file."""
        if not path:
            files = list(self._contents)
            if len(files) != 1:
                raise Ended(
                    Outcome.INCOMPATIBLE,
                    f"{name} has {len(files)} files: name the firmware with the label {PATH_LABEL}",
                )
            path = files[0]
        for each in (*_parents(path), path):
            if self._kinds.get(each) in {_Kind.LINK, _Kind.OTHER}:
                raise Ended(Outcome.CORRUPT, f"{each!r} in {name} is a link or a device, and no file")
        if path not in self._contents:
            raise Ended(Outcome.INCOMPATIBLE, f"{name} has no file {path!r}, which its label {PATH_LABEL} names")
        return self._contents[path]

    def _take(self, archive: tarfile.TarFile, member: tarfile.TarInfo, below: set[str]) -> None:
        self._entries += 1
        if self._entries > _MAX_ENTRIES:
            raise Ended(Outcome.CORRUPT, f"the image has more than {_MAX_ENTRIES} files")
        if member.size > self._left:
            raise Ended(Outcome.CORRUPT, f"the image is larger than {self._left} bytes when unpacked")
        path = safe_path(member.name)
        folder, _, last = path.rpartition("/")
        if last == _OPAQUE:
            self._drop(below, folder, itself=False)
        elif last.startswith(_WHITEOUT):
            self._drop(below, f"{folder}/{last[len(_WHITEOUT) :]}".lstrip("/"), itself=True)
        elif path:
            kind = _kind(member)
            before = self._kinds.get(path)
            if before is not None and (kind, before) != (_Kind.FOLDER, _Kind.FOLDER):
                self._drop(set(self._kinds) if before is _Kind.FOLDER else {path}, path, itself=True)
            self._kinds[path] = kind
            below.discard(path)
            if kind is _Kind.FILE and self._wanted in {"", path}:
                source = archive.extractfile(member)
                self._contents[path] = source.read() if source is not None else b""

    def _drop(self, among: set[str], path: str, *, itself: bool) -> None:
        inside = f"{path}/" if path else ""
        for each in [each for each in among if each.startswith(inside) or (itself and each == path)]:
            among.discard(each)
            self._kinds.pop(each, None)
            self._contents.pop(each, None)


def firmware_in(layers: Iterable[bytes], *, path: str, allowed: int, name: str) -> bytes:
    """The firmware file in an image's layers, the lowest first: at the path, or the only file that there is."""
    wanted = safe_path(path.lstrip("/"))
    tree = Tree(wanted, allowed)
    for layer in layers:
        tree.add(layer)
    return tree.file(wanted, name)


def safe_path(path: str) -> str:
    """A path without what means nothing in it; Ended(CORRUPT) where it begins at the root or goes upwards."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise Ended(Outcome.CORRUPT, f"the image has the path {path[:200]!r}, which points out of it")
    return "/".join(part for part in parts if part not in {"", "."})


def _parents(path: str) -> Iterator[str]:
    parts = path.split("/")
    for length in range(1, len(parts)):
        yield "/".join(parts[:length])


def _kind(member: tarfile.TarInfo) -> _Kind:
    if member.isdir():
        return _Kind.FOLDER
    if member.issym() or member.islnk():
        return _Kind.LINK
    # A sparse file may be endless and yet small in the archive.
    return _Kind.FILE if member.isreg() and not member.issparse() else _Kind.OTHER
