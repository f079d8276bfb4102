"""Processes of this machine as the node may touch them: by pid and start time together, never by a pid alone.

A pid is given to somebody else once its process is gone; the start time (in ticks since the boot) and the id of the
boot tell the two apart. Signals go through a pidfd that was compared after it was opened, so that there is no moment in
which the pid could change hands. `runs` calls it; it starts nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from edgewright.runtime.objects import Struct

PROC = Path("/proc")


class Identity(Struct, frozen=True, gc=False, kw_only=True):
    """One process of one boot."""

    pid: int
    start: int


def boot_id(proc: Path = PROC) -> str:
    """Which boot of the machine this is."""
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


def _fields(pid: int, proc: Path) -> list[str] | None:
    """What stands behind the name in a process's stat; None where there is no such process, or only its remains."""
    try:
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return fields if len(fields) > 19 else None


def start_time(pid: int, proc: Path = PROC) -> int | None:
    """When a process began, in ticks since the boot; None where there is none of that pid."""
    fields = _fields(pid, proc)
    return int(fields[19]) if fields else None


def open_process(identity: Identity, proc: Path = PROC) -> int | None:
    """A pidfd of exactly this process; None where it is gone, whoever has its pid now."""
    if identity.pid <= 0 or start_time(identity.pid, proc) != identity.start:
        return None
    try:
        fd = os.pidfd_open(identity.pid)
    except OSError:
        return None
    if start_time(identity.pid, proc) != identity.start:
        os.close(fd)
        return None
    return fd


def send(fd: int, number: signal.Signals) -> None:
    """A signal to the process of a pidfd; it may be gone meanwhile."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(fd, number)


def kill_session(leader: Identity, proc: Path = PROC) -> int:
    """Kills what is left of a session whose leader is still the one that was written down; says how many processes."""
    fd = open_process(leader, proc)
    if fd is None:
        return 0
    members = list(_members(leader.pid, proc))  # while the leader holds the number of the session
    send(fd, signal.SIGKILL)
    os.close(fd)
    killed = 1
    for member in members:
        other = open_process(member, proc)
        if other is not None:
            send(other, signal.SIGKILL)
            os.close(other)
            killed += 1
    return killed


def _members(session: int, proc: Path) -> Iterator[Identity]:
    for entry in proc.iterdir():
        if entry.name.isdigit() and int(entry.name) != session:
            fields = _fields(int(entry.name), proc)
            if fields and int(fields[3]) == session:
                yield Identity(pid=int(entry.name), start=int(fields[19]))
