"""Becomes the program on its command line, after it has asked the kernel to be killed when its parent goes away.

Run by `processes` as `python launch.py PARENT_PID PROGRAM ARGUMENT...`. The process id stays the same and nothing of
this program remains; it needs nothing but the standard library.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Ties this process to its parent and executes the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"cannot tie {command[0]} to its parent: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        sys.exit("the parent was gone before the kernel could be asked to watch it")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
