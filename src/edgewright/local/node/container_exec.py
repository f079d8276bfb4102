"""Runs one command next to a container's program: in its mount namespace, as its user, with its environment.

The node starts it as `python -I -S container_exec.py ORDER` for exec probes. It becomes the command and never returns.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any


def enter(pid: int, *, user: bool, named: bool) -> None:
    """Joins the namespaces of a process; an ordinary user must join its user namespace first."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name in (*(("user",) if user else ()), "mnt", *(("uts",) if named else ())):
        fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        if libc.setns(fd, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot enter the container: {os.strerror(number)}")
        os.close(fd)


def main(wanted: dict[str, Any]) -> None:
    """Becomes the command."""
    with open(wanted["order"]) as file:  # noqa: PTH123 - no pathlib: it would double the start time
        order = json.load(file)
    if order.get("root") is not None:
        # A container that an earlier node has started may have no host name of its own.
        enter(wanted["pid"], user=os.getuid() != 0, named=bool(order["root"].get("hostname")))
    identity = order.get("user")
    if identity is not None:
        os.setgroups(identity["groups"])
        os.setgid(identity["gid"])
        os.setuid(identity["uid"])
    os.chdir(order["folder"])
    os.execvpe(wanted["command"][0], wanted["command"], order["environment"])  # noqa: S606 - that is what it is for


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except OSError as problem:
        sys.exit(str(problem))
