"""`edgewright demo`: a firmware rolled out to a small fleet, and a bad one stopped and recalled, shown to a person.

Everything runs in this process, on the embedded control plane with simulated devices, but the flashers, which run in
Pods as always. It ends with 0 only if everything that it claims was checked, by asking the devices themselves.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO, cast

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import (
    Batch,
    Budget,
    DeviceSelector,
    FirmwareRollout,
    FirmwareRolloutSpec,
    Gate,
    RolloutPhase,
    StopAction,
    StopRule,
)
from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.api.flashjob import TLS_SECRET, FlashJobTemplate
from edgewright.api.label_selector import LabelSelector
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.cli import machine, operator_options, rollout_follow, up, up_operator
from edgewright.cli.cluster import Place
from edgewright.cli.demo_screen import (
    BAD,
    BUDGET,
    CANARIES,
    CRASHING,
    DROPPING,
    NEW,
    OLD,
    PER_SITE,
    REFUSED,
    SITES,
    Row,
    Seen,
    checks_text,
    claims,
    proof_table,
)
from edgewright.cli.failure import Failed
from edgewright.cli.signals import stop_on_signals
from edgewright.controllers.rollout import changes, why_world
from edgewright.runtime import Client, Key
from edgewright.runtime.cache import Cache
from edgewright.runtime.config import Config
from edgewright.runtime.errors import KubernetesError
from edgewright.runtime.objects import ObjectMeta

if TYPE_CHECKING:
    from edgewright.cli.instance_registration import Registration
    from edgewright.devices.simulated.faults import Fault
    from edgewright.devices.simulated.fleet import Fleet
    from edgewright.devices.simulated.registry import Registry
    from edgewright.local.control_plane import Running

NAMESPACE: Final = "default"
GOOD_ROLLOUT, BAD_ROLLOUT = f"thermometer-{NEW}", f"thermometer-{BAD}"
APPLICATION: Final = "thermometer"
FAULTS: Final = (f"refuse-attestation={REFUSED}", f"drop-transfer:60:once={DROPPING}")
_CRASHES_AFTER: Final = 2.0
"""Seconds that the bad firmware runs on one device after its proof was written down, however long a busy machine takes
for that; then it crashes, and the device goes back.
"""
_CRASH: Final = f"boot-loop:240={CRASHING}"
"""What it does there whenever it is rolled out again (--keep): it runs long enough to be proven on a busy machine."""
_DEVICES: Final = len(SITES) * PER_SITE
_SITE, _RING, _CANARY = "site", "ring", "canary"
_FIRST_ADDRESS: Final = "127.32.0.1"
_SCALE: Final = 0.05
_PATIENCE: Final = 300.0
"""Seconds for a rollout: a limit only ends what failed, and a busy machine is no fault."""
_LOOKS_EVERY: Final = 0.5
_SOAK: Final = 2
_LONG_SOAK: Final = 120
"""Nobody waits for its end: the crash comes before, on a busy machine too."""
_TIDYING: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What is there once the curtain rises."""

    running: Running
    client: Client
    fleet: Fleet
    registry: Registry
    registration: Registration
    where: Place


