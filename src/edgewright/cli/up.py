"""`edgewright up`: a Kubernetes API and a node that runs Pods, in one process on this machine, until it is stopped.

It reads what was typed, lets `local.control_plane` run, writes the kubeconfig and says how to use it all. What a person
can fix (a port that is taken, a directory in use) is one sentence.
"""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import ipaddress
import os
import re
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.cli import chart_watches, machine, operator_options
from edgewright.cli.failure import Failed
from edgewright.cli.signals import stop_on_signals
from edgewright.cli.up_operator import add_operator, leave_to_others
from edgewright.runtime import Client, process
from edgewright.runtime.config import Config
from edgewright.runtime.health import ListenError
from edgewright.runtime.tls import ConfigError

if TYPE_CHECKING:
    from edgewright.cli.console import Chosen
    from edgewright.controllers.settings import Settings as OperatorSettings
    from edgewright.local.control_plane import Running

CONTEXT: Final = "edgewright"
"""What the context is called that --merge adds."""

_LISTEN: Final = "127.0.0.1:6443"
_GATEWAY: Final = "0.0.0.0:8043"
_CONSOLE: Final = "127.0.0.1:8090"
_LAST_PORT: Final = 65_535
# What the extra `local` installs, by the name under which it is imported.
_LIBRARY: Final = "cel_expr_python"
_NOT_HERE: Final = {
    errno.EADDRINUSE: "address already in use by another program: stop it, or name another one with --listen",
    errno.EADDRNOTAVAIL: "is no address of this machine: name another one with --listen",
    errno.EACCES: "only the superuser may listen there: name a port from 1024 on with --listen",
}


