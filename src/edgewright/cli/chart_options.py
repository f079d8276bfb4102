"""The options of operator-sdk's `helm-operator run`, so that its Deployments start `edgewright run` unchanged.

`cli.run` takes them next to its own. Those that choose what Go's libraries do (HTTP/2, zap's encoders) are read and
have no effect here, as the help says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from edgewright.controllers.chart.watches import Defaults
    from edgewright.runtime.logs import Level

ReconcilePeriod: TypeAlias = Annotated[
    str,
    typer.Option(
        "--reconcile-period",
        metavar="DURATION",
        help="Look at each object that a chart serves so often although nothing happened; default: never.",
        show_default=False,
    ),
]
MaxConcurrentReconciles: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--max-concurrent-reconciles",
        metavar="NUMBER",
        help="How many objects of each kind that charts serve are worked on at once; default: 8.",
        show_default=False,
    ),
]
SuppressOverrideValues: TypeAlias = Annotated[
    bool, typer.Option("--suppress-override-values", help="Events do not tell what overrideValues are set to.")
]
MetricsBindAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--metrics-bind-address",
        "--metrics-addr",
        metavar="[HOST]:PORT",
        help="As --host and --metrics-port; without a host: on all addresses; 0: nowhere.",
        show_default=False,
    ),
]
HealthProbeBindAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--health-probe-bind-address",
        metavar="[HOST]:PORT",
        help="As --host and --health-port.",
        show_default=False,
    ),
]
MetricsRequireRbac: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--metrics-require-rbac",
        help="Always so with --metrics-secure, which it needs: the API server says who may read metrics.",
    ),
]
EnableHttp2: TypeAlias = Annotated[bool, typer.Option("--enable-http2", help="No effect: there is no HTTP/2 here.")]
ZapLogLevel: TypeAlias = Annotated[
    str | None,
    typer.Option("--zap-log-level", metavar="LEVEL", help="debug, info or error.", show_default=False),
]
ZapOther: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--zap-encoder",
        "--zap-time-encoding",
        "--zap-stacktrace-level",
        metavar="TEXT",
        help="No effect.",
        show_default=False,
        hidden=True,
    ),
]
ZapDevel: TypeAlias = Annotated[bool, typer.Option("--zap-devel", help="As --zap-log-level debug.", hidden=True)]

_ANYWHERE = "0.0.0.0"  # noqa: S104 - what an address without a host means to operator-sdk


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where metrics and health are served."""

    host: str
    metrics_port: int | None
    health_port: int | None


def listening(plain: Listening, *, metrics: str | None, health: str | None) -> Listening:
    """Where to listen, with operator-sdk's addresses put over our own options; one host is for both."""
    given = {}
    for option, text in (("--metrics-bind-address", metrics), ("--health-probe-bind-address", health)):
        if text is not None:
            given[option] = _address(text, option)
    hosts = {host for host, port in given.values() if port is not None}
    if len(hosts) > 1:
        raise typer.BadParameter(f"{' and '.join(sorted(hosts))} differ: one host is for both", param_hint=option)
    return Listening(
        host=next(iter(hosts), plain.host),
        metrics_port=given.get("--metrics-bind-address", ("", plain.metrics_port))[1],
        health_port=given.get("--health-probe-bind-address", ("", plain.health_port))[1],
    )


def _address(text: str, option: str) -> tuple[str, int | None]:
    if text == "0":
        return "", None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise typer.BadParameter(f"{text!r} is not an address such as :8080 or 127.0.0.1:8080", param_hint=option)
    return host.strip("[]") or _ANYWHERE, int(port)


def defaults(period: str, workers: int | None, *, hide_overrides: bool) -> Defaults:
    """What entries of the watches file are read with; what cannot be is refused with the option."""
    from edgewright.controllers.chart import durations, watches  # noqa: PLC0415 - only where charts are served

    if workers is not None and not 1 <= workers <= watches.MAX_WORKERS:
        raise typer.BadParameter(
            f"{workers} is not a number from 1 to {watches.MAX_WORKERS}", param_hint="--max-concurrent-reconciles"
        )
    try:
        seconds = durations.seconds(period)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--reconcile-period") from None
    return watches.Defaults(period=seconds, workers=workers or watches.DEFAULT_WORKERS, hide_overrides=hide_overrides)


def log_level(text: str | None, *, devel: bool) -> Level:
    """Our word for zap's level; numbers above zero are debug."""
    if text is None:
        return "debug" if devel else "info"
    known: dict[str, Level] = {"debug": "debug", "info": "info", "error": "error", "panic": "error"}
    if text in known:
        return known[text]
    if text.isdecimal():
        return "debug" if int(text) > 0 else "info"
    raise typer.BadParameter(f"{text!r} is not debug, info, error or a number", param_hint="--zap-log-level")
