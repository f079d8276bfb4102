"""`edgewright demo`: the main job shown to a person, on the embedded control plane, with simulated devices.

Everything runs in this process but the flashers, which run in Pods as always. It ends with 0 only if everything that it
claims was checked, by asking the devices themselves.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape

from edgewright.api.device import Device
from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.api.flashjob import TLS_SECRET, FlashJob, FlashJobPhase, FlashJobSpec
from edgewright.api.instance import Instance
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.cli import machine, operator_options, up
from edgewright.cli.demo_screen import (
    DROPPING,
    REFUSED,
    REVERTED,
    Row,
    Seen,
    checks_text,
    claims,
    live_table,
    news,
    proof_table,
)
from edgewright.cli.failure import Failed
from edgewright.cli.signals import stop_on_signals
from edgewright.runtime import Client, Key
from edgewright.runtime.cache import Cache
from edgewright.runtime.config import Config
from edgewright.runtime.errors import KubernetesError
from edgewright.runtime.objects import ObjectMeta

if TYPE_CHECKING:
    from edgewright.cli.instance_registration import Registration
    from edgewright.devices.simulated.fleet import Fleet
    from edgewright.devices.simulated.registry import Registry
    from edgewright.local.control_plane import Running

NAMESPACE: Final = "default"
JOB: Final = "demo"
OLD, NEW = "0.1.0", "0.2.0"
APPLICATION: Final = "thermometer"
FAULTS: Final = (f"refuse-attestation={REFUSED}", f"drop-transfer:60:once={DROPPING}", f"boot-loop={REVERTED}")
_DEVICES: Final = 12
_FIRST_ADDRESS: Final = "127.32.0.1"
_SCALE: Final = 0.15
_PATIENCE: Final = 50.0
_LOOKS_EVERY: Final = 0.5
_TIDYING: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What is there once the curtain rises."""

    running: Running
    client: Client
    fleet: Fleet
    registry: Registry
    registration: Registration


def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave it running afterwards, to play with, until Ctrl-C.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Where to keep its data; default: a folder that goes with it.", show_default=False),
    ] = None,
) -> None:
    """Flash 12 simulated devices on an embedded control plane, and show what was proven. Takes less than a minute."""
    up.require_libraries()
    if (why := machine.no_pod_can_run()) is not None:
        raise Failed(why)
    console = Console(highlight=False, soft_wrap=True)
    if data is not None:
        if data.exists() and (not data.is_dir() or any(data.iterdir())):
            raise Failed(f"{data} is not an empty folder, and the demo wants one of its own: name another with --data")
        held = asyncio.run(run(data.absolute(), console, keep=keep))
    else:
        with tempfile.TemporaryDirectory(prefix="edgewright-demo-", ignore_cleanup_errors=True) as folder:
            held = asyncio.run(run(Path(folder), console, keep=keep))
    if held is None:
        raise KeyboardInterrupt
    if not held:
        raise Failed("not everything that the demo claims is so: see the marks above")