def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave it running until Ctrl-C, and print a link to its web page.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Where to keep its data; default: a folder that goes with it.", show_default=False),
    ] = None,
) -> None:
    """Roll firmware out to 12 simulated devices on an embedded control plane, and show what was proven."""
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
        console.print(
            f"[bold]1. Start[/] the control plane, the operator and {_DEVICES} simulated devices ({OLD}) "
            f"at {len(SITES)} sites"
        )
        async with opened(folder) as scene:
            showing = asyncio.create_task(show(scene, console, started=started))
            stopping = asyncio.create_task(scene.running.serve_until(stop))
            try:
                await asyncio.wait({showing, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if showing.done():
                    held = showing.result()
                    if keep:
                        await kept(folder / "kubeconfig", console, stopping)
                    else:
                        console.print(how_to_go_on(folder / "kubeconfig"))
                else:
                    await stopping  # raises, where it was no signal that ended it
            finally:
                await ended(showing)
                await ended(stopping)
                if held is None:
                    await called_off(scene.client)
    return held


async def kept(kubeconfig: Path, console: Console, stopping: asyncio.Task[None]) -> None:
    """Serves the web page too, says how to go on, and waits for the end, whatever brings it."""
    page = up.Page.at(up.Listen("127.0.0.1", 0))
    async with page.served(kubeconfig) as link:
        console.print(how_to_go_on(kubeconfig, link=link))
        await stopping


async def show(scene: Scene, console: Console, *, started: float) -> bool:
    """The scenes one after the other; whether all that is claimed was found to be so."""
    say = console.print
    rows = await discovered(scene)
    await labelled(scene, rows)
    say(f"   Kubernetes at {scene.running.url}, firmware in a registry at {scene.registry.host}")
    say("   Two of the devices are faulty, on purpose:")
    for row in rows:
        if row.fault:
            say(f"   device {row.number}, {row.name}: {row.fault}")
    say(
        f"\n[bold]2. Roll out {NEW}[/]: {len(CANARIES)} canaries, {_SOAK} s to see that they are well, then a third, "
        f"then the rest; at most {BUDGET} devices of a site at once\n"
    )
    good = await rolled_out(scene, good_rollout(scene.registry.host), console)
    refused = next(row.name for row in rows if row.number == REFUSED)
    say(f"\n   edgewright rollout why {refused}")
    why = await why_world.sentence(why_world.ServerReads(scene.client), refused, namespace=scene.where.searched)
    say(f"   {why}", markup=False)
    say(f"\n[bold]3. Roll out {BAD}[/], which crashes on device {CRASHING} some seconds after it was proven to run\n")
    bad = await rolled_out_and_crashed(scene, bad_rollout(scene.registry.host), console)
    say(f"\n[bold]4. Recall[/]: what {bad.metadata.name} changed goes back to what it ran before\n")
    recall = await followed(scene, bad.status.recall, display_on(console)) if bad.status.recall else bad
    say("\n[bold]5. Ask[/] the devices themselves what they run\n")
    seen = Seen(
        answers=await asked(scene.fleet),
        journals={device.number: tuple(device.journal) for device in scene.fleet},
        devices=await by_number(scene, rows),
        good=good,
        bad=bad,
        recall=recall,
        why=why,
        left=await left_over(scene.client),
    )
    say(proof_table(rows, seen))
    checks = claims(rows, seen)
    say(f"\n[bold]6. What was proven[/], {time.monotonic() - started:.0f} s after the start\n")
    for line in checks_text(checks):
        say(line)
    return all(check.holds for check in checks)


def good_rollout(registry: str) -> FirmwareRollout:
    """The rollout that goes well: canaries, a third, the rest."""
    return _rollout(
        GOOD_ROLLOUT,
        registry,
        NEW,
        batches=(
            _canaries(soak=_SOAK),
            Batch(name="third", size="33%", gate=Gate(success_percent=70)),
            Batch(name="rest", gate=Gate(success_percent=70)),
        ),
        stop=(StopRule(threshold="50%", min_sample=4, action=StopAction.PAUSE),),
    )


def bad_rollout(registry: str) -> FirmwareRollout:
    """The rollout that goes wrong: one device that falls back is enough to take it all back."""
    return _rollout(
        BAD_ROLLOUT,
        registry,
        BAD,
        batches=(_canaries(soak=_LONG_SOAK),),
        stop=(StopRule(outcomes=("regressed", "reverted"), threshold=1, action=StopAction.RECALL),),
    )


def _canaries(*, soak: int) -> Batch:
    chosen = DeviceSelector(labels=LabelSelector(match_labels={_RING: _CANARY}))
    return Batch(name=_CANARY, selector=chosen, soak_seconds=soak)


def _rollout(
    name: str, registry: str, version: str, *, batches: tuple[Batch, ...], stop: tuple[StopRule, ...]
) -> FirmwareRollout:
    return FirmwareRollout(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE),
        spec=FirmwareRolloutSpec(
            selector=DeviceSelector(applications=(APPLICATION,)),
            firmware=f"{registry}/demo/firmware:{version}",
            version=version,
            template=FlashJobTemplate(retries=1, timeout_seconds=120),
            batches=batches,
            budgets=(Budget(label=_SITE, max_unavailable=BUDGET),),
            stop=stop,
        ),
    )


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Scene]:
    """Everything that the demo needs, running."""
    from edgewright.cli.instance_registration import Registration, pinned_certificate  # noqa: PLC0415 - as in all commands
    from edgewright.controllers.settings import Settings, Timing  # noqa: PLC0415
    from edgewright.devices.simulated.attestation import AttestationService  # noqa: PLC0415
    from edgewright.devices.simulated.firmware import esp_image  # noqa: PLC0415
    from edgewright.devices.simulated.registry import Registry  # noqa: PLC0415
    from edgewright.local import control_plane  # noqa: PLC0415
    from edgewright.local.access import directory, kubeconfig  # noqa: PLC0415

    directory.prepare(folder)
    flasher = operator_options.flasher_command(_SCALE)
    settings = control_plane.Settings(
        data=folder, port=0, node="demo", images={FLASHER_IMAGE: flasher}, told=operator_options.TOLD
    )
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(control_plane.open(settings))
        await asyncio.to_thread(kubeconfig.write, folder / "kubeconfig", running.entrance.kubeconfig(running.url))
        tls = running.entrance.component("demo")
        access = Config(server=running.url, tls=tls, namespace=NAMESPACE, source="edgewright demo")
        client = await stack.enter_async_context(Client(access))
        pinned = await pinned_certificate(client, namespace=NAMESPACE, name=TLS_SECRET)
        registry = await stack.enter_async_context(Registry())
        for version in (NEW, BAD):
            registry.add_image("demo/firmware", version, {"esp32": esp_image(version=version, project=APPLICATION)})
        fleet = await stack.enter_async_context(listening(pinned))
        attestation = await stack.enter_async_context(AttestationService(fleet.recognises))
        operator = Settings(
            local=True,
            plain_registries=(registry.host,),
            attestation=attestation.url,
            timing=Timing(first_backoff=0.5, status_every=0.2),
        )
        await up_operator.add_operator(running, operator)
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
        yield Scene(
            running=running,
            client=client,
            fleet=fleet,
            registry=registry,
            registration=registration,
            where=Place(settings=access),
        )


