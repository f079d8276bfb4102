"""Device: one physical device without an agent, such as a microcontroller: fleet list and memory of what it ran.

The inventory creates and keeps Devices from Akri's Instances; where there is no Akri, people write them. The FlashJob
controller writes status only: the claim of the one job that may flash the device now, and what came of every job.
Only people delete a Device.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final, TypeAlias

from edgewright.api.annotations import Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.api.flash_pod import LOG_LINES, Outcome
from edgewright.runtime.conditions import is_true
from edgewright.runtime.objects import Condition, Kind, RawObject, Struct

MAX_INSTANCES: Final = 50
"""How many uids of Instances a Device remembers, the latest last."""
MAX_RECORDS: Final = 200
"""How many living FlashJobs may have an outcome on one Device."""
MAX_NAMESPACE_RECORDS: Final = 100
"""How many of them may be of one namespace, so that none keeps the others from the Device."""
MAX_TYPE: Final = 63
"""How many characters the type of a device may have."""
STALE: Final = "Stale"
"""The condition of a Device that has not been seen for a while."""
QUARANTINED: Final = "Quarantined"
"""The condition of a Device whose flashes keep failing: rollouts leave it alone until somebody releases it."""
DIFFERS: Final = "Differs"
"""The condition of a Device at whose endpoint another type or certificate answers than is recorded."""

Text: TypeAlias = Annotated[str, Schema(max_length=256)]
Message: TypeAlias = Annotated[str, Schema(max_length=2048)]


class DeviceSpec(Struct, frozen=True, kw_only=True):
    """What a device is and where it is found."""

    type: Annotated[str, Schema(max_length=MAX_TYPE)] = ""
    """The type of device, for example esp32s3."""

    protocol: Annotated[str, Schema(max_length=63)] = ""
    """How it is flashed: esp32, esp32-plain, smp-udp, smp-tcp or a driver of your own. Empty: esp32."""

    endpoint: Annotated[str, Schema(max_length=512)] = ""
    """Its address: an IP address or a host name, with a port where it is not the usual one."""

    serial: Annotated[str, Schema(max_length=253)] = ""
    """What identifies the hardware for ever: a serial number, a MAC address or an id."""

    configuration: Annotated[str, Schema(max_length=253)] = ""
    """The Akri Configuration that found it; empty where people wrote it."""

    allowed_namespaces: Annotated[
        tuple[Annotated[str, Schema(max_length=63)], ...], Schema(max_items=100, list_type="set")
    ] = ()
    """The namespaces whose jobs may flash it; empty: all."""

    allow_endpoint_override: bool = False
    """Whether a job may flash it at another address than its own by spec.hostEndpoint."""

    def allows(self, namespace: str) -> bool:
        """Whether jobs of a namespace may flash it."""
        return not self.allowed_namespaces or namespace in self.allowed_namespaces


class JobReference(Struct, frozen=True, kw_only=True):
    """A FlashJob, for ever: a job of the same name that is made later has another uid."""

    namespace: Annotated[str, Schema(max_length=63)] = ""
    """Its namespace."""

    name: Annotated[str, Schema(max_length=253)] = ""
    """Its name."""

    uid: Annotated[str, Schema(max_length=63)] = ""
    """Its uid."""


class Firmware(Struct, frozen=True, kw_only=True):
    """A firmware that the device was proven to run."""

    reference: Annotated[str, Schema(max_length=1024)] = ""
    """The image as the job named it."""

    digest: Text = ""
    """Its digest."""

    version: Text = ""
    """The version that the device reported."""


class Claim(Struct, frozen=True, kw_only=True):
    """Who may flash the device now. It is written before anything is made for it, and freed with the outcome."""

    job: JobReference = JobReference()
    """The job that has the device."""

    uuid: Text = ""
    """The device as the job names it, which is how its Pod and Service are named."""

    state: Text = ""
    """The desired state that is being reached, as a hash of firmware, version and type of device."""

    attempt: Annotated[int, Schema(minimum=1)] = 1
    """Which attempt this is."""

    since: datetime | None = None
    """When the device was claimed."""

    rollout: Annotated[str, Schema(max_length=63)] = ""
    """The uid of the rollout that the job belongs to, where it belongs to one."""

    not_before: datetime | None = None
    """Set between two attempts: the next one starts no sooner, and takes up no place until then."""

    last_message: Message = ""
    """How the attempt before this one ended."""

    waits: Annotated[int, Schema(minimum=0)] = 0
    """How many times this attempt gave its place to others, because it could not go on."""

    waits_for: Message = ""
    """Why it could not go on the last time, where it was not for want of an address."""

    check: bool = False
    """Whether a flash came before that was another operator's, or whose end nobody saw: the device is asked first."""

    before: Firmware | None = None
    """What the device was proven to run when it was claimed."""

    last_started: datetime | None = None
    """When the Pod of the attempt before this one was made."""


