"""What `python3 filter_uuid.py` does: choose Akri Instances in a dialogue, and flash them batch by batch.

The script at the root of the project calls `main`, and re-exports the six functions that its readers know. All batches
are one FlashJob, which grows: what an earlier batch began is never dropped. It flashes nothing itself, and it never
writes over a file that is in git.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
import yaml

from edgewright.api.flashjob import DeviceState, FlashJob, FlashJobPhase
from edgewright.api.instance import Instance
from edgewright.api.manifests import ReadableDumper
from edgewright.api.reference import DEFAULT_TAG, BadReference, Reference, parse_reference
from edgewright.cli import guard, operator_options
from edgewright.cli.answers import ask, image_in, number_from, numbers_in, something, yes_or_no
from edgewright.cli.failure import Failed
from edgewright.cli.options import Context, Kubeconfig
from edgewright.runtime import Client, Key, config
from edgewright.runtime.cache import Cache
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import RawObject

_Wait = Callable[[float], Awaitable[object]]

FILE: Final = "application_v1alpha1_flashjob.yaml"
"""Where the FlashJob is saved, in the working directory."""
NAME, NAMESPACE = "flashjob", "default"
STEP, DELAY = 5, 60
UNKNOWN_DEVICE, UNKNOWN_APPLICATION = "Unknown Device Type", "Unknown Application Type"
_PULLING: Final = 20.0
_MAX_DELAY: Final = 86_400


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all batches of a rollout have in common."""

    firmware: str
    version: str = ""
    device: str | None = None
    application: str | None = None
    flasher_image: str | None = None
    name: str = NAME
    namespace: str = NAMESPACE
    file: str = FILE

    @property
    def key(self) -> Key:
        """Which FlashJob it is."""
        return Key(self.namespace, self.name)


# --- the functions that the document names -------------------------------------------------------------------------


def get_akri_instances(namespace: str | None = None, *, settings: config.Config | None = None) -> RawObject:
    """The Akri Instances of all namespaces, or of one, as the API server lists them."""
    return asyncio.run(_instances(settings or config.load(), namespace))


def filter_instances(
    instances: Mapping[str, Any],
    uuid: str | None = None,
    device_type: str | None = None,
    application_type: str | None = None,
) -> list[dict[str, str]]:
    """The Instances of this uid, and of these types whichever way they are capitalised; no value filters nothing."""
    found = []
    for item in instances.get("items") or ():
        properties = (item.get("spec") or {}).get("brokerProperties") or {}
        device = properties.get("DEVICE") or UNKNOWN_DEVICE
        application = properties.get("APPLICATION_TYPE") or UNKNOWN_APPLICATION
        if (
            uuid in {None, "", item["metadata"]["uid"]}
            and _same(device_type, device)
            and _same(application_type, application)
        ):
            found.append({"uuid": item["metadata"]["uid"], "deviceType": device, "applicationType": application})
    return found


def save_uuids_to_yaml(uuids: Sequence[str], firmware: str, filename: str = FILE, *, job: Job | None = None) -> None:
    """Saves the FlashJob for these devices, ready for `kubectl apply -f`."""
    if not uuids:
        print("No UUIDs selected, nothing to save.")
        return
    demand_untracked(Path(filename))
    content = manifest(uuids, job or Job(firmware=firmware, version=tag_version(firmware)))
    Path(filename).write_text(yaml_text(content), encoding="utf-8")
    print(f"UUIDs saved to {filename}", flush=True)


def user_select_instances(instances: Sequence[Mapping[str, str]]) -> list[str]:
    """Shows the Instances and asks which of them are meant; a bad answer is asked again."""
    if not instances:
        print("No instances found matching the criteria.")
        return []
    print("Available Akri Instances:")
    for number, each in enumerate(instances):
        print(
            f"[{number}] UUID: {each['uuid']}, Device Type: {each['deviceType']}, "
            f"Application Type: {each['applicationType']}"
        )
    if ask("Do you want to select all UUIDs? (y/n): ", yes_or_no):
        chosen: Iterable[int] = range(len(instances))
    else:
        question = "Enter the numbers of the UUIDs you want to include (comma-separated): "
        chosen = ask(question, lambda answer: numbers_in(answer, len(instances)))
    return [instances[number]["uuid"] for number in chosen]


