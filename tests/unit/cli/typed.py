"""Commands as they are typed, in the test's own process, against a control plane that runs in another thread."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from edgewright.api import custom_resource_definitions
from edgewright.api.capabilities import CAPABILITIES, kinds_of
from edgewright.cli import command_line, guard
from edgewright.local import control_plane
from edgewright.local.access import kubeconfig
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.definitions import install

T = TypeVar("T")


@dataclass(frozen=True)
class Typed:
    """What came of a command."""

    code: int
    out: str
    err: str


class Plane:
    """A control plane with our kinds and no operator, and the kubeconfig that leads to it."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._data = folder / "data"
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._problem: BaseException | None = None
        self._client: Client | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._problem = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        async with control_plane.open(control_plane.Settings(data=self._data, port=0)) as running:
            kubeconfig.write(self.kubeconfig, running.entrance.kubeconfig(running.url))
            config = Config(server=running.url, tls=running.entrance.component("test"), source="test")
            async with Client(config) as client:
                self._client = client
                for document in custom_resource_definitions(kinds_of(CAPABILITIES)):
                    await install(client, document)
                self._ready.set()
                await self._stop.wait()

    def __enter__(self) -> Plane:
        self._thread.start()
        assert self._ready.wait(120)
        if self._problem is not None:
            raise self._problem
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    def do(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Does something with a client of the plane, in its own thread."""
        assert self._client is not None
        return asyncio.run_coroutine_threadsafe(work(self._client), self._loop).result(60)


@contextmanager
def argv(*words: str) -> Iterator[None]:
    before = sys.argv
    sys.argv = ["edgewright", *words]
    try:
        yield
    finally:
        sys.argv = before


def typed(capsys: pytest.CaptureFixture[str], *words: str | Path, plane: Plane | None = None) -> Typed:
    """One command, from start to end."""
    texts = [str(word) for word in words]
    if plane is not None:
        texts += ["--kubeconfig", str(plane.kubeconfig)]
    capsys.readouterr()
    code = 0
    try:
        guard("edgewright", lambda: command_line(texts[0])(texts, prog_name="edgewright"))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    out, err = capsys.readouterr()
    return Typed(code, out, err)
