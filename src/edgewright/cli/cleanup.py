"""`edgewright cleanup`: what an installation left in a cluster, and the claims of flashes that nobody ends any more.

People run it when an operator is to go, or has gone; the chart runs it with --check before it is uninstalled. While an
operator leads it frees nothing: that is the operator's own work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edgewright.cli.failure import Failed
from edgewright.cli.operator_options import LEASE
from edgewright.cli.options import Context, Kubeconfig
from edgewright.runtime import Client, config
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.errors import Conflict, NotFound
from edgewright.runtime.lease import Lease
from edgewright.runtime.objects import Key, Resource

if TYPE_CHECKING:
    from edgewright.api.device import Device

_PATIENCE: Final = 90.0
"""A flash Pod has 30 seconds to end, and its node some more to say so."""
_LOOK_EVERY: Final = 0.5


def cleanup(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what is left; ends with 1 where anything is. The default.")
    ] = False,
    claims: Annotated[
        bool,
        typer.Option(
            "--claims",
            help="End the flashes that are left: delete their Pods and Services, wait until the Pods are gone, and "
            "free the devices. Refused while an operator leads.",
        ),
    ] = False,
    lease_name: Annotated[str, typer.Option("--lease-name", help="The name of the leader's Lease.")] = LEASE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Say what is left of Edgewright in a cluster, or free the devices of flashes that no operator ends any more."""
    if check and claims:
        raise typer.BadParameter("is not for --claims", param_hint="--check")
    loaded = config.load(kubeconfig=kubeconfig, context=context)
    if claims:
        asyncio.run(_free(loaded, lease_name))
    else:
        asyncio.run(_check(loaded))


async def _check(loaded: config.Config) -> None:
    async with Client(loaded) as client:
        found = await left(client)
    if found:
        raise Failed(f"there is still {', '.join(found)}: delete them first, while the operator runs that cleans up")
    print("nothing is left")


async def _free(loaded: config.Config, lease_name: str) -> None:
    async with Client(loaded) as client:
        for line in await free_claims(client, SystemClock(), lease_name=lease_name):
            print(line)


async def left(client: Client) -> list[str]:
    """What there is of our kinds, in words.

    A Device counts while a job has it: others come and go with discovery. Heartbeats are what gateways write of
    themselves, and nobody's.
    """
    from edgewright.api.capabilities import CAPABILITIES, kinds_of  # noqa: PLC0415 - other commands need none of it
    from edgewright.api.device import Device  # noqa: PLC0415
    from edgewright.api.edgeheartbeatshard import EdgeHeartbeatShard  # noqa: PLC0415

    found = []
    for kind in kinds_of(CAPABILITIES):
        if kind is EdgeHeartbeatShard:
            continue
        try:
            if kind is Device:
                claimed = len(await claimed_devices(client))
                found += [f"{claimed} flashes that run"] if claimed else []
                continue
            count = len((await client.raw(kind.kind).list()).items)
        except NotFound:
            continue
        found += [f"{count} {kind.kind.resource}"] if count else []
    return found


async def claimed_devices(client: Client) -> list[Device]:
    """The Devices that a job has."""
    from edgewright.api.device import Device  # noqa: PLC0415

    try:
        devices = (await client.of(Device).list()).items
    except NotFound:
        return []
    return [each for each in devices if each.status.claim is not None]