def apply_yaml(filename: str, *, settings: config.Config | None = None) -> FlashJob:
    """Makes the FlashJob in a file so in the cluster, as `kubectl apply --server-side` does; the FlashJob then."""
    return asyncio.run(_apply(filename, settings or config.load()))


def gradual_rollout(
    uuids: Sequence[str],
    firmware: str,
    step: int = STEP,
    delay: float = DELAY,
    *,
    job: Job | None = None,
    settings: config.Config | None = None,
) -> dict[str, str]:
    """Flashes the devices batch by batch, and waits for their end: why each failed that did, by its uuid."""
    wanted = job or Job(firmware=firmware, version=tag_version(firmware))
    return asyncio.run(rollout(settings or config.load(), wanted, uuids, step=step, delay=delay))


# --- what is decided: pure -----------------------------------------------------------------------------------------


def manifest(uuids: Sequence[str], job: Job) -> RawObject:
    """The FlashJob as the document shows it, in its order; what is not set is null."""
    return {
        "apiVersion": FlashJob.kind.api_version,
        "kind": FlashJob.kind.kind,
        "metadata": {"name": job.name, "namespace": job.namespace},
        "spec": {
            "applicationType": job.application,
            "device": job.device,
            "externalIP": None,
            "firmware": job.firmware,
            "flashjobPodImage": job.flasher_image,
            "hostEndpoint": None,
            "uuid": list(uuids),
            "version": job.version,
        },
    }


class _Dumper(ReadableDumper):
    """Nothing is written for null, and a version stays a text whatever it looks like."""


_Dumper.add_representer(type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", ""))


class _Quoted(str):
    """A text in quotes."""

    __slots__ = ()


_Dumper.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
)


