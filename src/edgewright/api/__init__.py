"""The kinds that Edgewright works with, as typed structs, and the CRDs that are generated from them.

This is the room's public face: controllers and the command line import kinds from here. Event and Lease are defined
where the runtime itself writes them. `annotations`, `schema`, `crd`
and `manifests` turn the kinds that are ours into CRD YAML. Nothing in this room talks to a server or a device.
"""

from edgewright.api.crd import CustomResource, custom_resource_definition, custom_resource_definitions
from edgewright.api.flashjob import MAX_DEVICES, FlashJob, FlashJobPhase, FlashJobSpec, FlashJobStatus
from edgewright.api.instance import Instance, InstanceSpec, instance_crd
from edgewright.api.namespace import Namespace, NamespaceStatus
from edgewright.api.pod import (
    Container,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ContainerWaiting,
    EnvVar,
    Pod,
    PodSpec,
    PodStatus,
)
from edgewright.api.service import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from edgewright.runtime.events import Event
from edgewright.runtime.lease import Lease

CUSTOM_KINDS: tuple[type[CustomResource], ...] = (FlashJob,)
"""The kinds whose CRDs are ours: what `make manifests` writes and `edgewright crds` prints and installs."""

__all__ = [
    "CUSTOM_KINDS",
    "MAX_DEVICES",
    "Container",
    "ContainerState",
    "ContainerStatus",
    "ContainerTerminated",
    "ContainerWaiting",
    "CustomResource",
    "EnvVar",
    "Event",
    "FlashJob",
    "FlashJobPhase",
    "FlashJobSpec",
    "FlashJobStatus",
    "Instance",
    "InstanceSpec",
    "Lease",
    "LoadBalancerIngress",
    "LoadBalancerStatus",
    "Namespace",
    "NamespaceStatus",
    "Pod",
    "PodSpec",
    "PodStatus",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
    "custom_resource_definition",
    "custom_resource_definitions",
    "instance_crd",
]
