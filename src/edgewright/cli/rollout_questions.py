"""The questions of `filter_uuid.py`: which of Akri's Instances, which firmware, how many at a time, how long between.

`rollout_dialogue` asks them, for `rollout create` and for the script, in the words and the order that people know. What
is saved is the FlashJob of all chosen devices, usable alone. It changes nothing in the cluster, and never writes over a
file that is in git.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from edgewright.api.flashjob import FlashJob
from edgewright.api.instance import Instance
from edgewright.api.manifests import ReadableDumper
from edgewright.api.reference import DEFAULT_TAG, BadReference, Reference, parse_reference
from edgewright.cli.answers import ask, image_in, number_from, numbers_in, something, yes_or_no
from edgewright.cli.failure import Failed
from edgewright.runtime import Client, Key, config
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


# --- the functions that the script is known by ---------------------------------------------------------------------


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
    save(uuids, job or Job(firmware=firmware, version=tag_version(firmware)), filename)
    print(saved(filename), flush=True)


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


def save(uuids: Sequence[str], job: Job, filename: str) -> None:
    """Writes the FlashJob for these devices into a file."""
    demand_untracked(Path(filename))
    Path(filename).write_text(yaml_text(manifest(uuids, job)), encoding="utf-8")


def saved(filename: str) -> str:
    """What is said once the file is written."""
    return f"UUIDs saved to {filename}"


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
