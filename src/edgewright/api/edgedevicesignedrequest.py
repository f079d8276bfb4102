"""EdgeDeviceSignedRequest: a device that asks to be let in, and whether it is: the record of one id, for good.

The gateway creates one when a device enrols; people (or the setting of automatic approval) approve it; the edgedevice
controller then creates its EdgeDevice. It outlives the EdgeDevice: what was denied, revoked or decommissioned stays so
until somebody approves the id again. The object's name is the device's id.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, ClassVar, Final

from edgewright.api.annotations import Rule, Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.api.edgedevice import GROUP, Name
from edgewright.api.edgedevice_hardware import Hardware
from edgewright.runtime.objects import Kind, Struct

ADMITTED: Final = "edgewright.dev/admitted"
"""Annotation of a request whose EdgeDevice was made: it is not made again when somebody deletes that."""
REGISTRATION: Final = "edgewright.dev/registration"
"""Annotation of a request or an EdgeDevice: the registration certificate that it came with, by the hash of its key."""


class Features(Struct, frozen=True, kw_only=True):
    """What the device told of itself."""

    model_name: str = ""
    """Its model."""
    hardware: Hardware | None = None
    """What it is made of."""


class EdgeDeviceSignedRequestSpec(Struct, frozen=True, kw_only=True):
    """Who asks, and where it is to be."""

    target_namespace: Annotated[str, Schema(max_length=63, required=True)] = ""
    """The namespace of its EdgeDevice."""
    target_set: Name = ""
    """The set that it becomes a member of."""
    approved: bool = False
    """Whether it is let in."""
    features: Features | None = None
    """What it told of itself."""
    denied: bool = False
    """Whether it is kept out, whatever it sends and however often it asks."""
    decommissioned: bool = False
    """Whether its EdgeDevice was deleted: a device that comes back with its certificate is told to disconnect."""
    revoked_before: datetime | None = None
    """Certificates of the device that are valid from this moment or earlier are refused."""
    reason: Annotated[str, Schema(max_length=1024)] = ""
    """Why it was denied, revoked or decommissioned."""

    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(
                rule="!(has(self.approved) && self.approved && has(self.denied) && self.denied)",
                message="a device is approved or denied, not both",
            ),
        )
    )


class RequestCondition(Struct, frozen=True, kw_only=True):
    """Where the request stands, in the published form: type pending, approved or declined, status true or false."""

    type: Annotated[str, Schema(required=True)] = ""
    """pending, approved or declined."""
    status: Annotated[str, Schema(required=True)] = ""
    """true or false."""
    message: str = ""
    """Why."""


class EdgeDeviceSignedRequestStatus(Struct, frozen=True, kw_only=True):
    """Where the request stands."""

    phase: str = ""
    """pending, approved or declined."""
    conditions: tuple[RequestCondition, ...] = ()
    """The same, one by one."""


class EdgeDeviceSignedRequest(CustomResource, frozen=True, kw_only=True):
    """A device that asks to be let in."""

    kind: ClassVar[Kind] = Kind(
        group=GROUP, version="v1alpha1", kind="EdgeDeviceSignedRequest", plural="edgedevicesignedrequest"
    )
    definition: ClassVar[Definition] = Definition(
        short_names=("edsr",),
        categories=("edgewright",),
        columns=(
            Column(name="deviceid", path=".metadata.name", description="The device."),
            Column(name="targetNamespace", path=".spec.targetNamespace", description="Where it is to be."),
            Column(name="Approved", path=".spec.approved", type="boolean", description="Whether it is let in."),
            Column(name="Status", path=".status.phase", description="Where the request stands."),
            AGE,
        ),
    )

    spec: Annotated[EdgeDeviceSignedRequestSpec, Schema(required=True)] = EdgeDeviceSignedRequestSpec()
    """Who asks, and where it is to be."""

    status: EdgeDeviceSignedRequestStatus = EdgeDeviceSignedRequestStatus()
    """Where the request stands."""


def id_record(requests: Iterable[EdgeDeviceSignedRequest]) -> EdgeDeviceSignedRequest | None:
    """What counts of the records that one id has in several namespaces: a denial first, then the last revocation."""
    living = [each for each in requests if not each.deleting]
    if len(living) < 2:
        return living[0] if living else None
    return min(
        living,
        key=lambda each: (
            not each.spec.denied,
            -(each.spec.revoked_before.timestamp() if each.spec.revoked_before else 0.0),
            each.metadata.namespace,
        ),
    )
