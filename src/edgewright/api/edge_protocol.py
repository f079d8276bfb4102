"""The messages between the agent on a Linux edge device and the gateway, with their published JSON names.

The gateway decodes what agents send and encodes what they are to do; the agent does the reverse. Fields that published
agents send as null are optional, and unknown fields are ignored, so that agents of every era are understood. Nothing
here talks to a server or knows a Kubernetes object.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from edgewright.api.edge_hardware import HardwareInfo, Mount, WireStruct

PREFIX: Final = "/api/flotta-management/v1"
"""What every path of the agents' API begins with."""
PORT: Final = 8043
"""Where the gateway listens."""
REGISTER: Final = "register"
"""The common name of a registration certificate."""
NEVER: Final = "0001-01-01T00:00:00Z"
"""How published agents write a time that has not been."""


class MessageType(StrEnum):
    """What an envelope carries."""

    DATA = "data"
    COMMAND = "command"
    EVENT = "event"
    CONNECTION_STATUS = "connection-status"


class Directive(StrEnum):
    """Which part of the other side a data message is for."""

    ENROLMENT = "enrolment"
    REGISTRATION = "registration"
    HEARTBEAT = "heartbeat"
    ANSIBLE = "ansible"
    DEVICE = "device"
    ACCESS = "access"
    """What a device answers to the commands logs and exec, on its control channel."""


class Command(StrEnum):
    """What a control message tells an agent to do."""

    DISCONNECT = "disconnect"
    PING = "ping"
    RECONNECT = "reconnect"
    LOGS = "logs"
    """Only our agents get this one and the next, and do them where their own settings allow it."""
    EXEC = "exec"


