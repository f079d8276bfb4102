"""The directory in which the agent keeps what must survive a restart, a kill and a power cut.

Every file is written whole, synced and then renamed into place. Who the device is (key and certificate) is one file, so
that the two always fit together; the last configuration is another, so that workloads start without the gateway.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from edgewright.runtime.files import sync_directory, write_whole
from edgewright.runtime.tls import ConfigError

_IDENTITY: Final = "device.pem"
_KEY: Final = "device.key"
_CONFIGURATION: Final = "configuration.json"


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
        """Forgets identity and configuration; data directories and what is not uploaded yet stay."""
        for name in (_CONFIGURATION, _IDENTITY, _KEY):
            with contextlib.suppress(FileNotFoundError):
                (self.directory / name).unlink()
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
        found = {}
        folder = self.directory / "uploads"
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            content = self._read(f"uploads/{path.name}")
            if content is not None:
                found[path.name.removesuffix(".json")] = content
        return found

    def keep_ledger(self, workload: str, content: bytes) -> None:
        """Keeps what was uploaded of a workload."""
        (self.directory / "uploads").mkdir(mode=0o700, exist_ok=True)
        self._write(f"uploads/{workload}.json", content)

    def drop_ledger(self, workload: str) -> None:
        """Forgets a workload that is gone and whose files are all uploaded."""
        with contextlib.suppress(FileNotFoundError):
            (self.directory / "uploads" / f"{workload}.json").unlink()

    def _read(self, name: str) -> bytes | None:
        try:
            return (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, name: str, content: bytes) -> None:
        write_whole(self.directory / name, content)