@asynccontextmanager
async def listening(pinned: str) -> AsyncIterator[Fleet]:
    """The devices, at the usual port, or each at a free one where somebody else has that or it may not be used."""
    from edgewright.devices.simulated.device import Times  # noqa: PLC0415
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
                faults=[_parsed(each) for each in FAULTS],
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
    async with rollout_follow.kept(cache) as changed:
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


async def labelled(scene: Scene, rows: Sequence[Row]) -> None:
    """Says where each device stands, and which are the canaries, as people do with `edgewright devices label`."""
    api = scene.client.of(Device)
    for row in rows:
        ring = {_RING: _CANARY} if row.number in CANARIES else {}
        await api.patch(Key("", row.name), {"metadata": {"labels": {_SITE: row.site, **ring}}})


async def rolled_out(scene: Scene, rollout: FirmwareRollout, console: Console) -> FirmwareRollout:
    """Declares a rollout and follows it to its end."""
    await scene.client.of(FirmwareRollout).create(rollout)
    return await followed(scene, rollout.metadata.name, display_on(console))


async def rolled_out_and_crashed(scene: Scene, rollout: FirmwareRollout, console: Console) -> FirmwareRollout:
    """As `rolled_out`, with a firmware that crashes on one device a little after it was proven to run on all."""
    display = display_on(console)
    await scene.client.of(FirmwareRollout).create(rollout)
    await followed(scene, rollout.metadata.name, display, until=is_soaking)
    await asyncio.sleep(_CRASHES_AFTER)
    await scene.fleet[CRASHING].crash()
    scene.fleet[CRASHING].faults = (_parsed(_CRASH),)
    return await followed(scene, rollout.metadata.name, display)


def is_soaking(rollout: FirmwareRollout) -> bool:
    """Whether a batch was proven to run its firmware and is watched, or never will be."""
    return rollout.status.phase == RolloutPhase.SOAKING or changes.has_ended(rollout)


def display_on(console: Console) -> rollout_follow.Display:
    """What shows a rollout where all the rest is shown."""
    return rollout_follow.Display(cast(TextIO, console.file))


async def followed(
    scene: Scene,
    name: str,
    display: rollout_follow.Display,
    *,
    until: Callable[[FirmwareRollout], bool] = changes.has_ended,
) -> FirmwareRollout:
    """A rollout once it has ended, or is as it was waited for; until then it is shown how it goes on."""
    return await rollout_follow.follow(scene.client, scene.where, name, show=display.show, until=until, limit=_PATIENCE)


async def by_number(scene: Scene, rows: Sequence[Row]) -> dict[int, Device]:
    """The Device of each device."""
    devices = {each.metadata.name: each for each in (await scene.client.of(Device).list()).items}
    return {row.number: devices[row.name] for row in rows}


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


def _parsed(fault: str) -> Fault:
    from edgewright.devices.simulated.faults import parse_fault  # noqa: PLC0415 - as in all commands

    return parse_fault(fault)


async def left_over(client: Client) -> list[Key]:
    """The Pods and Services that are still there, once they have had time to go."""
    pods = Cache(client.of(Pod), namespaces=[NAMESPACE])
    services = Cache(client.of(Service), namespaces=[NAMESPACE])
    left: list[Key] = []
    async with rollout_follow.kept(pods, services) as changed:
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
    """Deletes the rollouts and waits until their flash Pods have ended: they would outlive this process."""
    with suppress(KubernetesError):
        api = client.of(FirmwareRollout)
        for rollout in (await api.list(NAMESPACE)).items:
            await api.delete(rollout.key)
        await left_over(client)


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancels a task and waits for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def how_to_go_on(kubeconfig: Path, *, link: str = "") -> str:
    """What to type next, and what to open where it was kept."""
    more = "To flash a board on your desk, and for all the rest: docs/README.md"
    if not link:
        return f"\nTo look around in it: [bold]{escape(sys.argv[0])} demo --keep[/]\n{more}"
    return (
        "\nIt goes on until Ctrl-C. In a browser on this machine, once and within ten minutes:\n\n"
        f"  {escape(link)}\n\n"
        "In another terminal:\n\n"
        f"  export KUBECONFIG={escape(shlex.quote(str(kubeconfig)))}\n"
        f"  edgewright devices list\n  edgewright rollout get {GOOD_ROLLOUT}\n"
        f"  kubectl get devices,firmwarerollouts,flashjobs\n\n{more}"
    )
