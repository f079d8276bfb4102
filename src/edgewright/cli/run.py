"""`edgewright run`: the operator, against the current context or in a Pod, until it is stopped.

Several may run: one leads by a Lease, the others wait. What it needs of the cluster is that our kinds are served.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.cli import chart_options, chart_watches, machine, operator_options
from edgewright.cli.failure import Failed
from edgewright.cli.options import Context, Kubeconfig
from edgewright.runtime import Client, Manager, config, logs
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import Forbidden, NotFound
from edgewright.runtime.health import ListenError
from edgewright.runtime.manager import LeaseSettings

if TYPE_CHECKING:
    from edgewright.api.capabilities import Capability
    from edgewright.controllers.settings import Settings

_log = logs.get("cli.run")


def run(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    controllers: operator_options.Controllers = None,
    lease_namespace: Annotated[
        str | None,
        typer.Option(
            "--lease-namespace",
            "--leader-election-namespace",
            help="Where the leader's Lease is; default: the context's namespace.",
            show_default=False,
        ),
    ] = None,
    lease_name: Annotated[
        str | None,
        typer.Option(
            "--lease-name",
            "--leader-election-id",
            help="The name of the leader's Lease; default: edgewright, with --controllers charts edgewright-charts.",
            show_default=False,
        ),
    ] = None,
    leader_elect: Annotated[
        bool,
        typer.Option(
            "--leader-elect/--no-leader-elect",
            "--enable-leader-election",
            help="Work only while holding the Lease.",
        ),
    ] = True,
    install_crds: Annotated[
        bool, typer.Option("--install-crds", help="Install or update our custom resource definitions first.")
    ] = False,
    host: Annotated[str, typer.Option("--host", help="Where to serve metrics and health.")] = "127.0.0.1",
    metrics_port: machine.MetricsPort = None,
    health_port: machine.HealthPort = None,
    watch_namespace: operator_options.WatchNamespaces = None,
    metrics_secure: Annotated[
        bool,
        typer.Option(
            "--metrics-secure/--no-metrics-secure",
            help="Serve metrics over TLS, to those alone whom the API server lets get /metrics.",
        ),
    ] = False,
    metrics_cert_path: Annotated[
        Path | None,
        typer.Option(
            "--metrics-cert-path",
            metavar="FOLDER",
            help="A folder with tls.crt and tls.key for metrics over TLS; default: a self-signed certificate.",
            show_default=False,
        ),
    ] = None,
    plain_registry: operator_options.PlainRegistries = None,
    token_host: operator_options.TokenHosts = None,
    attestation: operator_options.Attestation = "",
    nat: operator_options.Nat = False,
    allow_flasher_image: operator_options.FlasherImages = None,
    allow_pull_secret: operator_options.PullSecrets = None,
    allow_service_account: operator_options.ServiceAccounts = None,
    allow_toleration: operator_options.Tolerations = None,
    allow_pod_label: operator_options.PodLabels = None,
    allow_pod_annotation: operator_options.PodAnnotations = None,
    check_secrets: operator_options.CheckSecrets = True,
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
    webhook: operator_options.WebhookUrl = "",
    webhook_secret_file: operator_options.WebhookSecrets = None,
    webhook_plain: operator_options.WebhookPlain = False,
    watches: operator_options.Watches = None,
    reconcile_period: chart_options.ReconcilePeriod = "",
    max_concurrent_reconciles: chart_options.MaxConcurrentReconciles = None,
    suppress_override_values: chart_options.SuppressOverrideValues = False,
    metrics_bind_address: chart_options.MetricsBindAddress = None,
    health_probe_bind_address: chart_options.HealthProbeBindAddress = None,
    metrics_require_rbac: chart_options.MetricsRequireRbac = False,
    enable_http2: chart_options.EnableHttp2 = False,  # noqa: ARG001 - read so that nobody need change a Deployment
    zap_log_level: chart_options.ZapLogLevel = None,
    zap_devel: chart_options.ZapDevel = False,
    zap_other: chart_options.ZapOther = None,  # noqa: ARG001
) -> None:
    """Run the operator: keep the inventory, flash what FlashJobs ask for, until Ctrl-C."""
    for option, port in (("--metrics-port", metrics_port), ("--health-port", health_port)):
        machine.port(port, option=option)
    if metrics_cert_path is not None and not metrics_secure:
        raise typer.BadParameter("is for --metrics-secure alone", param_hint="--metrics-cert-path")
    if metrics_require_rbac and not metrics_secure:
        raise typer.BadParameter("needs --metrics-secure", param_hint="--metrics-require-rbac")
    listening = chart_options.listening(
        chart_options.Listening(host=host, metrics_port=metrics_port, health_port=health_port),
        metrics=metrics_bind_address,
        health=health_probe_bind_address,
    )
    level = chart_options.log_level(zap_log_level, devel=zap_devel)
    wanted = operator_options.capabilities(controllers)
    if watches is not None:
        chart_watches.require_library()
    charts = chart_watches.read(
        watches,
        kubeconfig=kubeconfig,
        context=context,
        defaults=lambda: chart_options.defaults(
            reconcile_period, max_concurrent_reconciles, hide_overrides=suppress_override_values
        ),
    )
    settings = operator_options.settings(
        plain_registries=plain_registry,
        token_hosts=token_host,
        attestation=attestation,
        nat=nat,
        flasher_image=flasher_image,
        local=local,
        probe=probe,
        probe_every=probe_every,
        allowed=operator_options.Allowed(
            flasher_images=allow_flasher_image,
            pull_secrets=allow_pull_secret,
            service_accounts=allow_service_account,
            tolerations=allow_toleration,
            pod_labels=allow_pod_label,
            pod_annotations=allow_pod_annotation,
        ),
        check_secrets=check_secrets,
        webhook=operator_options.webhook(webhook, webhook_secret_file, plain=webhook_plain),
    )
    loaded = config.load(kubeconfig=kubeconfig, context=context, namespace=lease_namespace)
    logs.setup(level=level, format="auto" if charts is None else "zap")
    serving = Serving(
        host=listening.host,
        metrics_port=listening.metrics_port,
        health_port=listening.health_port,
        metrics_secure=metrics_secure,
        metrics_cert_path=metrics_cert_path,
    )
    asyncio.run(
        operate(
            loaded,
            settings,
            serving=serving,
            leader_elect=leader_elect,
            install_crds=install_crds,
            wanted=wanted,
            charts=charts,
            lease_name=lease_name or (charts and charts.lease) or operator_options.lease_of(wanted),
            namespaces=tuple(watch_namespace or ()),
        )
    )


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Where metrics and health are served; a port of None: nowhere."""

    host: str = "127.0.0.1"
    metrics_port: int | None = None
    health_port: int | None = None
    metrics_secure: bool = False
    metrics_cert_path: Path | None = None

    def metrics_tls(self) -> ssl.SSLContext | None:
        """What metrics are served with; None: plain HTTP."""
        if not self.metrics_secure or self.metrics_port is None:
            return None
        from edgewright.runtime.metrics_access import serving_tls  # noqa: PLC0415 - plain ones need none of it

        return serving_tls(self.metrics_cert_path, clock=SystemClock())


