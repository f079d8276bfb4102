"""Keeps the EndpointSlices of every Service with a selector: who serves, at which address and port, and who is ready.

`add` registers the controller; `slices` decides. Slices that others made (without our label) are never touched, and
those of a Service that is gone go by garbage collection.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from edgewright.local.controllers import slices
from edgewright.local.controllers.resources import SERVICE_NAME, EndpointSlice, Namespace, Pod, Service
from edgewright.runtime import DONE, For, Key, Manager, Maps, RawObject, Result
from edgewright.runtime.errors import AlreadyExists, Forbidden, NotFound
from edgewright.runtime.predicates import anything


def add(manager: Manager) -> None:
    """Registers the controller."""
    _Endpoints(manager).add()


class _Endpoints:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._client = manager.client
        self._services = manager.cache(Service)
        self._pods = manager.cache(Pod)
        self._slices = manager.cache(EndpointSlice)
        self._triggers = slices.Triggers()
        self._services.add_index("namespace", lambda service: (service.metadata.namespace,))
        self._pods.add_index("namespace", lambda pod: (pod.metadata.namespace,))
        self._slices.add_index("service of ours", _service_of)

    def add(self) -> None:
        self._manager.controller(
            "endpoint-slices",
            self._reconcile,
            For(self._services, when=anything),
            Maps(self._pods, self._services_of),
            Maps(self._slices, _service_of),
            workers=2,
        )

    def _services_of(self, pod: Pod) -> Iterable[Key]:
        services = self._services.by("namespace", pod.metadata.namespace)
        return [service.key for service in services if slices.selects(service, pod)]

    async def _reconcile(self, key: Key) -> Result:
        service = self._services.get(key)
        if service is None or not slices.concerned(service):
            self._triggers.forget(key)
            return DONE
        pods = [pod for pod in self._pods.by("namespace", key.namespace) if slices.selects(service, pod)]
        there = self._slices.by("service of ours", key)
        plan = slices.plan(service, pods, there, triggered=self._triggers.changed(service, pods))
        typed = self._client.of(EndpointSlice)
        try:
            for wanted in plan.create:
                await self._create(wanted)
        except (Forbidden, NotFound):
            current = await self._services.fetch(key)
            if current is not None and not current.deleting and not await self._namespace_is_going(key.namespace):
                raise
            return DONE
        for found, change in plan.patch:
            await typed.patch(found.key, change, resource_version=found.metadata.resource_version)
        for found in plan.delete:
            with suppress(NotFound):
                await typed.delete(found.key, uid=found.metadata.uid)
        return DONE

    async def _create(self, wanted: RawObject) -> None:
        api = self._client.raw(EndpointSlice.kind)
        metadata = wanted["metadata"]
        try:
            await api.create(wanted)
        except AlreadyExists:
            found = await self._slices.fetch(Key(metadata["namespace"], metadata["name"]))
            if found is not None and _service_of(found) and _belongs(found, metadata["ownerReferences"][0]["uid"]):
                return  # made in a pass before, and the cache does not know it yet
            # Somebody took the name.
            await api.create({**wanted, "metadata": {key: metadata[key] for key in metadata if key != "name"}})

    async def _namespace_is_going(self, name: str) -> bool:
        try:
            return (await self._client.of(Namespace).get(Key("", name))).deleting
        except NotFound:
            return True


def _belongs(found: EndpointSlice, uid: str) -> bool:
    return any(reference.uid == uid for reference in found.metadata.owner_references)


def _service_of(found: EndpointSlice) -> Iterable[Key]:
    labels = found.metadata.labels
    if labels.get(slices.MANAGED_BY) == slices.MANAGER and SERVICE_NAME in labels:
        return (Key(found.metadata.namespace, labels[SERVICE_NAME]),)
    return ()
