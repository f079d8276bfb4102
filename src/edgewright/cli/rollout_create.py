"""New rollouts: `create` from flags or a file, `plan`, which changes nothing, `undo` and `recall`, which go back.

`rollout` adds them to its group. Whatever is made is one FirmwareRollout; the operator does the rest.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import (
    DeviceSelector,
    FirmwareRollout,
    FirmwareRolloutSpec,
)
from edgewright.api.flashjob import FlashJobTemplate
from edgewright.cli import completion, objects, rollout_change, rollout_flags, rollout_follow, rollout_text, terminal
from edgewright.cli.cluster import Context, Kubeconfig, Namespace, Place, missing, place
from edgewright.cli.failure import Failed, WrongUsage
from edgewright.cli.operator_options import PlainRegistries
from edgewright.cli.printing import Form, Output, as_text, cleaned
from edgewright.controllers.rollout import changes
from edgewright.runtime.client import Client
from edgewright.runtime.errors import AlreadyExists, NotFound
from edgewright.runtime.objects import ObjectMeta, RawObject

if TYPE_CHECKING:
    from edgewright.cli.rollout_plan import Outlook

_TABLE: Final = Form()
Firmware = Annotated[
    str, typer.Option("--firmware", metavar="IMAGE", help="The OCI image with the firmware.", show_default=False)
]
Version = Annotated[
    str,
    typer.Option(
        "--version",
        help="The version that devices must report; default: the image's own, else its tag.",
        show_default=False,
    ),
]
FirmwareFor = Annotated[
    list[str] | None,
    typer.Option(
        "--firmware-for",
        metavar="TYPE=IMAGE=VERSION",
        help="The firmware of one type of device, in place of --firmware; repeat it for more.",
        show_default=False,
    ),
]
Types = Annotated[
    list[str] | None, typer.Option("--type", help="Only devices of this type; repeat it for more.", show_default=False)
]
Applications = Annotated[
    list[str] | None,
    typer.Option("--application", help="Only devices that run this application.", show_default=False),
]
FromVersions = Annotated[
    list[str] | None, typer.Option("--from-version", help="Only devices that run this version.", show_default=False)
]
Selected = Annotated[
    str,
    typer.Option("--selector", "-l", help="Only devices with these labels, as kubectl takes it.", show_default=False),
]
Devices = Annotated[
    list[str] | None,
    typer.Option(
        "--device", help="Only this device; repeat it for more.", show_default=False, autocompletion=completion.devices
    ),
]
Uuids = Annotated[
    list[str] | None,
    typer.Option("--uuid", help="Only the device with this uid, of a Device or an Instance.", show_default=False),
]
Excluded = Annotated[
    list[str] | None,
    typer.Option("--exclude", help="Not this device; repeat it for more.", show_default=False),
]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch-size", metavar="COUNT", min=1, help="So many devices at a time.", show_default=False),
]
Interval = Annotated[
    str,
    typer.Option(
        "--interval", metavar="DURATION", help="So long from the end of a batch to the next.", show_default=False
    ),
]
Canary = Annotated[
    str, typer.Option("--canary", metavar="SIZE", help="Try so many first, as 3 or 5%.", show_default=False)
]
Soak = Annotated[
    str,
    typer.Option("--soak", metavar="DURATION", help="Watch the canary so long before going on.", show_default=False),
]
Approve = Annotated[
    bool, typer.Option("--approve", help="Go on after the canary only when somebody approves.", show_default=False)
]
Batches = Annotated[
    list[str] | None,
    typer.Option(
        "--batch",
        metavar="NAME=SIZE[,SOAK][,ok=N%][,manual]",
        help="A step, in order; repeat it for more. The rest comes last.",
        show_default=False,
    ),
]
MaxConcurrent = Annotated[
    int | None,
    typer.Option("--max-concurrent", metavar="COUNT", min=1, help="So many devices at once.", show_default=False),
]
MaxPerMinute = Annotated[
    int | None,
    typer.Option("--max-per-minute", metavar="COUNT", min=1, help="So many starts in a minute.", show_default=False),
]
Budgets = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        metavar="LABEL=SIZE",
        help="Of each group by this label, so many updating or broken at once.",
        show_default=False,
    ),
]
Windows = Annotated[
    list[str] | None,
    typer.Option(
        "--window",
        metavar="CRON,DURATION[,ZONE]",
        help="Start devices only then; repeat it for more.",
        show_default=False,
    ),
]
Stops = Annotated[
    list[str] | None,
    typer.Option(
        "--stop",
        metavar="SIZE,ACTION[,OUTCOME…][,min=N]",
        help="Pause, abort or recall it once so many have failed.",
        show_default=False,
    ),
]
FlasherImage = Annotated[
    str | None,
    typer.Option("--flasher-image", metavar="IMAGE", help="The flasher; default: the operator's.", show_default=False),
]
Filename = Annotated[
    str,
    typer.Option("--filename", "-f", metavar="FILE", help="A manifest, or - for standard input.", show_default=False),
]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The rollout that was typed."""

    name: str
    spec: FirmwareRolloutSpec
    plain: tuple[str, ...] = ()

    def resource(self, namespace: str) -> FirmwareRollout:
        """As it is created."""
        return FirmwareRollout(metadata=ObjectMeta(name=self.name, namespace=namespace), spec=self.spec)