async def operate(
    loaded: config.Config,
    settings: Settings,
    *,
    serving: Serving,
    leader_elect: bool,
    install_crds: bool,
    wanted: Collection[Capability] | None = None,
    charts: chart_watches.Charts | None = None,
    lease_name: str = operator_options.LEASE,
    namespaces: Sequence[str] = (),
) -> None:
    """Runs the operator until a signal comes; with `namespaces` it works on objects in these alone."""
    from edgewright.controllers.operator import add_controllers  # noqa: PLC0415 - other commands need none of it

    async with Client(loaded) as client:
        if install_crds:
            await operator_options.install_kinds(client, wanted)
        namespaces = tuple(namespaces) or (charts.namespaces if charts else ())
        chosen = await served_capabilities(client, wanted, charts=charts is not None, namespaces=namespaces)
        settings = replace(settings, charts=await charts.served(client) if charts else None)
    manager = Manager(
        Client(loaded),
        lease=LeaseSettings(name=lease_name, namespace=loaded.namespace) if leader_elect else None,
        namespaces=namespaces,
        metrics_port=serving.metrics_port,
        health_port=serving.health_port,
        host=serving.host,
        metrics_tls=serving.metrics_tls(),
    )
    add_controllers(manager, settings, capabilities=chosen, asks=operator_options.prober(settings))
    try:
        await manager.run(signals=True)
    except ListenError as error:
        raise Failed(str(error)) from error


async def served_capabilities(
    client: Client,
    wanted: Collection[Capability] | None,
    *,
    charts: bool = False,
    namespaces: Sequence[str] = (),
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
            missing[each.name] = await missing_kinds(client, each, namespaces)
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


async def missing_kinds(client: Client, capability: Capability, namespaces: Sequence[str] = ()) -> list[str]:
    """The kinds of a capability that the server does not serve; asked where the operator has the right to."""
    missing = []
    where = next(iter(namespaces), None)
    for kind in capability.kinds:
        try:
            await anext(client.raw(kind.kind).pages(where if kind.kind.namespaced else None, size=1))
        except NotFound:
            missing.append(kind.kind.resource)
    return missing