async def free_claims(client: Client, clock: Clock, *, lease_name: str = LEASE) -> list[str]:
    """Ends the flashes that are left and frees their devices, in this order; what was done, in words.

    A Pod that does not go keeps its device: nobody else may write to a device that is perhaps being written to.
    """
    from edgewright.api.device import Mark  # noqa: PLC0415
    from edgewright.api.pod import Pod  # noqa: PLC0415
    from edgewright.api.service import Service  # noqa: PLC0415

    await refuse_while_led(client, clock, lease_name)
    done: list[str] = []
    for kind in (Pod, Service):
        done += [
            f"{kind.kind.kind} {each.metadata.namespace}/{each.metadata.name} deleted"
            for each in (await client.of(kind).list(labels=Mark.JOB_UID)).items
            if await _delete(client, kind, each)
        ]
    await _until_gone(client, Mark.JOB_UID)
    await refuse_while_led(client, clock, lease_name)
    for device in await claimed_devices(client):
        change = {"status": {"claim": None}}
        version = device.metadata.resource_version
        try:
            await client.of(type(device)).patch(device.key, change, resource_version=version, subresource="status")
        except (Conflict, NotFound):
            done.append(f"Device {device.metadata.name} has changed meanwhile: run this again")
        else:
            done.append(f"Device {device.metadata.name} is free")
    done += await _let_go(client)
    return done or ["no flash was left"]


async def _let_go(client: Client) -> list[str]:
    """Takes our finalizers off FlashJobs that are being deleted: nothing of them runs any more."""
    from edgewright.api.flashjob import FINALIZERS, FlashJob  # noqa: PLC0415

    done = []
    try:
        jobs = (await client.of(FlashJob).list()).items
    except NotFound:
        return []
    for job in jobs:
        metadata = job.metadata
        kept = [each for each in metadata.finalizers if each not in FINALIZERS]
        if metadata.deletion_timestamp is None or len(kept) == len(metadata.finalizers):
            continue
        try:
            await client.of(FlashJob).patch(job.key, {"metadata": {"finalizers": kept}}, uid=metadata.uid)
        except NotFound:
            continue
        done.append(f"FlashJob {metadata.namespace}/{metadata.name} is let go")
    return done


async def refuse_while_led(client: Client, clock: Clock, name: str) -> None:
    """Raises where an operator holds its Lease: it ends its flashes itself."""
    leases = (await client.of(Lease).list(fields=f"metadata.name={name}")).items
    for lease in leases:
        if holds(lease, clock.now()):
            where = f"{lease.metadata.namespace}/{lease.metadata.name}"
            raise Failed(f"{lease.spec.holder_identity} leads by the Lease {where}: stop the operator first")


def holds(lease: Lease, now: datetime) -> bool:
    """Whether somebody holds the Lease: it is neither given back nor run out."""
    spec = lease.spec
    if not spec.holder_identity or not spec.renew_time:
        return False
    try:
        age = (now - datetime.fromisoformat(spec.renew_time)).total_seconds()
    except (ValueError, TypeError):
        return True  # nobody can tell: rather not
    return age <= (spec.lease_duration_seconds or 15)


async def _delete(client: Client, kind: type[Resource], found: Resource) -> bool:
    from edgewright.controllers.flashjob.manifests import OUTCOME_FINALIZER  # noqa: PLC0415

    metadata = found.metadata
    key = Key(metadata.namespace, metadata.name)
    try:
        await client.of(kind).delete(key, uid=metadata.uid)
        if OUTCOME_FINALIZER in metadata.finalizers:
            kept = [each for each in metadata.finalizers if each != OUTCOME_FINALIZER]
            await client.of(kind).patch(key, {"metadata": {"finalizers": kept}}, uid=metadata.uid)
    except NotFound:
        return False
    return True


async def _until_gone(client: Client, label: str, patience: float = _PATIENCE) -> None:
    from edgewright.api.pod import Pod  # noqa: PLC0415

    # Looked at once before any time counts: who is told that it took too long is told what.
    left_over: Collection[Pod] = (await client.of(Pod).list(labels=label)).items
    try:
        async with asyncio.timeout(patience):
            while left_over:
                await asyncio.sleep(_LOOK_EVERY)
                left_over = (await client.of(Pod).list(labels=label)).items
    except TimeoutError:
        names = _named(list(left_over))
        raise Failed(f"{names} did not end, so no device was freed: look at their node, then run this again") from None


def _named(pods: Sequence[Resource]) -> str:
    return ", ".join(f"Pod {each.metadata.namespace}/{each.metadata.name}" for each in pods[:3])
