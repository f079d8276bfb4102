"""EdgeDevice: one Linux machine with an agent, what it is to do and what it is, as published by Flotta.

The gateway creates one when a device registers and writes what its heartbeats tell; the edgedevice controller keeps its
labels, its bucket claim and the list of its workloads; people write spec and labels. Fields of both eras (`deployments`
and `workloads`, `lastSeenTime`) are read and filled.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Final, TypeAlias

import msgspec

from edgewright.api.annotations import Rule, Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.api.edgedevice_hardware import Hardware
from edgewright.runtime.objects import Condition, Kind, Struct

GROUP: Final = "management.project-flotta.io"
"""The group of every kind of ours for Linux edge devices."""
MEMBER_OF: Final = "flotta/member-of"
"""Label of an EdgeDevice: the set or group whose spec replaces its own."""
SIGNED_REQUEST: Final = "edgedeviceSignedRequest"
"""Label of an EdgeDevice that was approved and has not registered yet."""
WORKLOAD_LABEL: Final = "workload/"
"""What the labels begin with that name the workloads of an EdgeDevice."""
CONNECTION_FINALIZER: Final = "yggdrasil-connection-finalizer"
"""On an EdgeDevice until its device was told to disconnect."""
WORKLOAD_FINALIZER: Final = "yggdrasil-workload-finalizer"
"""On an EdgeDevice until its device was told to remove its workloads."""
DEVICE_FINALIZER: Final = "device-finalizer"
"""What the last published operator put there in the place of both."""
FINALIZERS: Final = (CONNECTION_FINALIZER, WORKLOAD_FINALIZER)
"""What is on every EdgeDevice that we make."""
KEY_ANNOTATION: Final = "edgewright.dev/device-key"
"""Annotation of an EdgeDevice that has used a certificate of ours: the SHA-256 of the public key in it."""
REGISTERED: Final = "Registered"
"""The condition that says whether the device has a certificate of its own."""
CONFIGURED: Final = "Configured"
"""The condition that says whether everything that the device is to run is in its configuration."""
ONLINE: Final = "Online"
"""The condition that says whether the device is heard."""
READY: Final = "Ready"
"""The condition that sums up the others and the workloads."""
DEPLOYING: Final = "Deploying"
"""The phase of a workload that was matched and of which the device has not told yet."""

Name: TypeAlias = Annotated[str, Schema(max_length=253)]


class NameReference(Struct, frozen=True, kw_only=True):
    """Names a ConfigMap or Secret of the same namespace."""

    name: Annotated[Name, Schema(required=True)] = ""
    """Its name."""


class OsInformation(Struct, frozen=True, kw_only=True):
    """The operating system image that the device is to run."""

    automatically_upgrade: bool = False
    """Whether it is upgraded without asking."""
    commit_id: str = msgspec.field(default="", name="commitID")
    """The commit of the image."""
    hosted_objects_url: str = msgspec.field(default="", name="hostedObjectsURL")
    """Where commits are found."""


class HardwareProfile(Struct, frozen=True, kw_only=True):
    """Whether heartbeats carry the hardware, and how much of it."""

    include: bool = False
    """Whether they do."""
    scope: Annotated[str, Schema(pattern="^(full|delta)?$")] = ""
    """full, or delta for what has changed."""


class HeartbeatSettings(Struct, frozen=True, kw_only=True):
    """How often the device tells how it is."""

    period_seconds: Annotated[int | None, Schema(minimum=1, maximum=86_400)] = None
    """Seconds between two heartbeats; 60 where it is absent."""
    hardware_profile: HardwareProfile | None = None
    """Whether they carry the hardware."""


class S3Storage(Struct, frozen=True, kw_only=True):
    """A bucket that the device uploads to."""

    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(
                rule=(
                    "!(has(self.createOBC) && self.createOBC && (has(self.secretName) && self.secretName != '' ||"
                    " has(self.configMapName) && self.configMapName != ''))"
                ),
                message="a bucket is claimed or named, not both: leave out createOBC, or secretName and configMapName",
            ),
        )
    )

    secret_name: Name = ""
    """The Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for a private authority, tls.crt."""
    config_map_name: Name = ""
    """The ConfigMap with BUCKET_HOST, BUCKET_PORT, BUCKET_NAME and BUCKET_REGION."""
    create_obc: bool = msgspec.field(default=False, name="createOBC")
    """Whether a bucket is claimed for the device, where neither of the two is named."""


class Storage(Struct, frozen=True, kw_only=True):
    """Where the device puts data."""

    s3: S3Storage | None = None
    """A bucket."""


class MountSettings(Struct, frozen=True, kw_only=True):
    """A file system that is to be mounted on the device."""

    device: str = ""
    """What is mounted."""
    folder: str = ""
    """Where."""
    type: str = ""
    """The file system's type."""
    options: str = ""
    """How."""


