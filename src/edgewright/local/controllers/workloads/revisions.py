"""The templates that a StatefulSet or a DaemonSet had, each kept as a ControllerRevision that belongs to it.

The controllers of both ask `History` which revision is the one of the template as it is. It makes that revision where
it is missing, gives it a new number when a template comes back, and removes old ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec

from edgewright.local.controllers.workloads import names
from edgewright.local.controllers.workloads.kinds import ControllerRevision
from edgewright.local.controllers.workloads.pods import BY_OWNER, controller_of, reference
from edgewright.runtime import Key, Manager, Resource
from edgewright.runtime.errors import AlreadyExists, NotFound

HASH: Final = "controller.kubernetes.io/hash"
POD_HASH: Final = "controller-revision-hash"


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


def _owner_uids(revision: ControllerRevision) -> Iterable[str]:
    owner = controller_of(revision)
    return (owner.uid,) if owner else ()


class History:
    """The revisions of all objects."""

    def __init__(self, manager: Manager, *, label: str = HASH) -> None:
        self._label = label
        self._client = manager.client
        self.cache = manager.cache(ControllerRevision)
        with suppress(ValueError):  # another controller has added it
            self.cache.add_index(BY_OWNER, _owner_uids)

    def of(self, owner: Resource) -> list[ControllerRevision]:
        """The revisions of an object, the latest last."""
        found = self.cache.by(BY_OWNER, owner.metadata.uid)
        return sorted(found, key=lambda each: (each.revision, each.metadata.name))

    async def current(
        self, owner: Resource, template: dict[str, Any], collisions: int | None
    ) -> ControllerRevision | None:
        """The revision of a template, made or renumbered where that is needed; None where its name is taken."""
        known, data = self.of(owner), data_of(template)
        number = known[-1].revision + 1 if known else 1
        same = [each for each in known if each.data == data]
        if same:
            found = same[-1]
            if found is known[-1]:
                return found
            return await self._client.of(ControllerRevision).patch(
                found.key, {"revision": number}, resource_version=found.metadata.resource_version
            )
        value = names.digest(template, collisions)
        labels = {**((template.get("metadata") or {}).get("labels") or {}), self._label: value}
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
            there = await self.cache.fetch(Key(owner.metadata.namespace, name))
            mine = there is not None and (ref := controller_of(there)) is not None and ref.uid == owner.metadata.uid
            return there if there is not None and mine and there.data == data else None

    async def forget(self, owner: Resource, limit: int, used: Collection[str]) -> None:
        """Removes the oldest revisions that nobody uses (by their names), but for so many."""
        idle = [each for each in self.of(owner) if each.metadata.name not in used]
        for each in idle[: max(0, len(idle) - limit)]:
            with suppress(NotFound):
                await self._client.of(ControllerRevision).delete(each.key, uid=each.metadata.uid)
