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
    shared_cache: Annotated[
        bool,
        typer.Option(
            "--shared-cache",
            help="Read Edgewright's own kinds once for all callers, as the kubeconfig's user, and show each caller "
            "what the API server says that they may see: many viewers then cost it one watch per kind.",
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
        shared_cache=shared_cache,
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
    shared_cache: bool = False,
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
    gate = Gate(loopback=loopback and not behind_proxy, origins=frozenset(origins))
    tls = None if tls_cert is None or tls_key is None else serving_tls(tls_cert, tls_key)
    settings = Settings(gate=gate, as_me=as_me, secure=tls is not None, shared_cache=shared_cache)
    return Chosen(settings=settings, tls=tls)


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a console serves, and the secret of its one-time link where it has one."""

    url: str
    secret: str = ""

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
            yield Address(url=url, secret=serving.sign_in.secret if serving.sign_in else "")
        finally:
            await listener.close()
    finally:
        await serving.close()


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
    return "\n".join([*lines, "Ctrl-C stops it."])