class Retention(Struct, frozen=True, kw_only=True):
    """How much of the metrics is kept on the device."""

    max_mib: Annotated[int, Schema(minimum=0)] = msgspec.field(default=0, name="maxMiB")
    """At most so many MiB; 0: no limit."""
    max_hours: Annotated[int, Schema(minimum=0)] = 0
    """At most for so long; 0: no limit."""


class ComponentMetrics(Struct, frozen=True, kw_only=True):
    """How the metrics of one part of the device are gathered."""

    interval: Annotated[int, Schema(minimum=0)] = 60
    """Every so many seconds."""
    allow_list: NameReference | None = None
    """The ConfigMap whose metrics_list.yaml names the metrics that are kept."""
    disabled: bool = False
    """True: not at all."""


class MetricsReceiver(Struct, frozen=True, kw_only=True):
    """Where the device sends its metrics by remote write."""

    url: str = ""
    """Its URL."""
    ca_secret_name: Name = ""
    """The Secret whose ca.crt signed its certificate."""
    request_num_samples: Annotated[int, Schema(minimum=0)] = 0
    """Samples per request; 30000 where it is absent."""
    timeout_seconds: Annotated[int, Schema(minimum=0)] = 0
    """How long a request may take; 10 where it is absent."""


class DeviceMetrics(Struct, frozen=True, kw_only=True):
    """The metrics of the device."""

    retention: Retention | None = None
    """How much is kept on it."""
    system: ComponentMetrics | None = None
    """Those of the machine."""
    data_transfer: ComponentMetrics | None = None
    """Those of uploads and downloads."""
    receiver_configuration: MetricsReceiver | None = None
    """Where they are sent to."""


class LogCollection(Struct, frozen=True, kw_only=True):
    """A place that logs are sent to."""

    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(
                rule="!has(self.kind) || self.kind != 'syslog' || has(self.syslogConfig)",
                message="syslog needs the name of the ConfigMap that has its address",
                reason="FieldValueRequired",
                field_path=".syslogConfig",
            ),
        )
    )

    kind: Annotated[str, Schema(enum=("syslog",))] = ""
    """syslog."""
    buffer_size: Annotated[int, Schema(minimum=1)] = 12
    """KB that are kept while it cannot be reached."""
    syslog_config: NameReference | None = None
    """The ConfigMap with Address and Protocol."""


class DeviceSettings(Struct, frozen=True, kw_only=True):
    """How a device is set up: what a set of devices says of all its members at once."""

    os_information: OsInformation | None = None
    """The operating system image that it is to run."""
    heartbeat: HeartbeatSettings | None = None
    """How often it tells how it is."""
    storage: Storage | None = None
    """Where it puts data."""
    metrics: DeviceMetrics | None = None
    """Which metrics it gathers, and where it sends them."""
    log_collection: dict[str, LogCollection] = {}
    """Where logs are sent to, by a name that workloads refer to."""
    mounts: tuple[MountSettings, ...] = ()
    """What is mounted on it."""


class EdgeDeviceSpec(DeviceSettings, frozen=True, kw_only=True):
    """What one device is to do."""

    request_time: datetime | None = None
    """When it asked to be registered."""


class UpgradeInformation(Struct, frozen=True, kw_only=True):
    """Which operating system image the device runs."""

    current_commit_id: str = msgspec.field(default="", name="currentCommitID")
    """The commit that it runs."""
    last_upgrade_status: str = ""
    """succeeded or failed."""
    last_upgrade_time: str = ""
    """When that was."""


