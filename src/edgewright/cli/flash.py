"""`edgewright flash`: creates one FlashJob from flags and follows it to the proof, with a progress bar per device.

How much of a firmware is sent comes from the flash Pods' logs, so that following costs no write. It ends with 1 where a
device failed, and shows why.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Final

import typer

from edgewright.api.device import Device
from edgewright.api.flash_pod import FLASH_CONTAINER
from edgewright.api.flashjob import DeviceState, FlashedDevice, FlashJob, FlashJobPhase, FlashJobSpec
from edgewright.cli import completion, rollout_create, rollout_flags, terminal
from edgewright.cli.cluster import Context, Kubeconfig, Namespace, Place, missing, place
from edgewright.cli.failure import Failed, TimeIsUp, WrongUsage
from edgewright.cli.operator_options import PlainRegistries
from edgewright.cli.rollout_follow import kept
from edgewright.cli.rollout_text import device_text, name_of
from edgewright.runtime import spans
from edgewright.runtime.cache import Cache
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import AlreadyExists, KubernetesError, NotFound
from edgewright.runtime.objects import ObjectMeta
from edgewright.runtime.text import cut

_SENT: Final = re.compile(rb"(\d{1,3}) % of \d+ bytes sent")
_LOOKS_EVERY: Final = 1.0
_LOOKED_AT: Final = 20
_BAR: Final = 20


def flash(
    devices: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DEVICE…",
            help="Names or uids of Devices, or uids of Akri Instances.",
            show_default=False,
            autocompletion=completion.devices,
        ),
    ] = None,
    *,
    firmware: Annotated[
        str, typer.Option("--firmware", metavar="IMAGE", help="The OCI image with the firmware.", show_default=False)
    ],
    version: rollout_create.Version = "",
    selector: rollout_create.Selected = "",
    type_: Annotated[
        str, typer.Option("--type", help="The type of device; with -l only devices of it.", show_default=False)
    ] = "",
    name: Annotated[
        str, typer.Option("--name", help="The name of the FlashJob; default: what it brings.", show_default=False)
    ] = "",
    max_concurrent: rollout_create.MaxConcurrent = None,
    flasher_image: rollout_create.FlasherImage = None,
    external_ip: Annotated[
        str | None,
        typer.Option("--external-ip", help="Where devices find the flash Pod.", show_default=False),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Flash devices that run it already, too.", show_default=False)
    ] = False,
    plain_registry: PlainRegistries = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end.")] = True,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="Follow it no longer.", show_default=False)
    ] = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Flash devices now, and follow it until each is proven to run the firmware; ends with 1 where one failed."""
    if not devices and not selector:
        raise WrongUsage("name devices, or select them with --selector; `edgewright devices list` shows them")
    limit = rollout_flags.seconds(timeout, "--timeout") if timeout else None
    where = place(kubeconfig, context, namespace)
    wanted = version or rollout_create.version_of(firmware, type_, plain_registry or [])

    async def work(client: Client) -> FlashJob:
        uuids = list(dict.fromkeys(devices or ()))
        if selector:
            try:
                found = (await client.of(Device).list(labels=selector)).items
            except NotFound as error:
                raise missing(Device.kind, "", where, error) from None
            fitting = [each for each in found if not type_ or each.spec.type.lower() == type_.lower()]
            uuids += [each.metadata.name for each in fitting if each.metadata.name not in uuids]
        if not uuids:
            raise Failed(f"no device has {selector}: `edgewright devices list` shows them with their labels")
        job = FlashJob(
            metadata=ObjectMeta(name=name or rollout_flags.name_from(firmware, wanted), namespace=where.namespace),
            spec=FlashJobSpec(
                uuid=tuple(uuids),
                firmware=firmware,
                version=wanted,
                device=type_ or None,
                max_concurrent=max_concurrent,
                flashjob_pod_image=flasher_image,
                external_ip=external_ip,
                force=force or None,
            ),
        )
        made = await created(client, where, job)
        if not wait:
            return made
        return await followed(client, made, limit)

    job = where.run(work)
    if not wait:
        terminal.give(f"flashjob {job.metadata.name} created")
        terminal.say(f"How far it is: edgewright devices list{where.typed}")
        return
    failed = [each for each in job.status.devices if each.state == DeviceState.FAILED]
    for each in failed:
        terminal.say(f"{name_of(each)}: {device_text(each)}")
        terminal.say(f"  its log: edgewright devices show {name_of(each)}{where.typed}")
    counts = job.status.counts
    total = counts.total if counts is not None else len(job.spec.uuids)
    if failed or (counts is not None and counts.failed) or job.status.phase == "Failed":
        count = counts.failed if counts is not None and counts.failed else len(failed) or total
        raise Failed(f"{count} of {terminal.count(total, 'device')} failed: {job.status.message}")
    terminal.give(f"{terminal.count(total, 'device')} {'runs' if total == 1 else 'run'} {wanted}")