class FlashRecord(Struct, frozen=True, kw_only=True):
    """The final outcome of one job on this device. The job never acts on the device again in this state."""

    job: JobReference = JobReference()
    """The job."""

    uuid: Text = ""
    """The device as the job named it."""

    state: Text = ""
    """The desired state that the outcome is about, as a hash of firmware, version and type of device."""

    outcome: Annotated[str, Schema(enum=Outcome)] = ""
    """How it ended."""

    message: Message = ""
    """How it ended, in a sentence."""

    digest: Text = ""
    """The digest of the firmware."""

    version: Text = ""
    """The version that the device reported at the end."""

    image_version: Text = ""
    """The version that the firmware image carries."""

    attempts: int = 0
    """How many attempts it took."""

    forced: bool = False
    """Whether the job asked to flash what was current already."""

    time: datetime | None = None
    """When it was recorded."""

    observed: datetime | None = None
    """When the flasher read the version from the device; what was observed later counts more than that."""

    started: datetime | None = None
    """When the device was claimed for it."""

    last_started: datetime | None = None
    """When the Pod of its last attempt was made."""

    before: Firmware | None = None
    """What the device was proven to run before, where the flash changed it: what a recall goes back to."""

    rollout: Annotated[str, Schema(max_length=63)] = ""
    """The uid of the rollout that the job belonged to; the record stays as long as that lives, also without the job."""

    def precedes(self, seen: datetime | None) -> bool:
        """Whether the device was seen at that time or later than it was read for this record, as far as is known.

        That a device was seen is written down in whole seconds: the second of the reading counts as later.
        """
        read = self.observed or self.time
        return seen is None or read is None or seen >= read.replace(microsecond=0)


class LastFlash(Struct, frozen=True, kw_only=True):
    """The latest flash of the device, by whichever job."""

    job: JobReference = JobReference()
    """The job."""

    outcome: Annotated[str, Schema(enum=Outcome)] = ""
    """How it ended."""

    message: Message = ""
    """How it ended, in a sentence."""

    firmware: Annotated[str, Schema(max_length=1024)] = ""
    """The firmware image as the job named it."""

    digest: Text = ""
    """Its digest."""

    version_before: Text = ""
    """What the device ran before."""

    version_after: Text = ""
    """What it ran afterwards."""

    time: datetime | None = None
    """When it was recorded."""

    observed: datetime | None = None
    """When the flasher read the version from the device, where it told that."""

    log: Annotated[tuple[Annotated[str, Schema(max_length=1024)], ...], Schema(max_items=LOG_LINES)] = ()
    """The last lines of its log, where it failed."""

    @property
    def read(self) -> datetime | None:
        """When what it tells of the device was true, as far as is known."""
        return self.observed or self.time


class Discovered(Struct, frozen=True, kw_only=True):
    """What an Akri Instance told of the device. It goes on telling that, also when a flash has changed the device."""

    instance: Text = ""
    """The uid of the Instance."""

    application: Text = ""
    """The application that it named."""

    version: Text = ""
    """The version that it named."""

    time: datetime | None = None
    """When it began to tell that."""