def create(
    name: Annotated[str, typer.Argument(help="Its name; default: what it brings.", show_default=False)] = "",
    *,
    firmware: Firmware = "",
    version: Version = "",
    firmware_for: FirmwareFor = None,
    type_: Types = None,
    application: Applications = None,
    from_version: FromVersions = None,
    selector: Selected = "",
    device: Devices = None,
    uuid: Uuids = None,
    exclude: Excluded = None,
    batch_size: BatchSize = None,
    interval: Interval = "",
    canary: Canary = "",
    soak: Soak = "",
    approve: Approve = False,
    batch: Batches = None,
    max_concurrent: MaxConcurrent = None,
    max_per_minute: MaxPerMinute = None,
    budget: Budgets = None,
    window: Windows = None,
    stop: Stops = None,
    flasher_image: FlasherImage = None,
    filename: Filename = "",
    file: Annotated[
        str,
        typer.Option("--file", help="Where the questions save the FlashJob of all chosen devices.", show_default=False),
    ] = "",
    plain_registry: PlainRegistries = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would do, as `rollout plan`, and change nothing.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow it to its end.", show_default=False)] = False,
    output: Output = _TABLE,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Create a rollout from flags or from a file; on a terminal, without flags, it asks.

    With --dry-run and -o yaml it prints the object, for git.
    """
    where = place(kubeconfig, context, namespace)
    if not (firmware or firmware_for or filename):
        from edgewright.cli import rollout_dialogue  # noqa: PLC0415 - only for those who are asked

        rollout_dialogue.asked(
            where, narrowed=namespace, file=file, flasher_image=flasher_image, plain=plain_registry, name=name
        )
        return
    if filename:
        wanted = from_file(filename, name)
    else:
        selected = DeviceSelector(
            types=rollout_flags.many(type_),
            applications=rollout_flags.many(application),
            versions=rollout_flags.many(from_version),
            labels=rollout_flags.labels(selector),
            uuids=rollout_flags.many(uuid),
            names=rollout_flags.many(device),
        )
        left_out = rollout_flags.many(exclude)
        by_type = tuple(rollout_flags.firmware_for(each) for each in firmware_for or ())
        found = "" if by_type else version or version_of(firmware, (*selected.types, "")[0], plain_registry or ())
        spec = FirmwareRolloutSpec(
            selector=selected,
            exclude=DeviceSelector(names=left_out) if left_out else None,
            firmware=firmware,
            version=found,
            firmwares=by_type,
            batch_size=batch_size,
            interval_seconds=rollout_flags.seconds(interval, "--interval") if interval else 0,
            batches=steps(canary=canary, soak=soak, approve=approve, batch=batch, batch_size=batch_size),
            max_concurrent=max_concurrent,
            max_per_minute=max_per_minute,
            budgets=tuple(rollout_flags.budget(each) for each in budget or ()),
            windows=tuple(rollout_flags.window(each) for each in window or ()),
            stop=tuple(rollout_flags.stop(each) for each in stop or ()),
        )
        if flasher_image:
            spec = msgspec.structs.replace(spec, template=FlashJobTemplate(flashjob_pod_image=flasher_image))
        wanted = Wanted(name=name or rollout_flags.name_from(firmware or "firmware", found), spec=spec)
    wanted = with_registries(wanted, plain=tuple(plain_registry or ()))
    if dry_run:
        planned(where, wanted, output)
        return
    made(where, wanted, output)
    if watch:
        display = rollout_follow.display(sys.stderr if not output.for_people else sys.stdout)
        ended = where.run(
            lambda client: rollout_follow.follow(client, where, wanted.name, show=display.show, until=changes.has_ended)
        )
        if (problem := rollout_text.verdict(ended)) is not None:
            raise problem


def with_registries(wanted: Wanted, *, plain: tuple[str, ...]) -> Wanted:
    """The same rollout, with the registries that are asked without TLS."""
    return Wanted(name=wanted.name, spec=wanted.spec, plain=plain)


def steps(*, canary: str, soak: str, approve: bool, batch: list[str] | None, batch_size: int | None) -> tuple[Any, ...]:
    """The batches that were typed; the simple form and named steps exclude each other."""
    named = [rollout_flags.batch(each) for each in batch or ()]
    if canary:
        named.insert(0, rollout_flags.canary(canary, soak or "0", approve=approve))
    elif soak or approve:
        raise typer.BadParameter("--soak and --approve are about the canary: name its size with --canary")
    if named and batch_size is not None:
        raise typer.BadParameter("--batch-size is the simple form: leave it out, or --canary and --batch")
    return tuple(named)


def version_of(firmware: str, device: str, plain: list[str] | tuple[str, ...]) -> str:
    """The version that the image carries, else that its tag tells; WrongUsage where neither does."""
    from edgewright.api.reference import BadReference, parse_reference  # noqa: PLC0415
    from edgewright.cli.rollout_questions import carried_version, tag_version  # noqa: PLC0415 - only who names no version

    try:
        reference = parse_reference(firmware)
    except BadReference as error:
        raise typer.BadParameter(str(error), param_hint="--firmware") from None
    found = asyncio.run(carried_version(reference, device=device, plain=list(plain))) or tag_version(firmware)
    if not found:
        raise WrongUsage(f"neither {firmware} nor its tag tells a version: name it with --version")
    return found


def from_file(filename: str, name: str) -> Wanted:
    """The rollout in a manifest."""
    import yaml  # noqa: PLC0415 - it takes long to import

    from edgewright.runtime.yaml_loader import load  # noqa: PLC0415

    text = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
    try:
        content = load(text)
    except yaml.YAMLError as error:
        raise Failed(f"{filename} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or content.get("kind") != FirmwareRollout.kind.kind:
        raise Failed(f"{filename} has no {FirmwareRollout.kind.kind}: its kind must be that")
    try:
        spec = msgspec.convert(content.get("spec") or {}, FirmwareRolloutSpec, strict=False)
    except msgspec.ValidationError as error:
        raise Failed(f"{filename}: spec: {error}") from None
    given = name or (content.get("metadata") or {}).get("name", "")
    return Wanted(name=given or rollout_flags.name_from(spec.firmware or "firmware", spec.version), spec=spec)


def made(where: Place, wanted: Wanted, output: Form = _TABLE) -> None:
    """Creates the rollout, and says how to follow it."""

    async def work(client: Client) -> RawObject:
        try:
            return await client.raw(FirmwareRollout.kind).create(manifest(wanted, where))
        except AlreadyExists:
            raise taken(wanted, where) from None
        except NotFound as error:
            raise unserved(wanted, where, error) from None

    made_one = where.run(work)
    if output.for_people:
        terminal.give(f"rollout {wanted.name} created")
    else:
        objects.give([made_one], FirmwareRollout, output, where, single=True)
    terminal.say(f"Follow it with: {rollout_change.hint(where, wanted.name)}")


def taken(wanted: Wanted, where: Place) -> Failed:
    """That another rollout has the name."""
    return Failed(
        f"there is a rollout {wanted.name} in namespace {where.namespace} already: name another, or look at it "
        f"with `{rollout_change.hint(where, wanted.name, 'get')}`"
    )


def unserved(wanted: Wanted, where: Place, error: NotFound) -> Failed:
    """That the server takes no rollouts, or has no such namespace."""
    return missing(FirmwareRollout.kind, wanted.name, where, error)


def manifest(wanted: Wanted, where: Place) -> RawObject:
    """The rollout as it is sent, without what is empty."""
    raw = wanted.resource(where.namespace).to_raw()
    return cleaned({**raw, "spec": wanted.spec.to_raw()}, FirmwareRollout.kind)


def planned(where: Place, wanted: Wanted, output: Form) -> None:
    """Prints what a rollout would do; with -o yaml or json the object itself."""
    if not output.for_people:
        document = manifest(wanted, where)
        terminal.give(as_text(document, output))
        return
    from edgewright.cli import rollout_plan  # noqa: PLC0415 - only who plans

    outlook: Outlook = where.run(lambda client: rollout_plan.outlook(client, where, wanted.spec, plain=wanted.plain))
    if outlook.plan.problems:
        raise Failed(f"the rollout cannot be acted on: {'; '.join(outlook.plan.problems)}")
    terminal.give("\n".join(rollout_plan.lines(wanted.name, outlook)))


def show_plan(
    name: Annotated[
        str,
        typer.Argument(help="A rollout that is there.", autocompletion=completion.rollouts, show_default=False),
    ] = "",
    *,
    filename: Filename = "",
    plain_registry: PlainRegistries = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what a rollout, or one in a file, would do with the fleet as it is now; it changes nothing.

    Batches, devices, bytes, who is left out and why, and the expected end.
    """
    where = place(kubeconfig, context, namespace)
    if bool(name) == bool(filename):
        raise WrongUsage("name a rollout, or a file with --filename; `rollout create --dry-run` plans one from flags")
    if filename:
        wanted = from_file(filename, "")
    else:
        rollout = where.run(lambda client: rollout_follow.get(client, where, name))
        wanted = Wanted(name=name, spec=rollout.spec)
    planned(where, with_registries(wanted, plain=tuple(plain_registry or ())), _TABLE)


def recall(
    name: rollout_change.Name,
    *,
    as_name: Annotated[
        str, typer.Option("--as", help="The name of the new rollout; default: NAME-recall.", show_default=False)
    ] = "",
    yes: rollout_change.Yes = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Take the devices that a rollout changed back to what each ran before, as a rollout of its own.

    The rollout itself is aborted first, where it has not ended. Devices that others have changed since are left alone.
    """
    from edgewright.controllers.rollout.recall import recall_names, recall_of  # noqa: PLC0415 - only who goes back

    where = place(kubeconfig, context, namespace)

    async def work(client: Client) -> Wanted:
        rollout = await rollout_follow.get(client, where, name)
        with changes.refused_as(Failed):
            changes.refuse_recall(rollout, "recall")
        if rollout.status.recall:
            raise Failed(
                f"rollout {name} is recalled by {rollout.status.recall} already: "
                f"`{rollout_change.hint(where, rollout.status.recall)}` shows it"
            )
        count = sum(
            any(each.rollout == rollout.metadata.uid and each.before is not None for each in device.status.records)
            for device in (await client.of(Device).list()).items
        )
        if not terminal.asks(f"Take {terminal.count(count, 'device')} back to what they ran before {name}?", yes=yes):
            raise Failed("nothing was changed")
        if not changes.has_ended(rollout) and not rollout.spec.aborted:
            await rollout_change.changed(client, where, name, lambda _: {"aborted": True})
        chosen = as_name or recall_names(rollout)[0]
        return Wanted(name=chosen, spec=recall_of(rollout, chosen).spec)

    made(where, where.run(work))


def undo(
    name: rollout_change.Name,
    *,
    as_name: Annotated[
        str, typer.Option("--as", help="The name of the new rollout; default: NAME-undo.", show_default=False)
    ] = "",
    yes: rollout_change.Yes = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Bring the previous revision to the same devices, as a new rollout."""
    from edgewright.cli.rollout import jobs_of  # noqa: PLC0415 - that module uses this one
    from edgewright.controllers.rollout.undo import previous, undo_name  # noqa: PLC0415

    where = place(kubeconfig, context, namespace)

    async def work(client: Client) -> Wanted:
        rollout = await rollout_follow.get(client, where, name)
        others = (await client.of(FirmwareRollout).list(where.namespace)).items
        jobs = await jobs_of(client, rollout)
        with changes.refused_as(Failed):
            spec = previous(rollout, jobs, others)
        if spec is None:
            raise Failed(
                f"nothing is known of what came before rollout {name}: "
                f"`{rollout_change.hint(where, name, 'recall')}` takes each device back to what it ran"
            )
        versions = spec.version or ", ".join(f"{each.type} {each.version}" for each in spec.firmwares)
        if not terminal.asks(f"Bring {versions} to the devices of {name} again?", yes=yes):
            raise Failed("nothing was changed")
        if not changes.has_ended(rollout) and not rollout.spec.aborted:
            await rollout_change.changed(client, where, name, lambda _: {"aborted": True})
        return Wanted(name=as_name or undo_name(name), spec=spec)

    made(where, where.run(work))
