"""`edgewright devices`: the fleet as it is known: list, show, label, add, import, discover, check, release.

Every change is one object's. A device's history and its last failure come from its status, which outlives the jobs.
Boards are asked by `device_check`, and CSV files are read by `device_import`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from edgewright.api.device import Device, DeviceSpec, release_of
from edgewright.api.endpoint import endpoint_problem
from edgewright.cli import completion, device_check, device_import, device_text, objects, terminal
from edgewright.cli.cluster import AllNamespaces, Context, Kubeconfig, Labels, Namespace, Place, missing, place
from edgewright.cli.failure import Failed
from edgewright.cli.labels import Changes, changes_in, relabel
from edgewright.cli.printing import Form, Output
from edgewright.controllers.rollout import why_world
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import AlreadyExists, Conflict, NotFound
from edgewright.runtime.objects import Key, ObjectMeta, RawObject

app = typer.Typer(
    help="The devices of the fleet: what they are, what they run, what happened to them.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="The device.", autocompletion=completion.devices, show_default=False)]
Names = Annotated[list[str], typer.Argument(help="The devices.", autocompletion=completion.devices, show_default=False)]
Type = Annotated[str, typer.Option("--type", help="The type of device, for example esp32s3.", show_default=False)]
Protocol = Annotated[str, typer.Option("--protocol", help="How it is flashed; default: esp32.", show_default=False)]
Marks = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=VALUE", help="A label; repeat it for more.", show_default=False),
]
_TABLE: Final = Form()
_TRIES: Final = 5


@app.command("list")
def list_all(
    *,
    output: Output = _TABLE,
    selector: Labels = "",
    type_: Type = "",
    application: Annotated[
        str, typer.Option("--application", help="Only those that run this application.", show_default=False)
    ] = "",
    version: Annotated[
        str, typer.Option("--version", help="Only those that run this version.", show_default=False)
    ] = "",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on showing them as they change.", show_default=False)
    ] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the devices, with what they run and how their last flash ended."""
    where = place(kubeconfig, context)

    async def work(client: Client) -> None:
        found = await objects.everything(client, Device, where, labels=selector)
        kept = [each for each in found if _fits(each, type_, application, version)]
        if not kept and output.for_people:
            terminal.say(
                "There are no such devices."
                if found
                else "There are no devices: `edgewright devices add`, `import` or `discover` make some, or Akri does."
            )
            return
        objects.give(kept, Device, output, where)

    objects.show_or_watch(where, Device, labels=selector, watch=watch, show=work)


def _fits(device: RawObject, kind: str, application: str, version: str) -> bool:
    spec, status = device.get("spec") or {}, device.get("status") or {}
    pairs = ((kind, spec.get("type", "")), (application, status.get("application", "")))
    return all(not wanted or wanted.lower() == found.lower() for wanted, found in pairs) and (
        not version or version == status.get("version", "")
    )


@app.command("show")
def show(
    name: Name,
    *,
    output: Output = _TABLE,
    all_namespaces: AllNamespaces = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show a device: what it is and runs, its history, the log of its last failure, and why it is not updated."""
    where = place(kubeconfig, context, namespace, all_namespaces=all_namespaces)

    async def work(client: Client) -> None:
        async def text(raw: RawObject) -> list[str]:
            device = msgspec.convert(raw, Device)
            lines = device_text.described(device, SystemClock().now(), colour=terminal.coloured(sys.stdout))
            reads = why_world.ServerReads(client)
            return [*lines, f"Update:       {await why_world.sentence(reads, name, namespace=where.searched)}"]

        await objects.describe(client, Device, where, name, form=output, text=text)

    where.run(work)


@app.command("label")
def label(
    name: Name,
    labels: Changes,
    *,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Set or remove labels of a device, by which rollouts select and budgets group."""
    changes = changes_in(labels)
    where = place(kubeconfig, context)
    relabel(where, Device, name, changes)
    terminal.say(f"Device {name} is labelled. Those with it: edgewright devices list -l {labels[0]}{where.typed}")


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="What to call it.", show_default=False)],
    *,
    endpoint: Annotated[
        str, typer.Option("--endpoint", metavar="ADDRESS[:PORT]", help="Where it is found.", show_default=False)
    ],
    type_: Type = "",
    protocol: Protocol = "",
    serial: Annotated[
        str, typer.Option("--serial", help="What identifies the hardware for ever.", show_default=False)
    ] = "",
    label: Marks = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Add a device that no Akri discovers."""
    problem = endpoint_problem(endpoint, local=True)
    if problem is not None:
        raise typer.BadParameter(problem, param_hint="--endpoint")
    labels = dict(_pair(each) for each in label or ())
    device = Device(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=DeviceSpec(type=type_, protocol=protocol, endpoint=endpoint, serial=serial),
    )
    where = place(kubeconfig, context)
    where.run(lambda client: created(client, where, device))
    terminal.give(f"device {name} added")
    terminal.say(f"Whether it answers: edgewright devices check {endpoint}")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--label")
    return key, value


async def created(client: Client, where: Place, device: Device) -> None:
    """Makes a Device; Failed where its name is taken."""
    name = device.metadata.name
    try:
        await client.of(Device).create(device)
    except AlreadyExists:
        raise Failed(
            f"there is a Device {name} already: name another, or look with `edgewright devices show {name}`"
        ) from None
    except NotFound as error:
        raise missing(Device.kind, name, where, error) from None


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="A CSV file with the columns name and endpoint; - is standard input.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and check it, and change nothing.")] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Add or update the devices in a CSV file.

    Columns: name, endpoint, type, protocol, serial; any other column is a label of that name. Where a line is wrong,
    none is imported.
    """
    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8-sig")
    found, problems = device_import.read(text)
    if problems:
        for each in problems:
            terminal.say(f"{file}: {each}")
        raise Failed(f"{terminal.count(len(problems), 'line')} of {file} cannot be imported, and nothing was")
    where = place(kubeconfig, context)

    async def work(client: Client) -> None:
        api = client.raw(Device.kind)
        for each in found:
            try:
                await api.apply(each, manager="edgewright-import", force=True, dry_run=dry_run)
            except NotFound as error:
                raise missing(Device.kind, "", where, error) from None
            terminal.give(f"device {each['metadata']['name']} {'checked' if dry_run else 'imported'}")

    where.run(work)
    terminal.say(f"{terminal.count(len(found), 'device')}. All of them: edgewright devices list{where.typed}")


@app.command("release")
def release(names: Names, *, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """End the quarantine of devices: rollouts try them again."""
    where = place(kubeconfig, context)

    async def work(client: Client) -> None:
        for name in names:
            if await released(client, where, name):
                terminal.give(f"device {name} released")
            else:
                terminal.say(f"Device {name} is not in quarantine.")

    where.run(work)


async def released(client: Client, where: Place, name: str) -> bool:
    """Ends the quarantine of one device; False where it is in none."""
    api = client.raw(Device.kind)
    for _ in range(_TRIES):
        device = await objects.one(client, Device, where, name)
        patch = release_of(device)
        if patch is None:
            return False
        version = device["metadata"]["resourceVersion"]
        try:
            await api.patch(Key("", name), patch, resource_version=version, subresource="status")
        except Conflict:
            continue
        return True
    raise Failed(f"others keep changing Device {name}: try again")


app.command("check")(device_check.check)
app.command("discover")(device_check.discover)