async def run(folder: Path, console: Console, *, keep: bool) -> bool | None:
    """The demonstration: whether all that it claims was found to be so; None where a signal ended it too soon."""
    held: bool | None = None
    started = time.monotonic()
    with stop_on_signals() as stop:
        console.print(f"[bold]1. Start[/] the control plane, the operator and {_DEVICES} simulated devices ({OLD})")
        async with opened(folder) as scene:
            showing = asyncio.create_task(show(scene, console, started=started))
            stopping = asyncio.create_task(scene.running.serve_until(stop))
            try:
                await asyncio.wait({showing, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if showing.done():
                    held = showing.result()
                    console.print(how_to_go_on(folder / "kubeconfig", kept=keep))
                if keep or held is None:
                    await stopping  # raises, where it was no signal that ended it
            finally:
                await ended(showing)
                await ended(stopping)
                if held is None:
                    await called_off(scene.client)
    return held


async def show(scene: Scene, console: Console, *, started: float) -> bool:
    """The scenes one after the other; whether all that is claimed was found to be so."""
    say = console.print
    rows = await discovered(scene)
    say(f"   Kubernetes at {scene.running.url}, firmware {NEW} in a registry at {scene.registry.host}")
    say("   Three of the devices are faulty, on purpose:")
    for row in rows:
        if row.fault:
            say(f"   device {row.number}: {row.fault}")
    say(f"\n[bold]2. Declare[/] FlashJob/{JOB}: these {_DEVICES} devices run {NEW}\n")
    job = await flashed(scene, rows, console)
    say("\n[bold]3. Ask[/] the devices themselves what they run\n")
    answers = await asked(scene.fleet)
    say(proof_table(rows, job, answers))
    seen = Seen(answers=answers, written=written_by(scene.fleet), left=await left_over(scene.client))
    checks = claims(rows, job, seen, old=OLD, new=NEW)
    say(f"\n[bold]4. What was proven[/], {time.monotonic() - started:.0f} s after the start\n")
    for line in checks_text(checks):
        say(line)
    return all(check.holds for check in checks)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Scene]:
    """Everything that the demo needs, running."""
    from edgewright.cli.instance_registration import Registration, pinned_certificate  # noqa: PLC0415 - as in all commands
    from edgewright.controllers.settings import Settings, Timing  # noqa: PLC0415
    from edgewright.devices.simulated.attestation import AttestationService  # noqa: PLC0415
    from edgewright.devices.simulated.firmware import esp_image  # noqa: PLC0415
    from edgewright.devices.simulated.registry import Registry  # noqa: PLC0415
    from edgewright.devices.timescale import TIME_SCALE  # noqa: PLC0415
    from edgewright.local import control_plane  # noqa: PLC0415
    from edgewright.local.access import directory, kubeconfig  # noqa: PLC0415

    directory.prepare(folder)
    flasher = ["env", f"{TIME_SCALE}={_SCALE}", *operator_options.FLASHER_COMMAND]
    settings = control_plane.Settings(
        data=folder, port=0, node="demo", images={FLASHER_IMAGE: flasher}, told=operator_options.TOLD
    )
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(control_plane.open(settings))
        await asyncio.to_thread(kubeconfig.write, folder / "kubeconfig", running.entrance.kubeconfig(running.url))
        tls = running.entrance.component("demo")
        client = await stack.enter_async_context(Client(Config(server=running.url, tls=tls, source="edgewright demo")))
        pinned = await pinned_certificate(client, namespace=NAMESPACE, name=TLS_SECRET)
        registry = await stack.enter_async_context(Registry())
        registry.add_image("demo/firmware", NEW, {"esp32": esp_image(version=NEW, project=APPLICATION)})
        fleet = await stack.enter_async_context(listening(pinned))
        attestation = await stack.enter_async_context(AttestationService(fleet.recognises))
        operator = Settings(
            local=True,
            plain_registries=(registry.host,),
            attestation=attestation.url,
            timing=Timing(first_backoff=1.0, status_every=0.5),
        )
        await up.add_operator(running, operator)
        registration = Registration(
            client,
            fleet,
            namespace=NAMESPACE,
            configuration="simulated",
            node="demo",
            every=_LOOKS_EVERY,
        )
        await registration.begin()
        running.go_on("registration", registration.run())
        yield Scene(running=running, client=client, fleet=fleet, registry=registry, registration=registration)


@asynccontextmanager
async def listening(pinned: str) -> AsyncIterator[Fleet]:
    """The devices, at the usual port, or each at a free one where somebody else has that or it may not be used."""
    from edgewright.devices.simulated.device import Times  # noqa: PLC0415
    from edgewright.devices.simulated.faults import parse_fault  # noqa: PLC0415
    from edgewright.devices.simulated.fleet import Fleet  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        for port in (machine.device_port(), 0):
            fleet = Fleet(
                count=_DEVICES,
                pinned=pinned,
                application=APPLICATION,
                version=OLD,
                first_address=_FIRST_ADDRESS,
                port=port,
                faults=[parse_fault(each) for each in FAULTS],
                times=Times(scale=_SCALE),
            )
            try:
                await stack.enter_async_context(fleet)
                break
            except OSError as error:
                if not port:
                    raise Failed(
                        f"{error.strerror or error}: the simulated devices cannot listen at {_FIRST_ADDRESS} and the "
                        "addresses after it"
                    ) from error
        yield fleet


async def discovered(scene: Scene) -> list[Row]:
    """The devices, once the inventory has a Device for each."""
    endpoints = {device.endpoint for device in scene.fleet}
    cache = Cache(scene.client.of(Device))
    async with following(cache) as changed:
        while not endpoints <= (names := {each.spec.endpoint: each.metadata.name for each in cache}).keys():
            await soon(changed, "the inventory has found every device")
    return [
        Row(
            number=device.number,
            endpoint=device.endpoint,
            name=names[device.endpoint],
            fault=", ".join(each.kind.value + (", once" if each.once else "") for each in device.faults),
        )
        for device in scene.fleet
    ]


async def flashed(scene: Scene, rows: Sequence[Row], console: Console) -> FlashJob:
    """Declares the FlashJob and follows it to its end."""
    instances = (await scene.client.of(Instance).list(NAMESPACE)).items
    job = FlashJob(
        metadata=ObjectMeta(name=JOB, namespace=NAMESPACE),
        spec=FlashJobSpec(
            uuid=tuple(each.metadata.uid for each in instances),
            firmware=f"{scene.registry.host}/demo/firmware:{NEW}",
            version=NEW,
            device="esp32",
            retries=1,
            timeout_seconds=40,
        ),
    )
    await scene.client.of(FlashJob).create(job)
    shown: FlashJob | None = None
    cache = Cache(scene.client.of(FlashJob), namespaces=[NAMESPACE])
    async with following(cache) as changed:
        with Live(console=console, auto_refresh=False, transient=False) as live:
            while True:
                now = cache.get(Key(NAMESPACE, JOB))
                if now is not None and now is not shown:
                    if console.is_terminal:
                        live.update(live_table(rows, now), refresh=True)
                    else:
                        for line in news(rows, shown, now):
                            console.print(line, markup=False)
                    shown = now
                if shown is not None and shown.status.phase in {FlashJobPhase.COMPLETED, FlashJobPhase.FAILED}:
                    return shown
                await soon(changed, "the FlashJob has ended")


@asynccontextmanager
async def following(*caches: Cache[Any]) -> AsyncIterator[asyncio.Event]:
    """Keeps caches, which are filled from the beginning; the event is set by every change."""
    changed = asyncio.Event()
    for cache in caches:
        cache.subscribe(lambda _: changed.set())
    tasks = [asyncio.create_task(cache.run()) for cache in caches]
    try:
        for cache in caches:
            await cache.wait_synced()
        yield changed
    finally:
        for task in tasks:
            await ended(task)


async def soon(changed: asyncio.Event, what: str) -> None:
    """Waits for the next change; Failed where none comes for too long."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await changed.wait()
    except TimeoutError:
        raise Failed(f"waited {_PATIENCE:.0f} s in vain until {what}") from None
    changed.clear()


async def asked(fleet: Fleet) -> dict[int, str]:
    """The version that each device tells over its own HTTP interface."""
    from edgewright.devices.http import request  # noqa: PLC0415

    async def one(endpoint: str) -> str:
        try:
            answer = await request("GET", f"http://{endpoint}/info")
            return str(msgspec.json.decode(answer.body)["version"])
        except (OSError, msgspec.DecodeError, KeyError) as error:
            return f"no answer ({error})"

    versions = await asyncio.gather(*(one(device.endpoint) for device in fleet))
    return {device.number: version for device, version in zip(fleet, versions, strict=True)}


def written_by(fleet: Fleet) -> dict[int, int]:
    """How often each device has been written, by its own journal."""
    return {device.number: len(device.journal.written) for device in fleet}


async def left_over(client: Client) -> list[Key]:
    """The Pods and Services that are still there, once they have had time to go."""
    pods = Cache(client.of(Pod), namespaces=[NAMESPACE])
    services = Cache(client.of(Service), namespaces=[NAMESPACE])
    left: list[Key] = []
    async with following(pods, services) as changed:
        with suppress(TimeoutError):
            async with asyncio.timeout(_TIDYING):
                while True:
                    changed.clear()
                    left = [each.key for each in (*pods, *services) if each.key.name != "kubernetes"]
                    if not left:
                        break
                    await changed.wait()
    return left


async def called_off(client: Client) -> None:
    """Deletes the FlashJob and waits until its flash Pods have ended: they would outlive this process."""
    with suppress(KubernetesError):
        await client.of(FlashJob).delete(Key(NAMESPACE, JOB))
        await left_over(client)


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancels a task and waits for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def how_to_go_on(kubeconfig: Path, *, kept: bool) -> str:
    """What to type next."""
    more = "To flash a board on your desk, and for all the rest: docs/README.md"
    if not kept:
        return f"\nTo look around in it with kubectl: [bold]{escape(sys.argv[0])} demo --keep[/]\n{more}"
    return (
        "\nIt goes on until Ctrl-C. In another terminal:\n\n"
        f"  export KUBECONFIG={escape(shlex.quote(str(kubeconfig)))}\n"
        f"  kubectl get devices\n  kubectl describe flashjob {JOB}\n  kubectl get flashjob {JOB} -o yaml\n\n{more}"
    )
