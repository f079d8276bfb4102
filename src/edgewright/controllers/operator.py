"""The operator as a whole: every controller of ours, added to one manager.

`edgewright run` gives it a manager with a lease for a cluster, `edgewright up` one for the embedded control plane. It
only joins the parts.
"""

from __future__ import annotations

from edgewright.api.probe import Asks
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.device_loop import add_flashes
from edgewright.controllers.flashjob.job_loop import add_jobs
from edgewright.controllers.flashjob.original import Original
from edgewright.controllers.inventory.instance_loop import add_inventory
from edgewright.controllers.settings import Settings
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.manager import Manager


def add_all(manager: Manager, settings: Settings, *, clock: Clock | None = None, asks: Asks | None = None) -> None:
    """Adds the inventory and the FlashJob controllers; run the manager afterwards.

    With `asks`, Devices that no discovery tells of are asked what they run.
    """
    clock = clock or SystemClock()
    add_inventory(manager, settings, clock, asks=asks)
    context = Context(manager, settings, clock)
    original = Original(context.client, clock, every=settings.timing.original_every)
    add_flashes(manager, context, original=original)
    add_jobs(manager, context, original=original)
