"""The data directory: made where it is missing, and refused where it holds what is not ours.

`edgewright up` calls it before anything is opened, because what comes next closes the directory to everybody else and
fills it. It never removes anything.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from edgewright.runtime.tls import ConfigError

# What a directory has that an earlier start of ours, or somebody who restores a backup, has left.
_MARKS: Final = ("store.db", "store.lock", "pki/ca.pem")
# The root of a file system of its own has this one.
_NOBODYS: Final = frozenset({"lost+found"})


def prepare(data: Path) -> None:
    """Make a data directory that only we can read; ConfigError says why a directory cannot be one."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = data.stat()
        found = {path.name for path in data.iterdir()} - _NOBODYS
        if found and not any((data / mark).exists() for mark in _MARKS):
            raise ConfigError(f"{data}: holds other things, such as {min(found)}: name a directory of its own")
        if there.st_uid != os.geteuid():
            raise ConfigError(f"{data}: belongs to another user, who could read the keys in it")
        data.chmod(0o700)
    except FileExistsError:
        raise ConfigError(f"{data}: is a file, must be a directory") from None
    except OSError as error:
        raise ConfigError(f"{data}: cannot be used: {error.strerror or error}") from error
