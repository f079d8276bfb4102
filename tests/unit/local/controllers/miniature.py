"""A few kinds in a dict behind HTTP, with just enough of an API server's manners to let controllers work.

For the unit tests of the controllers and of Services: it lists, watches, creates, merges, deletes with finalizers, and
tells conflicts. What a real server does is tested in tests/cluster; a test can make this one refuse a request once.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
from aiohttp import web

from edgewright.local.controllers.aggregation import ClusterRole
from edgewright.local.controllers.workloads import kinds as workloads
from edgewright.local.patch import merge_patch
from edgewright.runtime import Client, Clock, Config, Key, Kind, Manager, RawObject
from edgewright.runtime.client import INITIAL_EVENTS_END
from tests.unit.runtime.fakeserver import listening

CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")
NAMESPACE = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
NODE = Kind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)
POD = Kind(group="", version="v1", kind="Pod", plural="pods")
SERVICE = Kind(group="", version="v1", kind="Service", plural="services")
ACCOUNT = Kind(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts")
EVENT = Kind(group="", version="v1", kind="Event", plural="events")
SLICE = Kind(group="discovery.k8s.io", version="v1", kind="EndpointSlice", plural="endpointslices")
DEFINITION = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
WIDGET = Kind(group="example.dev", version="v1", kind="Widget", plural="widgets")
WORKLOADS = [
    each.kind
    for each in (
        *(workloads.Deployment, workloads.ReplicaSet, workloads.StatefulSet, workloads.DaemonSet),
        *(workloads.ControllerRevision, workloads.Job, workloads.CronJob, workloads.Claim),
        *(workloads.PodDisruptionBudget, workloads.Volume),
    )
]
KINDS = [CONFIG_MAP, NAMESPACE, NODE, POD, SERVICE, ACCOUNT, EVENT, SLICE, DEFINITION, ClusterRole.kind, *WORKLOADS]
NOW = "2026-01-01T00:00:00Z"
FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


class Refusal(Exception):
    def __init__(self, code: int, reason: str, message: str = "no", *, name: str = "") -> None:
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "code": code,
            "reason": reason,
            "message": message,
            "details": {"name": name},
        }
        self.code = code


class Miniature:
    """The objects, and what was asked."""

    def __init__(self) -> None:
        self.kinds = list(KINDS)
        self.url = ""
        self.asked: list[tuple[str, str]] = []
        """Method and path of every request that is no watch."""
        self.refusals: dict[tuple[str, str], deque[Refusal]] = {}
        self._objects: dict[Kind, dict[Key, RawObject]] = {}
        self._watches: dict[Kind, list[asyncio.Queue[bytes]]] = {}
        self._silenced: dict[Kind, list[bytes]] = {}
        self._version = 0

    @property
    def writes(self) -> list[tuple[str, str]]:
        """What was asked next to reads and events."""
        return [each for each in self.asked if each[0] != "GET" and not each[1].endswith("/events")]

    def refuse(self, method: str, path: str, code: int, reason: str, *, times: int = 1) -> None:
        """Answers the next requests of this kind with an error."""
        self.refusals.setdefault((method, path), deque()).extend([Refusal(code, reason)] * times)

    # --- for tests -------------------------------------------------------------------------------------------------

    def all(self, kind: Kind) -> dict[Key, RawObject]:
        return self._objects.setdefault(kind, {})

    def get(self, kind: Kind, name: str, namespace: str = "default") -> RawObject | None:
        return self.all(kind).get(Key(namespace if kind.namespaced else "", name))

    def make(self, kind: Kind, name: str, namespace: str = "default", **rest: Any) -> RawObject:
        """Puts an object there, or makes it so."""
        metadata = {"name": name, **({"namespace": namespace} if kind.namespaced else {}), **rest.pop("metadata", {})}
        known = self.get(kind, name, namespace)
        if known is not None:
            metadata = {**known["metadata"], **metadata}
        else:
            metadata = {"uid": str(uuid.uuid4()), "creationTimestamp": NOW, "generation": 1, **metadata}
        if kind == NAMESPACE:
            rest = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}, **rest}
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, **(known or {}), **rest, "metadata": metadata}
        return self._put(kind, obj)

    def delete(self, kind: Kind, name: str, namespace: str = "default", *, propagation: str = "Background") -> None:
        """Deletes an object as a DELETE would."""
        self._delete(kind, Key(namespace if kind.namespaced else "", name), {"propagationPolicy": propagation})

    @contextmanager
    def silence(self, kind: Kind) -> Iterator[None]:
        """Tells the watches of a kind what happens only afterwards."""
        self._silenced[kind] = []
        try:
            yield
        finally:
            for line in self._silenced.pop(kind):
                for queue in self._watches.get(kind, ()):
                    queue.put_nowait(line)

    # --- the store -------------------------------------------------------------------------------------------------

    def _put(self, kind: Kind, obj: RawObject) -> RawObject:
        key = Key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        held = obj["metadata"].get("finalizers") or (kind == NAMESPACE and obj["spec"].get("finalizers"))
        if obj["metadata"].get("deletionTimestamp") and not held:
            self._drop(kind, key)
            return obj
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        known = key in self.all(kind)
        self.all(kind)[key] = obj
        self._tell(kind, "MODIFIED" if known else "ADDED", obj)
        return obj

    def _drop(self, kind: Kind, key: Key) -> None:
        gone = self.all(kind).pop(key)
        self._version += 1
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._tell(kind, "DELETED", gone)

    def _tell(self, kind: Kind, what: str, obj: RawObject) -> None:
        line = msgspec.json.encode({"type": what, "object": obj}) + b"\n"
        if kind in self._silenced:
            self._silenced[kind].append(line)
            return
        for queue in self._watches.get(kind, ()):
            queue.put_nowait(line)

    def _delete(self, kind: Kind, key: Key, options: RawObject) -> None:
        obj = self._find(kind, key)
        for name, value in options.get("preconditions", {}).items():
            if obj["metadata"][name] != value:
                raise Refusal(409, "Conflict")
        metadata = dict(obj["metadata"])
        finalizers = [*metadata.get("finalizers", ())]
        added = FINALIZERS.get(options.get("propagationPolicy", ""))
        if added and added not in finalizers and "deletionTimestamp" not in metadata:
            finalizers.append(added)
        if finalizers:
            metadata["finalizers"] = finalizers
        metadata.setdefault("deletionTimestamp", NOW)
        status = {"status": {**obj.get("status", {}), "phase": "Terminating"}} if kind == NAMESPACE else {}
        self._put(kind, {**obj, **status, "metadata": metadata})

    def _find(self, kind: Kind, key: Key) -> RawObject:
        try:
            return self.all(kind)[key]
        except KeyError:
            raise Refusal(404, "NotFound", name=key.name) from None

    # --- HTTP ------------------------------------------------------------------------------------------------------

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            return await self._watch(request)
        self.asked.append((request.method, request.path))
        try:
            if waiting := self.refusals.get((request.method, request.path)):
                raise waiting.popleft()
            return _json(self._answer(request, await request.read()))
        except Refusal as refusal:
            return _json(refusal.body, refusal.code)

    def _answer(self, request: web.Request, body: bytes) -> Any:
        found = self._discovery(request.path)
        if found is not None:
            return found
        kind, key, subresource = self._target(request.path)
        sent = msgspec.json.decode(body) if body else {}
        match request.method, key.name:
            case "GET", "":
                return {"metadata": {"resourceVersion": str(self._version)}, "items": self._list(kind, key, request)}
            case "DELETE", "":
                for each in self._list(kind, key, request):
                    self._delete(kind, Key(each["metadata"].get("namespace", ""), each["metadata"]["name"]), sent)
                return {"kind": "Status"}
            case "POST", "":
                return self._create(kind, key, sent)
            case "GET", _:
                return self._find(kind, key)
            case "DELETE", _:
                self._delete(kind, key, sent)
                return {"kind": "Status"}
        obj = self._find(kind, key)
        claimed = sent.get("metadata", {})
        for name in ("resourceVersion", "uid"):
            if claimed.get(name, obj["metadata"][name]) != obj["metadata"][name]:
                raise Refusal(409, "Conflict")
        if subresource == "binding":
            return self._put(kind, merge_patch(obj, {"spec": {"nodeName": sent["target"]["name"]}}))
        return self._put(kind, sent if request.method == "PUT" else merge_patch(obj, sent))

    def _create(self, kind: Kind, key: Key, sent: RawObject) -> RawObject:
        metadata = sent["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}{uuid.uuid4().hex[:5]}"
        parent = self.get(NAMESPACE, key.namespace) if kind.namespaced else None
        if parent is not None and parent["metadata"].get("deletionTimestamp"):
            raise Refusal(403, "Forbidden", "the namespace is being terminated")
        if self.get(kind, name, key.namespace) is not None:
            raise Refusal(409, "AlreadyExists")
        rest = {field: value for field, value in sent.items() if field not in {"apiVersion", "kind"}}
        return self.make(kind, name, key.namespace, **{**rest, "metadata": {**metadata, "name": name}})

    def _list(self, kind: Kind, key: Key, request: web.Request) -> list[RawObject]:
        selector = request.query.get("fieldSelector", "")
        return [
            obj
            for (namespace, _), obj in list(self.all(kind).items())
            if key.namespace in {"", namespace} and _selected(obj, selector)
        ]

    def _target(self, path: str) -> tuple[Kind, Key, str]:
        parts = path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "finalize" and rest[2] != "status":
            namespace, rest = rest[1], rest[2:]
        for kind in self.kinds:
            if (kind.group, kind.plural) == (group, rest[0]):
                name, subresource = [*rest[1:], "", ""][:2]
                return kind, Key(namespace, name), subresource
        raise Refusal(404, "NotFound", "the server could not find the requested resource")

    def _discovery(self, path: str) -> Any:
        groups = {(kind.group, kind.version) for kind in self.kinds if kind.group}
        if path == "/apis":
            versions = [(group, {"version": version}) for group, version in sorted(groups)]
            return {"groups": [{"name": g, "versions": [v], "preferredVersion": v} for g, v in versions]}
        for group, version in [*groups, ("", "v1")]:
            if path == (f"/apis/{group}/{version}" if group else f"/api/{version}"):
                verbs = ["create", "delete", "get", "list", "patch", "watch"]
                return {
                    "resources": [
                        {"name": each.plural, "kind": each.kind, "namespaced": each.namespaced, "verbs": verbs}
                        for each in self.kinds
                        if (each.group, each.version) == (group, version)
                    ]
                    + [{"name": "bindings", "kind": "Binding", "namespaced": True, "verbs": ["create"]}]
                }
        return None

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        try:
            kind, key, _ = self._target(request.path)
        except Refusal as refusal:
            return _json(refusal.body, refusal.code)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches.setdefault(kind, []).append(queue)
        selector = request.query.get("fieldSelector", "")
        try:
            response = web.StreamResponse()
            await response.prepare(request)
            for obj in self._list(kind, key, request):
                await response.write(msgspec.json.encode({"type": "ADDED", "object": obj}) + b"\n")
            end = {"resourceVersion": str(self._version), "annotations": {INITIAL_EVENTS_END: "true"}}
            await response.write(msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": end}}) + b"\n")
            while True:
                line = await queue.get()
                if _selected(msgspec.json.decode(line)["object"], selector):
                    await response.write(line)
        finally:
            self._watches[kind].remove(queue)


def _selected(obj: RawObject, selector: str) -> bool:
    """Whether a field selector of one field takes the object."""
    path, _, wanted = selector.partition("=")
    value: Any = obj
    for part in path.split(".") if selector else ():
        value = value.get(part, {})
    return not selector or value == wanted


def _json(body: Any, code: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=code, content_type="application/json")


@asynccontextmanager
async def miniature() -> AsyncIterator[Miniature]:
    """Runs one."""
    server = Miniature()
    async with listening(server.handle, name="miniature") as server.url:
        yield server


def client_of(server: Miniature) -> Client:
    return Client(Config(server=server.url))


@asynccontextmanager
async def controlled(
    server: Miniature, add: Callable[[Manager], Any], *, clock: Clock | None = None
) -> AsyncIterator[Any]:
    """Runs a manager with what `add` registers, and next to it what `add` returns; gives that."""
    manager = Manager(client_of(server), clock=clock, drain_seconds=1)
    added = add(manager)
    tasks = [asyncio.create_task(manager.run())]
    if hasattr(added, "run"):
        tasks.append(asyncio.create_task(added.run()))
    try:
        yield added
        for task in tasks:
            if task.done():
                task.result()
    finally:
        manager.stop()
        await asyncio.wait(tasks[:1])
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], object], *, seconds: float = 60) -> None:
    """Waits for requests under way to make the condition true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nobody tells when it may be true
            await asyncio.sleep(0.005)


async def settled(server: Miniature) -> None:
    """Waits until nothing has been asked for a moment."""
    asked = -1
    while asked != len(server.asked):
        asked = len(server.asked)
        await asyncio.sleep(0.05)