class DeviceWorkload(Struct, frozen=True, kw_only=True):
    """One workload of the device."""

    name: Annotated[Name, Schema(required=True)] = ""
    """The name of the EdgeWorkload or EdgeDeployment."""
    phase: str = ""
    """Deploying until the device has told; then what podman says: Running, Exited, Created, Degraded …"""
    last_transition_time: datetime | None = None
    """When the phase last changed, or the revision."""
    last_data_upload: datetime | None = None
    """When data was last uploaded."""
    message: Annotated[str, Schema(max_length=1024)] = ""
    """Why it is not in the device's configuration, where it is not."""
    rolled_back: bool = False
    """Whether the device went back to its last good version, because the one that it was sent failed."""
    told: Annotated[str, Schema(max_length=1024)] = ""
    """Why it is not as it was sent, as the device says it."""
    revision: Annotated[str, Schema(max_length=63)] = ""
    """The version of the workload that the device has applied, by its hash, where the workload has a rollout."""

    @property
    def standing(self) -> str:
        """Its phase, and in the device's own words why, where it has said so."""
        return f"{self.phase}: {self.told}" if self.told else self.phase


class DeviceCertificate(Struct, frozen=True, kw_only=True):
    """The certificate that the device used last."""

    serial_number: Annotated[str, Schema(max_length=64)] = ""
    """Its serial number, in hexadecimal."""
    issuer: Annotated[str, Schema(max_length=64)] = ""
    """The authority that signed it, by the first 16 digits of its fingerprint."""
    not_after: datetime | None = None
    """When it ends."""


class EdgeDeviceStatus(Struct, frozen=True, kw_only=True):
    """What is known of the device."""

    phase: str = ""
    """up or degraded, as it said last."""
    last_seen_time: datetime | None = None
    """When it last told how it is, to within an hour; `edgewright edge show` knows it to within 30 seconds."""
    last_synced_resource_version: str = ""
    """The version of the configuration that it has applied."""
    data_obc: str = ""
    """The name of the ObjectBucketClaim for its data."""
    hardware: Hardware | None = None
    """What it is made of."""
    upgrade_information: UpgradeInformation | None = None
    """Which operating system image it runs."""
    certificate: DeviceCertificate | None = None
    """The certificate that it used last."""
    workloads: Annotated[tuple[DeviceWorkload, ...], Schema(list_type="atomic")] = ()
    """Its workloads and how they are."""
    deployments: Annotated[tuple[DeviceWorkload, ...], Schema(list_type="atomic")] = ()
    """The same as workloads, under the first published name."""
    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """Registered: it has a certificate of its own; Online: it is heard; Configured: all its workloads can be sent to
    it; Ready: all that, and its workloads run."""

    @property
    def known_workloads(self) -> tuple[DeviceWorkload, ...]:
        """Its workloads, whichever era wrote them."""
        return self.workloads or self.deployments

    def with_workloads(self, workloads: tuple[DeviceWorkload, ...]) -> EdgeDeviceStatus:
        """The same status with this list, under both names."""
        return msgspec.structs.replace(self, workloads=workloads, deployments=workloads)


class EdgeDevice(CustomResource, frozen=True, kw_only=True):
    """A Linux machine with an agent: what it is to do, and what is known of it."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version="v1alpha1", kind="EdgeDevice", plural="edgedevices")
    definition: ClassVar[Definition] = Definition(
        short_names=("ed",),
        categories=("edgewright",),
        columns=(
            Column(name="Phase", path=".status.phase", description="What it said last."),
            Column(
                name="Online", path='.status.conditions[?(@.type=="Online")].status', description="Whether it is heard."
            ),
            Column(
                name="Ready", path='.status.conditions[?(@.type=="Ready")].status', description="Whether all is well."
            ),
            Column(name="Hostname", path=".status.hardware.hostname", description="Its host name."),
            Column(name="Seen", path=".status.lastSeenTime", type="date", description="How long ago it was heard."),
            Column(name="Workloads", path=".status.workloads[*].name", description="Its workloads.", priority=1),
            Column(name="Claim", path=".status.dataObc", description="The claim of its bucket.", priority=1),
            AGE,
        ),
    )

    spec: EdgeDeviceSpec = EdgeDeviceSpec()
    """What it is to do."""

    status: EdgeDeviceStatus = EdgeDeviceStatus()
    """What is known of it."""
