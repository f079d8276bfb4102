"""What the loops of all workloads hold and do alike: each controller in this package is one of them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar

from edgewright.runtime import Clock, Manager, Recorder
from edgewright.runtime.errors import ApiError


class Loop:
    """A controller of one kind, which registers itself with the manager."""

    component: ClassVar[str]
    """Who its Events are from, as Kubernetes names it."""

    def __init__(self, manager: Manager, clock: Clock) -> None:
        self.recorder = Recorder(manager.client, self.component, clock=clock)
        self._manager = manager
        self._client = manager.client
        self._clock = clock


async def refusal(work: Awaitable[None]) -> ApiError | None:
    """What the server said against some work, for those who tell how they stand before they raise it."""
    try:
        await work
    except ApiError as error:
        return error
    return None