class Listen(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        """As people type it, and as it stands in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Site(NamedTuple):
    """Where edge devices dial in, and under which names."""

    listen: Listen
    names: tuple[str, ...] = ()


class Page(NamedTuple):
    """Where the web page and the REST API are served, and how."""

    listen: Listen
    chosen: Chosen

    @classmethod
    def at(cls, listen: Listen) -> Page:
        """For whoever started this; wrong usage where other machines could reach it."""
        from edgewright.cli.console import for_its_owner  # noqa: PLC0415 - only who wants it

        return cls(listen, for_its_owner(listen, option="--console-listen"))

    @asynccontextmanager
    async def served(self, kubeconfig: Path, *, context: str | None = None) -> AsyncIterator[str]:
        """Serves for the user of a kubeconfig until the end of the block; gives the one-time link."""
        from edgewright.cli import console  # noqa: PLC0415
        from edgewright.runtime import config  # noqa: PLC0415

        loaded = await asyncio.to_thread(config.load, kubeconfig=kubeconfig, context=context)
        async with console.served(loaded, self.listen, self.chosen, option="--console-listen") as address:
            yield address.link


def up(
    *,
    data: machine.Data = None,
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="HOST:PORT", help="Where to serve the API; port 0 picks a free one."),
    ] = _LISTEN,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            help="Where to write the kubeconfig; default: in the data directory, with --merge $KUBECONFIG or "
            "~/.kube/config.",
            show_default=False,
        ),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Add a context to the kubeconfig, and keep all that is in it.")
    ] = False,
    addresses: machine.Addresses = "",
    image: machine.Images = None,
    runtime: machine.Runtime = "auto",
    pod_ids: machine.PodIdRange = "",
    no_node: Annotated[bool, typer.Option("--no-node", help="Serve the API only, and run no Pods.")] = False,
    node_name: Annotated[
        str | None,
        typer.Option(
            "--node-name", help="The name of the node; default: the name of this machine.", show_default=False
        ),
    ] = None,
    no_operator: Annotated[
        bool, typer.Option("--no-operator", help="Leave out our kinds and controllers: only Kubernetes.")
    ] = False,
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
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Ask Devices that no Akri Instance shows what they run.")
    ] = True,
    probe_every: operator_options.ProbeEvery = operator_options.PROBE_EVERY,
    webhook: operator_options.WebhookUrl = "",
    webhook_secret_file: operator_options.WebhookSecrets = None,
    webhook_plain: operator_options.WebhookPlain = False,
    watches: operator_options.Watches = None,
    gateway: Annotated[
        bool,
        typer.Option(
            "--gateway", help="Serve Linux edge devices too: what `edgewright gateway` does.", show_default=False
        ),
    ] = False,
    gateway_listen: Annotated[
        str,
        typer.Option("--gateway-listen", metavar="HOST:PORT", help="Where edge devices dial in, with --gateway."),
    ] = _GATEWAY,
    gateway_name: Annotated[
        list[str] | None,
        typer.Option(
            "--gateway-name",
            metavar="HOST",
            help="A name or address by which edge devices reach this machine; may be given several times.",
            show_default=False,
        ),
    ] = None,
    console: Annotated[
        bool,
        typer.Option(
            "--console",
            help="Serve the web page and the REST API too, and print a one-time link to it.",
            show_default=False,
        ),
    ] = False,
    console_listen: Annotated[
        str,
        typer.Option("--console-listen", metavar="HOST:PORT", help="Where to serve the page, with --console."),
    ] = _CONSOLE,
) -> None:
    """Serve a Kubernetes API on this machine and run its Pods, until Ctrl-C. Nothing is lost by a stop."""
    where = read_listen(listen)
    door = None
    if gateway:
        if no_operator:
            raise typer.BadParameter("edge devices need the operator: leave out --no-operator", param_hint="--gateway")
        door = read_listen(gateway_listen, option="--gateway-listen")
    if watches is not None and no_operator:
        raise typer.BadParameter("charts need the operator: leave out --no-operator", param_hint="--watches")
    page = Page.at(read_listen(console_listen, option="--console-listen")) if console else None
    directory = machine.data_directory(data)
    images, given, ids = machine.images(image), machine.addresses(addresses), machine.pod_ids(pod_ids)
    chosen = operator_options.settings(
        plain_registries=plain_registry,
        token_hosts=token_host,
        attestation=attestation,
        nat=nat,
        local=True,
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
        webhook=operator_options.webhook(webhook, webhook_secret_file, plain=webhook_plain),
    )
    node = None if no_node else machine.node_name(node_name, option="--node-name")
    require_libraries()
    if watches is not None:
        chart_watches.require_library()
    charts = chart_watches.read_project(watches)
    from edgewright.local.access import directory as directories  # noqa: PLC0415 - other commands need none of it

    process.prepare()
    directories.prepare(directory)
    warn_of_strangers(where)
    from edgewright.local import control_plane  # noqa: PLC0415

    settings = control_plane.Settings(
        data=directory,
        host=where.host,
        port=where.port,
        node=node,
        images={FLASHER_IMAGE: operator_options.flasher_command(), **images},
        told=operator_options.TOLD,
        addresses=given,
        podman=node is not None and machine.podman(runtime),
        pod_ids=ids,
    )
    file = kubeconfig_file(kubeconfig, directory, merge=merge)
    opening = control_plane.open(settings)
    operator = None if no_operator else chosen
    served = None if door is None else Site(door, tuple(gateway_name or ()))
    asyncio.run(
        serve(
            opening,
            data=directory,
            listen=where,
            kubeconfig=file,
            merge=merge,
            operator=operator,
            charts=charts,
            site=served,
            page=page,
        )
    )


async def serve(
    opening: AbstractAsyncContextManager[Running],
    *,
    data: Path,
    listen: Listen,
    kubeconfig: Path,
    merge: bool,
    operator: OperatorSettings | None,
    charts: chart_watches.Charts | None = None,
    site: Site | None = None,
    page: Page | None = None,
) -> None:
    """Runs a control plane, and the operator, the gateway and the console where they are wanted, until a signal.

    `charts` are served by the operator.
    """
    from edgewright.local.access import kubeconfig as files  # noqa: PLC0415
    from edgewright.local.database import StoreError  # noqa: PLC0415

    with stop_on_signals() as stop:
        try:
            async with AsyncExitStack() as stack:
                with _in_a_sentence(data, listen):
                    running = await stack.enter_async_context(opening)
                if operator is not None:
                    await add_operator(running, operator, charts)
                else:
                    await leave_to_others(running)
                if site is not None:
                    add_gateway(running, site)
                document = running.entrance.kubeconfig(running.url)
                await asyncio.to_thread(files.merge if merge else files.write, kubeconfig, document)
                link = ""
                if page is not None:
                    context = CONTEXT if merge else None
                    link = await stack.enter_async_context(page.served(kubeconfig, context=context))
                print(how_to_use(running.url, data, kubeconfig, merge=merge, link=link), flush=True)
                process.settle()
                with _in_a_sentence(data, listen):
                    await running.serve_until(stop)
        except StoreError as error:
            raise Failed(str(error)) from error


def add_gateway(running: Running, site: Site) -> None:
    """Starts what edge devices dial into; it ends with the control plane."""
    from edgewright.cli.gateway import settings_of  # noqa: PLC0415 - only who wants it
    from edgewright.gateway.gateway import Gateway  # noqa: PLC0415
    from edgewright.gateway.rotation import Unusable  # noqa: PLC0415

    config = Config(server=running.url, tls=running.entrance.component("gateway"), source="edgewright up")
    settings = settings_of("default", host=site.listen.host, port=site.listen.port, names=site.names)
    made = Gateway(Client(config), settings)

    async def work() -> None:
        try:
            await made.run(asyncio.Event())
        except ListenError as error:
            raise Failed(f"{error}: name another address with --gateway-listen") from error
        except Unusable as error:
            raise Failed(str(error)) from error

    running.go_on("gateway", work())


@contextmanager
def _in_a_sentence(data: Path, listen: Listen) -> Iterator[None]:
    """What the system refuses, as somebody can read it who does not know how this program works."""
    try:
        yield
    except socket.gaierror as error:
        raise Failed(f"{listen.host}: {error.strerror}: name an address of this machine with --listen") from error
    except OSError as error:
        if error.filename is None and error.errno in _NOT_HERE:
            raise Failed(f"{listen}: {_NOT_HERE[error.errno]}") from error
        raise Failed(f"{error.filename or data}: {error.strerror or error}") from error


def read_listen(text: str, *, option: str = "--listen") -> Listen:
    """Where to listen, from what was typed: HOST:PORT, an IPv6 address in brackets."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    inner = host[1:-1] if bracketed else host
    if not inner or (":" in inner) is not bracketed or not re.fullmatch("[0-9]{1,5}", port) or int(port) > _LAST_PORT:
        raise typer.BadParameter(
            f"{text!r} is not HOST:PORT, such as {_LISTEN}, [::1]:6443 or 127.0.0.1:0", param_hint=option
        )
    return Listen(inner, int(port))


def require_libraries() -> None:
    """Says what to install where the extra of this command is missing."""
    if importlib.util.find_spec(_LIBRARY) is None:
        raise ConfigError(
            f"{_LIBRARY} is not installed, which the embedded control plane needs: pip install 'edgewright[local]'"
        )


def warn_of_strangers(listen: Listen) -> None:
    """Whoever lets other machines in should know what that means."""
    if not is_loopback(listen.host):
        print(
            f"edgewright: warning: other machines can reach {listen}: "
            "whoever has a kubeconfig or the token of this control plane is its administrator",
            file=sys.stderr,
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; of a name only `localhost` is known to be one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def kubeconfig_file(given: Path | None, data: Path, *, merge: bool) -> Path:
    """Where the kubeconfig goes."""
    if given is not None:
        return given.absolute()
    if not merge:
        return data / "kubeconfig"
    named = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        return Path(named[0]).absolute()
    return machine.home(instead="name the file with --kubeconfig") / ".kube" / "config"


def how_to_use(url: str, data: Path, kubeconfig: Path, *, merge: bool, link: str = "") -> str:
    """What somebody reads who has just started it."""
    use = (
        f"kubectl --context {CONTEXT} get namespaces"
        if merge
        else f"export KUBECONFIG={shlex.quote(str(kubeconfig))}\n  kubectl get namespaces"
    )
    page = f"\n\nThe console, for a browser on this machine, once and within ten minutes:\n\n  {link}" if link else ""
    return (
        f"Edgewright serves Kubernetes at {url} and keeps it in {data}\n\n  {use}{page}\n\n"
        "Ctrl-C stops it; all objects stay."
    )
