"""FlashJob: these devices run this firmware version. The published kind of the original operator, field for field.

People, GitOps and rollouts write it; the FlashJob controller reads spec and writes status only. Every field has a
default here, also those that the published schema requires: an object that an older schema let through is decoded and
answered with a condition, where one that does not decode could only be logged.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import msgspec

from edgewright.api.annotations import Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.api.flash_pod import VersionPolicy
from edgewright.runtime.objects import Condition, Kind, Struct

MAX_DEVICES = 5000
"""How many devices one FlashJob may name."""
MAX_SHOWN: Final = 500
"""How many devices stand in the status one by one."""
MAX_TTL: Final = 2**31 - 1
"""How many seconds after its end a job may stay at most; a Job of Kubernetes has the same bound."""
MAX_DEVICE_NAME: Final = 253
"""How many characters an entry of spec.uuid may have."""
MAX_VERSION: Final = 128
"""How many characters spec.version may have."""
MAX_ENDPOINT: Final = 512
"""How many characters spec.hostEndpoint may have."""
FINALIZER: Final = "application.flashjob.nbfc.io/flashjob-finalizer"
"""On a FlashJob while something of it runs; the original's name."""
FIRST_FINALIZER: Final = "flashjob.finalizers.flashjob.nbfc.io"
"""What the original's first version put on its FlashJobs."""
FINALIZERS: Final = frozenset({FINALIZER, FIRST_FINALIZER})
"""The finalizers that the operator answers for."""
ACCEPTED: Final = "Accepted"
"""The condition that says whether the spec can be acted on."""
TLS_SECRET: Final = "ota-agent-tls"  # noqa: S105 - the name of a Secret
"""The Secret with the key whose certificate the published firmware pins, where a FlashJob names none."""
DEFAULT_CONCURRENT: Final = 20
DEFAULT_TIMEOUT: Final = 600
DEFAULT_RETRIES: Final = 2
DEFAULT_DISCOVERY_TIMEOUT: Final = 600

DeviceName: TypeAlias = Annotated[str, Schema(min_length=1, max_length=MAX_DEVICE_NAME)]
Name: TypeAlias = Annotated[str, Schema(max_length=253)]
ImageReference: TypeAlias = Annotated[str, Schema(max_length=1024)]


class FlashJobPhase(StrEnum):
    """The phases that the published kind knows; Running is read from older objects and never written."""

    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"
    RUNNING = "Running"


class Exposure(StrEnum):
    """How a device reaches its flash Pod."""

    LOAD_BALANCER = "LoadBalancer"
    """By a Service of that type, with an address for each device."""
    NONE = "None"
    """Not at all: the Pod dials the device."""


class Toleration(Struct, frozen=True, kw_only=True):
    """A taint of a node that flash Pods do not mind."""

    key: str = ""
    """The taint's key; empty: all."""
    operator: str = ""
    """Exists or Equal."""
    value: str = ""
    """The taint's value."""
    effect: str = ""
    """The taint's effect; empty: all."""
    toleration_seconds: int | None = None
    """For how long, with the effect NoExecute."""


class SecretName(Struct, frozen=True, kw_only=True):
    """Names a Secret of the job's namespace."""

    name: Annotated[str, Schema(max_length=253)] = ""
    """Its name."""


class PodTemplate(Struct, frozen=True, kw_only=True):
    """What flash Pods have besides what the operator gives them."""

    labels: dict[str, str] = {}
    """Further labels; those of the operator win."""

    annotations: dict[str, str] = {}
    """Further annotations; those of the operator win."""

    node_selector: dict[str, str] = {}
    """The labels of the nodes that may run them."""

    tolerations: tuple[Toleration, ...] = ()
    """The taints that they do not mind."""

    affinity: Annotated[dict[str, Any] | None, Schema(preserve_unknown_fields=True)] = None
    """Where they would rather run, as in any Pod."""

    image_pull_secrets: tuple[SecretName, ...] = ()
    """The Secrets for pulling the flasher's image."""

    service_account_name: Annotated[str, Schema(max_length=253)] = ""
    """The ServiceAccount that they have, for what a cluster grants by it; they never have its token."""

    resources: Annotated[dict[str, Any] | None, Schema(preserve_unknown_fields=True)] = None
    """The requests and limits of the flash container, as in any Pod."""

    security_context: Annotated[dict[str, Any] | None, Schema(preserve_unknown_fields=True)] = None
    """The security context of the containers; it may only be stricter than the operator's."""


