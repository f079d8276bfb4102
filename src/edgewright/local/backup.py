"""A copy of a store that is in use, made by another process: SQLite's online backup, checked before it is given out.

`edgewright backup` calls it. It only reads the data directory, so it needs no lock and disturbs nobody; a copy that
could not be opened as a store is never left behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

from edgewright.local.database import FORMAT, Database, StoreDamaged, StoreError
from edgewright.runtime.files import PRIVATE, sync_directory


def backup(data: Path, file: Path) -> int:
    """Copy the store of a data directory into a file, which appears when it is whole; gives its revision."""
    source = data / "store.db"
    if not source.is_file():
        raise StoreError(f"{data} is no data directory: there is no store.db in it")
    try:
        # In a directory of its own next to the target: the copy is opened as a store, which creates files around it.
        part = Path(tempfile.mkdtemp(prefix=f".{file.name}.", dir=file.parent))
        try:
            copy = part / "store.db"
            # Which write was acknowledged last: read first, so that the copy has at least that one, or is damaged.
            (part / "store.lock").write_bytes(_acknowledged(data))
            os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
            _copy(source, copy)
            revision = _checked(part)
            _sync(copy)
            copy.replace(file)
            sync_directory(file.parent)
            return revision
        finally:
            shutil.rmtree(part)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}") from error


def _acknowledged(data: Path) -> bytes:
    try:
        return (data / "store.lock").read_bytes()
    except FileNotFoundError:  # a restored directory that nobody has started with yet
        return b""


def _copy(source: Path, copy: Path) -> None:
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as live,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            version = live.execute("PRAGMA user_version").fetchone()[0]
            if version != FORMAT:
                raise StoreError(f"{source} has format {version}; this program copies format {FORMAT}")
            live.backup(target)
    except sqlite3.DatabaseError as error:
        damaged = error.sqlite_errorcode in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        kind = StoreDamaged if damaged else StoreError
        raise kind(f"{source} cannot be copied: {error}") from error


def _checked(directory: Path) -> int:
    """The revision of the copy, which is opened and read as `edgewright up` would."""
    database = Database(directory)
    try:
        return database.load(lambda _: None)[0]
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(f"the copy cannot be read: {error}") from error
    finally:
        database.close()


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