class Message(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """The envelope of what an agent posts and of what it gets on GET."""

    type: str = MessageType.DATA.value
    """One of `MessageType`."""

    message_id: str = ""
    """Made up by the sender."""

    response_to: str = ""
    """The message that this one answers."""

    version: int = 1
    """Always 1."""

    sent: str = NEVER
    """When it was sent, RFC 3339; some agents send year 1."""

    directive: str = ""
    """One of `Directive`."""

    metadata: dict[str, str] | None = None
    """Free text by name."""

    content: msgspec.Raw = msgspec.Raw(b"null")
    """What the directive asks for, still JSON."""


class MessageResponse(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """The body that answers a data message where there is something to say; a heartbeat is answered by no body."""

    message_id: str = ""
    """The message that is answered."""

    directive: str = ""
    """Its directive."""

    content: msgspec.Raw = msgspec.Raw(b"null")
    """The answer, still JSON."""

    metadata: dict[str, str] | None = None
    """Free text by name."""


class CommandContent(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """The content of a control message of type `command`."""

    command: str = ""
    """One of `Command`."""

    arguments: dict[str, str] = {}
    """What the command needs."""


class AccessReport(WireStruct, frozen=True, kw_only=True):
    """What a device answers to `logs` and `exec`."""

    request: str = ""
    """The request's name, from the arguments of the command."""
    command: str = ""
    """The command."""
    output: str = ""
    truncated: bool = False
    exit_code: int | None = None
    error: str = ""
    """Why it did not do it; empty where it did."""


class EnrolmentFeatures(WireStruct, frozen=True, kw_only=True):
    """What a device tells of itself before it is approved."""

    hardware: HardwareInfo | None = None
    model_name: str = msgspec.field(name="modelName", default="")


class EnrolmentInfo(WireStruct, frozen=True, kw_only=True):
    """The content of `enrolment`: answered 200 (recorded) or 208 (the EdgeDevice exists: register now)."""

    features: EnrolmentFeatures | None = None
    target_namespace: str = ""
    certificate_request: str = ""
    """A certificate request in PEM, where only its key is to register after approval; published agents send none."""


class RegistrationInfo(WireStruct, frozen=True, kw_only=True):
    """The content of `registration`."""

    hardware: HardwareInfo | None = None
    certificate_request: str = ""
    """A certificate request in PEM, signed with the device's new key."""


class RegistrationResponse(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """The content of the answer to `registration`."""

    certificate: str = ""
    """The device's certificate in PEM."""


class WorkloadStatus(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """How one workload is on the device."""

    name: str = ""
    status: str = ""
    """The state of its pod as podman says it: Running, Exited, Created, Degraded …"""
    last_data_upload: str = NEVER
    """When data was last uploaded, RFC 3339; `NEVER` where it has not been."""
    rolled_back: bool = False
    """Whether its last good version runs, because the one of the configuration failed; published agents never say."""
    message: str = ""
    """Why it is not as the configuration says; empty where it is."""


class UpgradeStatus(WireStruct, frozen=True, kw_only=True):
    """Which operating system image the device runs, and how its last upgrade went."""

    current_commit_id: str = msgspec.field(name="current_commit_ID", default="")
    last_upgrade_status: str = ""
    last_upgrade_time: str = ""


class EventInfo(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """Something that happened on the device."""

    type: str = "info"
    """info or warn."""
    reason: str = ""
    """A single word."""
    message: str = ""
    """A sentence."""


class Heartbeat(WireStruct, frozen=True, kw_only=True):
    """The content of `heartbeat`."""

    status: str = "up"
    """up or degraded."""
    version: str = ""
    """The version of the configuration that the device has applied."""
    workloads: tuple[WorkloadStatus, ...] | None = None
    upgrade: UpgradeStatus | None = None
    hardware: HardwareInfo | None = None
    events: tuple[EventInfo, ...] | None = None


class HardwareProfileConfiguration(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """Whether heartbeats carry the hardware, and how much of it."""

    include: bool = False
    scope: str = "full"
    """full or delta."""


class HeartbeatConfiguration(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """How often heartbeats are sent; published agents crash where the profile is missing."""

    period_seconds: int = 60
    hardware_profile: HardwareProfileConfiguration = HardwareProfileConfiguration()


class OsInformation(WireStruct, frozen=True, kw_only=True):
    """The operating system image that the device is to run."""

    commit_id: str = ""
    hosted_objects_url: str = ""
    automatically_upgrade: bool = False


class S3Configuration(WireStruct, frozen=True, kw_only=True):
    """Where data is uploaded to. The three aws_ fields are base64, as a Secret holds them."""

    bucket_host: str = ""
    bucket_port: int = 0
    bucket_name: str = ""
    bucket_region: str = ""
    aws_access_key_id: str = ""
    aws_secret_access_key: str = ""
    aws_ca_bundle: str = ""


class StorageConfiguration(WireStruct, frozen=True, kw_only=True):
    """The storage that the device may use."""

    s3: S3Configuration | None = None


class MetricsAllowList(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """The metrics that are kept; all others are dropped."""

    names: tuple[str, ...] = ()


class MetricsRetention(WireStruct, frozen=True, kw_only=True):
    """How much of the metrics is kept on the device."""

    max_mib: int = 0
    max_hours: int = 0


class ComponentMetricsConfiguration(WireStruct, frozen=True, kw_only=True):
    """How the metrics of the machine, or of the data transfer, are gathered."""

    interval: int = 0
    allow_list: MetricsAllowList | None = None
    disabled: bool = False


class MetricsReceiverConfiguration(WireStruct, frozen=True, kw_only=True):
    """Where metrics are sent to by remote write."""

    url: str = ""
    ca_cert: str = msgspec.field(name="caCert", default="")
    timeout_seconds: int = 0
    request_num_samples: int = 0


class MetricsConfiguration(WireStruct, frozen=True, kw_only=True):
    """The metrics of the device."""

    retention: MetricsRetention | None = None
    system: ComponentMetricsConfiguration | None = None
    data_transfer: ComponentMetricsConfiguration | None = msgspec.field(name="data-transfer", default=None)
    receiver: MetricsReceiverConfiguration | None = None


class SyslogConfiguration(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """A syslog server."""

    address: str = ""
    protocol: str = ""
    """tcp or udp."""


class LogsCollection(WireStruct, frozen=True, kw_only=True):
    """One target of logs; published agents crash where kind is syslog and the server is missing."""

    kind: str = ""
    buffer_size: int = 0
    syslog_config: SyslogConfiguration | None = None


class DeviceConfiguration(WireStruct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of the device itself."""

    heartbeat: HeartbeatConfiguration
    os: OsInformation | None = None
    storage: StorageConfiguration | None = None
    metrics: MetricsConfiguration | None = None
    log_collection: dict[str, LogsCollection] = msgspec.field(name="log-collection", default_factory=dict)
    mounts: tuple[Mount, ...] | None = None


class DataPath(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """A directory below /export of a workload, and its place in the bucket."""

    source: str = ""
    target: str = ""


class DataConfiguration(WireStruct, frozen=True, kw_only=True):
    """What a workload uploads and downloads; `paths` is what early agents read, and equals `egress`."""

    paths: tuple[DataPath, ...] | None = None
    egress: tuple[DataPath, ...] | None = None
    ingress: tuple[DataPath, ...] | None = None


class ImageRegistries(WireStruct, frozen=True, kw_only=True):
    """The credentials of image registries."""

    auth_file: str = msgspec.field(name="authFile", default="")
    """The whole auth.json."""


class ContainerMetrics(WireStruct, frozen=True, kw_only=True):
    """The metrics of one container of a workload."""

    path: str = ""
    port: int = 0
    disabled: bool = False


class WorkloadMetrics(WireStruct, frozen=True, kw_only=True):
    """The metrics of a workload."""

    path: str = ""
    port: int = 0
    interval: int = 0
    allow_list: MetricsAllowList | None = None
    containers: dict[str, ContainerMetrics] = {}


class Workload(WireStruct, frozen=True, kw_only=True):
    """One pod that is to run on the device."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    specification: str = ""
    """The PodSpec as YAML."""
    data: DataConfiguration | None = None
    image_registries: ImageRegistries | None = msgspec.field(name="imageRegistries", default=None)
    metrics: WorkloadMetrics | None = None
    configmaps: tuple[str, ...] | None = None
    """Each a whole ConfigMap as YAML."""
    log_collection: str = ""
    """The name of one target of `DeviceConfiguration.log_collection`."""


class WireSecret(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """A Secret that a workload needs."""

    name: str = ""
    data: str = "{}"
    """A JSON object from key to base64."""


class DeviceConfigurationMessage(WireStruct, frozen=True, kw_only=True):
    """The content of the message of directive `device`: all that the device is to be."""

    device_id: str = ""
    version: str = ""
    """A hash of everything else in it, so that equal configurations have equal versions."""
    workloads_monitoring_interval: int = 0
    """How often, in seconds, the agent looks at its workloads and restarts those that failed."""
    configuration: DeviceConfiguration | None = None
    workloads: tuple[Workload, ...] | None = None
    secrets: tuple[WireSecret, ...] | None = None


class Problem(WireStruct, frozen=True, kw_only=True, omit_defaults=False):
    """The body of an answer that refuses; it is JSON or empty, because published agents swallow any other."""

    code: int = 0
    message: str = ""


def parsed_time(text: str) -> datetime | None:
    """A time of a message; None where it is empty, year 1 or no time at all."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.year == 1:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
