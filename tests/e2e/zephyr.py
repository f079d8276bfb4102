"""Boards in QEMU that run Zephyr under MCUboot, with their serial line on a TCP port, as ser2net would serve it.

Tests make one, and it is gone with them. The firmware is written over the debugger's port: QEMU's own loader writes
it again at every reset, and a board that forgets what it was flashed with is none.
"""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.e2e.zephyr_firmware import MICROBIT, MPS2_LARGE, segments, signed
from tests.harness.processes import Process, free_port
from tests.harness.programs import NotBuiltError
from tests.harness.waiting import PATIENCE, wait_until

HOST = "127.0.0.1"
MPS2_SLOT = 0x20050000
PACKET = re.compile(rb"\$([^#]*)#..", re.DOTALL)


def program() -> str:
    """The path of QEMU."""
    found = shutil.which("qemu-system-arm")
    if found is None:
        raise NotBuiltError("qemu-system-arm is missing: run make boards, which gets it or says how")
    return found


@dataclass(frozen=True, kw_only=True)
class Model:
    """A kind of board, and what is in its memory when it is new."""

    machine: str
    processor: str
    memory: Sequence[tuple[int, bytes]]
    serial: Sequence[str] = ()
    """Further serial lines, which nobody reads."""
    greeting: bytes = b""
    """What it prints on its line once it has started; what is said to it before may stop it for good."""


def microbit() -> Model:
    """A BBC micro:bit: two slots that are swapped, with trial, confirmation and going back."""
    return Model(
        machine="microbit", processor="cortex-m0", memory=segments(f"{MICROBIT}.merged.hex"), greeting=b"build time"
    )


def mps2() -> Model:
    """An Arm MPS2: its bootloader has no trial, and starts the highest version that is whole."""
    memory = [*segments(f"{MPS2_LARGE}.hex"), (MPS2_SLOT, signed(MPS2_LARGE))]
    return Model(machine="mps2-an385", processor="cortex-m3", memory=memory, serial=("-serial", "null"))


class Board:
    """One board, powered within `with`."""

    def __init__(self, model: Model, directory: Path) -> None:
        self._model = model
        self.port = free_port()
        self._debugger_port = free_port()
        line = f"socket,id=line,host={HOST},port={self.port},server=on,wait=off"
        self._process = Process(
            "qemu",
            [
                program(),
                *("-machine", model.machine, "-cpu", model.processor, "-nographic", "-monitor", "none"),
                *("-chardev", line, "-serial", "chardev:line", *model.serial),
                *("-S", "-gdb", f"tcp:{HOST}:{self._debugger_port}"),
            ],
            log=directory / "qemu.log",
            ready=self._debugger_listens,
        )

    @property
    def endpoint(self) -> str:
        """Where its serial line is served."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._process.start()
        try:
            self._process.wait_ready()
            with closing(Debugger(self._debugger_port)) as debugger:
                for address, content in self._model.memory:
                    debugger.write(address, content)
                self._start(debugger)
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()

    def reset(self) -> None:
        """Presses the reset button, and waits until the board has started."""
        with closing(Debugger(self._debugger_port)) as debugger:
            self._start(debugger)

    def _start(self, debugger: Debugger) -> None:
        with socket.create_connection((HOST, self.port), timeout=PATIENCE) as line:
            debugger.run()
            printed = b""
            while self._model.greeting not in printed:
                more = line.recv(4096)
                assert more, "the serial line was closed"
                printed += more

    def _debugger_listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self._debugger_port)) == 0


class Debugger:
    """The few words of GDB's remote protocol that writing a memory takes. The board stands still meanwhile."""

    def __init__(self, port: int) -> None:
        self._unread = b""
        self._socket = wait_until(lambda: self._connected(port), what="the debugger's port is free")

    def write(self, address: int, content: bytes) -> None:
        """Writes to the board's memory, flash included."""
        for at in range(0, len(content), 1024):
            piece = content[at : at + 1024]
            assert self._ask(f"M{address + at:x},{len(piece):x}:{piece.hex()}") == b"OK"

    def run(self) -> None:
        """Resets the board, which then runs on without a debugger."""
        assert self._ask(f"qRcmd,{b'system_reset'.hex()}") == b"OK"
        assert self._ask("D") == b"OK"

    def close(self) -> None:
        """Leaves the board alone."""
        self._socket.close()

    @staticmethod
    def _connected(port: int) -> socket.socket | None:
        try:
            connected = socket.create_connection((HOST, port), timeout=60)
        except ConnectionError:
            return None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # hundreds of small questions and answers
        return connected

    def _ask(self, words: str) -> bytes:
        self._socket.sendall(f"${words}#{sum(words.encode()) % 256:02x}".encode())
        while (answer := self._packet()).startswith(b"T"):  # that the board stands still, since we came
            pass
        return answer

    def _packet(self) -> bytes:
        while (found := PACKET.search(self._unread)) is None:
            more = self._socket.recv(4096)
            assert more, "the debugger hung up"
            self._unread += more
        self._unread = self._unread[found.end() :]
        self._socket.sendall(b"+")
        return found[1]
