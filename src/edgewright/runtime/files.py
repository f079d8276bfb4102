"""Files that are there as a whole or not at all: written next to their place and renamed onto it.

The embedded control plane and the agent write with it. It never follows a symbolic link: whoever wants that resolves
the path first.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

PRIVATE = 0o600
"""The mode of what nobody else may read."""


def write_whole(path: Path, content: bytes, *, mode: int = PRIVATE, owner: tuple[int, int] | None = None) -> None:
    """Put a file there at once, on the disk when this returns; where it fails, what was there before stays."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # made with mode 0600
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if owner is not None and owner != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make sure that names which were given to files in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
