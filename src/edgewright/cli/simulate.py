"""`edgewright simulate`: devices that are not there, registered as Akri would register them, until it is stopped.

For trying FlashJobs without a board, for demonstrations and for tests of one's own. It runs the fleet, the attestation
service that knows it, a registry with firmware where one is asked for, and the registration; it flashes nothing itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
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
from edgewright.cli.running import stop_on_signals
from edgewright.devices.timescale import time_scale
from edgewright.runtime import Client, config

if TYPE_CHECKING:
    from edgewright.cli.registering import Registration
    from edgewright.devices.simulated.device import Device
    from edgewright.devices.simulated.faults import Fault
    from edgewright.devices.simulated.fleet import Fleet
    from edgewright.devices.simulated.journal import Entry
    from edgewright.devices.simulated.registry import Registry

# More devices than this are counted, and not listed one by one.
_MOST_LISTED: Final = 40
_LAST_PORT: Final = 65_535
_REPOSITORY: Final = "simulated/firmware"
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
    scale: float
    every: float
    as_json: bool


def simulate(
    *,
    devices: Annotated[int, typer.Option("--devices", help="How many devices.")] = 12,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="KIND[:AMOUNT][:once]=WHO",
            help="What is wrong with which of them, by number (3 or 1,4) or share (10%). Kinds: refuse-attestation, "
            "drop-transfer, wrong-version, boot-loop, vanish, slow, change-application, corrupt, same-version. "
            "May be repeated.",
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
    """Run simulated ESP32 devices and register them as Akri would, until Ctrl-C. All of it goes when it ends."""
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
        if number is not None and not 0 <= number <= _LAST_PORT:
            raise typer.BadParameter(f"{number} is no port: 0 to {_LAST_PORT}", param_hint=option)
    wanted = Wanted(
        devices=devices,
        faults=faults,
        seed=seed,
        device=device,
        application=application,
        version=version,
        first_address=first_address,
        port=port if port is not None else 80 if os.geteuid() == 0 else 8080,
        namespace=namespace,
        configuration=configuration,
        tls_secret=tls_secret,
        attestation_port=attestation_port,
        firmware=tuple(firmware or ()),
        registry_port=registry_port,
        registered=not no_register,
        scale=read_scale(scale),
        every=above_nothing(every, option="--discover-every"),
        as_json=output == "json",
    )
    asyncio.run(run(config.load(kubeconfig=kubeconfig, context=context), wanted))


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


async def run(settings: config.Config, wanted: Wanted) -> None:
    """Runs all of it until a signal comes, and leaves nothing behind at the server but the Secret."""
    from edgewright.cli.registering import Registration, pinned_certificate  # noqa: PLC0415
    from edgewright.devices.simulated.attestation import AttestationService  # noqa: PLC0415

    with stop_on_signals() as stop:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(settings))
            pinned = await pinned_certificate(client, namespace=wanted.namespace, name=wanted.tls_secret)
            fleet, registry = make_fleet(wanted, pinned), make_registry(wanted)
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
                stack.push_async_callback(registration.end)
                await registration.begin()
                parts.append(asyncio.create_task(registration.run(), name="registration"))
            offered = references(wanted, registry)
            print(beginning(wanted, fleet, registration, service.url, offered), flush=True)
            await until(stop, parts)
            if not wanted.as_json:
                print(ending(fleet), flush=True)


def make_fleet(wanted: Wanted, pinned: str) -> Fleet:
    """The fleet as it was typed; Failed where there is no such fleet."""
    from edgewright.devices.simulated.device import Times  # noqa: PLC0415
    from edgewright.devices.simulated.fleet import Fleet  # noqa: PLC0415

    def told(device: Device, entry: Entry) -> None:
        print(event(device, entry, datetime.now(UTC), as_json=wanted.as_json), flush=True)

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
            told=told,
        )
    except ValueError as error:
        raise Failed(str(error)) from None


def make_registry(wanted: Wanted) -> Registry | None:
    """A registry with the firmware that was typed; None where none was, Failed where there can be no such firmware."""
    from edgewright.devices.simulated.firmware import esp_image  # noqa: PLC0415
    from edgewright.devices.simulated.registry import Registry  # noqa: PLC0415

    if not wanted.firmware:
        return None
    registry = Registry(port=wanted.registry_port)
    try:
        for version in wanted.firmware:
            image = esp_image(version=version, project=wanted.application, chip=wanted.device)
            parse_reference(f"registry.example/{_REPOSITORY}:{version}")  # it becomes a tag
            registry.add_image(_REPOSITORY, version, {wanted.device: image})
    except ValueError as error:
        raise Failed(f"--firmware: {error}") from None
    return registry


def references(wanted: Wanted, registry: Registry | None) -> list[str]:
    """How a FlashJob names the firmware that is offered."""
    return [f"{registry.host}/{_REPOSITORY}:{version}" for version in wanted.firmware] if registry else []


def beginning(
    wanted: Wanted, fleet: Fleet, registration: Registration, attestation: str, offered: Sequence[str] = ()
) -> str:
    """What is there, for whoever has just started it."""
    names = registration.names
    if wanted.as_json:
        listed = [
            {
                "device": each.number,
                "endpoint": each.endpoint,
                "instance": names.get(each.number, ""),
                "faults": [fault.kind.value for fault in each.faults],
            }
            for each in fleet
        ]
        return json.dumps({"event": "ready", "attestation": attestation, "firmware": list(offered), "devices": listed})
    lines = [
        f"{len(fleet)} simulated {'device' if len(fleet) == 1 else 'devices'} ({fleet.type}), "
        + (f"registered in the namespace {wanted.namespace}" if wanted.registered else "not registered"),
        f"They trust the certificate in the Secret {wanted.tls_secret}",
        f"The attestation service that knows them: --attestation {attestation}",
        *(f"Firmware for them: {each}" for each in offered),
        "",
    ]
    if len(fleet) <= _MOST_LISTED:
        rows = [("NO", "ENDPOINT", "INSTANCE", "APPLICATION", "VERSION", "FAULTS")]
        rows += [
            (
                str(each.number),
                each.endpoint,
                names.get(each.number, "-"),
                each.running.application,
                each.running.version,
                " ".join(fault.kind.value + (" once" if fault.once else "") for fault in each.faults) or "-",
            )
            for each in fleet
        ]
        lines += [*table(rows), ""]
    elif counted := Counter(fault.kind.value for each in fleet for fault in each.faults):
        lines += [", ".join(f"{count} with {kind}" for kind, count in counted.items()), ""]
    return "\n".join([*lines, "Ctrl-C stops them and removes their Instances."])


def event(device: Device, entry: Entry, now: datetime, *, as_json: bool) -> str:
    """One thing that happened, as a line."""
    if as_json:
        said = {"version": entry.version, "sha256": entry.sha256, "peer": entry.peer, "detail": entry.detail}
        return json.dumps(
            {
                "event": entry.did.value,
                "time": now.isoformat(timespec="milliseconds"),
                "device": device.number,
                "run": entry.run,
                **{name: text for name, text in said.items() if text},
            }
        )
    more = " ".join(filter(None, (entry.version, entry.detail)))
    return f"{now:%H:%M:%S} device {device.number} ({device.endpoint}): {entry.did}{f', {more}' if more else ''}"


def ending(fleet: Fleet) -> str:
    """What they run at the end, by version, and how often they were flashed."""
    versions = Counter(each.running.version for each in fleet)
    flashed = sum(len(each.journal.written) for each in fleet)
    runs = ", ".join(f"{count} run {version}" for version, count in sorted(versions.items()))
    return f"\n{runs}; firmware was written {flashed} time{'' if flashed == 1 else 's'}"


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
