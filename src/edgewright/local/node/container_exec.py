"""Runs one command next to a container's program: in its namespaces, as its user, with its environment.

The node starts it as `python -I -S container_exec.py ORDER` for exec probes. It becomes the command and never returns;
where the container has processes of its own a child does, since only a child is in another PID namespace, and this
process ends as that one did.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # it is loaded for every probe
    from collections.abc import Sequence
    from typing import Any, NoReturn


def enter(pid: int, names: Sequence[str]) -> None:
    """Joins the namespaces of a process, in this order; all are opened first, because /proc is another one inside."""
    libc = ctypes.CDLL(None, use_errno=True)
    for fd in [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]:
        if libc.setns(fd, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot enter the container: {os.strerror(number)}")
        os.close(fd)


def namespaces(root: dict[str, Any], *, user: bool) -> list[str]:
    """Those of a container, by what its order says; an ordinary user must join its user namespace first.

    A container that an earlier node has started may have no host name or no processes of its own.
    """
    parts = {"user": user, "mnt": True, "uts": bool(root.get("hostname")), "pid": root.get("processes", False)}
    return [name for name, there in parts.items() if there]


def end_as(child: int) -> NoReturn:
    """Waits for a child, and ends with its code or by its signal."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def main(wanted: dict[str, Any]) -> None:
    """Becomes the command."""
    with open(wanted["order"]) as file:  # noqa: PTH123 - no pathlib: it would double the start time
        order = json.load(file)
    root = order.get("root")
    joined = ["net"] if order.get("network") else []
    if root is not None:
        joined += namespaces(root, user=os.getuid() != 0)
    if joined:
        enter(wanted["pid"], joined)
    if root is not None and root.get("processes") and (child := os.fork()):
        end_as(child)
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
