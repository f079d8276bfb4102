"""Uploads what workloads write below /export to the bucket that the configuration names: new or changed files only.

`Agent` runs a pass every few seconds, and for a workload that is gone until all of its files are uploaded. A file
counts as uploaded when it did not change meanwhile; a ledger per workload remembers size and time of each, and the
parts of a large one that have arrived, so that a broken upload goes on where it broke. Nothing is ever deleted, on the
device or in the bucket, and no symbolic link is followed: a workload writes what it likes there.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

import msgspec

from edgewright.agent.events import Events
from edgewright.agent.manifest import is_name
from edgewright.agent.s3 import Bucket, BucketError, Section
from edgewright.agent.state import State
from edgewright.api.edge_protocol import NEVER, DataPath, S3Configuration, Workload
from edgewright.runtime.clock import Clock

_SAVE_EVERY: Final = 50
PART: Final = 5 << 20
"""The bytes of a part: the least that S3 takes, because one is held in memory."""
MAX_PARTS: Final = 10_000
"""So many parts S3 takes; what is larger than that comes in larger ones."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


Mark: TypeAlias = tuple[int, int]
"""Size and time of change of a file."""


class Parts(msgspec.Struct, kw_only=True):
    """An upload in parts that is not complete."""

    upload: str
    mark: Mark
    size: int
    """The bytes of a part."""
    tags: list[str] = []
    """The parts that have arrived, in their order."""


class Ledger(msgspec.Struct, kw_only=True):
    """What was uploaded of one workload."""

    bucket: str = ""
    """Which bucket it is in; another one gets everything again."""
    egress: tuple[DataPath, ...] = ()
    uploaded: dict[str, Mark] = {}
    """Size and time of change by key in the bucket."""
    pending: dict[str, Parts] = {}
    """What has arrived of large files, by key."""
    last_upload: str = NEVER


def egress_of(workload: Workload) -> tuple[DataPath, ...]:
    """The directories that a workload uploads, in the words of either era."""
    data = workload.data
    return () if data is None else (data.egress or data.paths or ())


def key_of(target: str, relative: str) -> str:
    """The key of a file in the bucket."""
    parts = [part for part in PurePosixPath(target).parts if part not in {"/", "."}]
    return "/".join([*parts, relative])


def source_of(source: str) -> tuple[str, ...]:
    """The parts of a directory below /export; ValueError where it would be elsewhere."""
    parts = tuple(part for part in PurePosixPath(source).parts if part not in {"/", "."})
    if ".." in parts:
        raise ValueError(f"{source!r} is not below /export")
    return parts


