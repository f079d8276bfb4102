"""Reading and writing the scale of an object: a write of one field of the object, by whoever scales it.

`server` calls it for `/scale`. How an object looks as a Scale, and back, is in `scale`; the write itself is done by
`writes`, as any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

from edgewright.local.apply import apply
from edgewright.local.errors import Refusal, bad_request, internal_error, not_found
from edgewright.local.served import Served
from edgewright.local.serving import metadata, scale
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.write_request import WriteRequest, unpatchable
from edgewright.local.serving.writes import Writes, Written
from edgewright.runtime.objects import RawObject

_UNSET: Final = -(2**31)
"""What an object without replicas has while it is patched: the patch must say how many there are to be."""


class Scales:
    """The Scales of all objects that have one."""

    def __init__(self, objects: Objects, writes: Writes) -> None:
        self._objects = objects
        self._writes = writes

    def get(self, served: Served, namespace: str, name: str) -> RawObject:
        """The Scale of an object."""
        live = self._live(served, namespace, name)
        if scale.replicas(served, live) is None:
            raise internal_error(f"the spec replicas field {scale.replicas_field(served)} does not exist")
        return scale.of(served, live)

    async def put(self, asked: WriteRequest, body: Any, duplicates: Sequence[str] = ()) -> Written:
        """Replaces the Scale of an object."""
        wanted, warnings = self._writes.decoded(_of_scales(asked), body, duplicates)
        return await self._change(asked, lambda obj: scale.put(asked.served, obj, wanted, asked.name), warnings)

    async def patch(
        self, asked: WriteRequest, make: Callable[[RawObject], RawObject], duplicates: Sequence[str] = ()
    ) -> Written:
        """Changes the Scale of an object by a patch of it."""
        warnings: list[str] = []

        def patched(obj: RawObject) -> RawObject:
            before = metadata.of(obj).get("resourceVersion")
            shown = scale.of(asked.served, obj)
            unset = scale.replicas(asked.served, obj) is None
            if unset:
                shown["spec"]["replicas"] = _UNSET
            result = make(shown)
            try:
                wanted, warnings[:] = self._writes.decoded(_of_scales(asked), result, duplicates)
            except Refusal as refusal:
                raise unpatchable(scale.SCALE, result, None, refusal) from None
            about = metadata.of(wanted)
            if about.get("resourceVersion") == before:
                about.pop("resourceVersion")
            if unset and wanted["spec"].get("replicas") == _UNSET:
                raise bad_request(f"the spec replicas field {scale.replicas_field(asked.served)} cannot be empty")
            return scale.put(asked.served, obj, wanted, asked.name)

        return await self._change(asked, patched, warnings)

    async def apply(self, asked: WriteRequest, wanted: RawObject) -> Written:
        """Server-side apply of a Scale; of a custom kind it is refused, as the real server does."""
        live = self._live(asked.served, asked.namespace, asked.name)
        merged = self._merged(asked, live, wanted)
        if asked.served.custom:
            where = f"{asked.namespace}/{asked.name}; {scale.SCALE.api_version}, Kind={scale.SCALE.kind}"
            why = f"request to convert CR to an invalid group/version: {scale.SCALE.api_version}"
            raise Refusal(500, "", f"failed to convert new object ({where}) to proper version: {why}")

        def applied(obj: RawObject) -> RawObject:
            result = self._merged(asked, obj, wanted) if obj != live else merged
            return scale.applied(asked.served, obj, result, asked.name)

        written = await self._writes.change(asked, applied, verb="scale")
        return Written(obj=scale.of(asked.served, written.obj), warnings=written.warnings)

    def _merged(self, asked: WriteRequest, live: RawObject, wanted: RawObject) -> RawObject:
        return apply.merge(
            scale.owned(asked.served, live),
            wanted,
            scale.FIELDS,
            kind=scale.SCALE,
            name=asked.name,
            manager=asked.manager,
            force=bool(asked.options.force),
            subresource="scale",
            now=self._objects.now,
        )

    def _live(self, served: Served, namespace: str, name: str) -> RawObject:
        stored = self._objects.get(served, namespace, name)
        if stored is None:
            raise not_found(served.kind, name)
        return self._objects.read(served, stored)

    async def _change(
        self, asked: WriteRequest, make: Callable[[RawObject], RawObject], warnings: Sequence[str]
    ) -> Written:
        def owned(obj: RawObject) -> RawObject:
            before = scale.replicas(asked.served, obj)
            after = make(obj)
            scale.record(asked.served, after, before=before, manager=asked.manager, now=self._objects.now)
            return after

        written = await self._writes.change(asked, owned, verb="scale", warnings=warnings)
        return Written(obj=scale.of(asked.served, written.obj), warnings=written.warnings)


def _of_scales(asked: WriteRequest) -> WriteRequest:
    """What is asked for, where the body is a Scale and no object of the kind."""
    return dataclasses.replace(asked, served=scale.served(asked.served))
