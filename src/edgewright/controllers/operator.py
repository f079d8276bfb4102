"""The operator as a whole: the controllers of the capabilities that it has, added to one manager.

`edgewright run` gives it a manager with a lease for a cluster, `edgewright up` one for the embedded control plane. It
only joins the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from edgewright.api.capabilities import CAPABILITIES, CHARTS, EDGE, FLASHJOB, FLUX, ROLLOUT, Capability
from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.api.flashjob import FlashJob
from edgewright.api.probe import Asks
from edgewright.controllers.edgedevice.device_loop import EdgeDevices
from edgewright.controllers.edgedevice.online_loop import add_online
from edgewright.controllers.edgedevice.request_loop import SignedRequests
from edgewright.controllers.edgedevice.set_loop import add_sets
from edgewright.controllers.edgeworkload.workload_loop import add_workloads
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.device_loop import add_flashes
from edgewright.controllers.flashjob.job_loop import add_jobs
from edgewright.controllers.flashjob.legacy.takeover import Takeover
from edgewright.controllers.inventory.instance_loop import add_inventory
from edgewright.controllers.minicluster.loop import add_miniclusters
from edgewright.controllers.rollout.loop import add_rollouts
from edgewright.controllers.rollout.observation import Observation
from edgewright.controllers.settings import Settings
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.manager import Manager

Add: TypeAlias = Callable[[Manager, Settings, Clock, Asks | None], None]


def add_controllers(
    manager: Manager,
    settings: Settings,
    *,
    capabilities: Collection[Capability] = CAPABILITIES,
    clock: Clock | None = None,
    asks: Asks | None = None,
) -> None:
    """Adds the controllers of these capabilities; run the manager afterwards.

    With `asks`, Devices that no discovery tells of, or that a rollout watches, are asked what they run.
    """
    for capability in capabilities:
        _ADD[capability.name](manager, settings, clock or SystemClock(), asks)


def _add_flashjob(manager: Manager, settings: Settings, clock: Clock, asks: Asks | None) -> None:
    observation = Observation(manager.cache(FlashJob), manager.cache(FirmwareRollout, optional=True))
    add_inventory(
        manager,
        settings,
        clock,
        asks=asks,
        observed=observation.covers,
        due=observation.due,
        wakes=(observation.wakes(),),
    )
    context = Context(manager, settings, clock)
    takeover = Takeover(context)
    add_flashes(manager, context, predecessor=takeover)
    add_jobs(manager, context, takeover)


def _add_rollout(manager: Manager, settings: Settings, clock: Clock, _asks: Asks | None) -> None:
    add_rollouts(manager, settings, clock)
    if settings.webhook is not None:
        from edgewright.controllers.notifications.loop import add_notifications  # noqa: PLC0415 - only who wants it

        add_notifications(manager, settings.webhook, clock)


def _add_flux(manager: Manager, settings: Settings, clock: Clock, _asks: Asks | None) -> None:
    add_miniclusters(manager, settings, clock)


def _add_charts(manager: Manager, settings: Settings, clock: Clock, _asks: Asks | None) -> None:
    from edgewright.controllers.chart.operator import add_charts  # noqa: PLC0415 - as below

    if settings.charts is not None:
        add_charts(manager, settings.charts, clock)


def _add_edge(manager: Manager, settings: Settings, clock: Clock, _: Asks | None) -> None:
    EdgeDevices(manager, settings, clock).add(manager)
    add_online(manager, settings, clock)
    SignedRequests(manager, clock).add(manager)
    add_sets(manager, clock)
    add_workloads(manager, clock)


# A capability whose controllers need a library of their own imports them in its function: others need none of it.
_ADD: Final[Mapping[str, Add]] = {
    FLASHJOB.name: _add_flashjob,
    ROLLOUT.name: _add_rollout,
    FLUX.name: _add_flux,
    EDGE.name: _add_edge,
    CHARTS.name: _add_charts,
}
