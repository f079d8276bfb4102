"""What containers can have on this machine, a root and processes of their own say: tried once, in another process.

Ordinary users may be forbidden to make user namespaces, and root in a container may lack the right to mount; the node
asks before it promises volumes.
"""

from __future__ import annotations

import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

_SECONDS = 120
"""A machine that is busy may take long to start a program."""
_TRY = """
import sys
sys.path.append(sys.argv[1])
import mountspace
mountspace.enter({"base": sys.argv[2], "mounts": [], "hostname": "edgewright"})
"""
_TRY_PROCESSES = """
import os, sys
sys.path.append(sys.argv[1])
import mountspace
mountspace.leave_the_machines_processes()
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
mountspace.enter({"base": sys.argv[2], "mounts": [], "hostname": "edgewright", "processes": True})
sys.exit(os.getpid() != 1 or not os.path.exists("/proc/1"))
"""
_TRY_BINDS = """
import os, select, socket, sys
sys.path.append(sys.argv[1])
import bind_supervisor, shim
taken = socket.create_server(("127.0.0.1", 0))
port = taken.getsockname()[1]
ours, theirs = bind_supervisor.channel()
reader, writer = os.pipe()
child = os.fork()
if not child:
    os.close(reader)
    shim._forbid_new_privileges()
    bind_supervisor.submit(theirs)
    os.close(writer)
    with socket.socket() as tried:
        tried.bind(("0.0.0.0", port))
        os._exit(tried.getsockname() != ("127.0.0.2", port))
os.close(writer)
os.read(reader, 1)
listener = bind_supervisor.receive(ours)
asked = select.poll()
if listener is not None:
    asked.register(listener, select.POLLIN)
    if (listener, select.POLLIN) in asked.poll(60_000):
        bind_supervisor.BindSupervisor(listener, "127.0.0.2", {"TCP": [port]}).answer()
    os.close(listener)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def mounts_work() -> bool:
    """Whether the shim's way to mount works here."""
    return _works(_TRY)


def processes_work() -> bool:
    """Whether a container can have a process table of its own here, with a /proc that shows it alone."""
    return _works(_TRY_PROCESSES)


def binds_work() -> bool:
    """Whether the shim can answer a program that wants to listen on every address."""
    return _works(_TRY_BINDS)


def _works(program: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="edgewright-") as base:
        here = str(Path(__file__).parent)
        command = [sys.executable, "-I", "-S", "-B", "-c", program, here, base]
        tried = subprocess.run(command, check=False, capture_output=True, timeout=_SECONDS)  # noqa: S603 - our own
    return tried.returncode == 0


def closed_to_others(folders: Iterable[Path]) -> Path | None:
    """The first folder, of these and all that they lie in, which nobody but its owner may enter; None: all are open."""
    ways = [way for folder in folders for way in (*reversed(folder.parents), folder)]
    return next((way for way in ways if not way.stat().st_mode & stat.S_IXOTH), None)


def how_to_mount(*, root: bool) -> str:
    """What somebody can do on whose machine containers cannot have a root of their own."""
    if root:
        return "give the node the right to mount (CAP_SYS_ADMIN; with Docker: --privileged)"
    return "run the node as root, or let ordinary users make user namespaces"


def where_nobody_may_enter(closed: Path) -> str:
    """Why Pods, which do not run as root, find no program in a folder that only root may enter, and what to do."""
    return (
        f"Pods do not run as root, and nobody but root may enter {closed}, where this program is: install it in "
        f"another folder, such as /opt, or {how_to_mount(root=True)}"
    )
