"""Uploads what workloads write below /export to the bucket that the configuration names: new or changed files only.

`Agent` runs a pass every few seconds, and for a workload that is gone until all of its files are uploaded. A file
counts as uploaded when it did not change meanwhile; a ledger per workload remembers size and time of each. Nothing is
ever deleted, on the device or in the bucket, and no symbolic link is followed: a workload writes what it likes there.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Protocol

import msgspec

from edgewright.agent.events import Events
from edgewright.agent.manifest import is_name
from edgewright.agent.state import State
from edgewright.api.edge_protocol import NEVER, DataPath, S3Configuration, Workload
from edgewright.runtime.clock import Clock

_SAVE_EVERY: Final = 50
_PART: Final = 5 << 20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UploadError(Exception):
    """The bucket cannot be used now, in a sentence."""


class Ledger(msgspec.Struct, kw_only=True):
    """What was uploaded of one workload."""

    bucket: str = ""
    """Which bucket it is in; another one gets everything again."""
    egress: tuple[DataPath, ...] = ()
    uploaded: dict[str, tuple[int, int]] = {}
    """Size and time of change by key in the bucket."""
    last_upload: str = NEVER


class Bucket(Protocol):
    """Where files go."""

    async def put(self, key: str, file: IO[bytes]) -> None:
        """Uploads one file; UploadError where that fails."""


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

    async def run_pass(self, s3: S3Configuration | None, wanted: frozenset[str]) -> None:
        """Uploads everything that is new; what fails is told, and tried again by the next pass."""
        for name in sorted(self._ledgers):
            ledger = self._ledgers[name]
            try:
                complete = await self._upload(name, ledger, s3)
                if complete and name not in wanted:
                    self._state.drop_ledger(name)
                    del self._ledgers[name]
            except (UploadError, ValueError, OSError) as error:
                self._events.problem(f"data of {name}", reason="DataUploadFailed", message=f"{name}: {error}")
            else:
                self._events.solved(f"data of {name}", reason="DataUploaded", message=f"{name}: uploads work again")

    async def _upload(self, name: str, ledger: Ledger, s3: S3Configuration | None) -> bool:
        """Uploads what is new of one workload; True where nothing is left that waits."""
        sources = [(path, source_of(path.source)) for path in ledger.egress]
        if not sources:
            return True
        if s3 is None or not s3.bucket_name:
            raise UploadError("the configuration names no bucket")
        place = f"{s3.bucket_host}:{s3.bucket_port}/{s3.bucket_name}"
        if ledger.bucket != place:
            ledger.bucket, ledger.uploaded = place, {}
        bucket: Bucket | None = None
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
                    bucket = bucket or self._bucket(s3)
                    mark = await self._put(bucket, key, volume, (*source, *relative.split("/")))
                    if mark is None:
                        complete = False  # it changed meanwhile: the next pass takes it
                        continue
                    ledger.uploaded[key] = mark
                    ledger.last_upload = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
                    unsaved += 1
                    if unsaved >= _SAVE_EVERY:
                        self._save(name)
                        unsaved = 0
            if gone := ledger.uploaded.keys() - there:
                for key in gone:
                    del ledger.uploaded[key]
                unsaved += 1
        finally:
            if unsaved:
                self._save(name)
        return complete

    async def _put(self, bucket: Bucket, key: str, volume: Path, parts: Sequence[str]) -> tuple[int, int] | None:
        """Uploads one file; its mark, or None where it changed meanwhile or is gone."""
        try:
            descriptor = open_below(volume, parts, folder=False)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                return None
            await bucket.put(key, file)
            after = os.fstat(descriptor)
        mark = (after.st_size, after.st_mtime_ns)
        return mark if mark == (before.st_size, before.st_mtime_ns) else None

    def _save(self, name: str) -> None:
        self._state.keep_ledger(name, msgspec.json.encode(self._ledgers[name]))


class S3Bucket:
    """A bucket of any S3 server, by obstore."""

    def __init__(self, s3: S3Configuration, *, plain_http: bool = False) -> None:
        try:
            from obstore import store  # noqa: PLC0415 - an extra, and only where data is uploaded
        except ImportError as error:
            raise UploadError("uploads need obstore: install edgewright[agent]") from error
        scheme = "http" if plain_http else "https"
        port = f":{s3.bucket_port}" if s3.bucket_port else ""
        options: Any = {"allow_http": plain_http, "connect_timeout": "10s", "timeout": "300s"}
        if s3.aws_ca_bundle:
            options["root_certificate"] = _decoded(s3.aws_ca_bundle, "aws_ca_bundle")
        self._store = store.S3Store(
            s3.bucket_name,
            endpoint=f"{scheme}://{s3.bucket_host}{port}",
            access_key_id=_decoded(s3.aws_access_key_id, "aws_access_key_id"),
            secret_access_key=_decoded(s3.aws_secret_access_key, "aws_secret_access_key"),
            region=s3.bucket_region or "us-east-1",
            virtual_hosted_style_request=False,
            client_options=options,
            retry_config={"max_retries": 2},
        )

    async def put(self, key: str, file: IO[bytes]) -> None:
        """Uploads one file, in parts where it is large."""
        from obstore import exceptions, put_async  # noqa: PLC0415

        try:
            await put_async(self._store, key, file, chunk_size=_PART, max_concurrency=2)
        except (exceptions.BaseError, OSError) as error:
            raise UploadError(" ".join(str(error).split())[:500]) from error


def _decoded(text: str, name: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise UploadError(f"storage.s3.{name}: is not base64") from error


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
