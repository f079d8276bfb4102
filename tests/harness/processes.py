"""Programs that run for a test: started, stopped, continued, killed, started again, and gone when the test process is.

`controlplane` describes its parts with these; tests use the verbs. A program is killed by the kernel when the process
that started it dies, also by kill -9. Nothing here is tied to an event loop: every verb can be called from any thread.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .waiting import PATIENCE, wait_until

LAUNCHER = Path(__file__).with_name("launch.py")
_TAIL_BYTES = 4000

# The kernel's promise is about the *thread* that started a process: a program started from a worker thread of one test
# would die with that thread. So one thread starts them all, and it lives as long as the interpreter.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="process-starter")

# Below Linux's ephemeral range (32768 and up): no outgoing connection takes a port between our look and our use.
_PORTS = range(20000, 32000)


class ProcessError(AssertionError):
    """A program ended before it was ready; the message ends with the last lines of its log."""


class PortTakenError(ProcessError):
    """A program ended because somebody else has its port: start again with another one."""


def free_port() -> int:
    """A TCP port on loopback that nobody listens on now."""
    for port in random.sample(_PORTS, k=len(_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port in {_PORTS}")


def all_stopped(pid: int) -> bool:
    """Whether every thread of a process stands still: a signal takes a moment to reach them all."""
    states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state in "TtZX" for state in states)


def reap_until(process: int) -> int:
    """Waits for one child and for every orphan that becomes ours meanwhile, as the first process of a namespace must.

    Gives how that child ended.
    """
    while True:
        ended, status = os.wait()
        if ended == process:
            return os.waitstatus_to_exitcode(status)


class Process:
    """One program with its command line, its log file and the condition under which it counts as ready."""

    def __init__(self, name: str, command: Sequence[str | Path], *, log: Path, ready: Callable[[], bool]) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self._ready = ready
        self._running: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """The process id; an error when the program was never started."""
        if self._running is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._running.pid

    @property
    def running(self) -> bool:
        """Whether the program is there, continued or stopped."""
        return self._running is not None and self._running.poll() is None

    @property
    def returncode(self) -> int | None:
        """How the program ended, as subprocess puts it; None while it runs."""
        return None if self._running is None else self._running.poll()

    def start(self) -> None:
        """Starts the program without waiting for it."""
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._running = _starter.submit(
                subprocess.Popen,
                [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            ).result()

    def wait_ready(self, timeout: float = 2 * PATIENCE) -> None:
        """Waits until the program is ready; raises at once, with its log, when it has ended."""
        wait_until(self._ready_or_failed, timeout=timeout, what=f"{self.name} is ready, see {self.log}", interval=0.05)

    def terminate(self, timeout: float = PATIENCE) -> None:
        """Asks the program to end, and kills it where it has not ended in time."""
        if not self.running:
            return
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a stopped program would not see the first signal
        assert self._running is not None
        try:
            self._running.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends the program as a power cut would: kill -9."""
        if self._running is not None:
            self._signal(signal.SIGKILL)
            self._running.wait()

    def stop(self) -> None:
        """Freezes the program (SIGSTOP): its connections stay open and nothing answers, from the return on."""
        self._signal(signal.SIGSTOP)
        if self.running:
            wait_until(lambda: all_stopped(self.pid), what=f"{self.name} stands still", interval=0.001)

    def resume(self) -> None:
        """Lets a stopped program go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Ends the program where it still runs, starts it again with the same command, and waits until it is ready."""
        self.terminate()
        self.start()
        self.wait_ready()

    def output(self) -> str:
        """What the program has written since its last start."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            os.killpg(self.pid, number)

    def _ready_or_failed(self) -> bool:
        if not self.running:
            output = self.output()
            failure = PortTakenError if "address already in use" in output else ProcessError
            raise failure(f"{self.name} ended before it was ready, see {self.log}:\n{output[-_TAIL_BYTES:]}")
        return self._ready()
