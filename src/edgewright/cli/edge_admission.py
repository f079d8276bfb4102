"""`edgewright edge approve|deny|revoke|decommission|rotate`: who is let in, who is not any more, and who signs.

What is decided about an id stands in its EdgeDeviceSignedRequest, which every replica of the gateway watches: it counts
within seconds and outlives the EdgeDevice. Each command changes one object, or says why it changed none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from edgewright.api.edge_protocol import REGISTER
from edgewright.api.edge_tombstone import DECOMMISSIONED, registered_elsewhere
from edgewright.api.edgedevice import KEY_ANNOTATION, SIGNED_REQUEST, EdgeDevice
from edgewright.api.edgedevicesignedrequest import ADMITTED, EdgeDeviceSignedRequest, id_record
from edgewright.cli import terminal
from edgewright.cli.cluster import Context, Kubeconfig, Namespace, Place, missing, place
from edgewright.cli.edge_devices import Name
from edgewright.cli.failure import Failed
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import Conflict, NotFound
from edgewright.runtime.objects import Key

Reason = Annotated[str, typer.Option("--reason", help="Why, for those who ask later.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)]
_TRIES: Final = 5


def approve(
    name: Name,
    *,
    target_set: Annotated[
        str, typer.Option("--set", help="The EdgeDeviceSet that it becomes a member of.", show_default=False)
    ] = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Let a device in that asks, that was denied or decommissioned, or that has lost its certificate."""
    where = place(kubeconfig, context, namespace)
    spec: dict[str, Any] = {"approved": True, "denied": False, "decommissioned": False, "reason": None}
    if target_set:
        spec["targetSet"] = target_set

    async def work(client: Client) -> str:
        record = await _record(client, where, name)
        device = await _found(client, where.key(name))
        if record is None and device is None:
            raise Failed(
                f"no device {name} has asked to be let in: `edgewright edge devices{where.typed}` shows those that have"
            )
        if record is not None:
            marks = {ADMITTED: None if device is None else record.metadata.annotations.get(ADMITTED)}
            await _change(client, where, name, spec, marks)
        if device is None:
            return f"Device {name} is approved: it is let in when it asks again."
        # A device that is known registers with its own certificate, or once with any key after this.
        change: dict[str, Any] = {}
        if KEY_ANNOTATION in device.metadata.annotations:
            change = {"annotations": {KEY_ANNOTATION: None}}
        elif registered_elsewhere(device):
            change = {"labels": {SIGNED_REQUEST: "true"}}
        if change:
            version = device.metadata.resource_version
            await client.of(EdgeDevice).patch(device.key, {"metadata": change}, resource_version=version)
        return f"Device {name} is approved: it may register again with the registration certificate, once."

    terminal.say(where.run(work))


