"""Who carries out Helm's actions: a child process behind a narrow interface, asked one thing at a time.

`controller` gives orders and learns whether they failed; what came of them is read from the stored release. The child
is started when it is first needed and only while this process leads. It is told until when the lease runs, ends by
itself when that time comes, and is killed when the lease is lost. It never outlives this process.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import LeaseLost
from edgewright.runtime.fence import Fence

_log = logs.get("controllers.chart.helm")

Verb: TypeAlias = Literal["install", "upgrade", "uninstall", "rollback", "test"]

TIMEOUT: Final = 300.0
"""How long Helm waits for hooks."""
MAX_HISTORY: Final = 10
"""How many revisions of a release are kept, where nobody says otherwise."""
GRACE: Final = 30.0
"""So much longer an action may take before the child counts as hung, and is killed."""
MARGIN: Final = 1.0
"""The child ends so long before the lease does: what it sent last has arrived by then."""
TOLD_EVERY: Final = 1.0
"""How often the child is told of the lease."""
MAX_LINE: Final = 64 << 20
_START_WITHIN: Final = 60.0
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "TMPDIR", "KUBECONFIG", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
_POD: Final = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
_RATES: Final = ("HELM_QPS", "HELM_BURST_LIMIT")
_SOURCES: Final = (
    "HELM_REGISTRY_CONFIG",
    "HELM_REPOSITORY_CONFIG",
    "HELM_REPOSITORY_CACHE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
"""Where Helm's commands find repositories, credentials for registries, and whom to trust."""
UNLIMITED: Final = {"HELM_QPS": "-1"}
"""Helm's own limit of 5 requests per second is for one person's commands: its storage alone sends three per action. The
workers bound how much is sent at once, and the API server is fair by itself."""
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_PROGRAM: Final = "edgewright.controllers.chart.helm_program"


class HelmError(Exception):
    """Helm refused or failed; the text is Helm's own."""


class HelmGone(Exception):
    """The child ended in the middle of an action: what came of it must be read from the stored release."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """One action on one release."""

    verb: Verb
    namespace: str
    release: str
    chart: Path
    values: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    timeout: float = TIMEOUT
    max_history: int = MAX_HISTORY
    target: int = 0
    """The revision that a rollback goes back to."""
    force: bool = False
    """Objects that cannot be changed are deleted and made again."""
    disable_hooks: bool = False
    skip_crds: bool = False
    replace: bool = False
    """An install goes over what an uninstalled release left in the history."""
    keep_history: bool = False
    """An uninstall leaves the revisions."""


@dataclass(frozen=True)
class Trial:
    """What an install would make, asked of Helm and of the API server, with nothing done."""

    manifest: str
    notes: str = ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a chart comes from."""

    chart: str
    """An archive, its URL, an `oci://` reference, a name in `repo`, or REPOSITORY/NAME as `helm repo` knows it."""
    repo: str = ""
    version: str = ""
    """Empty: the newest."""
    plain_http: bool = False
    """The registry has no TLS."""
    new: bool = False
    """There is none yet: `chart` is the name of the one that Helm makes."""


class Helm(Protocol):
    """Carries out orders; a test may put something else in its place."""

    async def carry_out(self, order: Order) -> None:
        """Does it; HelmError where Helm says no, HelmGone where nobody can tell."""

    async def trial(self, order: Order) -> Trial:
        """What an install would make; nothing is done."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """How the child finds the cluster: as kubectl does, unless a file or a context is named."""

    kubeconfig: Path | None = None
    context: str | None = None

    def options(self) -> dict[str, str]:
        """As Helm's library names them."""
        given = {"kubeconfig_path": self.kubeconfig and str(self.kubeconfig), "kube_context": self.context}
        return {name: text for name, text in given.items() if text}


