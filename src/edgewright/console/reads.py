"""Our kinds as structs, for handlers that decide from them: from the shared cache if it has them, else as the caller.

Either way the caller sees what the API server lets them see, and what it refuses is refused in its own words.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from edgewright.console.call import Call
from edgewright.console.kind_cache import decoded
from edgewright.console.views import view_for
from edgewright.runtime.errors import UNFIT
from edgewright.runtime.objects import Key, Resource

R = TypeVar("R", bound=Resource)


class Reads:
    """The reads of one call."""

    def __init__(self, call: Call) -> None:
        """As the call's caller."""
        self._call = call

    async def get(self, resource: type[R], key: Key) -> R:
        """One object; NotFound and Forbidden are the API server's."""
        view = await view_for(self._call, resource.kind, "get", key.namespace)
        if view is not None and (here := view.kept.get(key)) is not None:
            with suppress(*UNFIT):
                return msgspec.json.decode(here.body, type=resource)
        return await self._call.client.of(resource).get(key)

    async def list(self, resource: type[R], namespace: str | None = None) -> list[R]:
        """All that the caller may see of a kind, or of a namespace's; what cannot be read is left out."""
        patience = self._call.shared.limits.whole_kind_seconds
        view = await view_for(self._call, resource.kind, "list", namespace, patience=patience)
        if view is None:
            pages = self._call.client.of(resource).pages(namespace)
            return [each async for page in pages for each in page.items]
        decode = msgspec.json.Decoder(resource).decode
        return [each async for _, each in decoded(view.select(namespace or "", None), decode)]
