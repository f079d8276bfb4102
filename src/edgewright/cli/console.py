"""`edgewright console`: the REST API for applications, in front of the current context's API server, until Ctrl-C.

Callers send their own tokens, and these tokens' rights count. It listens on loopback unless it is told otherwise, and
then only with TLS, its own or a proxy's.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edgewright.cli.console_oidc import Oidc
from edgewright.cli.failure import Failed
from edgewright.cli.options import Context, Kubeconfig
from edgewright.cli.signals import stop_on_signals
from edgewright.cli.up import Listen, read_listen
from edgewright.runtime import config, logs
from edgewright.runtime.config import ConfigError

if TYPE_CHECKING:
    import ssl

    from edgewright.console import Settings

LISTEN: Final = "127.0.0.1:8090"
"""Where it serves unless it is told otherwise."""
_NOT_HERE: Final = {
    errno.EADDRINUSE: "address already in use by another program: stop it, or name another one",
    errno.EADDRNOTAVAIL: "is no address of this machine: name another one",
    errno.EACCES: "only the superuser may listen there: name a port from 1024 on",
}


def console(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="HOST:PORT", help="Where to serve the REST API; port 0 picks a free one."),
    ] = LISTEN,
    tls_cert: Annotated[
        Path | None,
        typer.Option("--tls-cert", help="The certificate to serve HTTPS with.", show_default=False),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", help="The key of that certificate.", show_default=False)
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option("--behind-proxy", help="Serve plain HTTP to a proxy that speaks TLS with the callers."),
    ] = False,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="ORIGIN",
            help="Let pages of exactly this origin call, such as https://portal.example.com; repeat it for more.",
            show_default=False,
        ),
    ] = None,
    as_me: Annotated[
        bool,
        typer.Option(
            "--as-me",
            help="Print a one-time link, with which a browser on this machine acts as the kubeconfig's user.",
        ),
    ] = False,
    oidc_issuer: Annotated[
        str | None,
        typer.Option(
            "--oidc-issuer",
            metavar="URL",
            help="Let people sign in at this OpenID Connect provider, which the API server must know too, "
            "unless the console acts for them (--impersonate-prefix).",
            show_default=False,
        ),
    ] = None,
    oidc_client_id: Annotated[
        str | None,
        typer.Option(
            "--oidc-client-id", metavar="ID", help="As whom the provider knows the console.", show_default=False
        ),
    ] = None,
    oidc_client_secret_file: Annotated[
        Path | None,
        typer.Option(
            "--oidc-client-secret-file",
            help="The client's secret; without it, the console is a public client.",
            show_default=False,
        ),
    ] = None,
    oidc_ca: Annotated[
        Path | None,
        typer.Option(
            "--oidc-ca",
            help="The authority of the provider's certificate, if the system has it not.",
            show_default=False,
        ),
    ] = None,
    oidc_scope: Annotated[
        str | None,
        typer.Option(
            "--oidc-scope",
            metavar="SCOPES",
            help="What to ask the provider for; default: openid profile email groups. With offline_access, sessions "
            "outlive the ID token.",
            show_default=False,
        ),
    ] = None,
    impersonate_prefix: Annotated[
        str | None,
        typer.Option(
            "--impersonate-prefix",
            metavar="PREFIX",
            help="For an API server that does not know the provider: act for people who sign in, as the kubeconfig's "
            "user, who must be allowed to impersonate; their names begin with this, such as oidc:.",
            show_default=False,
        ),
    ] = None,
    impersonate_group: Annotated[
        list[str] | None,
        typer.Option(
            "--impersonate-group",
            metavar="GROUP",
            help="With --impersonate-prefix: a group at the provider that counts; repeat it for more.",
            show_default=False,
        ),
    ] = None,
    oidc_username_claim: Annotated[
        str | None,
        typer.Option(
            "--oidc-username-claim",
            metavar="CLAIM",
            help="With --impersonate-prefix: where the ID token has the name; default sub.",
            show_default=False,
        ),
    ] = None,
    oidc_groups_claim: Annotated[
        str | None,
        typer.Option(
            "--oidc-groups-claim",
            metavar="CLAIM",
            help="With --impersonate-prefix: where the ID token has the groups; default groups.",
            show_default=False,
        ),
    ] = None,
    external_url: Annotated[
        str | None,
        typer.Option(
            "--external-url",
            metavar="URL",
            help="The console's own address as browsers know it, for the way back from the provider; "
            "with --behind-proxy it may have a path.",
            show_default=False,
        ),
    ] = None,
    session_key_file: Annotated[
        Path | None,
        typer.Option(
            "--session-key-file",
            help="What sessions are encrypted with, one key per line; without it, they end with the process.",
            show_default=False,
        ),
    ] = None,
    shared_cache: Annotated[
        bool,
        typer.Option(
            "--shared-cache",
            help="Read Edgewright's own kinds once for all callers, as the kubeconfig's user, and show each caller "
            "what the API server says that they may see: many viewers then cost it one watch per kind.",
        ),
    ] = False,
    cache_granted: Annotated[
        bool,
        typer.Option(
            "--cache-granted",
            help="With --shared-cache: so too any other custom resource that this user may list and watch.",
        ),
    ] = False,
) -> None:
    """Serve the REST API for applications: custom resources over HTTP, with the caller's token and rights."""
    where = read_listen(listen)
    chosen = choose(
        where,
        tls_cert=tls_cert,
        tls_key=tls_key,
        behind_proxy=behind_proxy,
        origins=allow_origin or [],
        as_me=as_me,
        oidc=Oidc(
            issuer=oidc_issuer,
            client_id=oidc_client_id,
            client_secret_file=oidc_client_secret_file,
            ca=oidc_ca,
            scope=oidc_scope,
            impersonate_prefix=impersonate_prefix,
            impersonate_groups=tuple(impersonate_group or ()),
            username_claim=oidc_username_claim,
            groups_claim=oidc_groups_claim,
            external_url=external_url,
            session_key_file=session_key_file,
        ),
        shared_cache=shared_cache,
        cache_granted=cache_granted,
    )
    loaded = config.load(kubeconfig=kubeconfig, context=context)
    logs.setup(level="info")
    asyncio.run(serve(loaded, where, chosen))


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What was asked for, checked."""

    settings: Settings
    tls: ssl.SSLContext | None = None


def choose(
    where: Listen,
    *,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    origins: list[str],
    as_me: bool,
    oidc: Oidc | None = None,
    shared_cache: bool = False,
    cache_granted: bool = False,
) -> Chosen:
    """How to serve; wrong usage says what is unsafe about what was asked for, before anything listens."""
    from edgewright.console import Gate, Settings  # noqa: PLC0415 - other commands need none of it
    from edgewright.console.gate import is_loopback, origin_problem  # noqa: PLC0415
    from edgewright.console.listener import serving_tls  # noqa: PLC0415

    if (tls_cert is None) != (tls_key is None):
        raise ConfigError("--tls-cert and --tls-key belong together: name both")
    loopback = is_loopback(where.host)
    if not loopback and tls_cert is None and not behind_proxy:
        raise ConfigError(
            f"{where}: other machines can reach it, and tokens would travel unprotected: name --tls-cert and "
            "--tls-key, or --behind-proxy where a proxy speaks TLS with the callers"
        )
    if as_me and (not loopback or behind_proxy):
        raise ConfigError("--as-me lets a browser act as you, and works on loopback without a proxy only")
    for origin in origins:
        if problem := origin_problem(origin):
            raise ConfigError(f"--allow-origin {origin}: {problem}")
    provider = (oidc or Oidc()).settings(loopback=loopback, behind_proxy=behind_proxy)
    if as_me and provider is not None:
        raise ConfigError("--as-me and --oidc-issuer are two ways to sign in: choose one")
    if cache_granted and not shared_cache:
        raise ConfigError("--cache-granted says what else is in the shared cache: name --shared-cache too")
    gate = Gate(loopback=loopback and not behind_proxy, origins=frozenset(origins))
    tls = None if tls_cert is None or tls_key is None else serving_tls(tls_cert, tls_key)
    settings = Settings(
        gate=gate,
        as_me=as_me,
        oidc=provider,
        secure=tls is not None,
        behind_proxy=behind_proxy,
        shared_cache=shared_cache,
        cache_granted=cache_granted,
    )
    return Chosen(settings=settings, tls=tls)


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a console serves, and the secret of its one-time link where it has one."""

    url: str
    secret: str = ""
    callback: str = ""
    """Where a provider sends people back to, where there is one."""

    @property
    def link(self) -> str:
        """What a browser opens once. A fragment: browsers do not send it, so that no log on the way can have it."""
        return f"{self.url}/sign-in#{self.secret}"


