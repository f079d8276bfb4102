"""Startup, readiness and liveness: asks containers how they are, and says when one changes its mind.

One task a probe of a container that runs; the reconciler reads what they found and hears of every change. Probes are
tcpSocket, httpGet (on the Pod's own address) and exec. After a restart of the node they begin again.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from edgewright.local.node.folders import Attempt, PodRecord
from edgewright.local.node.pods import Pod
from edgewright.runtime.clock import Clock
from edgewright.runtime.objects import Key, RawObject


@dataclass(frozen=True)
class ProbeTarget:
    """Who is asked: one attempt to run a container of a Pod."""

    pod: Pod
    record: PodRecord
    container: RawObject
    attempt: Attempt


Ask = Callable[[ProbeTarget, RawObject], Awaitable[str | None]]
"""Asks a container by one probe: None where it is well, else what is wrong."""

_KINDS = ("startupProbe", "readinessProbe", "livenessProbe")


@dataclass
class _Followed:
    """The probes of one attempt to run a container."""

    number: int
    started: bool = True
    ready: bool = True
    failing: bool = False
    task: asyncio.Task[None] | None = None


class Probes:
    """The probes of all Pods of a node."""

    def __init__(
        self,
        ask: Ask,
        *,
        clock: Clock,
        changed: Callable[[Key], None],
        unhealthy: Callable[[Pod, str], None],
        scale: float = 1.0,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._changed = changed
        self._unhealthy = unhealthy
        self._scale = scale
        self._followed: dict[tuple[str, str], _Followed] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """Also those that were called off and are not over yet: a command that they run has to be ended."""

    def follow(self, pod: Pod, record: PodRecord, attempts: Mapping[str, Sequence[Attempt]]) -> None:
        """Begins to ask the containers that run, and stops asking those that do not."""
        for container in (*pod.init_containers, *pod.containers):
            name = container["name"]
            latest = next(iter(attempts.get(name, ())), None)
            known = self._followed.get((pod.uid, name))
            running = latest is not None and latest.running
            if known is not None and (not running or latest is None or known.number != latest.number):
                self._end(pod.uid, name)
                known = None
            if running and known is None and latest is not None:
                self._begin(pod, record, container, latest)

    def drop(self, uid: str) -> None:
        """Stops asking a Pod's containers."""
        for place in [place for place in self._followed if place[0] == uid]:
            self._end(*place)

    async def close(self) -> None:
        """Stops asking altogether."""
        for place in list(self._followed):
            self._end(*place)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def started(self, uid: str) -> dict[str, bool]:
        """Which containers with a startup probe have passed it."""
        return {name: each.started for (pod, name), each in self._followed.items() if pod == uid}

    def ready(self, uid: str) -> dict[str, bool]:
        """Which containers with a readiness probe pass it."""
        return {name: each.ready for (pod, name), each in self._followed.items() if pod == uid}

    def failing(self, uid: str) -> frozenset[str]:
        """Which containers must be ended because a startup or liveness probe failed."""
        return frozenset(name for (pod, name), each in self._followed.items() if pod == uid and each.failing)

    def _begin(self, pod: Pod, record: PodRecord, container: RawObject, attempt: Attempt) -> None:
        declared = [kind for kind in _KINDS if container.get(kind)]
        followed = self._followed[pod.uid, container["name"]] = _Followed(
            attempt.number, started="startupProbe" not in declared, ready="readinessProbe" not in declared
        )
        if declared:
            work = self._probe_all(ProbeTarget(pod, record, container, attempt), followed)
            followed.task = asyncio.create_task(work, name=f"probes of {pod.key} {container['name']}")
            self._tasks.add(followed.task)
            followed.task.add_done_callback(self._tasks.discard)

    def _end(self, uid: str, name: str) -> None:
        task = self._followed.pop((uid, name)).task
        if task is not None:
            task.cancel()

    async def _probe_all(self, asked: ProbeTarget, followed: _Followed) -> None:
        """First the startup probe alone; once it has passed, the others for as long as the container runs."""
        container = asked.container
        if container.get("startupProbe"):
            await self._probe(asked, followed, "startupProbe")
        async with asyncio.TaskGroup() as group:
            for kind in ("readinessProbe", "livenessProbe"):
                if container.get(kind):
                    group.create_task(self._probe(asked, followed, kind))

    async def _probe(self, asked: ProbeTarget, followed: _Followed, kind: str) -> None:
        pod, probe = asked.pod, asked.container[kind]
        await self._clock.sleep(float(probe.get("initialDelaySeconds") or 0) * self._scale)
        good = bad = 0
        while True:
            problem = await self._ask_in_time(asked, probe)
            good, bad = (good + 1, 0) if problem is None else (0, bad + 1)
            if problem is not None:
                word = kind.removesuffix("Probe").capitalize()
                self._unhealthy(pod, f"{word} probe failed: {problem}"[:1000])
            if good >= (probe.get("successThreshold") or 1) and self._passed(followed, kind):
                self._changed(pod.key)
            if bad >= (probe.get("failureThreshold") or 3) and self._failed(followed, kind):
                self._changed(pod.key)
            if kind == "startupProbe" and followed.started:
                return
            await self._clock.sleep(float(probe.get("periodSeconds") or 10) * self._scale)

    async def _ask_in_time(self, asked: ProbeTarget, probe: RawObject) -> str | None:
        seconds = float(probe.get("timeoutSeconds") or 1)
        try:
            async with self._clock.timeout(seconds):
                return await self._ask(asked, probe)
        except TimeoutError:
            return f"no answer in {seconds:g} s"
        except OSError as error:
            return str(error)

    def _passed(self, followed: _Followed, kind: str) -> bool:
        before = (followed.started, followed.ready)
        if kind == "startupProbe":
            followed.started = True
        elif kind == "readinessProbe":
            followed.ready = True
        return before != (followed.started, followed.ready)

    def _failed(self, followed: _Followed, kind: str) -> bool:
        before = (followed.ready, followed.failing)
        if kind == "readinessProbe":
            followed.ready = False
        else:
            followed.failing = True
        return before != (followed.ready, followed.failing)


def port_of(container: RawObject, wanted: object) -> int:
    """A port by its number, or by its name in the container."""
    if isinstance(wanted, int):
        return wanted
    for port in container.get("ports") or ():
        if port.get("name") == wanted:
            return int(port["containerPort"])
    if str(wanted).isdigit():
        return int(str(wanted))
    raise OSError(f"the container has no port named {wanted!r}")


async def ask_tcp(address: str, container: RawObject, probe: RawObject) -> str | None:
    """Whether somebody listens on a port."""
    wanted = probe["tcpSocket"]
    _, writer = await asyncio.open_connection(wanted.get("host") or address, port_of(container, wanted["port"]))
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return None


async def ask_http(address: str, container: RawObject, probe: RawObject) -> str | None:
    """Whether a GET is answered with a status from 200 to 399; certificates are not looked at, as the kubelet does."""
    wanted = probe["httpGet"]
    host, port = wanted.get("host") or address, port_of(container, wanted["port"])
    secure = None
    if str(wanted.get("scheme") or "HTTP").upper() == "HTTPS":
        secure = ssl.create_default_context()
        secure.check_hostname = False
        secure.verify_mode = ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, port, ssl=secure)
    try:
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/1.36", "Accept": "*/*", "Connection": "close"}
        headers |= {each["name"]: each["value"] for each in wanted.get("httpHeaders") or ()}
        lines = [f"GET {wanted.get('path') or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()
        answer = (await reader.readline()).split()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    code = int(answer[1]) if len(answer) > 1 and answer[1].isdigit() else 0
    return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"