class FlashJobTemplate(Struct, frozen=True, kw_only=True):
    """How devices are flashed: what a FlashJob and a rollout that creates FlashJobs have in common."""

    application_type: Name | None = None
    """The application that the device runs, for example thermo."""

    external_ip: Annotated[str | None, Schema(max_length=253)] = msgspec.field(default=None, name="externalIP")
    """The address at which the device finds the flash Pod."""

    flashjob_pod_image: ImageReference | None = None
    """The container image of the flash Pod; where it is absent, Edgewright's own flasher."""

    timeout_seconds: Annotated[int | None, Schema(minimum=1, maximum=86_400, absent=DEFAULT_TIMEOUT)] = None
    """How long one attempt on one device may take."""

    retries: Annotated[int | None, Schema(minimum=0, maximum=20, absent=DEFAULT_RETRIES)] = None
    """How often a device whose flash failed is tried again."""

    discovery_timeout_seconds: Annotated[
        int | None, Schema(minimum=0, maximum=604_800, absent=DEFAULT_DISCOVERY_TIMEOUT)
    ] = None
    """How long to wait for a device that nobody has discovered."""

    version_policy: Annotated[str | None, Schema(enum=VersionPolicy, nullable=False)] = None
    """What to do where the image carries another version: Image (prove that one, the default) or Strict (refuse)."""

    exposure: Annotated[str | None, Schema(enum=Exposure, nullable=False)] = None
    """How devices reach the flash Pod: LoadBalancer or None; absent: as the device's protocol needs it."""

    tls_secret_name: Annotated[str | None, Schema(max_length=253, absent=TLS_SECRET)] = None
    """The Secret with tls.crt, which the firmware pins, and tls.key."""

    firmware_pull_secret: Annotated[str | None, Schema(max_length=253)] = None
    """The Secret (kubernetes.io/dockerconfigjson) with the credentials for the firmware's registry."""

    signature_public_key_secret: Annotated[str | None, Schema(max_length=253)] = None
    """The Secret whose cosign.pub must have signed the firmware."""

    allow_insecure: bool | None = None
    """True allows protocols without protection, such as plain OTA."""

    pod_template: PodTemplate | None = None
    """What flash Pods have besides what the operator gives them."""

    @property
    def timeout(self) -> int:
        """How many seconds one attempt on one device may take."""
        return DEFAULT_TIMEOUT if self.timeout_seconds is None else self.timeout_seconds

    @property
    def attempts(self) -> int:
        """How many attempts on a device there may be."""
        return 1 + (DEFAULT_RETRIES if self.retries is None else self.retries)

    @property
    def discovery_timeout(self) -> int:
        """How many seconds a device that nobody has discovered is waited for."""
        seconds = self.discovery_timeout_seconds
        return DEFAULT_DISCOVERY_TIMEOUT if seconds is None else seconds

    @property
    def tls_secret(self) -> str:
        """The name of the Secret with the key whose certificate the firmware pins."""
        return self.tls_secret_name or TLS_SECRET


class FlashJobSpec(FlashJobTemplate, frozen=True, kw_only=True):
    """Which devices must run which firmware."""

    uuid: Annotated[
        tuple[DeviceName, ...] | DeviceName | None,
        Schema(min_items=1, max_items=MAX_DEVICES, required=True, nullable=False),
    ] = None
    """The devices to flash: uids of Akri Instances, present or past, or names or uids of Devices, at most 5000."""

    firmware: Annotated[ImageReference, Schema(min_length=1, required=True)] = ""
    """The OCI image that holds the firmware, with its registry host, for example registry.example/esp32:1.4.0."""

    version: Annotated[str, Schema(min_length=1, max_length=MAX_VERSION, required=True)] = ""
    """The version that the device must report afterwards. Put it in quotes: 1.0 without them is a number."""

    host_endpoint: Annotated[str | None, Schema(max_length=MAX_ENDPOINT)] = None
    """The address of the device; where it is absent, the address comes from the device's Akri Instance."""

    device: Name | None = None
    """The type of device, for example esp32s3."""

    max_concurrent: Annotated[int | None, Schema(minimum=1, maximum=MAX_DEVICES, absent=DEFAULT_CONCURRENT)] = None
    """How many devices are flashed at once."""

    paused: bool | None = None
    """While true no further device is started; those under way finish."""

    force: bool | None = None
    """True flashes each device once more, also where it is done or current already."""

    ttl_seconds_after_finished: Annotated[int | None, Schema(minimum=0, maximum=MAX_TTL)] = None
    """So long after its end the job is deleted; absent: never."""

    @property
    def uuids(self) -> tuple[str, ...]:
        """The devices as a list, whichever way they were written."""
        if isinstance(self.uuid, str):
            return (self.uuid,)
        return self.uuid or ()

    @property
    def concurrency(self) -> int:
        """How many devices are flashed at once."""
        return self.max_concurrent or DEFAULT_CONCURRENT


