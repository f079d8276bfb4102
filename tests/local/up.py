"""`edgewright up` as people start it, from nothing: a process whose words a test reads.

`LocalPlane` is for tests of what it serves; this is for tests of the command itself.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from edgewright.runtime import Client, config
from tests.harness import wait_until
from tests.unit.cli.command import PROGRAM, environment

_SERVES = re.compile(r"^Edgewright serves Kubernetes at (https://\S+) and keeps it in (.+)$")


def asked(kubeconfig: Path, path: str, body: Any = None, *, context: str | None = None) -> Any:
    """What the server answers whoever has this kubeconfig: to a read, or where there is a body to a creation."""

    async def answer() -> bytes:
        async with Client(config.load(kubeconfig=kubeconfig, context=context)) as client:
            if body is None:
                return await client.get_path(path)
            return await client.transport.request("POST", path, body=json.dumps(body).encode())

    return json.loads(asyncio.run(answer()))


class Up:
    """A running `edgewright up` and what it has said."""

    def __init__(self, process: subprocess.Popen[str], out: Path, err: Path) -> None:
        self.process = process
        self._out, self._err = out, err

    @property
    def said(self) -> str:
        """Its standard output so far."""
        return self._out.read_text()

    @property
    def complained(self) -> str:
        """Its standard error so far."""
        return self._err.read_text()

    @property
    def url(self) -> str:
        """Where it serves, as it says once it does."""

        def serves() -> str | None:
            assert self.process.poll() is None or "serves" in self.said, self.complained
            found = _SERVES.match(self.said.partition("\n")[0])
            return found[1] if found and "\n" in self.said else None

        return wait_until(serves, what="it says where it serves")

    def end(self, number: signal.Signals = signal.SIGTERM, *, timeout: float = 240) -> int:
        """Sends a signal and gives the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout)


@contextmanager
def up(folder: Path, *arguments: str | Path, **env: str) -> Iterator[Up]:
    """Runs the command; what is still there at the end is killed."""
    out, err = folder / "up.out", folder / "up.err"

    def open_for(path: Path) -> IO[str]:
        return path.open("w")

    with open_for(out) as stdout, open_for(err) as stderr:
        process = subprocess.Popen(
            [PROGRAM, "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            env=environment(HOME=str(folder), **env),
        )
    try:
        yield Up(process, out, err)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