def scan(volume: Path, source: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Size and time of change of every file below a directory, by its name relative to it."""
    found: dict[str, tuple[int, int]] = {}
    try:
        top = open_below(volume, source, folder=True)
    except OSError:
        return found  # not there yet
    try:
        for folder, _, names, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            for name in names:
                try:
                    entry = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                except OSError:
                    continue  # gone again
                if stat.S_ISREG(entry.st_mode):
                    found[os.path.normpath(f"{folder}/{name}")] = (entry.st_size, entry.st_mtime_ns)
    finally:
        os.close(top)
    return found


def open_below(volume: Path, parts: Sequence[str], *, folder: bool) -> int:
    """Opens a file or folder below a directory without following any link on the way."""
    # The volume itself is made by the agent; what is below it is the workload's.
    at = os.open(volume, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, part in enumerate(parts, start=1):
        last = number == len(parts) and not folder
        try:
            inner = os.open(part, _FILE if last else _FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = inner
    return at


class Uploader:
    """Keeps the bucket up to date with the data directories."""

    def __init__(
        self, state: State, events: Events, clock: Clock, *, bucket: Callable[[S3Configuration], Bucket]
    ) -> None:
        self._state = state
        self._events = events
        self._clock = clock
        self._bucket = bucket
        self._ledgers = {name: _read(content) for name, content in state.ledgers().items()}
        self.files, self.bytes = 0, 0
        """What this process has uploaded."""

    def last_upload(self, workload: str) -> str:
        """When data of a workload was last uploaded."""
        ledger = self._ledgers.get(workload)
        return NEVER if ledger is None else ledger.last_upload

    def expect(self, workloads: Sequence[Workload]) -> None:
        """Remembers what each workload uploads: before it starts, so that also its last files are not lost."""
        for workload in workloads:
            egress = egress_of(workload)
            known = self._ledgers.get(workload.name)
            if (known is None and not egress) or not is_name(workload.name):
                continue
            ledger = known or Ledger()
            if known is None or ledger.egress != egress:
                ledger.egress = egress
                self._ledgers[workload.name] = ledger
                self._save(workload.name)

    async def run_pass(self, s3: S3Configuration | None, wanted: frozenset[str]) -> bool:
        """Uploads everything that is new; what fails is told, and tried again by the next pass. False where it did."""
        well = True
        for name in sorted(self._ledgers):
            ledger = self._ledgers[name]
            try:
                complete = await self._upload(name, ledger, s3)
                if complete and name not in wanted:
                    self._state.drop_ledger(name)
                    del self._ledgers[name]
            except (BucketError, ValueError, OSError) as error:
                well = False
                self._events.problem(f"data of {name}", reason="DataUploadFailed", message=f"{name}: {error}")
            else:
                self._events.solved(f"data of {name}", reason="DataUploaded", message=f"{name}: uploads work again")
        return well

    async def _upload(self, name: str, ledger: Ledger, s3: S3Configuration | None) -> bool:
        """Uploads what is new of one workload; True where nothing is left that waits."""
        sources = [(path, source_of(path.source)) for path in ledger.egress]
        if not sources:
            return True
        if s3 is None or not s3.bucket_name:
            raise BucketError("the configuration names no bucket")
        place = f"{s3.bucket_host}:{s3.bucket_port}/{s3.bucket_name}"
        if ledger.bucket != place:
            ledger.bucket, ledger.uploaded, ledger.pending = place, {}, {}
        bucket = self._bucket(s3)
        try:
            return await self._upload_all(name, ledger, bucket, sources)
        finally:
            await bucket.close()

    async def _upload_all(
        self, name: str, ledger: Ledger, bucket: Bucket, sources: Sequence[tuple[DataPath, tuple[str, ...]]]
    ) -> bool:
        volume, complete, unsaved = self._state.volume(name), True, 0
        there: set[str] = set()
        try:
            for path, source in sources:
                found = await asyncio.to_thread(scan, volume, source)
                for relative in sorted(found):
                    key = key_of(path.target, relative)
                    there.add(key)
                    if ledger.uploaded.get(key) == found[relative]:
                        continue
                    mark = await self._put(bucket, name, key, (*source, *relative.split("/")))
                    if mark is None:
                        complete = False  # it changed meanwhile: the next pass takes it
                        continue
                    ledger.uploaded[key] = mark
                    self.files += 1
                    self.bytes += mark[0]
                    ledger.last_upload = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
                    unsaved += 1
                    if unsaved >= _SAVE_EVERY:
                        self._save(name)
                        unsaved = 0
            unsaved += await self._forget(ledger, bucket, there)
        finally:
            if unsaved:
                self._save(name)
        return complete

    async def _forget(self, ledger: Ledger, bucket: Bucket, there: set[str]) -> int:
        """Forgets files that the workload has removed; parts of them that have arrived are of no use to anybody."""
        gone = [*(ledger.uploaded.keys() - there), *(ledger.pending.keys() - there)]
        for key in gone:
            ledger.uploaded.pop(key, None)
            parts = ledger.pending.pop(key, None)
            if parts is not None:
                with suppress(BucketError):
                    await bucket.abort(key, parts.upload)
        return len(gone)

    async def _put(self, bucket: Bucket, name: str, key: str, parts: Sequence[str]) -> Mark | None:
        """Uploads one file; its mark, or None where it changed meanwhile or is gone."""
        try:
            descriptor = open_below(self._state.volume(name), parts, folder=False)
        except OSError:
            return None
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                return None
            mark = (before.st_size, before.st_mtime_ns)
            if before.st_size <= PART:
                await bucket.put(key, Section(descriptor, 0, before.st_size))
            elif not await self._put_parts(bucket, name, key, descriptor, mark):
                return None
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        return mark if mark == (after.st_size, after.st_mtime_ns) else None

    async def _put_parts(self, bucket: Bucket, name: str, key: str, descriptor: int, mark: Mark) -> bool:
        """Uploads a large file in parts, from where it broke last time; False where it became shorter meanwhile."""
        pending = self._ledgers[name].pending
        known = pending.get(key)
        if known is not None and known.mark != mark:
            await bucket.abort(key, known.upload)
            known = None
        if known is None:
            size = max(PART, -(-mark[0] // MAX_PARTS))
            known = pending[key] = Parts(upload=await bucket.begin(key), mark=mark, size=size)
            self._save(name)
        try:
            while (offset := len(known.tags) * known.size) < mark[0]:
                length = min(known.size, mark[0] - offset)
                if os.fstat(descriptor).st_size < mark[0]:
                    return False
                content = Section(descriptor, offset, length)
                known.tags.append(await bucket.put_part(key, known.upload, len(known.tags) + 1, content))
                self._save(name)
            await bucket.complete(key, known.upload, known.tags)
        except BucketError as error:
            if error.code == "NoSuchUpload":  # the server has forgotten it: it is begun again by the next pass
                del pending[key]
                self._save(name)
            raise
        del pending[key]
        return True

    def _save(self, name: str) -> None:
        self._state.keep_ledger(name, msgspec.json.encode(self._ledgers[name]))


def _read(content: bytes) -> Ledger:
    """A ledger; one that cannot be read is begun again, and its files are uploaded again."""
    try:
        return msgspec.json.decode(content, type=Ledger)
    except msgspec.MsgspecError:
        return Ledger()


def workloads_by_name(workloads: Sequence[Workload] | None) -> Mapping[str, Workload]:
    """The workloads of a configuration; of two with one name the first counts."""
    found: dict[str, Workload] = {}
    for workload in workloads or ():
        found.setdefault(workload.name, workload)
    return found
