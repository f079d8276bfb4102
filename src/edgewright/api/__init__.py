"""The kinds that Edgewright works with, as typed structs, and the CRDs that are generated from them.

This is the room's public face: controllers and the command line import kinds from here. Event and Lease are defined
where the runtime itself writes them. `annotations`, `schema`, `crd`
and `manifests` turn the kinds that are ours into CRD YAML. Nothing in this room talks to a server or a device.
"""

from typing import TYPE_CHECKING

from edgewright.runtime.lazy import fetching

if TYPE_CHECKING:
    from edgewright.api.crd import CustomResource, custom_resource_definition, custom_resource_definitions
    from edgewright.api.device import Device, DeviceSpec, DeviceStatus
    from edgewright.api.flashjob import MAX_DEVICES, FlashJob, FlashJobPhase, FlashJobSpec, FlashJobStatus
    from edgewright.api.instance import Instance, InstanceSpec, instance_crd
    from edgewright.api.kinds import CUSTOM_KINDS
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
else:
    # What a process does not use, it does not import: a flasher is a process for every device.
    __getattr__ = fetching(
        __name__,
        {
            "edgewright.api.crd": ("CustomResource", "custom_resource_definition", "custom_resource_definitions"),
            "edgewright.api.device": ("Device", "DeviceSpec", "DeviceStatus"),
            "edgewright.api.flashjob": ("MAX_DEVICES", "FlashJob", "FlashJobPhase", "FlashJobSpec", "FlashJobStatus"),
            "edgewright.api.instance": ("Instance", "InstanceSpec", "instance_crd"),
            "edgewright.api.kinds": ("CUSTOM_KINDS",),
            "edgewright.api.namespace": ("Namespace", "NamespaceStatus"),
            "edgewright.api.pod": (
                "Container",
                "ContainerState",
                "ContainerStatus",
                "ContainerTerminated",
                "ContainerWaiting",
                "EnvVar",
                "Pod",
                "PodSpec",
                "PodStatus",
            ),
            "edgewright.api.service": (
                "LoadBalancerIngress",
                "LoadBalancerStatus",
                "Service",
                "ServicePort",
                "ServiceSpec",
                "ServiceStatus",
            ),
            "edgewright.runtime.events": ("Event",),
            "edgewright.runtime.lease": ("Lease",),
        },
    )

__all__ = [
    "CUSTOM_KINDS",
    "MAX_DEVICES",
    "Container",
    "ContainerState",
    "ContainerStatus",
    "ContainerTerminated",
    "ContainerWaiting",
    "CustomResource",
    "Device",
    "DeviceSpec",
    "DeviceStatus",
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
