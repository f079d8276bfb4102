"""A typed client of podman's REST API (libpod 4.3 and newer): pods, containers, networks, images, secrets, volumes.

Callers hold one `Podman` per socket. Every request has a time limit; whatever goes wrong is a `ContainersError` with
podman's own text. It keeps no state and decides nothing: which pods are whose is for the caller to know.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from edgewright.containers.errors import ContainersError, NotFound, PodmanUnavailable, Refused
from edgewright.containers.socket import Incoming, Socket
from edgewright.containers.types import (
    ContainerDetails,
    ContainerNetworkDefinition,
    Executed,
    Image,
    Played,
    Pod,
    Secret,
    Version,
    Volume,
)

API: Final = "/v4.3.0/libpod"
QUICK: Final = 30.0
"""Seconds that a question may take."""
SLOW: Final = 600.0
"""Seconds that work may take in which an image is fetched."""
_CHUNK: Final = 256 << 10
_FRAME_HEAD: Final = 8
_MAX_FRAME: Final = 1 << 20
_MAX_PRINTED: Final = 4096

_T = TypeVar("_T")


class _Failure(msgspec.Struct, frozen=True):
    message: str = ""
    cause: str = ""


class _PullReport(msgspec.Struct, frozen=True):
    error: str = ""
    id: str = ""


class _LoadReport(msgspec.Struct, frozen=True):
    names: list[str] | None = msgspec.field(name="Names", default=None)


class _RemoveReport(msgspec.Struct, frozen=True):
    """What came of stopping or starting a pod: which of its containers did not follow."""

    err: str | None = msgspec.field(name="Err", default=None)
    errs: list[str] | None = msgspec.field(name="Errs", default=None)


class _Made(msgspec.Struct, frozen=True):
    id: str = msgspec.field(name="Id", default="")


class _ExecSession(msgspec.Struct, frozen=True):
    exit_code: int = msgspec.field(name="ExitCode", default=0)
    pid: int = msgspec.field(name="Pid", default=0)


class _ContainerPid(msgspec.Struct, frozen=True):
    pid: int = msgspec.field(name="Pid", default=0)


class _RunningContainer(msgspec.Struct, frozen=True):
    state: _ContainerPid = msgspec.field(name="State", default=_ContainerPid())


class Podman:
    """Podman behind one socket."""

    def __init__(self, socket: Path, *, quick: float = QUICK, slow: float = SLOW) -> None:
        self._socket = Socket(socket)
        self._quick = quick
        self._slow = slow

    # --- the service -------------------------------------------------------------------------------------------------

    async def version(self) -> Version:
        """Which podman answers; PodmanUnavailable where none does."""
        return _decode(await self._ask("GET", "/version"), Version)

    # --- pods --------------------------------------------------------------------------------------------------------

    async def play(
        self,
        manifest: str,
        *,
        start: bool = True,
        network: str = "",
        credentials: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Played:
        """Makes pods from Kubernetes YAML. `credentials` is per registry host: username and password."""
        query = {"start": _flag(start), **({"network": network} if network else {})}
        headers = {"Content-Type": "application/yaml", **_registry_config(credentials)}
        return _decode(
            await self._ask(
                "POST", "/play/kube", query=query, headers=headers, body=manifest.encode(), timeout=self._slow
            ),
            Played,
        )

    async def pods(self, *, label: str = "") -> list[Pod]:
        """All pods, or those with a label (`name` or `name=value`)."""
        filters = {"filters": msgspec.json.encode({"label": [label]}).decode()} if label else {}
        return _listed(await self._ask("GET", "/pods/json", query=filters), Pod)

    async def pod(self, name: str) -> Pod | None:
        """One pod as the list shows it; None where there is none of that name."""
        filters = {"filters": msgspec.json.encode({"name": [f"^{name}$"]}).decode()}
        found = _listed(await self._ask("GET", "/pods/json", query=filters), Pod)
        return next((each for each in found if each.name == name), None)

    async def inspect_pod(self, name: str) -> dict[str, object]:
        """Everything that podman knows of one pod."""
        return _decode(await self._ask("GET", f"/pods/{_part(name)}/json"), dict[str, object])

    async def start_pod(self, name: str) -> None:
        """Starts the containers of a pod that do not run; one that cannot be started is `Refused`."""
        _demand(await self._ask("POST", f"/pods/{_part(name)}/start", timeout=self._slow))

    async def stop_pod(self, name: str, *, grace: int = 10) -> None:
        """Stops a pod; its containers are killed after `grace` seconds."""
        query = {"t": str(grace)}
        _demand(await self._ask("POST", f"/pods/{_part(name)}/stop", query=query, timeout=self._quick + grace))

    async def remove_pod(self, name: str, *, force: bool = False) -> bool:
        """Removes a pod with its containers, `force` also while they run; False where there was none."""
        try:
            body = await self._ask(
                "DELETE", f"/pods/{_part(name)}", query={"force": _flag(force)}, timeout=self._quick * 2
            )
        except NotFound:
            return False
        _demand(body)
        return True

    async def create_pod(self, spec: Mapping[str, object]) -> str:
        """Makes a pod without containers, as podman's own specification has it, and gives its id."""
        return _decode(await self._send("/pods/create", spec), _Made).id

    # --- containers --------------------------------------------------------------------------------------------------

    async def create_container(self, spec: Mapping[str, object]) -> str:
        """Makes a container, as podman's own specification has it, and gives its id; nothing runs yet."""
        return _decode(await self._send("/containers/create", spec), _Made).id

    async def init_container(self, name: str) -> None:
        """Prepares a container to its last step: all is mounted, and its program waits to be let go."""
        await self._ask("POST", f"/containers/{_part(name)}/init", timeout=self._slow)

    async def start_container(self, name: str) -> None:
        """Lets the program of a container go."""
        await self._ask("POST", f"/containers/{_part(name)}/start", timeout=self._slow)

    async def remove_container(self, name: str) -> bool:
        """Removes a container, also while it runs; False where there was none."""
        query = {"force": "true", "v": "true", "timeout": "0"}
        try:
            await self._ask("DELETE", f"/containers/{_part(name)}", query=query, timeout=self._quick * 2)
        except NotFound:
            return False
        return True

    async def container(self, name: str) -> ContainerDetails | None:
        """What podman knows of one container; None where there is none of that name."""
        try:
            return _decode(await self._ask("GET", f"/containers/{_part(name)}/json"), ContainerDetails)
        except NotFound:
            return None

    async def logs(self, name: str, *, since: str = "") -> AsyncGenerator[tuple[str, bytes]]:
        """The lines of a container, each after its time, from `since` on (RFC 3339) and until the container ends."""
        query = {"follow": "true", "stdout": "true", "stderr": "true", "timestamps": "true"}
        target = f"{API}/containers/{_part(name)}/logs?{urlencode({**query, **({'since': since} if since else {})})}"
        async with self._socket.open("GET", target, timeout=None) as incoming:
            await _demand_good(incoming, name)
            async for frame in frames(incoming.chunks()):
                moment, _, line = frame.partition(b" ")
                yield moment.decode(errors="replace"), line

    async def last_lines(self, name: str, count: int, *, limit: int) -> tuple[bytes, bool]:
        """The last lines that a container has printed, `limit` bytes of them, and whether there was more in them."""
        query = {"follow": "false", "stdout": "true", "stderr": "true", "tail": str(count)}
        target = f"{API}/containers/{_part(name)}/logs?{urlencode(query)}"
        kept, printed = b"", 0
        async with self._socket.open("GET", target, timeout=None) as incoming:
            await _demand_good(incoming, name)
            async for frame in frames(incoming.chunks()):
                printed += len(frame) + 1
                kept = (kept + frame + b"\n")[-limit:]
        return kept, printed > limit

    async def execute(self, name: str, command: Sequence[str], *, limit: int = _MAX_PRINTED) -> Executed:
        """Runs a command in a container, without input; of what it prints the first `limit` bytes are kept.

        A command whose caller does not wait any more is ended.
        """
        headers = {"Content-Type": "application/json"}
        wanted = {"Cmd": list(command), "AttachStdout": True, "AttachStderr": True}
        session = _decode(await self._send(f"/containers/{_part(name)}/exec", wanted), _Made).id
        kept, printed = b"", 0
        target = f"{API}/exec/{_part(session)}/start"
        start = msgspec.json.encode({"Detach": False, "Tty": False})
        try:
            async with self._socket.open("POST", target, headers=headers, body=start, timeout=None) as incoming:
                await _demand_good(incoming, name)
                async for piece in pieces(incoming.chunks()):
                    printed += len(piece)
                    kept += piece[: limit - len(kept)]
        except asyncio.CancelledError:
            with suppress(ContainersError):
                await asyncio.shield(asyncio.ensure_future(self._end_command(session, name)))
            raise
        code = _decode(await self._ask("GET", f"/exec/{_part(session)}/json"), _ExecSession).exit_code
        return Executed(exit_code=code, output=kept, truncated=printed > limit)

    async def _end_command(self, session: str, container: str) -> None:
        """Kills a command in a container; podman itself has no way to."""
        command = _decode(await self._ask("GET", f"/exec/{_part(session)}/json"), _ExecSession)
        body = await self._ask("GET", f"/containers/{_part(container)}/json")
        first = _decode(body, _RunningContainer).state.pid
        # Only where it is seen from here as a process of that container: podman may be elsewhere.
        if command.pid > 1 and first > 1 and same_mounts(command.pid, first):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(command.pid, signal.SIGKILL)

    # --- networks ----------------------------------------------------------------------------------------------------

    async def create_network(self, name: str, *, labels: Mapping[str, str]) -> ContainerNetworkDefinition:
        """Makes a bridge with addresses that nobody uses yet, or gives the one of that name."""
        try:
            return _decode(await self._ask("GET", f"/networks/{_part(name)}/json"), ContainerNetworkDefinition)
        except NotFound:
            spec = {"name": name, "driver": "bridge", "dns_enabled": False, "labels": dict(labels)}
            return _decode(await self._send("/networks/create", spec), ContainerNetworkDefinition)

    async def remove_network(self, name: str) -> bool:
        """Removes a network that no container is in; False where there was none."""
        try:
            await self._ask("DELETE", f"/networks/{_part(name)}")
        except NotFound:
            return False
        return True

    # --- images ------------------------------------------------------------------------------------------------------

    async def image_exists(self, reference: str) -> bool:
        """Whether podman has an image."""
        try:
            await self._ask("GET", f"/images/{_part(reference)}/exists")
        except NotFound:
            return False
        return True

    async def image(self, reference: str) -> Image | None:
        """What podman knows of an image; None where it does not have it."""
        try:
            return _decode(await self._ask("GET", f"/images/{_part(reference)}/json"), Image)
        except NotFound:
            return None

    async def pull_image(self, reference: str, *, credentials: Mapping[str, Mapping[str, str]] | None = None) -> str:
        """Fetches an image and gives its id; `Refused` with podman's text where it cannot be had."""
        query = {"reference": reference, "quiet": "true"}
        body = await self._ask(
            "POST", "/images/pull", query=query, headers=_registry_config(credentials), timeout=self._slow
        )
        reports = [_decode(line, _PullReport) for line in body.splitlines() if line.strip()]
        for report in reports:
            if report.error:
                raise Refused(report.error, status=200)  # it has begun to answer when it finds out
        return next((report.id for report in reversed(reports) if report.id), "")

    async def load_image(self, archive: Path) -> list[str]:
        """Reads a docker-archive or oci-archive and gives the names of the images in it."""
        body = await self._ask(
            "POST",
            "/images/load",
            headers={"Content-Type": "application/x-tar"},
            body=_file(archive),
            timeout=self._slow,
        )
        return _decode(body, _LoadReport).names or []

    # --- secrets -----------------------------------------------------------------------------------------------------

    async def secrets(self) -> list[Secret]:
        """All secrets, without their content."""
        return _listed(await self._ask("GET", "/secrets/json"), Secret)

    async def create_secret(self, name: str, content: bytes) -> None:
        """Makes a secret; `Refused` where there is one of that name."""
        headers = {"Content-Type": "application/octet-stream"}
        await self._ask("POST", "/secrets/create", query={"name": name}, headers=headers, body=content)

    async def remove_secret(self, name: str) -> bool:
        """Removes a secret; False where there was none."""
        try:
            await self._ask("DELETE", f"/secrets/{_part(name)}")
        except NotFound:
            return False
        return True

    # --- volumes -----------------------------------------------------------------------------------------------------

    async def volumes(self, *, label: str = "") -> list[Volume]:
        """All named volumes, or those with a label."""
        filters = {"filters": msgspec.json.encode({"label": [label]}).decode()} if label else {}
        return _listed(await self._ask("GET", "/volumes/json", query=filters), Volume)

    async def create_volume(self, name: str, *, labels: Mapping[str, str] | None = None) -> Volume:
        """Makes a named volume."""
        body = msgspec.json.encode({"Name": name, "Label": dict(labels or {})})
        headers = {"Content-Type": "application/json"}
        return _decode(await self._ask("POST", "/volumes/create", headers=headers, body=body), Volume)

    async def remove_volume(self, name: str) -> bool:
        """Removes a named volume that no container uses; False where there was none."""
        try:
            await self._ask("DELETE", f"/volumes/{_part(name)}")
        except NotFound:
            return False
        return True

    async def _send(self, path: str, content: Mapping[str, object]) -> bytes:
        headers = {"Content-Type": "application/json"}
        return await self._ask("POST", path, headers=headers, body=msgspec.json.encode(content), timeout=self._slow)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | AsyncIterator[bytes] = b"",
        timeout: float | None = None,
    ) -> bytes:
        target = API + path + (f"?{urlencode(query)}" if query else "")
        answer = await self._socket.request(
            method, target, headers=headers, body=body, timeout=self._quick if timeout is None else timeout
        )
        if answer.status == 404:
            raise NotFound(_text(answer.body) or f"podman has no {path}")
        if answer.status >= 400:
            raise Refused(_text(answer.body) or f"podman answered {answer.status}", status=answer.status)
        return answer.body


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _part(name: str) -> str:
    return quote(name, safe="")


