"""Where the conformance tests run: a network and a mount namespace of their own, in which images have stand-ins.

`__main__` enters it where it is root. There Pods may bind port 80, as containers may, `image/` lies over
/usr/local/sbin, and `sh` is one that knows `[[`, as that of the images does. Nothing of the machine is changed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_HERE = "EDGEWRIGHT_CONFORMANCE_SURROUNDINGS"
_PROGRAMS = Path(__file__).with_name("image")
_PLACE = Path("/usr/local/sbin")
"""The first folder in the PATH of a container."""
AGNHOST = f"{sys.executable} -I -S {_PLACE / 'agnhost.py'}"
"""The program that stands for agnhost here."""
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def possible() -> bool:
    """Whether there can be any: only root makes them for Pods with users of their own."""
    return os.geteuid() == 0 and shutil.which("unshare") is not None and _PLACE.is_dir()


def enter(arguments: Sequence[str]) -> None:
    """Makes this process one that runs there; it begins again from the beginning, and returns at once then."""
    if os.environ.get(_HERE):
        _prepare()
        return
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.conformance", *arguments]
    os.execvpe("unshare", command, {**os.environ, _HERE: "1"})


def _prepare() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        found = fcntl.ioctl(asked, _GET_FLAGS, struct.pack("16sH14x", b"lo", 0))
        (flags,) = struct.unpack("16xH14x", found)
        fcntl.ioctl(asked, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))
    Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
    for source, target in ((_PROGRAMS, _PLACE), (Path("/bin/bash"), Path("/bin/sh"))):
        subprocess.run(["mount", "--bind", str(source), str(target)], check=True)
