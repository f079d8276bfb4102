"""`edgewright simulate`: devices that are not there, registered as Akri would register them, until it is stopped.

For trying FlashJobs without a board, for demonstrations and for tests of one's own. It runs the fleet, the attestation
service that knows it, a registry with firmware where one is asked for, and the registration; it flashes nothing itself.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edgewright.api.flashjob import TLS_SECRET
from edgewright.api.reference import parse_reference
from edgewright.cli import machine
from edgewright.cli.failure import Failed
from edgewright.cli.node import until
from edgewright.cli.options import Context, Kubeconfig
from edgewright.cli.signals import before, stop_on_signals
from edgewright.cli.simulate_text import REPOSITORY, Begun, Printer, Stays, beginning, ending, event
from edgewright.devices.timescale import time_scale
from edgewright.runtime import Client, config, logs
from edgewright.runtime.errors import KubernetesError, NotFound
from edgewright.runtime.objects import Key

if TYPE_CHECKING:
    from edgewright.devices.simulated.device import Device
    from edgewright.devices.simulated.faults import Fault
    from edgewright.devices.simulated.fleet import Fleet
    from edgewright.devices.simulated.journal import Entry
    from edgewright.devices.simulated.registry import Registry

_log = logs.get("cli.simulate")
# How long what was made at the server may take to go: a server that does not answer keeps nobody waiting for ever.
_TIDYING: Final = 10.0
_LABEL: Final = re.compile("[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What was typed."""

    devices: int
    faults: tuple[Fault, ...]
    seed: int
    device: str
    application: str
    version: str
    first_address: str
    port: int
    namespace: str
    configuration: str
    tls_secret: str
    attestation_port: int
    firmware: tuple[str, ...]
    registry_port: int
    registered: bool
    tells_boot: bool
    scale: float
    every: float
    as_json: bool


