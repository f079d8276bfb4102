"""What stays of a device that was decommissioned: the record of its id, so that it does not come back by itself.

The gateway writes it before the last finalizer goes, the edgedevice controller where no gateway did. A device whose
EdgeDevice is missing is told to disconnect only where there is such a record: a restored cluster keeps its fleet.
"""

from __future__ import annotations

from typing import Any, Final

from edgewright.api.edgedevice import KEY_ANNOTATION, REGISTERED, EdgeDevice
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
    registered = any(each.type == REGISTERED and each.status == "True" for each in device.status.conditions)
    return not (registered or device.metadata.annotations.get(KEY_ANNOTATION))


def tombstone_of(device: EdgeDevice, namespace: str) -> EdgeDeviceSignedRequest:
    """The record of a device that has none."""
    return EdgeDeviceSignedRequest(
        metadata=ObjectMeta(name=device.metadata.name, namespace=namespace),
        spec=EdgeDeviceSignedRequestSpec(
            target_namespace=device.metadata.namespace, denied=True, decommissioned=True, reason=REASON
        ),
    )
