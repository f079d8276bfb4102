"""How a device comes in: enrolment, approval, and the certificate that it gets for the key that it has proven.

The server calls it for the two directives that a registration certificate allows. A device that is known registers
again with its own certificate; with the shared one only until it has used a certificate of its own. Who registered with
the published operator has one of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from edgewright.api.edge_hardware import HardwareInfo
from edgewright.api.edge_protocol import REGISTER, EnrolmentInfo, RegistrationInfo
from edgewright.api.edge_tombstone import registered_elsewhere
from edgewright.api.edgedevice import (
    FINALIZERS,
    KEY_ANNOTATION,
    MEMBER_OF,
    SIGNED_REQUEST,
    EdgeDevice,
    EdgeDeviceSpec,
    EdgeDeviceStatus,
)
from edgewright.api.edgedevice_hardware import hardware_with
from edgewright.api.edgedevicesignedrequest import (
    REGISTRATION,
    EdgeDeviceSignedRequest,
    EdgeDeviceSignedRequestSpec,
    Features,
)
from edgewright.gateway.admission import Admission, Refused
from edgewright.gateway.authority import Certificates
from edgewright.gateway.certificates import BadRequest, key_of, read_request
from edgewright.gateway.devices import Devices
from edgewright.gateway.identity import Caller
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import AlreadyExists
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, ObjectMeta

_log = logs.get("gateway.registration")

_DEVICE_ID: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MAX_ID: Final = 63
# What published agents send where nobody told them a namespace.
_UNSAID: Final = "default"


@dataclass(frozen=True)
class Enrolled:
    """The answer to an enrolment: 208 where the device may register now, else 200."""

    code: int


def check_id(device: str) -> None:
    """Refuses what cannot be the name of an EdgeDevice."""
    if device == REGISTER or len(device) > _MAX_ID or not _DEVICE_ID.fullmatch(device):
        raise Refused(400, f"{device[:80]!r} cannot be the id of a device: use at most 63 of a-z, 0-9, - and .")


class Registration:
    """Lets devices in."""

    def __init__(
        self,
        manager: Manager,
        settings: GatewaySettings,
        *,
        devices: Devices,
        certificates: Certificates,
        admission: Admission,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._devices = devices
        self._certificates = certificates
        self._clock = clock
        self._admission = admission
        self._requests = manager.client.of(EdgeDeviceSignedRequest)

    async def enrol(self, caller: Caller, device: str, info: EnrolmentInfo) -> Enrolled:
        """Records that the device asks to be let in, and says whether it is."""
        check_id(device)
        namespace = self._target_namespace(info.target_namespace)
        record = await self._admission.newest(device)
        self._admission.demand_not_denied(device, record)
        if await self._devices.with_id(device) is not None:
            return Enrolled(208)
        if record is None:
            await self._record(caller, device, namespace, info)
        return Enrolled(200)

    async def register(self, caller: Caller, device: str, info: RegistrationInfo, *, published: bool = False) -> str:
        """The new certificate of the device, in PEM; `published`: for an agent that does not renew by itself."""
        check_id(device)
        record = await self._admission.newest(device)
        self._admission.demand_not_denied(device, record)
        try:
            request = read_request(info.certificate_request)
        except BadRequest as error:
            raise Refused(400, str(error)) from None
        key = key_of(request)
        enrolled = key if record is None else record.metadata.annotations.get(KEY_ANNOTATION, key)
        if caller.is_registration and enrolled != key:
            raise Refused(403, f"device {device} enrolled with another key: it registers with that one only")
        found = await self._found(caller, device)
        if found is None:
            found = await self._create(caller, device, record)
        elif found.deleting:
            raise Refused(404, f"EdgeDevice {found.key} is being deleted")
        elif caller.is_registration and (
            registered_elsewhere(found) or found.metadata.annotations.get(KEY_ANNOTATION, key) != key
        ):
            raise Refused(
                403,
                f"device {device} has registered before: it registers again with its own certificate only, or after "
                f"`edgewright edge approve {device}`",
            )
        await self._note(found, caller, key, info.hardware)
        certificate = self._certificates.authority.device(
            request,
            device,
            found.metadata.namespace,
            days=max(self._settings.device_days, self._settings.published_days)
            if published
            else self._settings.device_days,
            now=self._clock.now(),
            after=None if record is None else record.spec.revoked_before,
        )
        _log.info("device registered", device=device, namespace=found.metadata.namespace)
        return certificate.decode()

    async def _found(self, caller: Caller, device: str) -> EdgeDevice | None:
        if caller.is_registration or caller.namespace not in self._settings.allowed_namespaces:
            return await self._devices.with_id(device)
        return await self._devices.get(Key(caller.namespace, device))

    async def _create(self, caller: Caller, device: str, request: EdgeDeviceSignedRequest | None) -> EdgeDevice:
        """The EdgeDevice of a device that is let in; 404 where it is not (yet)."""
        if request is None and not self._settings.automatic_approval:
            raise Refused(404, f"device {device} is not approved: let it enrol, and approve its request")
        if request is not None and not request.spec.approved:
            raise Refused(404, f"device {device} is not approved: approve EdgeDeviceSignedRequest {request.key}")
        namespace = self._settings.namespace if request is None else request.spec.target_namespace
        if namespace not in self._settings.allowed_namespaces:
            raise Refused(403, f"namespace {namespace!r} is not one that devices may be in")
        member_of = "" if request is None else request.spec.target_set
        came_with = self._admission.demand_room(caller) if request is None else _came_with(request)
        made = EdgeDevice(
            metadata=ObjectMeta(
                name=device,
                namespace=namespace,
                finalizers=FINALIZERS,
                labels={MEMBER_OF: member_of} if member_of else {},
                annotations={REGISTRATION: came_with} if came_with else {},
            ),
            spec=EdgeDeviceSpec(request_time=self._clock.now().replace(microsecond=0)),
        )
        try:
            return await self._devices.create(made)
        except AlreadyExists:
            found = await self._devices.get(made.key)
            if found is None:
                raise Refused(404, f"EdgeDevice {made.key} is going: try again") from None
            return found

    async def _note(self, device: EdgeDevice, caller: Caller, key: str, hardware: HardwareInfo | None) -> None:
        """Writes that the device has registered and what it is made of."""

        def metadata(each: EdgeDevice) -> dict[str, object]:
            change: dict[str, object] = {}
            if SIGNED_REQUEST in each.metadata.labels:
                change["labels"] = {SIGNED_REQUEST: None}
            if not caller.is_registration and each.metadata.annotations.get(KEY_ANNOTATION) != key:
                change["annotations"] = {KEY_ANNOTATION: key}
            return change

        def status(before: EdgeDeviceStatus) -> EdgeDeviceStatus:
            after = self._devices.registered(before, device.metadata.generation)
            if hardware is None:
                return after
            return msgspec.structs.replace(after, hardware=hardware_with(before.hardware, hardware))

        changed = await self._devices.change(device, metadata)
        if changed is None or await self._devices.write_status(changed, status) is None:
            raise Refused(404, f"EdgeDevice {device.key} is gone: try again")

    def _target_namespace(self, asked: str) -> str:
        allowed = self._settings.allowed_namespaces
        if asked in allowed:
            return asked
        if asked in {"", _UNSAID}:
            return self._settings.namespace
        raise Refused(403, f"target_namespace {asked[:80]!r} is not one of {', '.join(allowed)}")

    async def _record(self, caller: Caller, device: str, namespace: str, info: EnrolmentInfo) -> None:
        marks = {REGISTRATION: self._admission.demand_room(caller)}
        if info.certificate_request:
            try:
                marks[KEY_ANNOTATION] = key_of(read_request(info.certificate_request))
            except BadRequest as error:
                raise Refused(400, str(error)) from None
        told = info.features
        features = None
        if told is not None:
            hardware = None if told.hardware is None else hardware_with(None, told.hardware)
            features = Features(model_name=told.model_name, hardware=hardware)
        request = EdgeDeviceSignedRequest(
            metadata=ObjectMeta(name=device, namespace=self._settings.namespace, annotations=marks),
            spec=EdgeDeviceSignedRequestSpec(
                target_namespace=namespace, approved=self._settings.automatic_approval, features=features
            ),
        )
        try:
            await self._requests.create(request)
        except AlreadyExists:
            return
        _log.info("device enrolled", device=device, namespace=namespace, approved=request.spec.approved)


def _came_with(request: EdgeDeviceSignedRequest) -> str:
    return request.metadata.annotations.get(REGISTRATION, "")