class HelmProcess:
    """The child process, from the first order until the end of `run`."""

    def __init__(
        self,
        access: Access,
        *,
        clock: Clock,
        fence: Fence | None = None,
        program: Sequence[str] = ("-m", _PROGRAM),
        timeout_grace: float = GRACE,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._access = access
        self._clock = clock
        self._fence = fence
        self._program = tuple(program)
        self._grace = timeout_grace
        self._environ = environ
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The child's process id while there is one."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self) -> None:
        """Tells the child of the lease until cancelled; then ends it."""
        try:
            while True:
                await self._clock.sleep(TOLD_EVERY)
                if self.pid is not None and self._fence is not None:
                    with suppress(LeaseLost):  # told nothing, it ends by itself
                        self._write({"until": self._until()})
        finally:
            self._closed = True
            await self.close()

    async def carry_out(self, order: Order) -> None:
        """Does it; HelmError where Helm says no, HelmGone where nobody can tell."""
        await self._ask(_request(order), within=order.timeout + self._grace)

    async def trial(self, order: Order) -> Trial:
        """What an install would make; nothing is done."""
        answer = await self._ask({**_request(order), "verb": "trial"}, within=order.timeout + self._grace)
        return Trial(str(answer.get("manifest", "")), str(answer.get("notes", "")))

    async def render(self, chart: Path, *, release: str, namespace: str, values: Mapping[str, Any]) -> dict[str, str]:
        """The chart's templates, by name, without a cluster."""
        request = {"verb": "render", "namespace": namespace, "release": release, "chart": str(chart)}
        answer = await self._ask({**request, "values": dict(values)}, within=self._grace)
        return dict(answer["templates"])

    async def fetch(self, source: Source, into: Path) -> None:
        """Puts a chart into an empty folder, as a folder of its own."""
        request = {"verb": "fetch", "release": "", "chart": source.chart, "into": str(into), "new": source.new}
        more = {"repo": source.repo, "version": source.version, "plain_http": source.plain_http}
        await self._ask({**request, **more}, within=TIMEOUT)

    async def close(self) -> None:
        """Ends the child, whatever it does, and waits for its end."""
        process, reading = self._process, self._reading
        self._process = self._reading = None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - else its pipes are left open
        if reading is not None:
            await asyncio.gather(reading, return_exceptions=True)

    async def _ask(self, request: dict[str, Any], *, within: float) -> dict[str, Any]:
        await self._started()
        number = next(self._numbers)
        until = self._until()
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._write({**request, "id": number, **({} if until is None else {"until": until})})
            async with self._clock.timeout(within):
                found = await answer
        except TimeoutError:
            _log.error("Helm does not end; killed", verb=request["verb"], release=request["release"])
            await self.close()
            raise HelmGone(f"{request['verb']} did not end within {within:g} s") from None
        finally:
            self._waiting.pop(number, None)
        if "error" in found:
            raise HelmError(str(found["error"]))
        return found

    def _until(self) -> float | None:
        """When the child must have ended, on the clock that both processes have; LeaseLost where that is now."""
        if self._fence is None:
            return None
        left = self._fence.remaining() - MARGIN
        if left <= 0:
            raise LeaseLost("the lease is not held any more: Helm is not asked")
        return self._clock.elapsed() + left

    async def _started(self) -> None:
        async with self._starting:
            if self._closed:
                raise LeaseLost("this process is about to end: Helm is not asked")
            if self.pid is not None:
                return
            self._until()
            await self.close()
            await self._start()

    async def _start(self) -> None:
        # Helm calls its field manager after the program: the folder is Python's own, so that Python finds itself.
        name = str(Path(sys.executable).parent / "helm")
        environment = _passed_on(self._environ)
        process = await asyncio.create_subprocess_exec(
            name,
            *self._program,
            str(os.getpid()),
            json.dumps(self._access.options()),
            executable=sys.executable,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=MAX_LINE,
        )
        self._process = process
        try:
            async with self._clock.timeout(_START_WITHIN):
                line = await _stdout(process).readline()
            if not line:
                raise HelmGone(
                    "the Helm process ended at its start: is the extra installed? pip install 'edgewright[charts]'"
                )
        except BaseException:
            await self.close()
            raise
        self._reading = asyncio.create_task(self._read(process), name="answers of Helm")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Gives each answer to whoever waits for it; when the child ends, nobody waits any longer."""
        try:
            while line := await _stdout(process).readline():
                answer = json.loads(line)
                waiting = self._waiting.get(answer.get("id"))
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        finally:
            code = await process.wait()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(HelmGone(f"the Helm process ended with {code} in the middle of an action"))

    def _write(self, message: Mapping[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(ConnectionError):  # it has just ended: its reader tells whoever waits
                self._process.stdin.write(json.dumps(message).encode() + b"\n")


def _passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """What the child sees of our environment."""
    given = {each: environ[each] for each in (*_PASSED_ON, *_POD, *_PROXIES, *_RATES, *_SOURCES) if each in environ}
    found = {**UNLIMITED, **given}
    if not Path(found.get("HOME", "")).is_dir():
        found.pop("HOME", None)  # Helm takes what it cannot look into for a cluster that it cannot reach
    return found


def _request(order: Order) -> dict[str, Any]:
    """An order as the program reads it."""
    return {
        "verb": order.verb,
        "namespace": order.namespace,
        "release": order.release,
        "chart": str(order.chart),
        "values": dict(order.values),
        "labels": dict(order.labels),
        "description": order.description,
        "timeout": order.timeout,
        "max_history": order.max_history,
        "target": order.target,
        "force": order.force,
        "disable_hooks": order.disable_hooks,
        "skip_crds": order.skip_crds,
        "replace": order.replace,
        "keep_history": order.keep_history,
    }


def _stdout(process: asyncio.subprocess.Process) -> asyncio.StreamReader:
    assert process.stdout is not None, "it was started with a pipe"  # noqa: S101
    return process.stdout
