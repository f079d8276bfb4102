"""An API server in memory, as far as a node needs one: it stands in the place of the client's transport.

What the real server does is tested in tests/cluster; this one lets unit tests own every object and every moment.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from edgewright.runtime.client import INITIAL_EVENTS_END, Client
from edgewright.runtime.config import Config
from edgewright.runtime.errors import Status, error_for
from edgewright.runtime.objects import RawObject

_SUBRESOURCES = {"status", "token"}


def refusal(code: int, reason: str, message: str = "no") -> Exception:
    return error_for(Status(code=code, reason=reason, message=message))


def merged(old: Any, change: Any) -> Any:
    """RFC 7396."""
    if not isinstance(change, dict):
        return change
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


class FakeApi:
    """Objects by their paths; has what `Transport` has for a `Client`."""

    fence = None
    connections = 1

    def __init__(self, *, namespaces: tuple[str, ...] = ("default", "kube-node-lease")) -> None:
        self.objects: dict[str, RawObject] = {}
        self.namespaces = set(namespaces)
        self.writes: list[tuple[str, str, Any]] = []
        self.failures: list[tuple[str, str, Exception]] = []
        """Answers that are given once instead: method, part of the path, error."""
        self._versions = itertools.count(1)
        self._watches: list[tuple[str, asyncio.Queue[bytes]]] = []

    def client(self) -> Client:
        """A client that asks this server."""
        client = Client(Config(server="http://127.0.0.1:1"))
        client.transport = self  # type: ignore[assignment]
        return client

    # --- for tests --------------------------------------------------------------------------------------------------

    def put(self, path: str, obj: RawObject) -> RawObject:
        """Makes or replaces an object."""
        version = str(next(self._versions))
        before = self.objects.get(path)
        metadata = {"uid": f"uid-{version}", **obj.get("metadata", {}), "resourceVersion": version}
        self.objects[path] = {**obj, "metadata": metadata}
        self._tell("MODIFIED" if before else "ADDED", path, self.objects[path])
        return self.objects[path]

    def add_pod(self, name: str = "pod", *, namespace: str = "default", node: str = "edge", **spec: Any) -> RawObject:
        """A Pod that is bound to the node; `status` may be given too."""
        status = spec.pop("status", {"phase": "Pending"})
        metadata = {"name": name, "namespace": namespace, "generation": 1, **spec.pop("metadata", {})}
        body = {"metadata": metadata, "spec": {"nodeName": node, **spec}, "status": status}
        return self.put(f"/api/v1/namespaces/{namespace}/pods/{name}", body)

    def pod(self, name: str = "pod", namespace: str = "default") -> RawObject:
        """A Pod as it is."""
        return self.objects[f"/api/v1/namespaces/{namespace}/pods/{name}"]

    def has_pod(self, name: str = "pod", namespace: str = "default") -> bool:
        """Whether there is one."""
        return f"/api/v1/namespaces/{namespace}/pods/{name}" in self.objects

    def ask_deletion(self, name: str = "pod", *, grace: int = 30) -> None:
        """Somebody deletes a Pod."""
        pod = self.pod(name)
        when = (datetime.now(UTC) + timedelta(seconds=grace)).strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata = {**pod["metadata"], "deletionTimestamp": when, "deletionGracePeriodSeconds": grace}
        self.put(f"/api/v1/namespaces/default/pods/{name}", {**pod, "metadata": metadata})

    def remove(self, path: str) -> None:
        """Takes an object away, at once."""
        self._tell("DELETED", path, self.objects.pop(path))

    def events(self) -> list[str]:
        """The reasons of the events."""
        return [obj["reason"] for path, obj in self.objects.items() if "/events/" in path]

    # --- as the transport -------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> bytes:
        await asyncio.sleep(0)
        content = msgspec.json.decode(body) if body else None
        for failure in self.failures:
            if failure[0] == method and failure[1] in path:
                self.failures.remove(failure)
                raise failure[2]
        if method != "GET":
            self.writes.append((method, path, content))
        answer = getattr(self, f"_{method.lower()}")(path, content)
        return msgspec.json.encode(answer)

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], *, seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        plural = path.rpartition("/")[2]

        async def lines() -> AsyncIterator[bytes]:
            for place, obj in list(self.objects.items()):
                if _followed(place, obj, plural):
                    yield _line("ADDED", obj)
            metadata = {"resourceVersion": str(next(self._versions)), "annotations": {INITIAL_EVENTS_END: "true"}}
            yield _line("BOOKMARK", {"metadata": metadata})
            while True:
                yield await queue.get()

        self._watches.append((plural, queue))
        try:
            yield lines()
        finally:
            self._watches.remove((plural, queue))

    async def close(self) -> None:
        pass

    def _get(self, path: str, _body: Any) -> RawObject:
        if path not in self.objects:
            raise refusal(404, "NotFound", f"{path} not found")
        return self.objects[path]

    def _post(self, path: str, body: Any) -> RawObject:
        if path.endswith("/token"):
            return {"status": {"token": "a token"}}
        metadata = body["metadata"]
        namespace = metadata.get("namespace")
        if namespace and namespace not in self.namespaces:
            raise refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        place = f"{path}/{metadata['name']}"
        if place in self.objects:
            raise refusal(409, "AlreadyExists")
        return self.put(place, body)

    def _patch(self, path: str, body: Any) -> RawObject:
        place = path.removesuffix("/status")
        present = self._get(place, None)
        version = body.get("metadata", {}).get("resourceVersion")
        if version and version != present["metadata"]["resourceVersion"]:
            raise refusal(409, "Conflict")
        return self.put(place, merged(present, body))

    def _delete(self, path: str, _body: Any) -> RawObject:
        self._get(path, None)
        self.remove(path)
        return {}

    def _tell(self, kind: str, path: str, obj: RawObject) -> None:
        for plural, queue in self._watches:
            if _followed(path, obj, plural):
                queue.put_nowait(_line(kind, obj))


def _followed(path: str, obj: RawObject, plural: str) -> bool:
    """Whether a watch of the node sees an object: its Pods, and all Services."""
    if path.split("/")[-2] != plural:
        return False
    return plural == "services" or "nodeName" in (obj.get("spec") or {})


def _line(kind: str, obj: RawObject) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
