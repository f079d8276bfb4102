"""A small typed client of podman's REST API (libpod 4.3 and newer): pods from manifests, images, secrets and volumes.

Callers hold one `Podman` per socket. Every request has a time limit; whatever goes wrong is a `ContainersError` with
podman's own text. It keeps no state and decides nothing: which pods are whose is for the caller to know.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from edgewright.containers.errors import NotFound, PodmanUnavailable, Refused
from edgewright.containers.socket import Socket
from edgewright.containers.types import Played, Pod, Secret, Version, Volume

API: Final = "/v4.3.0/libpod"
QUICK: Final = 30.0
"""Seconds that a question may take."""
SLOW: Final = 600.0
"""Seconds that work may take in which an image is fetched."""
_CHUNK: Final = 256 << 10

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

    # --- images ------------------------------------------------------------------------------------------------------

    async def image_exists(self, reference: str) -> bool:
        """Whether podman has an image."""
        try:
            await self._ask("GET", f"/images/{_part(reference)}/exists")
        except NotFound:
            return False
        return True

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


async def _file(path: Path) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while part := await asyncio.to_thread(file.read, _CHUNK):
            yield part
    finally:
        file.close()