async def created(client: Client, where: Place, job: FlashJob) -> FlashJob:
    """Makes the FlashJob; Failed where its name is taken."""
    try:
        return await client.of(FlashJob).create(job)
    except AlreadyExists:
        raise Failed(
            f"there is a FlashJob {job.metadata.name} in namespace {where.namespace} already: name another with --name"
        ) from None
    except NotFound as error:
        raise missing(FlashJob.kind, job.metadata.name, where, error) from None


async def followed(client: Client, job: FlashJob, limit: float | None) -> FlashJob:
    """The job once all its devices have ended; on the way it is shown on standard error."""
    cache = Cache(client.of(FlashJob), namespaces=[job.metadata.namespace], fields=f"metadata.name={job.metadata.name}")
    bars = Bars()
    try:
        async with asyncio.timeout(limit), kept(cache) as changed:
            while True:
                changed.clear()
                now = cache.get(job.key)
                if now is None or now.metadata.uid != job.metadata.uid:
                    raise Failed(f"FlashJob {job.key} was deleted before its devices had ended")
                bars.show(now, await sent(client, now) if bars.live else {})
                if has_ended(now, generation=job.metadata.generation):
                    return now
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOKS_EVERY if bars.live else None):
                        await changed.wait()
    except TimeoutError:
        raise TimeIsUp(f"FlashJob {job.key} has not ended after {spans.span(limit or 0)}; it goes on") from None


class Bars:
    """A progress bar per device on a terminal; elsewhere a dated line per change."""

    def __init__(self) -> None:
        self.live = terminal.is_terminal(sys.stderr)
        self._screen = terminal.Screen(sys.stderr)
        self._told: dict[str, str] = {}

    def show(self, job: FlashJob, progress: Mapping[str, int]) -> None:
        """Shows how far it is."""
        if self.live:
            colour = terminal.coloured(sys.stderr)
            self._screen.draw(bars(job, progress, width=terminal.width(sys.stderr), colour=colour))
            return
        now = terminal.stamp(SystemClock().now())
        for each in job.status.devices:
            text = device_text(each)
            if each.state and self._told.get(each.uuid) != text:
                terminal.say(f"{now} device {name_of(each)}: {text}")
                self._told[each.uuid] = text


def bars(job: FlashJob, progress: Mapping[str, int], *, width: int | None, colour: bool = False) -> list[str]:
    """A line per device: how much of the firmware it has, and where it stands."""
    names = [name_of(each) for each in job.status.devices]
    longest = max(map(len, names), default=0)
    lines = [f"FlashJob {job.key}: {job.status.progress or '0'} done. {job.status.message}".rstrip()]
    for each in job.status.devices:
        share = 100 if each.state == DeviceState.DONE else progress.get(each.uuid, 0)
        full = _BAR * share // 100
        text = f"{name_of(each):<{longest}} [{'#' * full}{'.' * (_BAR - full)}] {share:>3} % {device_text(each)}"
        lines.append(text)
    fitting = [line if width is None else cut(line, width - 1) for line in lines]
    if not colour:
        return fitting
    return [fitting[0], *(_coloured(line, each) for line, each in zip(fitting[1:], job.status.devices, strict=True))]


def _coloured(line: str, device: FlashedDevice) -> str:
    return line.replace(f" {device.state}", f" {terminal.state(device.state, on=True)}", 1) if device.state else line


async def sent(client: Client, job: FlashJob) -> dict[str, int]:
    """How many per cent of the firmware each device that is being flashed has, by the logs of their Pods."""
    flashing = [each.uuid for each in job.status.devices if each.state == DeviceState.FLASHING][:_LOOKED_AT]
    answers = await asyncio.gather(*(_log(client, job, uuid) for uuid in flashing))
    return {uuid: share for uuid, share in zip(flashing, map(last_share, answers), strict=True) if share is not None}


async def _log(client: Client, job: FlashJob, uuid: str) -> bytes:
    from edgewright.controllers.flashjob.names import pod_name  # noqa: PLC0415 - only who follows needs it

    name = pod_name(job.metadata.name, uuid)
    path = f"/api/v1/namespaces/{job.metadata.namespace}/pods/{name}/log"
    query = {"container": FLASH_CONTAINER, "tailLines": "5"}
    try:
        return await client.transport.request("GET", path, query=query, timeout=5.0)
    except KubernetesError:  # it has not begun, or has ended: the status tells
        return b""


def last_share(log: bytes) -> int | None:
    """How many per cent are sent, by the last lines of a flasher's log; None where they do not tell."""
    found: Iterable[bytes] = _SENT.findall(log)
    shares = [int(each) for each in found]
    if shares:
        return min(shares[-1], 100)
    return 100 if b"the firmware is with the device" in log else None


def has_ended(job: FlashJob, *, generation: int = 0) -> bool:
    """Whether nothing more happens to the devices of a job, as it was declared in this generation or later."""
    status = job.status
    seen = status.observed_generation == job.metadata.generation and job.metadata.generation >= generation
    under_way = status.counts is not None and status.counts.flashing + status.counts.waiting > 0
    return seen and not under_way and status.phase in {FlashJobPhase.COMPLETED, FlashJobPhase.FAILED}
