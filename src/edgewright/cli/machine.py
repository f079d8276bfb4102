"""The options of the commands that run something on this machine, worded and read once.

`up`, `node` and `backup` take them; `run` and `gateway` the ports. A text that cannot be read is wrong usage: the
message names the option and says what is right.
"""

from __future__ import annotations

import ipaddress
import os
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from edgewright.cli.failure import Failed
from edgewright.local import names

if TYPE_CHECKING:
    from edgewright.local.node.pod_ids import PodIds

Data: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="The data directory; default: $XDG_DATA_HOME/edgewright, or ~/.local/share/edgewright.",
        show_default=False,
    ),
]
Images: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="NAME=COMMAND",
        help="A program that Pods with this image run, such as 'web=python3 -m http.server'; repeat it for more.",
        show_default=False,
    ),
]
Addresses: TypeAlias = Annotated[
    str,
    typer.Option(
        "--addresses",
        metavar="IP[,IP…]",
        help="Addresses of this machine for Services of type LoadBalancer; default: loopback addresses.",
        show_default=False,
    ),
]
MetricsPort: TypeAlias = Annotated[
    int | None,
    typer.Option("--metrics-port", help="Where metrics are served; default: nowhere.", show_default=False),
]
HealthPort: TypeAlias = Annotated[
    int | None,
    typer.Option("--health-port", help="Where /healthz and /readyz are; default: nowhere.", show_default=False),
]
PodIdRange: TypeAlias = Annotated[
    str,
    typer.Option(
        "--pod-ids",
        metavar="FIRST-LAST",
        help="Where this runs as root: the ids of users and groups that Pods may have, which nobody else here uses.",
        show_default=False,
    ),
]

Runtime: TypeAlias = Annotated[
    str,
    typer.Option(
        "--runtime",
        metavar="auto|process|podman",
        help="Who runs images that no --image names: nobody (process), podman, or podman where it can (auto).",
    ),
]

# What a certificate takes for a name, without `system:node:`.
_MAX_NODE_NAME: Final = 52
_LAST_PORT: Final = 65_535


def data_directory(given: Path | None, *, called: str = "edgewright") -> Path:
    """The data directory as an absolute path; `called` is its name where none was given."""
    if given is not None:
        return given.absolute()
    base = os.environ.get("XDG_DATA_HOME", "")
    # As its specification has it, a relative path there counts for nothing.
    shared = Path(base) if base.startswith("/") else home(instead="name the directory with --data") / ".local/share"
    return shared / called


def home(*, instead: str) -> Path:
    """The home directory of whoever typed the command; `instead` is what else can be done where there is none."""
    try:
        return Path("~").expanduser().absolute()
    except RuntimeError:
        raise Failed(f"the home directory of this user is not known: set HOME, or {instead}") from None


def pod_ids(text: str) -> PodIds:
    """The users and groups that Pods may have."""
    from edgewright.local.node import pod_ids as ids  # noqa: PLC0415 - other commands need none of it

    if not text:
        return ids.PodIds()
    try:
        return ids.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--pod-ids") from None


def podman(runtime: str) -> bool:
    """Whether podman runs the images that stand for no program here."""
    if runtime not in {"auto", "process", "podman"}:
        raise typer.BadParameter(f"{runtime!r} is not auto, process or podman", param_hint="--runtime")
    if runtime == "process":
        return False
    from edgewright.local.node.podman_service import unusable  # noqa: PLC0415 - other commands need none of it

    problem = unusable()
    if problem is not None and runtime == "podman":
        raise Failed(f"--runtime podman: {problem}")
    return problem is None


def images(given: Sequence[str] | None) -> dict[str, list[str]]:
    """The command of each image."""
    found = {}
    for text in given or ():
        name, _, command = text.partition("=")
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise typer.BadParameter(f"{text!r}: {error}", param_hint="--image") from error
        if not name or not words:
            raise typer.BadParameter(f"{text!r} is not NAME=COMMAND", param_hint="--image")
        found[name] = words
    return found


def addresses(given: str, *, option: str = "--addresses", most: int | None = None) -> tuple[str, ...]:
    """The addresses of this machine in the order in which they were given, each once."""
    found: dict[str, None] = {}
    for text in given.split(",") if given or most else ():
        try:
            address = ipaddress.IPv4Address(text.strip())
        except ValueError:
            raise typer.BadParameter(f"{text.strip()!r} is not an IPv4 address", param_hint=option) from None
        if not _is_ours(address):
            raise typer.BadParameter(f"{address} is no address of this machine", param_hint=option)
        found[str(address)] = None
    if most is not None and len(found) > most:
        raise typer.BadParameter(f"{given!r} is more than {most} address", param_hint=option)
    return tuple(found)


def _is_ours(address: ipaddress.IPv4Address) -> bool:
    """Whether somebody on this machine can listen there; the address that stands for all is none of its own."""
    if address.is_unspecified or address.is_multicast:
        return False
    with socket.socket() as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def port(given: int | None, *, option: str) -> int | None:
    """The port that was typed, where it is one."""
    if given is not None and not 0 <= given <= _LAST_PORT:
        raise typer.BadParameter(f"{given} is no port: 0 to {_LAST_PORT}", param_hint=option)
    return given


def node_name(given: str | None, *, option: str) -> str:
    """The name of the node: the one that was given, else the one of this machine."""
    if given is None:
        host = socket.gethostname().lower().replace("_", "-")
        return host if _is_node_name(host) else "edgewright"
    if not _is_node_name(given):
        raise typer.BadParameter(
            f"{given!r} is no name of a Node: it has lower-case letters, digits, '-' and '.', "
            f"and at most {_MAX_NODE_NAME} of them",
            param_hint=option,
        )
    return given


def device_port() -> int:
    """Where simulated devices listen unless it is said: at a real device's port, where this user may."""
    return 80 if os.geteuid() == 0 else 8080


def no_pod_can_run() -> str | None:
    """Why no Pod whatever can run on this machine, and what to do; None where that is not so.

    Where the node is root, Pods run as somebody else: with mounts they are shown what they need of closed folders.
    """
    from edgewright.local.node.container_start import program_folders  # noqa: PLC0415 - not all need a node
    from edgewright.local.node.mount_check import closed_to_others, mounts_work, where_nobody_may_enter  # noqa: PLC0415

    closed = closed_to_others(program_folders()) if os.geteuid() == 0 else None
    return None if closed is None or mounts_work() else where_nobody_may_enter(closed)


def _is_node_name(name: str) -> bool:
    return len(name) <= _MAX_NODE_NAME and not names.subdomain(name)
