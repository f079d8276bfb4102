"""`edgewright gateway`: what Linux edge devices dial into, until it is stopped; on a machine or in a Pod.

As many replicas may run as one likes. What it needs of the cluster is that the kinds of edge devices are served, and a
namespace for its Secrets.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import socket
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edgewright.api.edge_protocol import PORT
from edgewright.cli import machine
from edgewright.cli.failure import Failed
from edgewright.cli.options import Context, Kubeconfig
from edgewright.cli.signals import stop_on_signals
from edgewright.runtime import Client, config, logs, process
from edgewright.runtime.errors import NotFound
from edgewright.runtime.health import ListenError

if TYPE_CHECKING:
    from edgewright.gateway.settings import GatewaySettings, Limits

DAYS: Final = 30
PUBLISHED_DAYS: Final = 365
_MAX_DAYS: Final = 3650
_MAX_REPLICA: Final = 60


def gateway(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Where its Secrets are, and devices that ask for no namespace; default: the context's.",
            show_default=False,
        ),
    ] = None,
    allow_namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-namespace",
            metavar="NAMESPACE",
            help="A further namespace that devices may ask for; may be given several times.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="The address that devices dial into; default: every one.", show_default=False)
    ] = "",
    port: Annotated[int, typer.Option("--port", help="The port that devices dial into.")] = PORT,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="HOST",
            help="A host name or address by which devices reach it, for its certificate; may be given several times.",
            show_default=False,
        ),
    ] = None,
    approval: Annotated[
        bool,
        typer.Option(
            "--automatic-approval/--manual-approval",
            help="Let devices with a registration certificate in, or wait until somebody approves each.",
        ),
    ] = True,
    certificate_days: Annotated[
        int, typer.Option("--certificate-days", help="How long the certificate of a device is valid.")
    ] = DAYS,
    published_days: Annotated[
        int,
        typer.Option(
            "--published-certificate-days",
            help="How long the certificate of a published agent is valid, which does not survive one that expires.",
        ),
    ] = PUBLISHED_DAYS,
    published_grace: Annotated[
        int,
        typer.Option(
            "--published-grace-days", help="For so long an expired certificate of a published agent is still taken."
        ),
    ] = 0,
    enrolments: Annotated[
        int,
        typer.Option(
            "--enrolments-per-minute", help="How many devices may come in with one registration certificate a minute."
        ),
    ] = 1200,
    pending: Annotated[
        int, typer.Option("--max-pending", help="How many of those may wait for approval at once.")
    ] = 10_000,
    total: Annotated[
        int, typer.Option("--max-devices", help="How many devices may come in with one registration certificate.")
    ] = 100_000,
    health_host: Annotated[str, typer.Option("--health-host", help="Where to serve metrics and health.")] = "127.0.0.1",
    metrics_port: machine.MetricsPort = None,
    health_port: machine.HealthPort = None,
) -> None:
    """Serve Linux edge devices: let them in, hear them, tell them what to run, until Ctrl-C."""
    for option, given in (("--port", port), ("--metrics-port", metrics_port), ("--health-port", health_port)):
        machine.port(given, option=option)
    if not 1 <= certificate_days <= _MAX_DAYS:
        raise typer.BadParameter(f"{certificate_days} is not from 1 to {_MAX_DAYS}", param_hint="--certificate-days")
    loaded = config.load(kubeconfig=kubeconfig, context=context, namespace=namespace)
    if not 1 <= published_days <= _MAX_DAYS:
        raise typer.BadParameter(
            f"{published_days} is not from 1 to {_MAX_DAYS}", param_hint="--published-certificate-days"
        )
    if not 0 <= published_grace <= _MAX_DAYS:
        raise typer.BadParameter(f"{published_grace} is not from 0 to {_MAX_DAYS}", param_hint="--published-grace-days")
    if min(enrolments, pending, total) < 1:
        raise typer.BadParameter("a limit is at least 1", param_hint="--enrolments-per-minute")
    settings = settings_of(
        loaded.namespace,
        allowed=tuple(allow_namespace or ()),
        host=host,
        port=port,
        names=tuple(name or ()),
        automatic=approval,
        days=certificate_days,
        published_days=published_days,
        published_grace_days=published_grace,
        limits=_limits(enrolments, pending, total),
    )
    logs.setup(level="info")
    process.prepare()
    asyncio.run(serve(loaded, settings, health_host=health_host, metrics_port=metrics_port, health_port=health_port))


def settings_of(
    namespace: str,
    *,
    host: str,
    port: int,
    names: tuple[str, ...],
    allowed: tuple[str, ...] = (),
    automatic: bool = True,
    days: float = DAYS,
    published_days: float = PUBLISHED_DAYS,
    published_grace_days: float = 0,
    limits: Limits | None = None,
) -> GatewaySettings:
    """What was typed, as the gateway takes it."""
    from edgewright.gateway.settings import GatewaySettings  # noqa: PLC0415 - other commands need none of it

    usual = GatewaySettings(namespace=namespace)
    addresses = [each for each in names if _is_address(each)]
    return GatewaySettings(
        namespace=namespace,
        namespaces=allowed,
        host=host,
        port=port,
        domains=tuple(dict.fromkeys((*(each for each in names if not _is_address(each)), *usual.domains))),
        addresses=tuple(dict.fromkeys((*addresses, *usual.addresses))),
        automatic_approval=automatic,
        device_days=days,
        published_days=published_days,
        published_grace_days=published_grace_days,
        replica=re.sub("[^a-z0-9-]", "-", socket.gethostname().lower())[:_MAX_REPLICA].strip("-")
        if "KUBERNETES_SERVICE_HOST" in os.environ
        else "",
        limits=limits or usual.limits,
    )


def _limits(enrolments: int, pending: int, total: int) -> Limits:
    from edgewright.gateway.settings import Limits  # noqa: PLC0415

    return Limits(enrolments_a_minute=enrolments, pending=pending, total=total)


async def serve(
    loaded: config.Config,
    settings: GatewaySettings,
    *,
    health_host: str,
    metrics_port: int | None,
    health_port: int | None,
) -> None:
    """Runs the gateway until a signal comes."""
    from edgewright.api.capabilities import EDGE  # noqa: PLC0415
    from edgewright.gateway.gateway import Gateway  # noqa: PLC0415 - other commands need none of it
    from edgewright.gateway.rotation import Unusable  # noqa: PLC0415

    async with Client(loaded) as client:
        for kind in EDGE.kinds:
            try:  # in its own namespace, where it has the right to
                await anext(client.raw(kind.kind).pages(loaded.namespace, size=1))
            except NotFound:
                raise Failed(f"{kind.kind} is not served: run `edgewright crds install` first") from None
    with stop_on_signals() as stop:
        made = Gateway(Client(loaded), settings, host=health_host, metrics_port=metrics_port, health_port=health_port)
        try:
            await made.run(stop, ready=process.settle)
        except (ListenError, Unusable) as error:
            raise Failed(str(error)) from error


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
