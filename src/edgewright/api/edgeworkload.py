"""EdgeWorkload, and EdgeDeployment, its first published name: a pod that runs on the devices that it selects.

People write it; the edgeworkload controller shows how far it is, the gateway puts it into the configuration of each
device that it matches. The two kinds are one to both; of two with one name the older counts.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from edgewright.api.annotations import Rule, Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.api.edge_pod import Port, WorkloadPodSpec
from edgewright.api.edgedevice import GROUP, NameReference
from edgewright.api.edgeworkload_rollout import WorkloadRollout, WorkloadRolloutStatus
from edgewright.api.label_selector import LabelSelector
from edgewright.runtime.objects import Condition, Kind, Struct

WORKLOAD_REFERENCE_FINALIZER: Final = "yggdrasil-device-reference-finalizer"
"""On a workload until no EdgeDevice refers to it."""
CONFLICT: Final = "Conflict"
"""The condition of an object whose name an older one of the other era's kind has."""
ACCEPTED: Final = "Accepted"
"""The condition that says whether the spec can be acted on."""
POD: Final = "pod"
"""The one type of workload."""
NO_DEVICE: Final = "no device is named: give deviceSelector, or device"
"""What is said of a workload that could run nowhere."""
BAD_NAME: Final = "a pod is named after it: use at most 63 of a-z, 0-9 and -"
"""What is said of a name that no pod can have."""


class PodOfWorkload(Struct, frozen=True, kw_only=True):
    """The pod."""

    spec: Annotated[dict[str, Any], Schema(known=WorkloadPodSpec, required=True)] = {}
    """Its PodSpec."""


class DataPath(Struct, frozen=True, kw_only=True):
    """A directory of the workload, and its place in the bucket."""

    source: str = ""
    """Where it comes from: for egress a path below /export, for ingress one in the bucket."""
    target: str = ""
    """Where it goes."""


class Data(Struct, frozen=True, kw_only=True):
    """What is uploaded and downloaded."""

    paths: tuple[DataPath, ...] = ()
    """What is uploaded, under the first published name."""
    egress: tuple[DataPath, ...] = ()
    """What is uploaded."""
    ingress: tuple[DataPath, ...] = ()
    """What is downloaded."""

    @property
    def uploads(self) -> tuple[DataPath, ...]:
        """What is uploaded, whichever era wrote it."""
        return tuple(dict.fromkeys((*self.egress, *self.paths)))


class ImageRegistries(Struct, frozen=True, kw_only=True):
    """The credentials of image registries."""

    secret_ref: NameReference | None = None
    """The Secret (kubernetes.io/dockerconfigjson)."""


class ContainerMetrics(Struct, frozen=True, kw_only=True):
    """The metrics of one container."""

    path: str = "/"
    """Where they are."""
    port: Port = 0
    """On which port."""
    disabled: bool = False
    """True: not at all."""


class WorkloadMetrics(Struct, frozen=True, kw_only=True):
    """The metrics of the workload."""

    path: str = "/"
    """Where they are."""
    port: Port = 0
    """On which port."""
    interval: Annotated[int, Schema(minimum=0)] = 60
    """Every so many seconds."""
    allow_list: NameReference | None = None
    """The ConfigMap whose metrics_list.yaml names the metrics that are kept."""
    containers: dict[str, ContainerMetrics] = {}
    """What differs for single containers."""


class EdgeWorkloadSpec(Struct, frozen=True, kw_only=True):
    """Which pod runs on which devices."""

    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(
                rule="has(self.deviceSelector) || (has(self.device) && self.device != '')",
                message=NO_DEVICE,
                reason="FieldValueRequired",
                field_path=".deviceSelector",
            ),
        )
    )

    type: Annotated[str, Schema(enum=(POD,), required=True)] = ""
    """pod."""
    device: Annotated[str, Schema(max_length=253)] = ""
    """The one device that runs it; then the selector does not count."""
    device_selector: LabelSelector | None = None
    """The devices that run it."""
    pod: Annotated[PodOfWorkload, Schema(required=True)] = PodOfWorkload()
    """The pod."""
    data: Data | None = None
    """What is uploaded and downloaded."""
    image_registries: ImageRegistries | None = None
    """The credentials for its images."""
    log_collection: Annotated[str, Schema(max_length=253)] = ""
    """Where its logs go: a name in the logCollection of the device."""
    metrics: WorkloadMetrics | None = None
    """Its metrics."""
    rollout: WorkloadRollout | None = None
    """How a change of it reaches its devices; absent: all of them at once."""


class EdgeWorkloadStatus(Struct, frozen=True, kw_only=True):
    """How far the workload is."""

    devices: Annotated[int, Schema(minimum=0)] = 0
    """How many devices it is for."""
    running: Annotated[int, Schema(minimum=0)] = 0
    """On how many of them it runs."""
    progress: str = ""
    """Running and all, as 3/12."""
    rollout: WorkloadRolloutStatus | None = None
    """How far its newest version is, where the spec has a rollout."""
    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """Accepted, Ready; RolledOut, where the spec has a rollout; and Conflict, where an older object of the other kind
    has its name."""
    observed_generation: Annotated[int, Schema(minimum=0)] = 0
    """The generation of the spec that this status is about."""


_DEFINITION = Definition(
    categories=("edgewright",),
    columns=(
        Column(name="Running", path=".status.progress", description="On how many of its devices it runs."),
        Column(name="Ready", path='.status.conditions[?(@.type=="Ready")].status', description="Whether all do."),
        Column(name="Rollout", path=".status.rollout.phase", description="How far its rollout is.", priority=1),
        Column(name="Device", path=".spec.device", description="The one device that it names.", priority=1),
        AGE,
    ),
)


class EdgeWorkload(CustomResource, frozen=True, kw_only=True):
    """A pod that runs on the devices that it selects."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version="v1alpha1", kind="EdgeWorkload", plural="edgeworkloads")
    definition: ClassVar[Definition] = _DEFINITION
    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(  # of what is stored already nothing is asked: it must stay possible to delete it
                rule="oldSelf.hasValue() || (self.metadata.name.size() <= 63 && !self.metadata.name.contains('.'))",
                message=BAD_NAME,
                optional_old_self=True,
            ),
        )
    )

    spec: Annotated[EdgeWorkloadSpec, Schema(required=True)] = EdgeWorkloadSpec()
    """Which pod runs on which devices."""

    status: EdgeWorkloadStatus = EdgeWorkloadStatus()
    """How far it is."""


class EdgeDeployment(EdgeWorkload, frozen=True, kw_only=True):
    """An EdgeWorkload under its first published name."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version="v1alpha1", kind="EdgeDeployment", plural="edgedeployments")
