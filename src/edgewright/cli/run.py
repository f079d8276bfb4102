"""`edgewright run`: the operator, against the current context or in a Pod, until it is stopped.

Several may run: one leads by a Lease, the others wait. What it needs of the cluster is that our kinds are served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.cli import chart_watches, machine, operator_options
from edgewright.cli.failure import Failed
from edgewright.cli.options import Context, Kubeconfig
from edgewright.runtime import Client, Manager, config, logs
from edgewright.runtime.errors import Forbidden, NotFound
from edgewright.runtime.health import ListenError
from edgewright.runtime.manager import LeaseSettings

if TYPE_CHECKING:
    from edgewright.api.capabilities import Capability
    from edgewright.controllers.settings import Settings

_log = logs.get("cli.run")

LEASE = "edgewright"
"""The name of the leader's Lease."""


def run(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    controllers: operator_options.Controllers = None,
    lease_namespace: Annotated[
        str | None,
        typer.Option(
            "--lease-namespace",
            help="Where the leader's Lease is; default: the context's namespace.",
            show_default=False,
        ),
    ] = None,
    lease_name: Annotated[
        str, typer.Option("--lease-name", "--leader-election-id", help="The name of the leader's Lease.")
    ] = LEASE,
    leader_elect: Annotated[
        bool, typer.Option("--leader-elect/--no-leader-elect", help="Work only while holding the Lease.")
    ] = True,
    install_crds: Annotated[
        bool, typer.Option("--install-crds", help="Install or update our custom resource definitions first.")
    ] = False,
    host: Annotated[str, typer.Option("--host", help="Where to serve metrics and health.")] = "127.0.0.1",
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", help="Where metrics are served; default: nowhere.", show_default=False),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option("--health-port", help="Where /healthz and /readyz are; default: nowhere.", show_default=False),
    ] = None,
    plain_registry: operator_options.PlainRegistries = None,
    attestation: operator_options.Attestation = "",
    nat: operator_options.Nat = False,
    flasher_image: operator_options.FlasherImage = FLASHER_IMAGE,
    local: Annotated[
        bool, typer.Option("--local", help="Devices may be on this machine: loopback addresses are endpoints too.")
    ] = False,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Ask Devices that no Akri Instance shows what they run. The questions go out from where the operator "
            "runs: its network policy must let it reach them.",
        ),
    ] = False,
    probe_every: operator_options.ProbeEvery = operator_options.PROBE_EVERY,
    watches: operator_options.Watches = None,
) -> None:
    """Run the operator: keep the inventory, flash what FlashJobs ask for, until Ctrl-C."""
    for option, port in (("--metrics-port", metrics_port), ("--health-port", health_port)):
        machine.port(port, option=option)
    wanted = operator_options.capabilities(controllers)
    charts = chart_watches.read(watches, kubeconfig=kubeconfig, context=context)
    settings = operator_options.settings(
        plain_registries=plain_registry,
        attestation=attestation,
        nat=nat,
        flasher_image=flasher_image,
        local=local,
        probe=probe,
        probe_every=probe_every,
    )
    loaded = config.load(kubeconfig=kubeconfig, context=context, namespace=lease_namespace)
    logs.setup(level="info", format="auto" if charts is None else "zap")
    serving = Serving(host=host, metrics_port=metrics_port, health_port=health_port)
    asyncio.run(
        operate(
            loaded,
            settings,
            serving=serving,
            leader_elect=leader_elect,
            install_crds=install_crds,
            wanted=wanted,
            charts=charts,
            lease_name=lease_name,
        )
    )


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Where metrics and health are served; a port of None: nowhere."""

    host: str = "127.0.0.1"
    metrics_port: int | None = None
    health_port: int | None = None


async def operate(
    loaded: config.Config,
    settings: Settings,
    *,
    serving: Serving,
    leader_elect: bool,
    install_crds: bool,
    wanted: Collection[Capability] | None = None,
    charts: chart_watches.Charts | None = None,
    lease_name: str = LEASE,
) -> None:
    """Runs the operator until a signal comes."""
    from edgewright.controllers.operator import add_controllers  # noqa: PLC0415 - other commands need none of it

    async with Client(loaded) as client:
        if install_crds:
            await operator_options.install_kinds(client, wanted)
        chosen = await served_capabilities(client, wanted, charts=charts is not None)
        settings = replace(settings, charts=await charts.served(client) if charts else None)
    manager = Manager(
        Client(loaded),
        lease=LeaseSettings(name=lease_name, namespace=loaded.namespace) if leader_elect else None,
        namespaces=charts.namespaces if charts else (),
        metrics_port=serving.metrics_port,
        health_port=serving.health_port,
        host=serving.host,
    )
    add_controllers(manager, settings, capabilities=chosen, asks=operator_options.prober(settings))
    try:
        await manager.run(signals=True)
    except ListenError as error:
        raise Failed(str(error)) from error


async def served_capabilities(
    client: Client, wanted: Collection[Capability] | None, *, charts: bool = False
) -> tuple[Capability, ...]:
    """The capabilities to run: those that were asked for, else all whose kinds the server has; the rest is logged.

    What was asked for must be there; and where nothing is, there is nothing to run. The kinds of charts come with a
    watches file alone.
    """
    from edgewright.api.capabilities import CAPABILITIES, CHARTS  # noqa: PLC0415

    if wanted is not None and CHARTS in wanted and not charts:
        raise Failed("the controller charts needs to know which kinds to serve: name the file with --watches")
    missing: dict[str, list[str]] = {}
    forbidden: dict[str, Forbidden] = {}
    for each in wanted or CAPABILITIES:
        try:
            missing[each.name] = await missing_kinds(client, each)
        except Forbidden as error:  # an installation of other capabilities, which has no rights for this one
            forbidden[each.name] = error
    chosen = tuple(each for each in CAPABILITIES if missing.get(each.name) == [] and (charts or each is not CHARTS))
    if forbidden and (wanted is not None or not chosen):
        raise next(iter(forbidden.values()))
    lacking = [kind for kinds in missing.values() for kind in kinds]
    if lacking and (wanted is not None or not chosen):
        raise Failed(f"{lacking[0]} is not served: run `edgewright crds install` first, or add --install-crds")
    for each in CAPABILITIES:
        if each in chosen:
            _log.info("controller enabled", controller=each.name)
        elif each is CHARTS and not charts:
            _log.info("controller disabled: no --watches", controller=each.name)
        elif each.name in missing:
            _log.info("controller disabled: kinds not installed", controller=each.name, kinds=missing[each.name])
        elif each.name in forbidden:
            _log.info("controller disabled: no rights", controller=each.name, error=str(forbidden[each.name]))
        else:
            _log.info("controller disabled: not named by --controllers", controller=each.name)
    return chosen


async def missing_kinds(client: Client, capability: Capability) -> list[str]:
    """The kinds of a capability that the server does not serve."""
    missing = []
    for kind in capability.kinds:
        try:
            await anext(client.raw(kind.kind).pages(size=1))
        except NotFound:
            missing.append(kind.kind.resource)
    return missing
