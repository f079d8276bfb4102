"""Whether a machine stands behind an EdgeDevice, and what stays when it goes: the record of its id.

Without such a record a device that was decommissioned would come back by itself.

The gateway writes it before the last finalizer goes, the edgedevice controller where no gateway did. A device whose
EdgeDevice is missing is told to disconnect only where there is such a record: a restored cluster keeps its fleet.
"""

from __future__ import annotations

from typing import Any, Final

from edgewright.api.edgedevice import KEY_ANNOTATION, REGISTERED, SIGNED_REQUEST, EdgeDevice
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest, EdgeDeviceSignedRequestSpec
from edgewright.runtime.objects import ObjectMeta

REASON: Final = "its EdgeDevice was deleted"
DECOMMISSIONED: Final[dict[str, Any]] = {
    "approved": False,
    "denied": True,
    "decommissioned": True,
    "reason": REASON,
}
"""The change of a record's spec."""


def without_device(device: EdgeDevice) -> bool:
    """Whether no machine stands behind an EdgeDevice: none was given a certificate for it. Then nothing is recorded."""
    return not (_registered_here(device) or registered_elsewhere(device))


def registered_elsewhere(device: EdgeDevice) -> bool:
    """Whether the published operator gave a machine a certificate for it, which we have not seen yet.

    It writes the hardware and takes its label off when a device registers, and knows neither our condition nor keys.
    """
    told = device.status.hardware is not None and SIGNED_REQUEST not in device.metadata.labels
    return told and not _registered_here(device)


def _registered_here(device: EdgeDevice) -> bool:
    registered = any(each.type == REGISTERED and each.status == "True" for each in device.status.conditions)
    return registered or bool(device.metadata.annotations.get(KEY_ANNOTATION))


def tombstone_of(device: EdgeDevice, namespace: str) -> EdgeDeviceSignedRequest:
    """The record of a device that has none."""
    return EdgeDeviceSignedRequest(
        metadata=ObjectMeta(name=device.metadata.name, namespace=namespace),
        spec=EdgeDeviceSignedRequestSpec(
            target_namespace=device.metadata.namespace, denied=True, decommissioned=True, reason=REASON
        ),
    )
