"""The init of a container that has a PID namespace of its own: its first process, which is ours and not the program.

The kernel keeps from process 1 every signal that it has no handler for, so the program must not be it. The shim's child
forks the program, passes the stop signal on to it, reaps whatever it abandons and tells the shim how it ended; with
process 1 the kernel ends all the others. It runs as the Pod's user and imports little, since it stays in memory.
"""

from __future__ import annotations

import os
import signal

_MAX_FD = 4096


def fork_program(stop_signal: int, ended: int) -> None:
    """Returns in a new process, which is to become the program; this one stays its init and never returns."""
    awaited = {signal.SIGCHLD, stop_signal}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)  # what is blocked is kept, also from process 1
    program = os.fork()
    if program:
        try:
            serve_as_init(program, stop_signal, ended)
        finally:
            os._exit(1)  # the shim has heard nothing, and counts that as killed
    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve_as_init(program: int, stop_signal: int, ended: int) -> None:
    """Waits for the end of the program, and writes down how it ended; the process ends with that."""
    os.dup2(ended, 3)
    os.closerange(4, _MAX_FD)  # also what others wait for the end of
    for fd in (1, 2):
        os.dup2(0, fd)
    while True:
        given = signal.sigwaitinfo({signal.SIGCHLD, stop_signal}).si_signo
        if given == stop_signal:
            os.kill(program, stop_signal)  # not reaped yet, so the pid is its own
        status = _reap(program)
        if status is not None:
            os.write(3, str(status).encode())
            os._exit(0)


def _reap(program: int) -> int | None:
    """Takes note of all that ended; the status of the program where it is among them."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == program:
            return status
        if pid == 0:
            return None