class DeviceStatus(Struct, frozen=True, kw_only=True):
    """What is known of the device."""

    application: Text = ""
    """The application that it says it runs."""

    version: Text = ""
    """The version that it says it runs."""

    instances: Annotated[tuple[Text, ...], Schema(max_items=MAX_INSTANCES)] = ()
    """The uids of the Akri Instances that it has had, the latest last."""

    discovered: Discovered | None = None
    """What its latest Instance told when that was last read: until it tells something else, it is no news."""

    last_seen: datetime | None = None
    """When discovery last saw it, or it last answered, to within a few minutes."""

    certificate: Text = ""
    """The SHA-256 of its certificate, learnt from a flash."""

    claim: Claim | None = None
    """The job that may flash it now."""

    firmware: Firmware | None = None
    """What it was last proven to run by us."""

    previous_firmware: Firmware | None = None
    """What it was proven to run before that."""

    last_flash: LastFlash | None = None
    """The latest flash."""

    records: Annotated[tuple[FlashRecord, ...], Schema(max_items=MAX_RECORDS, list_type="atomic")] = ()
    """The outcome of every FlashJob that still exists and has acted on the device."""

    failures: Annotated[int, Schema(minimum=0)] = 0
    """How many jobs in a row have failed on it, since its last success or its release from quarantine."""

    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """Stale, where it has not been seen for a while; Differs, where what answers is not what is recorded; Quarantined,
    where its flashes keep failing."""

    @property
    def quarantined(self) -> bool:
        """Whether its flashes keep failing, and rollouts leave it alone until somebody releases it."""
        return bool(self.conditions) and is_true(self.conditions, QUARANTINED)

    def record_of(self, job_uid: str) -> FlashRecord | None:
        """What came of a job on this device, if anything has."""
        for record in self.records:  # asked of every device in every pass over its job: no generator
            if record.job.uid == job_uid:
                return record
        return None


class Device(CustomResource, frozen=True, kw_only=True):
    """A device without an agent: what it is, where it is, what it runs, and who is flashing it."""

    kind: ClassVar[Kind] = Kind(
        group="edgewright.dev", version="v1alpha1", kind="Device", plural="devices", namespaced=False
    )
    definition: ClassVar[Definition] = Definition(
        short_names=("dev",),
        categories=("edgewright",),
        columns=(
            Column(name="Type", path=".spec.type", description="The type of device."),
            Column(name="Endpoint", path=".spec.endpoint", description="Its address."),
            Column(name="Application", path=".status.application", description="What it runs."),
            Column(name="Version", path=".status.version", description="The version that it runs."),
            Column(name="Flashing", path=".status.claim.job.name", description="The job that is flashing it."),
            Column(name="Last-Flash", path=".status.lastFlash.outcome", description="How its last flash ended."),
            Column(name="Seen", path=".status.lastSeen", type="date", description="How long ago it was seen."),
            Column(name="Protocol", path=".spec.protocol", description="How it is flashed.", priority=1),
            Column(name="Firmware", path=".status.firmware.reference", description="Its firmware.", priority=1),
            Column(name="Serial", path=".spec.serial", description="What identifies the hardware.", priority=1),
            AGE,
        ),
    )

    spec: DeviceSpec = DeviceSpec()
    """What it is and where it is found."""

    status: DeviceStatus = DeviceStatus()
    """What is known of it."""


def release_of(device: RawObject) -> RawObject | None:
    """The patch of a Device's status that ends its quarantine and forgets what led to it; None: it is in none."""
    status = device.get("status") or {}
    conditions = status.get("conditions") or []
    left = [each for each in conditions if each.get("type") != QUARANTINED]
    if len(left) == len(conditions) and not status.get("failures"):
        return None
    return {"status": {"conditions": left, "failures": 0}}


class Mark(StrEnum):
    """Our own annotations on what is made to flash a device and on FlashJobs, and our labels."""

    DEVICE = "edgewright.dev/device"
    """Annotation of a flash Pod and its Service: the name of the Device."""
    ATTEMPT = "edgewright.dev/attempt"
    """Annotation of a flash Pod: which attempt it is."""
    STATE = "edgewright.dev/state"
    """Annotation of a flash Pod: the hash of the desired state."""
    GIVEN_UP = "edgewright.dev/given-up"
    """Annotation of a flash Pod that never started and is being deleted for it: why it did not."""
    TAKEN_OVER = "edgewright.dev/taken-over"
    """Annotation of a FlashJob that the original operator began: the state, and hashes of the devices that it had."""
    JOB_UID = "edgewright.dev/job-uid"
    """Label of a flash Pod and its Service: the uid of the FlashJob."""
    TYPE = "edgewright.dev/type"
    """Label of a Device that the inventory keeps: its type."""
    APPLICATION = "edgewright.dev/application"
    """Label of a Device that the inventory keeps: its application."""