@asynccontextmanager
async def served(
    loaded: config.Config, where: Listen, chosen: Chosen, *, option: str = "--listen"
) -> AsyncIterator[Address]:
    """A console that serves until the end of the block; `option` is how people choose another address."""
    from edgewright.console import Console, listen  # noqa: PLC0415

    serving = Console(loaded, chosen.settings)
    try:
        try:
            listener = await listen(
                serving.application(),
                host=where.host,
                port=where.port,
                tls=chosen.tls,
                limits=chosen.settings.limits,
                end_streams=serving.stop_streams,
            )
        except socket.gaierror as error:
            raise Failed(f"{where.host}: {error.strerror}: name an address of this machine with {option}") from error
        except OSError as error:
            raise Failed(f"{where}: {_not_here(error, option)}") from error
        try:
            url = f"{'https' if chosen.tls else 'http'}://{Listen(where.host, listener.port)}"
            yield Address(
                url=url,
                secret=serving.sign_in.secret if serving.sign_in else "",
                callback=callback_of(chosen.settings, url),
            )
        finally:
            await listener.close()
    finally:
        await serving.close()


def callback_of(settings: Settings, url: str) -> str:
    """The address that the provider must know, empty where people do not sign in at one."""
    from edgewright.console.oidc import CALLBACK  # noqa: PLC0415

    return "" if settings.oidc is None else (settings.oidc.external_url or url) + CALLBACK