def simulate(
    called: typer.Context = None,  # type: ignore[assignment]  # only a test calls it by itself
    *,
    devices: Annotated[int, typer.Option("--devices", help="How many devices.")] = 12,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="KIND[:AMOUNT][:once]=WHO",
            help="What is wrong with which of them, by number (3 or 1,4) or share (10%); once: the first time only. "
            "Kinds and their AMOUNT: refuse-attestation, drop-transfer:PERCENT, wrong-version:VERSION, "
            "boot-loop:SECONDS, vanish:before, slow:BYTES a second, change-application:NAME, corrupt, same-version. "
            "What each does is in docs/reference/commands.md. May be repeated.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Decides certificates, and who is in a share.")] = 0,
    device: Annotated[str, typer.Option("--device", help="The type of device, such as esp32s3.")] = "esp32",
    application: Annotated[
        str, typer.Option("--application", help="The application that they run at first.")
    ] = "thermometer",
    version: Annotated[str, typer.Option("--version", help="The version that they run at first.")] = "0.1.0",
    first_address: Annotated[
        str, typer.Option("--first-address", metavar="IP", help="The first device's address; the others follow.")
    ] = "127.32.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            help="Where each answers HTTP; 0: each at a free port. Default: 80 for the superuser, else 8080.",
            show_default=False,
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Where the Instances and the Secret go.")
    ] = "default",
    configuration: Annotated[
        str, typer.Option("--configuration", help="The Akri Configuration that is said to have found them.")
    ] = "simulated",
    tls_secret: Annotated[
        str,
        typer.Option("--tls-secret", help="The Secret whose certificate they pin; made where it is missing."),
    ] = TLS_SECRET,
    attestation_port: Annotated[
        int,
        typer.Option("--attestation-port", help="Where the attestation service listens; 0: at a free port."),
    ] = 8000,
    firmware: Annotated[
        list[str] | None,
        typer.Option(
            "--firmware",
            metavar="VERSION",
            help="Offer firmware of this version for them in a small registry; repeat it for more.",
            show_default=False,
        ),
    ] = None,
    registry_port: Annotated[
        int, typer.Option("--registry-port", help="Where that registry listens; 0: at a free port.")
    ] = 5000,
    no_register: Annotated[
        bool, typer.Option("--no-register", help="Make no Instances: these are devices that nobody has discovered.")
    ] = False,
    tells_boot: Annotated[
        bool,
        typer.Option("--tells-boot", help="Let them count their restarts in /info, which published firmware does not."),
    ] = False,
    scale: Annotated[
        float | None,
        typer.Option(
            "--time-scale",
            help="What their times are multiplied by: 0.1 is ten times as fast. Default: $EDGEWRIGHT_TIME_SCALE, or 1.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[float, typer.Option("--discover-every", help="Seconds between two looks of discovery.")] = 5.0,
    output: Annotated[str, typer.Option("--output", "-o", help="`text`, or `json`: one object a line.")] = "text",
) -> None:
    """Run simulated ESP32 devices and register them as Akri would, until Ctrl-C.

    The devices and their Instances go when it ends. The Secret stays, for other fleets may use it, and so does the
    definition of Instances, where there was none: how to remove them is said at the end.
    """
    if getattr(called, "invoked_subcommand", None) is not None:
        return
    from edgewright.devices.simulated.faults import BadFault, parse_fault  # noqa: PLC0415 - others need none of it

    try:
        faults = tuple(parse_fault(text) for text in fault or ())
    except BadFault as error:
        raise typer.BadParameter(str(error), param_hint="--fault") from None
    if output not in {"text", "json"}:
        raise typer.BadParameter(f"{output!r} is neither text nor json", param_hint="--output")
    if not _LABEL.fullmatch(configuration):
        raise typer.BadParameter(
            f"{configuration!r}: it has at most 40 lower-case letters, digits and '-'", param_hint="--configuration"
        )
    for option, number in (
        ("--port", port),
        ("--attestation-port", attestation_port),
        ("--registry-port", registry_port),
    ):
        machine.port(number, option=option)
    wanted = Wanted(
        devices=devices,
        faults=faults,
        seed=seed,
        device=device,
        application=application,
        version=version,
        first_address=first_address,
        port=port if port is not None else machine.device_port(),
        namespace=namespace,
        configuration=configuration,
        tls_secret=tls_secret,
        attestation_port=attestation_port,
        firmware=tuple(firmware or ()),
        registry_port=registry_port,
        registered=not no_register,
        tells_boot=tells_boot,
        scale=read_scale(scale),
        every=above_nothing(every, option="--discover-every"),
        as_json=output == "json",
    )
    demand_possible(wanted)
    if not asyncio.run(run(config.load(kubeconfig=kubeconfig, context=context), wanted)):
        raise KeyboardInterrupt


def demand_possible(wanted: Wanted) -> None:
    """BadParameter where there can be no such devices or firmware: told before anything is begun."""
    from edgewright.devices.simulated.faults import chosen  # noqa: PLC0415
    from edgewright.devices.simulated.fleet import check_addresses, check_count, check_type  # noqa: PLC0415

    with _wrong_usage("--devices"):
        check_count(wanted.devices)
    with _wrong_usage("--device"):
        check_type(wanted.device)
    with _wrong_usage("--first-address"):
        check_addresses(wanted.first_address, wanted.devices)
    with _wrong_usage("--fault"):
        chosen(wanted.faults, count=wanted.devices, seed=wanted.seed)
    with _wrong_usage("--firmware"):
        make_registry(wanted)


@contextmanager
def _wrong_usage(option: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def read_scale(given: float | None) -> float:
    """What times are multiplied by: as typed, else as the environment says."""
    if given is not None:
        return above_nothing(given, option="--time-scale")
    try:
        return time_scale()
    except ValueError as error:
        raise Failed(str(error)) from None


def above_nothing(given: float, *, option: str) -> float:
    """A number that was typed, where it is one by which one can wait."""
    if not 0 < given < float("inf"):
        raise typer.BadParameter(f"{given} is not a number above 0", param_hint=option)
    return given


async def run(settings: config.Config, wanted: Wanted) -> bool:
    """Runs all of it until a signal comes; False where one came before it had begun."""
    printer = Printer()
    with stop_on_signals() as stop:
        async with AsyncExitStack() as stack:
            begun = await before(stop, begin(stack, settings, wanted, printer))
            if begun is None:
                return False
            print(beginning(wanted, begun), flush=True)
            await until(stop, [*begun.parts, asyncio.create_task(printer.run(), name="output")])
            printer.print_rest()
            if not wanted.as_json:
                print(ending(begun.fleet, begun.stays), flush=True)
    return True


async def begin(stack: AsyncExitStack, settings: config.Config, wanted: Wanted, printer: Printer) -> Begun:
    """Starts all of it, to be ended by the stack; where it cannot begin, what it made at the server is removed."""
    from edgewright.cli.instance_registration import Registration, pinned_certificate  # noqa: PLC0415
    from edgewright.devices.simulated.attestation import AttestationService  # noqa: PLC0415

    client = await stack.enter_async_context(Client(settings))
    stays = await missing(client, wanted)
    async with AsyncExitStack() as undo:
        pinned = await pinned_certificate(client, namespace=wanted.namespace, name=wanted.tls_secret)
        undo.push_async_callback(in_time, lambda: remove_secret(client, stays))
        fleet, registry = make_fleet(wanted, pinned, printer.take), make_registry(wanted)
        try:
            await stack.enter_async_context(fleet)
            if registry is not None:
                await stack.enter_async_context(registry)
            service = await stack.enter_async_context(
                AttestationService(fleet.recognises, port=wanted.attestation_port)
            )
        except OSError as error:
            raise Failed(
                f"{error.strerror or error}: is another fleet running? "
                "Other places are named with --first-address, --port, --attestation-port and --registry-port"
            ) from error
        registration = Registration(
            client,
            fleet,
            namespace=wanted.namespace,
            configuration=wanted.configuration,
            node=machine.node_name(None, option="--node"),
            every=wanted.every,
        )
        parts = []
        if wanted.registered:
            stack.push_async_callback(in_time, registration.end)
            await registration.begin()
            parts.append(asyncio.create_task(registration.run(), name="registration"))
        undo.pop_all()
    return Begun(
        fleet=fleet,
        registry=registry,
        registration=registration,
        attestation=service.url,
        parts=parts,
        stays=stays,
    )


async def missing(client: Client, wanted: Wanted) -> list[Stays]:
    """What is not at the server yet of what will stay there."""
    from edgewright.api.instance import instance_crd  # noqa: PLC0415
    from edgewright.cli.instance_registration import SECRET  # noqa: PLC0415
    from edgewright.runtime.definitions import DEFINITION  # noqa: PLC0415

    needed = [Stays(kind=SECRET, key=Key(wanted.namespace, wanted.tls_secret))]
    if wanted.registered:
        needed.append(Stays(kind=DEFINITION, key=Key("", instance_crd()["metadata"]["name"])))
    found = []
    for each in needed:
        try:
            await client.raw(each.kind).get(each.key)
        except NotFound:
            found.append(each)
    return found


async def remove_secret(client: Client, made: Sequence[Stays]) -> None:
    """Removes the Secret where this run has made it; with a definition all Instances would go, so that one stays."""
    for each in made:
        if each.key.namespace:
            try:
                await client.raw(each.kind).delete(each.key)
            except NotFound:
                continue
            except KubernetesError as error:
                _log.warning("a Secret is left behind", secret=str(each.key), error=str(error))


async def in_time(tidy: Callable[[], Awaitable[object]]) -> None:
    """Tidies up at the server, as long as that may take."""
    try:
        async with asyncio.timeout(_TIDYING):
            await tidy()
    except TimeoutError:
        _log.warning("the server does not answer: objects of simulated devices are left behind")


def make_fleet(wanted: Wanted, pinned: str, take: Callable[[str], None]) -> Fleet:
    """The fleet as it was typed, which tells line by line what happens; Failed where there is no such fleet."""
    from edgewright.devices.simulated.device import Times  # noqa: PLC0415
    from edgewright.devices.simulated.fleet import Fleet  # noqa: PLC0415

    def told(device: Device, entry: Entry) -> None:
        take(event(device, entry, datetime.now(UTC), as_json=wanted.as_json))

    try:
        return Fleet(
            count=wanted.devices,
            pinned=pinned,
            seed=wanted.seed,
            device=wanted.device,
            application=wanted.application,
            version=wanted.version,
            first_address=wanted.first_address,
            port=wanted.port,
            faults=wanted.faults,
            times=Times(scale=wanted.scale),
            tells_boot=wanted.tells_boot,
            told=told,
        )
    except ssl.SSLError as error:
        raise Failed(f"the certificate in the Secret {wanted.tls_secret} cannot be used: {error}") from None
    except ValueError as error:
        raise Failed(str(error)) from None


def make_registry(wanted: Wanted) -> Registry | None:
    """A registry with the firmware that was typed; None where none was, ValueError where there can be no such one."""
    from edgewright.devices.simulated.firmware import esp_image  # noqa: PLC0415
    from edgewright.devices.simulated.registry import Registry  # noqa: PLC0415

    if not wanted.firmware:
        return None
    registry = Registry(port=wanted.registry_port)
    for version in wanted.firmware:
        image = esp_image(version=version, project=wanted.application, chip=wanted.device)
        parse_reference(f"registry.example/{REPOSITORY}:{version}")  # it becomes a tag
        registry.add_image(REPOSITORY, version, {wanted.device: image})
    return registry