def yaml_text(content: RawObject) -> str:
    """A FlashJob as YAML in the form that the document shows."""
    spec = {**content["spec"], "version": _Quoted(content["spec"]["version"])}
    return yaml.dump({**content, "spec": spec}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


def batches(uuids: Sequence[str], step: int) -> list[list[str]]:
    """The devices in portions."""
    return [list(uuids[first : first + step]) for first in range(0, len(uuids), step)]


def kept_uuids(present: FlashJob | None, job: Job, chosen: Collection[str]) -> list[str]:
    """The devices that a FlashJob of this name has already and must go on to have; Failed where it may not be taken."""
    if present is None or present.metadata.deletion_timestamp is not None:
        return []
    others = [uuid for uuid in present.spec.uuids if uuid not in chosen]
    if (present.spec.firmware, present.spec.version) == (job.firmware, job.version):
        return others
    if others and not has_ended(present):
        raise Failed(
            f"FlashJob {job.key} still brings {present.spec.firmware} to other devices: wait for its end, "
            f"or choose another name with --name"
        )
    return []


def has_ended(job: FlashJob, *, generation: int = 0) -> bool:
    """Whether nothing more happens to the devices of a job, as it was declared in this generation or later."""
    status = job.status
    seen = status.observed_generation == job.metadata.generation and job.metadata.generation >= generation
    under_way = status.counts is not None and status.counts.flashing + status.counts.waiting > 0
    return seen and not under_way and status.phase in {FlashJobPhase.COMPLETED, FlashJobPhase.FAILED}


def failures(job: FlashJob, chosen: Collection[str]) -> dict[str, str]:
    """Why each of these devices failed that did; a job that was not accepted failed all of them."""
    found = {
        each.uuid: each.message or each.outcome
        for each in job.status.devices
        if each.state == DeviceState.FAILED and each.uuid in chosen
    }
    told = {each.uuid for each in job.status.devices} | set(job.status.completed_uuids)
    if job.status.phase == FlashJobPhase.FAILED and not job.status.devices_omitted:
        found |= {uuid: job.status.message for uuid in chosen if uuid not in told}
    return found


def tag_version(firmware: str) -> str:
    """The version that an image's tag tells; empty where it tells none."""
    try:
        tag = parse_reference(firmware).tag
    except BadReference:
        return ""
    return tag if tag != DEFAULT_TAG and any(letter.isdigit() for letter in tag) else ""


def common(values: Iterable[str], unknown: str) -> str | None:
    """What all have in common; None where they differ, or nobody knows."""
    found = set(values)
    return found.pop() if len(found) == 1 and unknown not in found else None


def _same(wanted: str | None, found: str) -> bool:
    return not wanted or wanted.lower() == found.lower()


# --- the cluster and the files -------------------------------------------------------------------------------------


def demand_untracked(path: Path) -> None:
    """Failed where a file is in git: what somebody has written is not written over."""
    git = shutil.which("git")
    if git is None or not path.exists():
        return
    listed = subprocess.run(  # noqa: S603 - git itself
        [git, "-c", "safe.directory=*", "ls-files", "--error-unmatch", "--", path.name],
        cwd=path.resolve().parent,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        raise Failed(f"{path} is in git and is not written over: name another file with --file")


async def _instances(settings: config.Config, namespace: str | None) -> RawObject:
    async with Client(settings) as client:
        try:
            return {"items": list((await client.raw(Instance.kind).list(namespace)).items)}
        except NotFound:
            raise Failed(
                f"{Instance.kind.resource} is not served: is Akri installed? `edgewright simulate` has devices without"
            ) from None


async def _apply(filename: str, settings: config.Config) -> FlashJob:
    async with Client(settings) as client:
        return await _applied(client, filename)


async def _applied(client: Client, filename: str) -> FlashJob:
    content = yaml.safe_load(await asyncio.to_thread(Path(filename).read_text, encoding="utf-8"))
    # By force: the same file may have been applied by kubectl before.
    applied = await client.raw(FlashJob.kind).apply(content, manager="filter-uuid", force=True)
    print(f"Successfully applied {filename}", flush=True)
    return client.of(FlashJob).decode(msgspec.json.encode(applied))


async def rollout(
    settings: config.Config, job: Job, uuids: Sequence[str], *, step: int, delay: float, wait: _Wait = asyncio.sleep
) -> dict[str, str]:
    """The batches one after the other, and the end of all devices: why each failed that did, by its uuid."""
    async with Client(settings) as client:
        try:
            present: FlashJob | None = await client.of(FlashJob).get(job.key)
        except NotFound:
            present = None
        declared = kept_uuids(present, job, uuids)
        portions = batches(uuids, step)
        applied: FlashJob | None = None
        for number, batch in enumerate(portions, 1):
            print(f"Applying batch {number} with UUIDs: {batch}", flush=True)
            declared += batch
            save_uuids_to_yaml(declared, job.firmware, job.file, job=job)
            applied = await _applied(client, job.file)
            if number < len(portions):
                print(f"Waiting for {delay:g} seconds before the next batch...", flush=True)
                await wait(delay)
        if applied is None:
            return {}
        return failures(await _ended(client, applied), set(uuids))


async def _ended(client: Client, job: FlashJob) -> FlashJob:
    """The job once all its devices have ended; how far it is goes to standard error."""
    changed = asyncio.Event()
    cache = Cache(client.of(FlashJob), namespaces=[job.metadata.namespace], fields=f"metadata.name={job.metadata.name}")
    cache.subscribe(lambda _: changed.set())
    following = asyncio.create_task(cache.run())
    told = ""
    try:
        await cache.wait_synced()
        while True:
            now = cache.get(job.key)
            if now is None or now.metadata.uid != job.metadata.uid:
                raise Failed(f"FlashJob {job.key} was deleted before its devices had ended")
            if has_ended(now, generation=job.metadata.generation):
                return now
            news = f"FlashJob {job.key}: {now.status.progress} done. {now.status.message}"
            if now.status.progress and news != told:
                print(news, file=sys.stderr, flush=True)
                told = news
            await changed.wait()
            changed.clear()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def carried_version(reference: Reference, *, device: str, plain: Sequence[str]) -> str:
    """The version that a firmware image itself carries; empty where it carries none, or cannot be had from here."""
    from edgewright.devices.drivers.driver import Ended  # noqa: PLC0415 - only who asks a registry needs it
    from edgewright.devices.firmware.esp import BadImage, read_esp_image  # noqa: PLC0415
    from edgewright.devices.oci import Access, pull  # noqa: PLC0415

    try:
        async with asyncio.timeout(_PULLING):
            image = await pull(reference, device=device, access=Access(plain_hosts=frozenset(plain)))
    except (Ended, OSError):  # a TimeoutError is one
        return ""
    try:
        return read_esp_image(image.content).version.strip() or image.label_version.strip()
    except BadImage:
        return image.label_version.strip()


# --- the dialogue --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the dialogue ended with."""

    uuids: list[str]
    job: Job
    step: int
    delay: int


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was typed behind the command."""

    namespace: str | None = None
    file: str = FILE
    name: str = NAME
    flasher_image: str | None = None
    plain_registries: Sequence[str] = field(default=())


def dialogue(instances: Mapping[str, Any], options: Options) -> Choice | None:
    """Asks everything, in the words and the order of the document; None where nothing was chosen."""
    device = ask("Enter device type to filter (or press Enter to skip): ", str)
    application = ask("Enter application type to filter (or press Enter to skip): ", str)
    uuid = ask("Enter UUID to filter (or press Enter to skip): ", str)
    offered = filter_instances(instances, uuid, device, application)
    chosen = user_select_instances(offered)
    if not chosen:
        return None
    picked = [each for each in offered if each["uuid"] in chosen]
    job = Job(
        firmware=ask("Enter the firmware to use: ", image_in),
        device=common((each["deviceType"] for each in picked), UNKNOWN_DEVICE),
        application=common((each["applicationType"] for each in picked), UNKNOWN_APPLICATION),
        flasher_image=options.flasher_image,
        name=options.name,
        namespace=options.namespace or NAMESPACE,
        file=options.file,
    )
    carried = asyncio.run(
        carried_version(
            parse_reference(job.firmware), device=picked[0]["deviceType"], plain=list(options.plain_registries)
        )
    )
    version = carried or tag_version(job.firmware) or ask("Enter the version of the firmware: ", something)
    return Choice(
        uuids=chosen,
        job=replace(job, version=version),
        step=ask("Enter the number of UUIDs per batch (default is 5): ", number_from(1, 5000, STEP)),
        delay=ask("Enter the delay between batches in seconds (default is 60): ", number_from(0, _MAX_DELAY, DELAY)),
    )


def filter_uuid(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Look here only; the FlashJob goes there too.", show_default=False),
    ] = None,
    file: Annotated[str, typer.Option("--file", help="Where the FlashJob is saved; never a file in git.")] = FILE,
    name: Annotated[str, typer.Option("--name", help="The name of the FlashJob.")] = NAME,
    flasher_image: Annotated[
        str | None,
        typer.Option(
            "--flasher-image", metavar="IMAGE", help="The flasher; default: the operator's own.", show_default=False
        ),
    ] = None,
    plain_registry: operator_options.PlainRegistries = None,
) -> None:
    """Choose devices that Akri has discovered, and flash them batch by batch.

    Ends when all of them have ended: with 0 where all run the firmware, with 1 where some failed, which it names.
    """
    demand_untracked(Path(file))
    settings = config.load(kubeconfig=kubeconfig, context=context)
    options = Options(
        namespace=namespace,
        file=file,
        name=name,
        flasher_image=flasher_image,
        plain_registries=plain_registry or (),
    )
    choice = dialogue(get_akri_instances(namespace, settings=settings), options)
    if choice is None:
        raise Failed("nothing was chosen, and nothing was changed")
    try:
        failed = asyncio.run(rollout(settings, choice.job, choice.uuids, step=choice.step, delay=choice.delay))
    except KeyboardInterrupt:
        print(
            f"\nInterrupted: FlashJob {choice.job.key} goes on with the devices in {file}; no further batch is applied",
            file=sys.stderr,
        )
        raise
    if not failed:
        print(f"All {len(choice.uuids)} devices run {choice.job.version}")
        return
    for uuid, why in failed.items():
        print(f"{uuid} failed: {why}")
    raise Failed(f"{len(failed)} of {len(choice.uuids)} devices failed")


def main() -> None:
    """What the script runs."""
    line = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
    )
    line.command("filter_uuid.py")(filter_uuid)
    guard("filter_uuid.py", line)