def _not_here(error: OSError, option: str) -> str:
    known = _NOT_HERE.get(error.errno or 0)
    return f"{known} with {option}" if known else error.strerror or str(error)


async def serve(loaded: config.Config, where: Listen, chosen: Chosen) -> None:
    """Serves until a signal comes."""
    with stop_on_signals() as stop:
        async with served(loaded, where, chosen) as address:
            print(how_to_use(address, loaded.server), flush=True)
            await stop.wait()


def for_its_owner(where: Listen, *, option: str) -> Chosen:
    """How to serve next to an embedded control plane: on loopback only, with a link for who started it."""
    from edgewright.console.gate import is_loopback  # noqa: PLC0415

    if not is_loopback(where.host):
        raise typer.BadParameter(
            f"{where}: its link lets a browser act as the administrator, on loopback only; "
            "`edgewright console` serves other machines",
            param_hint=option,
        )
    # Its own control plane reviews every caller, and its kubeconfig may read all: the shared cache is safe there.
    return choose(where, tls_cert=None, tls_key=None, behind_proxy=False, origins=[], as_me=True, shared_cache=True)


def how_to_use(address: Address, server: str) -> str:
    """What somebody reads who has just started it."""
    from edgewright.console.oidc import CALLBACK  # noqa: PLC0415

    url = address.url
    lines = [
        f"Edgewright serves the REST API for applications at {url}/api/v1, in front of {server}",
        "",
        "  TOKEN=$(kubectl create token NAME)",
        f'  curl -H "Authorization: Bearer $TOKEN" {url}/api/v1/kinds',
        "",
    ]
    if address.secret:
        lines += [
            "Open this once, within ten minutes, to act as the kubeconfig's user:",
            "",
            f"  {address.link}",
            "",
        ]
    if address.callback:
        lines += [
            "People sign in at the provider, which must know this redirect address:",
            "",
            f"  {address.callback}",
            "",
            f"and {address.callback.removesuffix(CALLBACK)}/ for the way back when they have signed out there.",
            "",
        ]
    return "\n".join([*lines, "Ctrl-C stops it."])
