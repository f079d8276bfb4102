"""The templates that a StatefulSet or a DaemonSet had, each kept as a ControllerRevision that belongs to it.

The controllers of both ask `History` which revision is the one of the template as it is. It creates that revision where
it is missing, gives it a new number when a template comes back, and removes old ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, TypeVar

import msgspec

from edgewright.local.controllers.workloads import names
from edgewright.local.controllers.workloads.dependents import Indexed, is_controlled_by, reference
from edgewright.local.controllers.workloads.kinds import ControllerRevision, DaemonSet, StatefulSet
from edgewright.runtime import Key, Manager, Resource
from edgewright.runtime.errors import AlreadyExists

HASH: Final = "controller.kubernetes.io/hash"
POD_HASH: Final = "controller-revision-hash"

S = TypeVar("S", StatefulSet, DaemonSet)


def data_of(template: dict[str, Any]) -> dict[str, Any]:
    """A template as a revision holds it: as the patch that would bring it back.

    Its fields are in order: Go programs, such as `kubectl rollout undo`, compare a template with it byte by byte.
    """
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    ordered: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data, order="sorted"))
    return ordered


def template_of(revision: ControllerRevision) -> dict[str, Any]:
    """The template that a revision holds."""
    held = (revision.data.get("spec") or {}).get("template") or {}
    return {name: value for name, value in held.items() if name != "$patch"}


class History:
    """The revisions of all objects."""

    def __init__(self, manager: Manager, *, label: str = HASH) -> None:
        self._label = label
        self._client = manager.client
        self.revisions = Indexed(manager, ControllerRevision)

    def of(self, owner: Resource) -> list[ControllerRevision]:
        """The revisions of an object, the latest last."""
        return sorted(self.revisions.of(owner), key=lambda each: (each.revision, each.metadata.name))

    async def current(self, owner: S) -> ControllerRevision | None:
        """The revision of the template as it is, made or renumbered where that is needed.

        None where its name is taken: that was counted in the status, and the next pass tries another name.
        """
        template, collisions = owner.spec.template, owner.status.collision_count
        known, data = self.of(owner), data_of(template)
        number = known[-1].revision + 1 if known else 1
        same = [each for each in known if each.data == data]
        if same:
            found = same[-1]
            if found is known[-1]:
                return found
            return await self._client.of(ControllerRevision).change(found, {"revision": number})
        value = names.digest(template, collisions)
        labels = {**owner.spec.labels, self._label: value}
        name = f"{owner.metadata.name}-{value}"
        body = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": name,
                "namespace": owner.metadata.namespace,
                "labels": labels,
                "annotations": owner.metadata.annotations,
                "ownerReferences": [reference(owner)],
            },
            "data": data,
            "revision": number,
        }
        api = self._client.raw(ControllerRevision.kind)
        try:
            return msgspec.convert(await api.create(body), ControllerRevision)
        except AlreadyExists:
            there = await self.revisions.cache.fetch(Key(owner.metadata.namespace, name))
            if there is not None and is_controlled_by(there, owner) and there.data == data:
                return there
            wanted = msgspec.structs.replace(owner.status, collision_count=(collisions or 0) + 1)
            await self._client.of(type(owner)).write_status(owner, wanted)
            return None

    async def forget(self, owner: Resource, limit: int, used: Collection[str]) -> None:
        """Removes the oldest revisions that nobody uses (by their names), but for so many."""
        idle = [each for each in self.of(owner) if each.metadata.name not in used]
        for each in idle[: max(0, len(idle) - limit)]:
            await self._client.of(ControllerRevision).discard(each)
