"""The operator in `edgewright up`: our controllers, and those of charts where a watches file was named.

`cli.up` and the demo add it to a control plane that runs; it is a client of it as any other. It holds the Leases that
`edgewright run` takes, so that of two operators one works and the other waits and says for whom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from edgewright.cli import operator_options
from edgewright.cli.failure import Failed
from edgewright.runtime import Client, LeaseSettings, Manager, logs
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.definitions import DEFINITION
from edgewright.runtime.errors import Conflict, KubernetesError, LeaseLost, NotFound
from edgewright.runtime.lease import Lease
from edgewright.runtime.objects import Key

if TYPE_CHECKING:
    from edgewright.cli.chart_watches import Charts
    from edgewright.controllers.chart.settings import ChartSettings
    from edgewright.controllers.settings import Settings
    from edgewright.local.control_plane import Running

_log = logs.get("cli.up")

HOLDER: Final = "edgewright-up"
"""Who holds the Leases, at every start the same: a data directory is open to one `up` at a time."""
_COMPONENT: Final = "operator"
_RETRY_SECONDS: Final = 1.0


async def add_operator(running: Running, settings: Settings, charts: Charts | None = None) -> None:
    """Installs our kinds and starts our controllers, and with `charts` those of its kinds."""
    from edgewright.controllers.operator import add_controllers  # noqa: PLC0415 - other commands need none of it

    config = _config(running)
    async with Client(config) as client:
        await operator_options.install_kinds(client)
        if charts is None:
            await _give_back(client, operator_options.CHARTS_LEASE)
        else:
            await charts.install_missing(client)

    def add(manager: Manager) -> None:
        add_controllers(manager, settings, asks=operator_options.prober(settings))

    running.go_on("operator", _work(config, operator_options.LEASE, add))
    if charts is not None:
        await _add_charts(running, config, charts)


async def leave_to_others(running: Running) -> None:
    """Frees what an `up` with the operator in it held before: who runs an operator now need not wait for its end."""
    async with Client(_config(running)) as client:
        for name in (operator_options.LEASE, operator_options.CHARTS_LEASE):
            await _give_back(client, name)


async def _add_charts(running: Running, config: Config, charts: Charts) -> None:
    """Starts the controllers of charts; they have a Lease of their own, as `edgewright run --controllers charts`."""
    from edgewright.api.capabilities import CHARTS  # noqa: PLC0415 - only who wants it
    from edgewright.controllers.chart.helm import Access  # noqa: PLC0415
    from edgewright.controllers.operator import add_controllers  # noqa: PLC0415
    from edgewright.controllers.settings import Settings  # noqa: PLC0415

    # A file of its own: the kubeconfig that people get may be anywhere, and they may change it.
    file = await asyncio.to_thread(running.entrance.component_kubeconfig, _COMPONENT, running.url)
    charts = replace(charts, access=Access(kubeconfig=file))

    async def work() -> None:
        settings = Settings(charts=await _served(config, charts))

        def add(manager: Manager) -> None:
            add_controllers(manager, settings, capabilities=(CHARTS,))

        await _work(config, operator_options.CHARTS_LEASE, add, namespaces=charts.namespaces)

    running.go_on("charts", work())


async def _served(config: Config, charts: Charts) -> ChartSettings:
    """Waits until the kinds of all charts are served: it takes this server to install them, so it cannot be refused."""
    repeated = logs.Repeated(_log)
    async with Client(config) as client:
        while True:
            try:
                async with aclosing(client.raw(DEFINITION).watch()) as definitions:
                    async for _ in definitions:  # once at the beginning, then whenever a definition has changed
                        try:
                            return await charts.served(client)
                        except Failed as error:
                            repeated.warning("no chart is served yet", error=str(error))
            except KubernetesError as error:
                repeated.warning("cannot look for the kinds of charts; retrying", error=str(error))
                await SystemClock().sleep(_RETRY_SECONDS)


async def _work(config: Config, lease: str, add: Callable[[Manager], None], *, namespaces: Sequence[str] = ()) -> None:
    """Works while it holds a Lease, for ever; what `add` adds to a manager is the work."""
    while True:
        await _warn_of_another(config, lease)
        held = _lease(lease, config.namespace)
        manager = Manager(Client(config), name="edgewright", lease=held, namespaces=namespaces)
        add(manager)
        try:
            return await manager.run()
        except LeaseLost as error:  # this machine was asleep, say: the server is still here, and so is the work
            _log.warning("the operator begins again", error=str(error))


def _lease(name: str, namespace: str) -> LeaseSettings:
    """A Lease that `edgewright run` takes too, so that one next to `up` waits, and says for whom.

    Its times are long: whoever waits for this operator to fall silent has lost the server with it. It has one name for
    ever, by which the next `up` takes the Lease at once.
    """
    return LeaseSettings(
        name=name,
        namespace=namespace,
        identity=HOLDER,
        duration=40.0,
        renew_within=30.0,
        retry_every=10.0,
    )


async def _warn_of_another(config: Config, name: str) -> None:
    """Says that another has the Lease: of what is only information the log of `up` says nothing."""
    key = Key(config.namespace, name)
    try:
        async with Client(config) as client:
            holder = (await client.of(Lease).get(key)).spec.holder_identity
    except KubernetesError:  # nobody has it, or the manager will say what is wrong
        return
    if holder and holder != HOLDER:
        _log.warning("waiting for leadership", lease=key, holder=holder)


async def _give_back(client: Client, name: str) -> None:
    """Frees a Lease that the `up` before held: that one is dead, for this one has its data directory."""
    key = Key(client.config.namespace, name)
    try:
        lease = await client.of(Lease).get(key)
        if lease.spec.holder_identity == HOLDER:
            freed = {"spec": {"holderIdentity": None, "leaseDurationSeconds": 1}}
            await client.of(Lease).patch(key, freed, resource_version=lease.metadata.resource_version)
    except (NotFound, Conflict):  # nobody holds it, or somebody has just taken it
        return


def _config(running: Running) -> Config:
    return Config(server=running.url, tls=running.entrance.component(_COMPONENT), source="edgewright up")
