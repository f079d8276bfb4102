"""Podman's REST service as a child of the node: started when it is first needed, and again where it has ended.

`podman_runtime` asks for the client. The service ends by itself when nobody has asked it anything for a while, so that
a node which is killed leaves none behind; containers live on without it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from edgewright.containers import ContainersError, Podman, PodmanUnavailable
from edgewright.local.node.sessions import Session
from edgewright.runtime import logs
from edgewright.runtime.child_process import end_child
from edgewright.runtime.clock import Clock

PROGRAM: Final = "podman"
IDLE_SECONDS: Final = 45
_ASK_EVERY: Final = 15.0
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 10.0
_LOOK_EVERY: Final = 0.05
_RUN: Final = Path("/run")

_log = logs.get("local.node.podman")


def unusable() -> str | None:
    """Why containers cannot be run by podman here; None where they can."""
    if shutil.which(PROGRAM) is None:
        return "podman is not installed"
    if os.geteuid() != 0:
        return "the network of containers can be reached only where this runs as root"
    if shutil.which("ip") is None or shutil.which("nsenter") is None:
        return "the programs ip and nsenter are not installed"
    return None


def podman_command(container: str, wish: Session) -> list[str]:
    """The client of podman's that gives somebody a session in a container."""
    if wish.verb == "attach":
        return [PROGRAM, "attach", "--sig-proxy=false", *(() if wish.stdin else ("--no-stdin",)), container]
    return [PROGRAM, "exec", *(("-i",) if wish.stdin else ()), *(("-t",) if wish.tty else ()), container, *wish.command]


class PodmanService:
    """The service, and the client that speaks to it."""

    def __init__(self, folder: Path, *, clock: Clock) -> None:
        # The name of a socket may have some hundred letters, and that of a data folder has as many as it likes. It is
        # of this process alone: the service of a node that was killed removes its own when it ends.
        whose = hashlib.sha256(f"{folder} {os.getpid()} {time.time_ns()}".encode()).hexdigest()[:16]
        self._socket = _RUN / f"edgewright-{whose}.sock"
        self._folder = folder
        self._output = folder / "service.log"
        self._clock = clock
        self._client = Podman(self._socket)
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def client(self) -> Podman:
        """The client, once somebody answers; PodmanUnavailable where nobody does."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._start()
        return self._client

    async def _start(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        with self._output.open("wb") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(PROGRAM, "system", "service", f"--time={IDLE_SECONDS}", f"unix://{self._socket}"),
                stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
                cwd=self._folder, start_new_session=True,
            )  # fmt: skip
        until = self._clock.elapsed() + _START_SECONDS
        while True:
            try:
                await self._client.version()
                break
            except ContainersError as error:
                if self._process.returncode is not None or self._clock.elapsed() >= until:
                    raise PodmanUnavailable(f"podman's service does not start: {self._said() or error}") from error
                await self._clock.sleep(_LOOK_EVERY)
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name="podman's service")

    async def _keep(self) -> None:
        """Asks from time to time, so that the service stays."""
        while True:
            await self._clock.sleep(_ASK_EVERY)
            try:
                await (await self.client()).version()
            except ContainersError as error:
                _log.warning("podman does not answer", error=str(error))

    def _said(self) -> str:
        lines = self._output.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    async def close(self) -> None:
        """Ends the service; containers go on."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self._process.wait()
            await end_child(self._process, group=True)
        self._socket.unlink(missing_ok=True)