def deny(
    name: Name,
    *,
    reason: Reason = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Keep a device out that asks to be let in, however often it asks."""
    where = place(kubeconfig, context, namespace)

    async def work(client: Client) -> None:
        if await _found(client, where.key(name)) is not None:
            raise Failed(
                f"device {name} is in: `edgewright edge revoke {name}{where.typed}` voids its certificates, and "
                f"`edgewright edge decommission {name}{where.typed}` removes it"
            )
        await _change(client, where, name, {"approved": False, "denied": True, "reason": reason or None})

    where.run(work)
    terminal.say(f"Device {name} is denied. To let it in after all: edgewright edge approve {name}{where.typed}")


def revoke(
    name: Annotated[
        str,
        typer.Argument(help=f"The id of the device; {REGISTER}: all registration certificates.", show_default=False),
    ],
    *,
    reason: Reason = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Void every certificate that a device has: within seconds no replica of the gateway takes them."""
    where = place(kubeconfig, context, namespace)
    now = SystemClock().now()

    async def work(client: Client) -> None:
        known = name == REGISTER or await _found(client, where.key(name)) or await _record(client, where, name)
        if not known:
            raise Failed(f"there is no device {name} in namespace {where.namespace}")
        await _change(client, where, name, {"revokedBefore": _stamp(now), "reason": reason or None})

    where.run(work)
    terminal.say(
        "The registration certificates until now are void: give new devices a new `edgewright edge bundle`."
        if name == REGISTER
        else f"The certificates of device {name} until now are void. "
        f"It gets a new one after: edgewright edge approve {name}{where.typed}"
    )


def decommission(
    name: Name,
    *,
    reason: Reason = "",
    yes: Yes = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Remove a device for good: it removes its workloads, disconnects, and does not come back by itself."""
    where = place(kubeconfig, context, namespace)
    if not terminal.asks(f"Remove device {name} and everything that runs on it?", yes=yes):
        raise typer.Exit(1)

    async def work(client: Client) -> None:
        device = await _found(client, where.key(name))
        if device is None:
            raise Failed(f"there is no EdgeDevice {name} in namespace {where.namespace}")
        spec = DECOMMISSIONED | ({"reason": reason} if reason else {})
        await _change(client, where, name, spec)
        await client.of(EdgeDevice).delete(device.key, uid=device.metadata.uid)

    where.run(work)
    terminal.say(
        f"Device {name} is told to disconnect when it next asks. "
        f"To let it in again: edgewright edge approve {name}{where.typed}"
    )


def rotate(
    *,
    finish: Annotated[
        bool, typer.Option("--finish", help="Trust the authorities before no more.", show_default=False)
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --finish: also where devices still have their certificates.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Let a new authority sign the certificates of devices; the one before stays trusted until --finish."""
    from edgewright.gateway import rotation  # noqa: PLC0415 - other commands need none of it
    from edgewright.gateway.objects import Secret  # noqa: PLC0415

    where = place(kubeconfig, context, namespace)

    async def work(client: Client) -> str:
        secrets, key = client.of(Secret), where.key(rotation.CA_SECRET)
        try:
            secret = await secrets.get(key)
            known = rotation.authorities_in(secret)
        except NotFound:
            raise Failed(f"there is no gateway in namespace {where.namespace}: name its namespace with -n") from None
        except rotation.Unusable as error:
            raise Failed(str(error)) from None
        version = secret.metadata.resource_version
        if finish:
            left = await _left(client, known.current.short)
            if left and not force:
                raise Failed(
                    f"{terminal.count(len(left), 'device')} still use a certificate of an authority before, such as "
                    f"{left[0]}: wait until they have renewed, or lose them with --force"
                )
            await secrets.patch(key, {"data": rotation.ended()}, resource_version=version)
            return "Only the present authority is trusted now."
        data = rotation.begun(known, SystemClock().now())
        if not data:
            return "A new authority is on its way already: it signs when every gateway trusts it."
        await secrets.patch(key, {"data": data}, resource_version=version)
        return (
            "A new authority is trusted within seconds, and signs from in two minutes on. When all devices have "
            f"renewed: edgewright edge rotate --finish{where.typed}"
        )

    terminal.say(where.run(work))


async def _left(client: Client, current: str) -> list[str]:
    """The devices whose last certificate is by another authority, or by nobody knows whom."""
    found = (await client.of(EdgeDevice).list(None)).items
    return sorted(
        each.metadata.name
        for each in found
        if (each.metadata.annotations.get(KEY_ANNOTATION) or registered_elsewhere(each))
        and (each.status.certificate is None or each.status.certificate.issuer != current)
    )


async def _found(client: Client, key: Key) -> EdgeDevice | None:
    try:
        return await client.of(EdgeDevice).get(key)
    except NotFound as error:
        if error.status.details is None or not error.status.details.name:
            raise Failed("EdgeDevice is not served: run `edgewright crds install` first") from None
        return None


async def _record(client: Client, where: Place, name: str) -> EdgeDeviceSignedRequest | None:
    """The record of an id, in whichever namespace the gateway keeps it."""
    try:
        found = (await client.of(EdgeDeviceSignedRequest).list(None, fields=f"metadata.name={name}")).items
    except NotFound as error:
        raise missing(EdgeDeviceSignedRequest.kind, name, where, error) from None
    return id_record(found)


async def _change(
    client: Client, where: Place, name: str, spec: dict[str, Any], marks: dict[str, str | None] | None = None
) -> None:
    """Changes the record of an id, or creates it."""
    api = client.raw(EdgeDeviceSignedRequest.kind)

    async def attempt() -> None:
        record = await _record(client, where, name)
        if record is not None:
            metadata = {"metadata": {"annotations": marks}} if marks else {}
            await api.patch(record.key, {"spec": spec, **metadata}, resource_version=record.metadata.resource_version)
            return
        kind = EdgeDeviceSignedRequest.kind
        given = {key: value for key, value in spec.items() if value is not None}
        await api.create(
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": name, "namespace": where.namespace},
                "spec": {"targetNamespace": where.namespace, **given},
            }
        )

    await _insisted(attempt, name)


async def _insisted(attempt: Callable[[], Awaitable[None]], name: str) -> None:
    for _ in range(_TRIES):
        try:
            return await attempt()
        except Conflict:
            continue  # somebody else wrote it in between
    raise Failed(f"the record of device {name} keeps changing: try again")


def _stamp(now: datetime) -> str:
    return f"{now:%Y-%m-%dT%H:%M:%SZ}"
