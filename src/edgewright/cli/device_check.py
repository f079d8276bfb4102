"""Asking boards: `devices check` says whether one on the desk can be flashed, `discover` looks through a range.

Boards are asked with the first verb of their drivers, which changes nothing on them; only `check --dial-back` asks one
to dial in, and gives it nothing. No cluster is needed for `check`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edgewright.api.device import Device, DeviceSpec
from edgewright.api.endpoint import BadEndpoint, Endpoint, normalize_endpoint, parse_endpoint
from edgewright.api.flash_pod import OTA_PORT
from edgewright.api.probe import Answer, Told, Unaskable
from edgewright.cli import objects, terminal
from edgewright.cli.cluster import Context, Kubeconfig, place
from edgewright.cli.failure import Failed
from edgewright.cli.printing import table
from edgewright.runtime.client import Client
from edgewright.runtime.objects import ObjectMeta

if TYPE_CHECKING:
    from edgewright.devices.prober import Prober

MAX_ADDRESSES: Final = 4096
"""How many addresses one command looks at."""
PROTOCOLS: Final = ("esp32", "smp-udp")
"""What a board of which nothing is known is asked by, one after the other."""
_SECONDS: Final = 20.0
"""How long one board is waited for that somebody is looking at: a slow radio or a busy machine is no fault."""
_DIAL_SECONDS: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Found:
    """A board that answered."""

    endpoint: str
    protocol: str
    told: Told


def check(
    address: Annotated[str, typer.Argument(metavar="ADDRESS[:PORT]", help="Where the board is.", show_default=False)],
    *,
    protocol: Annotated[
        str, typer.Option("--protocol", help="The driver to ask with; default: all that ask.", show_default=False)
    ] = "",
    dial_back: Annotated[
        bool,
        typer.Option("--dial-back", help="Have the board dial in here, and give it nothing; it may take 30 s."),
    ] = False,
    external: Annotated[
        str,
        typer.Option(
            "--address", help="The address that it would be given; default: ours on its way.", show_default=False
        ),
    ] = "",
) -> None:
    """Say whether a board on the desk can be flashed: does it answer, by which driver, what does it run.

    And: at which address of this machine it would have to dial back, and whether it can.
    """
    try:
        place_of = parse_endpoint(address)
    except BadEndpoint as error:
        raise typer.BadParameter(str(error), param_hint="ADDRESS") from None
    found, answers = asyncio.run(_asked(str(place_of), (protocol,) if protocol else PROTOCOLS))
    if found is None:
        for name, answer in answers.items():
            terminal.say(f"{name}: {answer.reason if not isinstance(answer, Told) else ''}")
        raise Failed(
            f"the board at {place_of} does not answer: check its power and network, and that it is on this network"
        )
    told = found.told
    terminal.give(
        f"Answers:      yes, by the driver {found.protocol}\n"
        f"Type:         {told.type or 'it does not say'}\n"
        f"Runs:         {' '.join(filter(None, (told.application, told.version))) or 'it does not say'}\n"
        f"Certificate:  {told.certificate[:16] + '…' if told.certificate else 'none'}"
    )
    if found.protocol != "esp32":
        terminal.give("Dials back:   no need: it is dialled")
        return
    ours = external or own_address(place_of)
    problem = listening_problem(ours)
    if problem:
        terminal.give(f"Dials back:   not known: {problem}")
        return
    if not dial_back:
        terminal.give(f"Dials back:   it would be told {ours}, port {OTA_PORT}; --dial-back tries it")
        return
    if not asyncio.run(_dials_in(str(place_of), ours)):
        raise Failed(f"the board was told {ours} and did not reach port {OTA_PORT} there: is there a firewall between?")
    terminal.give(f"Dials back:   yes, to {ours}, port {OTA_PORT}")


async def _asked(endpoint: str, protocols: Sequence[str]) -> tuple[Found | None, dict[str, Answer]]:
    prober = _prober(len(protocols))
    answers = await asyncio.gather(*(prober.ask(each, endpoint) for each in protocols))
    told = dict(zip(protocols, answers, strict=True))
    for protocol, answer in told.items():
        if isinstance(answer, Told):
            return Found(endpoint=endpoint, protocol=protocol, told=answer), told
    return None, told


def _prober(at_once: int, seconds: float | None = None) -> Prober:
    from edgewright.devices.prober import Prober  # noqa: PLC0415 - only who asks boards needs drivers

    return Prober(local=True, seconds=seconds or _SECONDS, at_once=at_once, a_second=200.0)


def own_address(board: Endpoint) -> str:
    """The address of this machine that a packet to the board carries, and so the one that the board can answer."""
    family = socket.AF_INET6 if board.address is not None and board.address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((board.host, board.port or 80))  # nothing is sent
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def listening_problem(address: str) -> str:
    """Why no board can be waited for at an address of this machine; empty where one can."""
    if not address:
        return "this machine has no way to the board"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, OTA_PORT))
        except OSError as error:
            return f"port {OTA_PORT} of {address} cannot be listened at here ({error.strerror})"
    return ""


async def _dials_in(endpoint: str, address: str) -> bool:
    """Whether the board comes when it is told an address; whoever comes is sent away at once."""
    from edgewright.devices.drivers.esp_device import Timing, order_update  # noqa: PLC0415

    came = asyncio.Event()
    wanted = {str(each) for each in (parse_endpoint(endpoint).address,) if each is not None}

    async def caller(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        if not wanted or (peer and str(peer[0]) in wanted):
            came.set()
        writer.close()

    server = await asyncio.start_server(caller, address, OTA_PORT)
    async with server:
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                await order_update(endpoint, address, Timing())
                await came.wait()
        except OSError:  # a TimeoutError is one
            return came.is_set()
    return True


def discover(
    addresses: Annotated[
        str,
        typer.Argument(
            metavar="RANGE", help="192.0.2.0/24, 192.0.2.10-192.0.2.50 or 192.0.2.10-50.", show_default=False
        ),
    ],
    *,
    protocol: Annotated[str, typer.Option("--protocol", help="The driver to ask with.")] = "esp32",
    port: Annotated[int | None, typer.Option("--port", help="Where boards listen.", show_default=False)] = None,
    add: Annotated[
        bool, typer.Option("--add", help="Add a Device for each board that answers and is not known.")
    ] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Look through a range of addresses for boards that answer, 64 at a time; nothing on them is changed."""
    hosts = addresses_in(addresses)
    terminal.say(f"Asking {len(hosts)} of the addresses in {addresses}…")
    found = asyncio.run(_searched([str(Endpoint(host, port)) for host in hosts], protocol))
    head = ["ENDPOINT", "TYPE", "APPLICATION", "VERSION"]
    rows = [[each.endpoint, each.told.type, each.told.application, each.told.version] for each in found]
    if rows:
        terminal.give(table(head, rows, width=terminal.width(sys.stdout)))
    terminal.say(f"{terminal.count(len(found), 'board')} answered.")
    if not add:
        if found:
            terminal.say(f"Add them with: edgewright devices discover {addresses} --add")
        return
    where = place(kubeconfig, context)

    async def work(client: Client) -> None:
        from edgewright.cli.devices import created  # noqa: PLC0415 - that module uses this one

        known = {
            normalize_endpoint((each.get("spec") or {}).get("endpoint", ""))
            for each in await objects.everything(client, Device, where)
        }
        for each in found:
            if normalize_endpoint(each.endpoint) in known:
                continue
            device = device_of(each)
            await created(client, where, device)
            terminal.say(f"device {device.metadata.name} added")

    where.run(work)


