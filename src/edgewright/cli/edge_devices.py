"""`edgewright edge devices|show|workloads|label`: what is known of Linux edge devices, as one looks at a fleet.

When a device was last heard comes from the heartbeat shards, which are newer than its status. Only `label` changes
anything: the labels of one device.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated, Final

import msgspec
import typer

from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest, id_record
from edgewright.api.edgeheartbeatshard import EdgeHeartbeatShard, last_heard
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload
from edgewright.cli import completion, edge_text, objects, printing, terminal
from edgewright.cli.cluster import Context, Kubeconfig, Labels, Namespace, Place, place
from edgewright.cli.labels import Changes, changes_in, relabel
from edgewright.cli.printing import Form, Output
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, RawObject

Name = Annotated[
    str, typer.Argument(help="The id of the device.", autocompletion=completion.edge_devices, show_default=False)
]
_TABLE: Final = Form()


def devices(
    *,
    output: Output = _TABLE,
    selector: Labels = "",
    state: Annotated[
        str,
        typer.Option(
            "--state",
            help="Only those in this state: Ready, NotReady, Offline, New, Leaving, Pending, Denied, Decommissioned.",
            show_default=False,
        ),
    ] = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the edge devices, and those that ask to be let in: their state, and when they were last heard."""
    where = place(kubeconfig, context, namespace)

    async def work(client: Client) -> None:
        raw = await objects.everything(client, EdgeDevice, where, labels=selector)
        if not output.for_people:
            chosen = [each for each in raw if not state or edge_text.state(_device(each)).lower() == state.lower()]
            objects.give(chosen, EdgeDevice, output, where)
            return
        requests = [] if selector else await _requests(client, where)
        rows = edge_text.rows(map(_device, raw), requests, await heard(client), SystemClock().now())
        rows = [row for row in rows if not state or row[1].lower() == state.lower()]
        if not rows:
            terminal.say(
                f"There are no such edge devices in namespace {where.namespace}."
                if raw
                else f"There are no edge devices in namespace {where.namespace}: `edgewright edge bundle` writes what "
                "a new one needs."
            )
            return
        _table(edge_text.HEAD, rows)

    where.run(work)


def show(
    name: Name,
    *,
    output: Output = _TABLE,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show an edge device: its state and why, its certificate, its workloads, and when it was last heard."""
    where = place(kubeconfig, context, namespace)

    async def work(client: Client) -> None:
        async def text(raw: RawObject) -> list[str]:
            record = id_record(each for each in await _requests(client, where) if each.metadata.name == name)
            now, colour = SystemClock().now(), terminal.coloured(sys.stdout)
            return edge_text.described(_device(raw), record, await heard(client), now, colour=colour)

        await objects.describe(client, EdgeDevice, where, name, form=output, text=text)

    where.run(work)


def workloads(
    name: Annotated[str, typer.Argument(help="The workload; default: all.", show_default=False)] = "",
    *,
    selector: Labels = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show which workload is how on which device, and how far a change of it is that goes out in steps."""
    where = place(kubeconfig, context, namespace)

    async def work(client: Client) -> None:
        raw = await objects.everything(client, EdgeDevice, where, labels=selector)
        head, rows = edge_text.workload_rows(map(_device, raw), name, SystemClock().now())
        rollouts = edge_text.rollout_rows(await _workloads(client, where), name)
        if rollouts:
            _table(edge_text.ROLLOUTS_HEAD, rollouts)
        if not rows:
            terminal.say(f"No edge device in namespace {where.namespace} has {'it' if name else 'a workload'}.")
            return
        if rollouts:
            terminal.give("\n")
        _table(head, rows)

    where.run(work)


def label(
    name: Name,
    labels: Changes,
    *,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Set or remove labels of an edge device, by which workloads select it."""
    changes = changes_in(labels)
    where = place(kubeconfig, context, namespace)
    relabel(where, EdgeDevice, name, changes)
    terminal.say(f"EdgeDevice {name} is labelled. Its workloads: edgewright edge show {name}{where.typed}")


async def heard(client: Client) -> dict[Key, datetime]:
    """When each device was last heard by any gateway; empty where their kind is not served."""
    try:
        return last_heard((await client.of(EdgeHeartbeatShard).list(None)).items)
    except NotFound:
        return {}


async def _requests(client: Client, where: Place) -> list[EdgeDeviceSignedRequest]:
    return (await client.of(EdgeDeviceSignedRequest).list(where.namespace)).items


async def _workloads(client: Client, where: Place) -> list[EdgeWorkload]:
    """The workloads of both names."""
    found: list[EdgeWorkload] = []
    for kind in (EdgeWorkload, EdgeDeployment):
        found += (await client.of(kind).list(where.namespace)).items
    return found


def _device(raw: RawObject) -> EdgeDevice:
    return msgspec.convert(raw, EdgeDevice)


def _table(head: tuple[str, ...], rows: list[list[str]]) -> None:
    colour, width = terminal.coloured(sys.stdout), terminal.width(sys.stdout)
    terminal.give(printing.table(head, rows, colour=colour, width=width))
