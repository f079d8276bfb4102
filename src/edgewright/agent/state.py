"""The directory in which the agent keeps what must survive a restart, a kill and a power cut.

Every file is written whole, synced and then renamed into place. Who the device is (key and certificate) is one file, so
that the two always fit together; the last configuration is another, so that workloads start without the gateway.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Set
from pathlib import Path
from typing import Final

from edgewright.runtime.files import sync_directory, write_whole
from edgewright.runtime.tls import ConfigError

_IDENTITY: Final = "device.pem"
_KEY: Final = "device.key"
_CONFIGURATION: Final = "configuration.json"
_FOLDERS: Final = ("uploads", "versions", "downloads", "metrics")
_FORGOTTEN: Final = ("versions", "downloads", "metrics", "parts")


class State:
    """The device directory; `lock` it before anything is written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._held: int | None = None

    def lock(self) -> None:
        """Makes the directory where there is none and keeps every other agent from it until `unlock`."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"state-dir: {self.directory}: {error.strerror or error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise ConfigError(f"state-dir: {self.directory} is in use by another agent: stop that one first") from None
        self._held = handle
        self._sweep()

    def _sweep(self) -> None:
        """Removes what an agent that was killed while it wrote has left behind: a key may be in it."""
        for folder in (self.directory, *(self.directory / name for name in _FOLDERS)):
            for path in folder.glob(".*") if folder.is_dir() else ():
                if path.is_file() and not path.is_symlink():
                    path.unlink()

    def unlock(self) -> None:
        """Lets another agent have the directory."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    # --- who the device is -------------------------------------------------------------------------------------------

    def key(self) -> bytes | None:
        """The device's private key in PEM."""
        return self._read(_KEY)

    def keep_key(self, pem: bytes) -> None:
        """Keeps the private key: before the certificate request that is signed with it leaves the device."""
        self._write(_KEY, pem)

    def identity(self) -> bytes | None:
        """Certificate and key in one PEM text, as the gateway signed it last."""
        return self._read(_IDENTITY)

    def keep_identity(self, certificate: bytes, key: bytes) -> None:
        """Keeps a certificate together with its key."""
        self._write(_IDENTITY, certificate.rstrip() + b"\n" + key)

    # --- what the device is to be ------------------------------------------------------------------------------------

    def configuration(self) -> bytes | None:
        """The last configuration as the gateway sent it."""
        return self._read(_CONFIGURATION)

    def keep_configuration(self, content: bytes) -> None:
        """Keeps a configuration; it holds secrets, so nobody else may read it."""
        self._write(_CONFIGURATION, content)

    def forget(self) -> None:
        """Forgets all but data directories and what is not uploaded yet: Secrets of workloads above all."""
        for path in (self.directory / _CONFIGURATION, self.directory / _IDENTITY, self.directory / _KEY):
            path.unlink(missing_ok=True)
        for path in self.directory.glob("*.json"):  # the notes
            path.unlink(missing_ok=True)
        for name in _FORGOTTEN:
            shutil.rmtree(self.directory / name, ignore_errors=True)
        sync_directory(self.directory)

    # --- the workloads' data -----------------------------------------------------------------------------------------

    def volume(self, workload: str) -> Path:
        """The directory that a workload sees as /export."""
        return self.directory / "volumes" / workload

    def make_volume(self, workload: str) -> None:
        """Makes the directory that a workload sees as /export; whoever its containers run as may write to it."""
        path = self.volume(workload)
        if not path.is_dir():
            path.mkdir(parents=True)
            path.chmod(0o777)

    def ledgers(self) -> dict[str, bytes]:
        """What was uploaded, per workload, as `uploads` wrote it."""
        return self._files("uploads")

    def keep_ledger(self, workload: str, content: bytes) -> None:
        """Keeps what was uploaded of a workload."""
        self._keep("uploads", workload, content)

    def drop_ledger(self, workload: str) -> None:
        """Forgets a workload that is gone and whose files are all uploaded."""
        self._drop("uploads", workload)

    def downloads(self) -> dict[str, bytes]:
        """What was downloaded, per workload, as `downloads` wrote it."""
        return self._files("downloads")

    def keep_downloads(self, workload: str, content: bytes) -> None:
        """Keeps what was downloaded for a workload."""
        self._keep("downloads", workload, content)

    def drop_downloads(self, workload: str) -> None:
        """Forgets what was downloaded for a workload that is gone; the files stay."""
        self._drop("downloads", workload)

    def part(self, name: str) -> Path:
        """Where an object lies until it is whole: on the same disk as its place, out of the workload's reach."""
        folder = self.directory / "parts"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / name

    def drop_parts(self, keep: Set[str]) -> None:
        """Removes the beginnings of objects that nobody wants any more."""
        folder = self.directory / "parts"
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name not in keep:
                path.unlink()

    def versions(self) -> dict[str, bytes]:
        """The last good version of each workload, as `versions` wrote it."""
        return self._files("versions")

    def keep_version(self, workload: str, content: bytes) -> None:
        """Keeps what is known of the versions of a workload."""
        self._keep("versions", workload, content)

    def drop_version(self, workload: str) -> None:
        """Forgets the versions of a workload that nobody wants any more."""
        self._drop("versions", workload)

    # --- small things, by the name of the module that writes them ---------------------------------------------------

    def note(self, name: str) -> bytes | None:
        """What a module keeps under this name."""
        return self._read(f"{name}.json")

    def keep_note(self, name: str, content: bytes) -> None:
        """Keeps something of a module."""
        self._write(f"{name}.json", content)

    def drop_note(self, name: str) -> None:
        """Forgets it."""
        with contextlib.suppress(FileNotFoundError):
            (self.directory / f"{name}.json").unlink()

    def _files(self, folder: str) -> dict[str, bytes]:
        found = {}
        directory = self.directory / folder
        for path in sorted(directory.glob("[!.]*.json")) if directory.is_dir() else ():
            content = self._read(f"{folder}/{path.name}")
            if content is not None:
                found[path.name.removesuffix(".json")] = content
        return found

    def _keep(self, folder: str, name: str, content: bytes) -> None:
        directory = self.directory / folder
        if not directory.is_dir():
            directory.mkdir(mode=0o700, exist_ok=True)
            sync_directory(self.directory)
        self._write(f"{folder}/{name}.json", content)

    def _drop(self, folder: str, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.directory / folder / f"{name}.json").unlink()

    def _read(self, name: str) -> bytes | None:
        try:
            return (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        write_whole(self.directory / name, content)
