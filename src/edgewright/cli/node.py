"""`edgewright node`: runs the Pods of one node of any Kubernetes as processes on this machine, until it is stopped.

`edgewright up` has such a node in it; this command is for another machine, or another API server. What it started goes
on when it ends, and is found again by the next start on the same data directory.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from yarl import URL

from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.api.node import NODE_TAINT
from edgewright.cli import machine, operator_options
from edgewright.cli.failure import Failed
from edgewright.cli.options import Context, Kubeconfig
from edgewright.cli.signals import stop_on_signals
from edgewright.local.directory_lock import Taken, lock
from edgewright.runtime import Client, Manager, config
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.tls import ConfigError, Pem, certificates_in, read_bytes

if TYPE_CHECKING:
    from edgewright.local.node.pod_ids import PodIds


def node(
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", help="The name of the node; default: that of this machine.", show_default=False),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Where the node keeps its Pods; default: $XDG_DATA_HOME/edgewright-node, or "
            "~/.local/share/edgewright-node.",
            show_default=False,
        ),
    ] = None,
    image: machine.Images = None,
    runtime: machine.Runtime = "process",
    pod_ids: machine.PodIdRange = "",
    taint: Annotated[
        bool,
        typer.Option(
            "--taint/--no-taint",
            help=f"Keep all Pods off this node that do not tolerate {NODE_TAINT}: flash Pods do.",
        ),
    ] = True,
    allow_command: Annotated[
        bool,
        typer.Option(
            "--allow-command",
            help="Let Pods run any program of this machine, by command or an exec probe, not only those of images.",
        ),
    ] = False,
    addresses: Annotated[
        str,
        typer.Option(
            "--addresses",
            metavar="IP[,IP…]",
            help="Also give Services of type LoadBalancer these addresses of this machine, and forward them to Pods.",
            show_default=False,
        ),
    ] = "",
    address: Annotated[
        str, typer.Option("--address", metavar="IP", help="Where the API server finds this node, for logs.")
    ] = "127.0.0.1",
    client_ca: Annotated[
        Path | None,
        typer.Option(
            "--client-ca",
            help="Who signs the certificate by which the API server asks for logs; without it no logs are served.",
            show_default=False,
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            "--certificate",
            help="The node's own certificate and key in one PEM file, for logs; default: one that it creates.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run the Pods of one node on this machine, until Ctrl-C. Its Pods go on, and are found again."""
    called = machine.node_name(name, option="--name")
    images = {FLASHER_IMAGE: operator_options.flasher_command(), **machine.images(image)}
    given, ids = machine.addresses(addresses), machine.pod_ids(pod_ids)
    podman = machine.podman(runtime)
    (reached,) = machine.addresses(address, option="--address", most=1)
    settings = config.load(kubeconfig=kubeconfig, context=context)
    directory = machine.data_directory(data, called="edgewright-node")
    with locked(directory):
        tls = log_tls(directory, called, reached, client_ca=client_ca, certificate=certificate)
        asyncio.run(
            run(
                settings,
                name=called,
                directory=directory,
                images=images,
                addresses=given,
                address=reached,
                tls=tls,
                ids=ids,
                taint=taint,
                commands=allow_command,
                podman=podman,
            )
        )


async def run(
    settings: config.Config,
    *,
    name: str,
    directory: Path,
    images: dict[str, list[str]],
    addresses: tuple[str, ...],
    address: str,
    tls: ssl.SSLContext | None,
    ids: PodIds | None = None,
    taint: bool = True,
    commands: bool = False,
    podman: bool = False,
) -> None:
    """Runs the node, and the Services where they are asked for, until a signal comes."""
    from edgewright.local.node.node import Advertised, Containers, Network, Node  # noqa: PLC0415 - other commands need none of it
    from edgewright.local.node.services import ServiceForwarder  # noqa: PLC0415

    with stop_on_signals() as stop:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(settings))
            runs = Node(
                client,
                name=name,
                directory=directory,
                containers=Containers(
                    images=images,
                    ids=ids,
                    environment=api_server_variables(settings.server),
                    covered=[directory],
                    told=operator_options.TOLD,
                    commands=commands,
                    podman=podman,
                ),
                network=Network(host=address, log_tls=tls, services=bool(addresses)),
                advertised=Advertised(taints={NODE_TAINT: taint}),
            )
            parts = [asyncio.create_task(runs.run(), name="node")]
            if addresses:
                forwarder = ServiceForwarder(addresses=addresses)
                stack.push_async_callback(forwarder.close)
                manager = Manager(Client(settings), name="edgewright-node")
                forwarder.add(manager, node=name)
                parts.append(asyncio.create_task(manager.run(), name="services"))
            parts.append(asyncio.create_task(announce(runs.ready(), name, settings.server), name="announcement"))
            await until(stop, parts)


def api_server_variables(server: str) -> dict[str, str]:
    """Where Pods find the API server: where the node finds it, because no cluster address leads anywhere here.

    Empty where a Pod could not use it: what it is given in a cluster says a host and a port, and means TLS.
    """
    url = URL(server)
    if url.scheme != "https" or not url.host or url.path.strip("/"):
        return {}
    return {"KUBERNETES_SERVICE_HOST": url.host, "KUBERNETES_SERVICE_PORT": str(url.port)}


async def announce(ready: Awaitable[None], name: str, server: str) -> None:
    """Says so when the node is registered; then it has nothing more to do, and does not end."""
    await ready
    print(f"Node {name} of {server} runs Pods here\n\nCtrl-C stops it; its Pods go on.", flush=True)
    await asyncio.Event().wait()


async def until(stop: asyncio.Event, parts: Sequence[asyncio.Task[None]]) -> None:
    """Waits for the signal; raises what ended a part before that."""
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([stopping, *parts], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stopping, *parts):
            task.cancel()
        await asyncio.gather(stopping, *parts, return_exceptions=True)
    for part in parts:
        if part in done:
            problem = part.exception() or RuntimeError(f"{part.get_name()} ended by itself")
            while isinstance(problem, BaseExceptionGroup):
                problem = problem.exceptions[0]
            if isinstance(problem, OSError):
                raise Failed(f"{problem.filename or part.get_name()}: {problem.strerror or problem}") from problem
            raise problem


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keeps a second node from the same directory: it would run every Pod a second time."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = lock(directory / "node.lock")
    except Taken:
        raise Failed(f"{directory} is in use by another node: stop it, or choose another directory") from None
    except OSError as error:
        raise ConfigError(f"{directory}: cannot be used: {error.strerror or error}") from error
    try:
        yield
    finally:
        os.close(held)


def log_tls(
    directory: Path, name: str, address: str, *, client_ca: Path | None, certificate: Path | None
) -> ssl.SSLContext | None:
    """TLS of the log server: it talks to nobody whose certificate `client_ca` has not signed."""
    if client_ca is None:
        return None
    from edgewright.local.access import Authority  # noqa: PLC0415 - other commands need none of it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    trusted = Pem(origin=str(client_ca), data=read_bytes(client_ca, origin="--client-ca"))
    context.load_verify_locations(cadata=certificates_in(trusted))
    if certificate is None:
        authority = Authority(directory / "pki", clock=SystemClock())
        certificate = authority.server(
            "logs", user=f"system:node:{name}", groups=["system:nodes"], names=[name, address]
        ).file
    try:
        context.load_cert_chain(certificate)
    except (OSError, ssl.SSLError) as error:
        reason = "holds no certificate with its key" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(f"--certificate: {certificate}: {reason}") from error
    return context