def device_of(found: Found) -> Device:
    """The Device of a board that answered; it is called by its address."""
    words = "".join(letter if letter.isalnum() else "-" for letter in found.endpoint.lower()).strip("-")
    return Device(
        metadata=ObjectMeta(name=f"{found.told.type.lower() or 'board'}-{words}"),
        spec=DeviceSpec(type=found.told.type, protocol=found.protocol, endpoint=found.endpoint),
    )


async def _searched(endpoints: Sequence[str], protocol: str) -> list[Found]:
    prober = _prober(64, seconds=3.0)
    answers = await asyncio.gather(*(prober.ask(protocol, each) for each in endpoints))
    unaskable = next((each for each in answers if isinstance(each, Unaskable)), None)
    if unaskable is not None and all(isinstance(each, Unaskable) for each in answers):
        raise Failed(unaskable.reason)
    return [
        Found(endpoint=endpoint, protocol=protocol, told=answer)
        for endpoint, answer in zip(endpoints, answers, strict=True)
        if isinstance(answer, Told)
    ]


def addresses_in(text: str) -> list[str]:
    """The addresses of a range; BadParameter where it is none, or too long."""
    try:
        if "-" in text:
            begin, _, end = text.partition("-")
            first = ipaddress.ip_address(begin.strip())
            last = ipaddress.ip_address(
                end.strip() if "." in end or ":" in end else f"{str(first).rpartition('.')[0]}.{end.strip()}"
            )
            count = int(last) - int(first) + 1
            addresses = [str(first + number) for number in range(min(count, MAX_ADDRESSES + 1))]
        else:
            network = ipaddress.ip_network(text, strict=False)
            count = network.num_addresses
            addresses = [str(each) for each in network.hosts()] if count <= 2 * MAX_ADDRESSES else []
    except (ValueError, TypeError):
        raise typer.BadParameter(
            f"{text!r} is no range, such as 192.0.2.0/24 or 192.0.2.10-50", param_hint="RANGE"
        ) from None
    if count < 1 or (addresses and len(addresses) > MAX_ADDRESSES) or not addresses:
        raise typer.BadParameter(
            f"{text!r} has {max(count, 0)} addresses: 1 to {MAX_ADDRESSES} are looked at by one command",
            param_hint="RANGE",
        )
    return addresses
