"""The file under the store: tables, transactions, checks; all of the SQL is here.

`store` calls it from its two threads, one that writes and one that reads, each with a connection of its own. It never
answers with what was not written: each row carries a checksum, and a file that lost acknowledged writes is refused.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from edgewright.local.directory_lock import Taken, lock
from edgewright.local.history import Change, ChangeType, Expired, Stored, StoreKey

FORMAT = 1
"""The version of the tables below, kept in the file as its user_version."""

# One script a version: entry n brings a file of version n to version n + 1.
_MIGRATIONS = (
    """
    CREATE TABLE objects (resource TEXT, namespace TEXT, name TEXT, revision INTEGER NOT NULL, created INTEGER NOT NULL,
        body BLOB NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (resource, namespace, name));
    CREATE TABLE history (revision INTEGER PRIMARY KEY, at REAL NOT NULL, type TEXT NOT NULL, resource TEXT NOT NULL,
        namespace TEXT NOT NULL, name TEXT NOT NULL, created INTEGER NOT NULL, body BLOB NOT NULL,
        previous INTEGER, previous_body BLOB, checksum INTEGER NOT NULL);
    CREATE TABLE compaction (revision INTEGER NOT NULL);
    INSERT INTO compaction VALUES (0);
    """,
)


class StoreError(Exception):
    """The store cannot do what was asked; nothing was changed."""


class StoreBusy(StoreError):
    """Another process has the data directory open."""


class StoreDamaged(StoreError):
    """The file does not hold what was written to it."""


class Database:
    """The open file and the lock on its directory."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "store.db"
        self._lock = _take(directory)
        self.connections: list[sqlite3.Connection] = []

    def close(self) -> None:
        """Closes the file and lets the directory go; again is harmless."""
        while self.connections:
            self.connections.pop().close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def aged(self, before: float) -> int:
        """The newest revision that was written before a moment, 0 when there is none."""
        query = "SELECT coalesce(max(revision), 0) FROM history WHERE at < ?"
        return int(self.connections[1].execute(query, (before,)).fetchone()[0])

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False, timeout=10)
        self.connections.append(connection)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA journal_size_limit=16777216")
        connection.execute("PRAGMA wal_autocheckpoint=0")  # `checkpoint` does it, so that nobody waits for it
        return connection

    def load(self, take: Callable[[Stored], None]) -> tuple[int, int]:
        """Opens the file, brings it to this format, checks it and gives out every object, in order of the keys."""
        os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = self._connect()
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            raise StoreError(f"{self._file} has format {version}; this program knows formats up to {FORMAT}")
        for script in _MIGRATIONS[version:]:
            version += 1
            connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version={version}; COMMIT")
        if (said := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise StoreDamaged(f"{self._file} is damaged ({said}): restore a backup into a new directory")
        compacted = connection.execute("SELECT revision FROM compaction").fetchone()[0]
        newest, count = connection.execute("SELECT coalesce(max(revision), 0), count(*) FROM history").fetchone()
        revision = max(newest, compacted)
        acknowledged = int(os.pread(self._lock, 20, 0) or b"0")
        if count != revision - compacted or acknowledged > revision:
            raise StoreDamaged(
                f"{self._file} is damaged: it ends at revision {revision} with {count} changes after {compacted}, "
                f"and {acknowledged} was acknowledged: restore a backup into a new directory"
            )
        for *name, revised, created, body, checksum in connection.execute("SELECT * FROM objects ORDER BY 1, 2, 3"):
            stored = Stored(StoreKey(*name), revised, created, body)
            if checksum != _checksum(stored):
                raise StoreDamaged(f"{self._file} is damaged: {'/'.join(name)} is not what was written")
            take(stored)
        self._connect().execute("PRAGMA query_only=1")
        return revision, compacted

    def commit(self, changes: Sequence[Change], at: float, compact_upto: int) -> None:
        """One transaction: the changes, and a cut of the history (0: none); it is on the disk when this returns."""
        connection = self.connections[0]
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(
                "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [_row(each, at) for each in changes]
            )
            last = {
                each.stored.key: each for each in changes
            }  # only what a group leaves of an object is there after it
            gone = [key for key, each in last.items() if each.type is ChangeType.DELETED]
            connection.executemany("DELETE FROM objects WHERE resource=? AND namespace=? AND name=?", gone)
            connection.executemany(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?)",
                [_object_row(each.stored) for each in last.values() if each.type is not ChangeType.DELETED],
            )
            if compact_upto:
                connection.execute("UPDATE compaction SET revision=?1 WHERE revision<?1", (compact_upto,))
                connection.execute("DELETE FROM history WHERE revision<=?", (compact_upto,))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if changes:
            # Not synced, and it need not be: it only lets `open` notice a log that lost what was acknowledged.
            with contextlib.suppress(OSError):
                os.pwrite(self._lock, b"%020d" % changes[-1].revision, 0)

    def checkpoint(self, *, by_writer: bool = False) -> int:
        """Copies what the log holds into the database, so that the log can begin again; gives its length in pages.

        Next to the writer it keeps nobody waiting, and leaves over what is written meanwhile; the writer leaves
        nothing.
        """
        connection = self.connections[0 if by_writer else 1]
        _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return int(pages)

    def read_changes(
        self, resource: str | None, namespace: str | None, after: int, upto: int, limit: int
    ) -> Sequence[Change]:
        """Changes with after < revision ≤ upto; Expired when some of them are compacted."""
        connection = self.connections[1]
        connection.execute("BEGIN")  # one snapshot: a compaction between the two questions would make a hole
        try:
            compacted = connection.execute("SELECT revision FROM compaction").fetchone()[0]
            if after < compacted:
                raise Expired(f"too old resource version: {after} ({compacted})")
            rows = connection.execute(
                "SELECT * FROM history WHERE revision>?1 AND revision<=?2 AND (?3 IS NULL OR resource=?3)"
                " AND (?4 IS NULL OR namespace=?4) ORDER BY revision LIMIT ?5",
                (after, upto, resource, namespace, limit),
            ).fetchall()
        finally:
            connection.execute("COMMIT")
        changes = []
        for revision, at, kind, *name, created, body, previous, previous_body, checksum in rows:
            key = StoreKey(*name)
            before = None if previous is None else Stored(key, previous, created, previous_body)
            change = Change(ChangeType(kind), Stored(key, revision, created, body), before)
            if _row(change, at)[-1] != checksum:
                raise StoreDamaged(f"{self._file} is damaged: the change {revision} is not what was written")
            changes.append(change)
        return changes

    def copy_to(self, file: Path) -> None:
        """A consistent copy of the database as a file."""
        part = file.with_name(f"{file.name}.part")
        try:
            handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                with contextlib.closing(sqlite3.connect(part)) as copy:
                    self.connections[1].backup(copy)
                os.fsync(handle)
            finally:
                os.close(handle)
            part.replace(file)
        except OSError as error:
            raise StoreError(f"{file} cannot be written: {error}") from error


def _take(directory: Path) -> int:
    """Makes the directory and locks it for this process; the lock goes with the process, however it ends."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    try:
        return lock(directory / "store.lock")
    except Taken as error:
        raise StoreBusy(f"{directory} is in use by another process: stop it, or choose another directory") from error


def _checksum(stored: Stored) -> int:
    return zlib.crc32(stored.body, zlib.crc32(repr((*stored.key, stored.revision, stored.created)).encode()))


def _object_row(stored: Stored) -> tuple[object, ...]:
    """An object as the table of objects has it."""
    return (*stored.key, stored.revision, stored.created, stored.body, _checksum(stored))


def _row(change: Change, at: float) -> tuple[object, ...]:
    """A change as the history table has it."""
    stored, before = change.stored, change.previous
    previous = (None, None) if before is None else (before.revision, before.body)
    checksum = zlib.crc32(previous[1] or b"", zlib.crc32(f"{change.type}{previous[0]}".encode(), _checksum(stored)))
    return (stored.revision, at, str(change.type), *stored.key, stored.created, stored.body, *previous, checksum)
