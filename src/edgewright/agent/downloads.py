"""Downloads what a workload is to find below /export from the bucket: each object once for each of its versions.

`Agent` runs a pass after each pass of `uploads`. An object is fetched next to its place, taken up where it broke, and
renamed into place when it is whole, so that a workload never sees half of it. What a workload deletes is not fetched
again until the bucket has something new; no symbolic link of a workload is followed, and nothing is ever deleted.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from edgewright.agent.events import Events
from edgewright.agent.manifest import is_name
from edgewright.agent.s3 import Bucket, BucketError, Object
from edgewright.agent.state import State
from edgewright.agent.uploads import source_of, workloads_by_name
from edgewright.api.edge_protocol import DataPath, S3Configuration, Workload
from edgewright.runtime.files import sync_directory

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Ledger(msgspec.Struct, kw_only=True):
    """What was downloaded for one workload."""

    bucket: str = ""
    fetched: dict[str, str] = {}
    """The tag of the version that was fetched, by place and key."""


def ingress_of(workload: Workload) -> tuple[DataPath, ...]:
    """The parts of the bucket that a workload gets, and where."""
    return () if workload.data is None else workload.data.ingress or ()


def place_of(path: DataPath, key: str) -> tuple[str, ...] | None:
    """Where an object goes below /export; None where it has no place there."""
    prefix = prefix_of(path.source)
    relative = key.removeprefix(prefix)
    parts = tuple(relative.split("/"))
    if not key.startswith(prefix) or any(part in {"", ".", ".."} or "\0" in part for part in parts):
        return None
    return (*source_of(path.target), *parts)


def prefix_of(source: str) -> str:
    """What the keys below a source begin with."""
    parts = [part for part in PurePosixPath(source).parts if part not in {"/", "."}]
    return "/".join(parts) + "/" if parts else ""


class Downloader:
    """Keeps the data directories up to date with the bucket."""

    def __init__(self, state: State, events: Events, *, bucket: Callable[[S3Configuration], Bucket]) -> None:
        self._state = state
        self._events = events
        self._bucket = bucket
        self._ledgers = {name: _read(content) for name, content in state.downloads().items()}
        self.files, self.bytes = 0, 0
        """What this process has downloaded."""

    async def run_pass(self, s3: S3Configuration | None, workloads: Iterable[Workload]) -> bool:
        """Fetches everything that is new; what fails is told, and tried again by the next pass. False where it did."""
        well = True
        named = workloads_by_name(tuple(workloads))
        wanted = {name: each for name, each in named.items() if ingress_of(each) and is_name(name)}
        for name in self._ledgers.keys() - wanted.keys():
            self._state.drop_downloads(name)
            del self._ledgers[name]
        partial: set[str] = set()
        for name, workload in wanted.items():
            try:
                await self._download(name, ingress_of(workload), s3, partial)
            except (BucketError, ValueError, OSError) as error:
                well = False
                self._events.problem(f"ingress of {name}", reason="DataDownloadFailed", message=f"{name}: {error}")
            else:
                text = f"{name}: downloads work again"
                self._events.solved(f"ingress of {name}", reason="DataDownloaded", message=text)
        if well:
            self._state.drop_parts(partial)
        return well

    async def _download(
        self, name: str, paths: Sequence[DataPath], s3: S3Configuration | None, partial: set[str]
    ) -> None:
        if s3 is None or not s3.bucket_name:
            raise BucketError("the configuration names no bucket")
        place = f"{s3.bucket_host}:{s3.bucket_port}/{s3.bucket_name}"
        ledger = self._ledgers.setdefault(name, Ledger(bucket=place))
        if ledger.bucket != place:
            ledger.bucket, ledger.fetched = place, {}
        self._state.make_volume(name)
        bucket = self._bucket(s3)
        try:
            for path in paths:
                for found in await bucket.listed(prefix_of(path.source)):
                    parts = place_of(path, found.key)
                    mark = f"{path.target}:{found.key}"
                    if parts is None or ledger.fetched.get(mark) == found.etag:
                        continue
                    part = hashlib.sha256(f"{name} {place} {mark} {found.etag}".encode()).hexdigest()[:32]
                    partial.add(part)
                    file = self._state.part(part)
                    await self._fetch(bucket, found, file)
                    await asyncio.to_thread(put_below, self._state.volume(name), parts, file)
                    ledger.fetched[mark] = found.etag
                    self.files += 1
                    self.bytes += found.size
                    self._state.keep_downloads(name, msgspec.json.encode(ledger))
        finally:
            await bucket.close()

    @staticmethod
    async def _fetch(bucket: Bucket, found: Object, file: Path) -> None:
        """Fetches what is missing of an object into a file; the file is on the disk when this returns."""
        with file.open("ab") as partial:
            have = partial.tell()
            if have > found.size:
                partial.truncate(0)
                have = 0
            if have < found.size:
                async with aclosing(bucket.get(found, offset=have)) as chunks:
                    async for chunk in chunks:
                        await asyncio.to_thread(partial.write, chunk)
            partial.flush()
            if partial.tell() != found.size:
                partial.truncate(0)
                raise BucketError(f"{found.key}: the bucket sent another size than it lists")
            await asyncio.to_thread(os.fsync, partial.fileno())


def put_below(volume: Path, parts: Sequence[str], file: Path) -> None:
    """Moves a file to its place below a directory, without following any link on the way."""
    at = os.open(volume, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            made = False
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
                made = True
            inner = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
            if made:
                os.fchmod(at, 0o777)  # as the volume: whoever the containers run as may write to it
        file.chmod(0o644)
        os.rename(file, parts[-1], dst_dir_fd=at)
        os.fsync(at)
    finally:
        os.close(at)
    sync_directory(file.parent)


def _read(content: bytes) -> Ledger:
    try:
        return msgspec.json.decode(content, type=Ledger)
    except msgspec.MsgspecError:
        return Ledger()