def _text(body: bytes) -> str:
    """Podman's own words for a failure."""
    try:
        failure = msgspec.json.decode(body, type=_Failure)
    except msgspec.MsgspecError:
        return body[:500].decode(errors="replace").strip()
    return failure.message or failure.cause


def _decode(body: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise PodmanUnavailable(f"what answers at podman's socket is not podman: {error}") from error


def _listed(body: bytes, kind: type[_T]) -> list[_T]:
    """A list, for which podman writes null where it is empty."""
    return [] if body.strip() in {b"", b"null"} else _decode(body, list[kind])  # type: ignore[valid-type]


def _demand(body: bytes) -> None:
    """Raises what the report of a pod's containers complains of."""
    if not body.strip():
        return
    report = _decode(body, _RemoveReport)
    problems = [*(report.errs or ()), *([report.err] if report.err else ())]
    if problems:
        raise Refused("; ".join(problems), status=200)


def _registry_config(credentials: Mapping[str, Mapping[str, str]] | None) -> dict[str, str]:
    if not credentials:
        return {}
    return {"X-Registry-Config": base64.urlsafe_b64encode(msgspec.json.encode(credentials)).decode()}


async def _demand_good(incoming: Incoming, name: str) -> None:
    if incoming.status == 404:
        raise NotFound(f"podman has no container {name}")
    if incoming.status >= 400:
        raise Refused(_text(await incoming.read(64 << 10)), status=incoming.status)


async def frames(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The lines in podman's stream of logs, without their ends."""
    async for piece in pieces(chunks):
        yield piece.rstrip(b"\r\n")


async def pieces(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """The pieces of podman's stream of what is printed, in which each has its length before it."""
    waiting = b""
    async for chunk in chunks:
        waiting += chunk
        while len(waiting) >= _FRAME_HEAD:
            end = _FRAME_HEAD + int.from_bytes(waiting[4:_FRAME_HEAD], "big")
            if end > _MAX_FRAME:
                raise PodmanUnavailable("podman's logs cannot be read: a line is too long")
            if len(waiting) < end:
                break
            yield waiting[_FRAME_HEAD:end]
            waiting = waiting[end:]


def same_mounts(first: int, second: int) -> bool:
    """Whether two processes see the same file systems, which those of a container do and others do not."""
    try:
        return Path(f"/proc/{first}/ns/mnt").readlink() == Path(f"/proc/{second}/ns/mnt").readlink()
    except OSError:
        return False


async def _file(path: Path) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while part := await asyncio.to_thread(file.read, _CHUNK):
            yield part
    finally:
        file.close()