class DeviceState(StrEnum):
    """Where one device of a job stands."""

    WAITING = "Waiting"
    FLASHING = "Flashing"
    DONE = "Done"
    FAILED = "Failed"


class FlashedDevice(Struct, frozen=True, kw_only=True):
    """One device of the job."""

    uuid: Annotated[str, Schema(max_length=MAX_DEVICE_NAME)] = ""
    """The device as it is named in spec.uuid."""

    device: Annotated[str, Schema(max_length=253)] = ""
    """The name of its Device; empty while nobody has discovered it."""

    state: Annotated[str, Schema(enum=DeviceState)] = ""
    """Waiting, Flashing, Done or Failed."""

    outcome: Annotated[str, Schema(max_length=63)] = ""
    """How it ended."""

    message: Annotated[str, Schema(max_length=512)] = ""
    """Why it waits, how it goes or how it ended."""

    version: Annotated[str, Schema(max_length=256)] = ""
    """The version that it reported at the end."""

    attempts: int = 0
    """How many attempts there were."""

    host_endpoint: Annotated[str, Schema(max_length=MAX_ENDPOINT)] = ""
    """Its own address."""

    address: Annotated[str, Schema(max_length=253)] = ""
    """The external address at which it finds its flash Pod, while it has one."""

    drifted: bool = False
    """Whether it runs something else since."""

    superseded: bool = False
    """Whether another job has flashed it since."""

    time: datetime | None = None
    """When that began or ended."""


class FlashCounts(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """How many devices stand where; a count of none is a count and is written."""

    total: int = 0
    """All that the job names."""
    done: int = 0
    """Those that run what was asked for, by proof."""
    failed: int = 0
    """Those that do not, for good."""
    flashing: int = 0
    """Those under way."""
    waiting: int = 0
    """Those that have not started."""


class FlashJobStatus(Struct, frozen=True, kw_only=True):
    """How far the job is, as last seen by the operator."""

    phase: Annotated[str, Schema(enum=FlashJobPhase)] = ""
    """InProgress while devices are being flashed, then Completed or Failed. Running is found in older objects only."""

    message: Annotated[str, Schema(max_length=32768)] = ""
    """What happened last, in a sentence for people."""

    host_endpoint: Annotated[str, Schema(max_length=MAX_ENDPOINT)] = ""
    """The address of the device; of several, of the one that was started or ended last."""

    completed_uuids: Annotated[tuple[DeviceName, ...], Schema(max_items=MAX_DEVICES)] = msgspec.field(
        default=(), name="completedUUIDs"
    )
    """The devices that are done, as they are named in spec.uuid."""

    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """The state of the job in the form that kubectl wait and other tools read."""

    observed_generation: Annotated[int, Schema(minimum=0)] = 0
    """The generation of the spec that this status is about."""

    observed_time: datetime | None = None
    """When that generation was first seen."""

    start_time: datetime | None = None
    """When the first device was started."""

    completion_time: datetime | None = None
    """When the last device ended."""

    counts: FlashCounts | None = None
    """How many devices stand where."""

    progress: Annotated[str, Schema(max_length=32)] = ""
    """Done and all, as 3/12."""

    digest: Annotated[str, Schema(max_length=256)] = ""
    """The digest that the firmware stood for when the first device ended."""

    devices: Annotated[tuple[FlashedDevice, ...], Schema(max_items=MAX_SHOWN, list_type="atomic")] = ()
    """The devices one by one: those under way, failed and waiting first, then the latest."""

    devices_omitted: int = 0
    """How many more there are than stand in devices."""


class FlashJob(CustomResource, frozen=True, kw_only=True):
    """Says that these devices run this version of a firmware."""

    kind: ClassVar[Kind] = Kind(
        group="application.flashjob.nbfc.io", version="v1alpha1", kind="FlashJob", plural="flashjobs"
    )
    definition: ClassVar[Definition] = Definition(
        short_names=("fj",),
        categories=("edgewright",),
        columns=(
            Column(name="Phase", path=".status.phase", description="How far the job is."),
            Column(name="Done", path=".status.progress", description="How many devices are done."),
            Column(name="Failed", path=".status.counts.failed", type="integer", description="How many failed."),
            Column(name="Version", path=".spec.version", description="The version that the devices must run."),
            Column(name="Device", path=".spec.device", description="The type of device.", priority=1),
            Column(name="Firmware", path=".spec.firmware", description="The firmware image.", priority=1),
            Column(name="Message", path=".status.message", description="What happened last.", priority=1),
            AGE,
        ),
    )

    spec: Annotated[FlashJobSpec, Schema(required=True)] = FlashJobSpec()
    """Which devices must run which firmware."""

    status: FlashJobStatus = FlashJobStatus()
    """How far the job is, as last seen by the operator."""
