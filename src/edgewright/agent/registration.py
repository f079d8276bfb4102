"""How a device becomes known: it asks the gateway to sign a certificate for its key, and enrols where it must first.

`Agent` calls `register` at the first start, when a certificate is due for renewal, and when the gateway says 401. The
key is on the disk before the request leaves; the same key is used again after a crash, so that the gateway can tell the
device from somebody else who has its id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from edgewright.agent.identity import BadIdentity, Identity, certificate_request, identity, new_key, split
from edgewright.agent.settings import Settings
from edgewright.agent.state import State
from edgewright.agent.uplink import CertificateRefused, ClosedWithoutAnswer, Reply, Uplink
from edgewright.api.edge_hardware import HardwareInfo
from edgewright.api.edge_protocol import (
    Directive,
    EnrolmentFeatures,
    EnrolmentInfo,
    RegistrationInfo,
    RegistrationResponse,
)
from edgewright.runtime import logs

_log = logs.get("agent.registration")


class NotRegistered(Exception):
    """The gateway does not register the device now; the sentence says why."""

    def __init__(self, text: str, *, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class Step(Enum):
    """What follows from an answer to a registration."""

    DONE = auto()
    AS_REGISTRAR = auto()
    ENROL = auto()
    WAIT = auto()


def next_step(status: int, *, own: bool) -> Step:
    """What to do after this answer; `own`: the device's own certificate was presented."""
    if status == 200:
        return Step.DONE
    if status in {401, 403} and own:
        return Step.AS_REGISTRAR
    return Step.ENROL if status == 404 else Step.WAIT


@dataclass(frozen=True, kw_only=True)
class Registrar:
    """What registration needs."""

    settings: Settings
    state: State
    uplink: Uplink

    def known(self) -> Identity | None:
        """The identity on the disk; one that cannot be read is as good as none."""
        pem = self.state.identity()
        if pem is None:
            return None
        try:
            return identity(*split(pem))
        except BadIdentity as error:
            _log.warning("the certificate on the disk cannot be used", error=error)
            return None

    async def register(self, hardware: HardwareInfo, *, own: bool) -> Identity:
        """Gets a certificate and keeps it; `own`: try with the device's own certificate first."""
        key = self._key()
        content = RegistrationInfo(
            hardware=hardware, certificate_request=certificate_request(key, self.settings.client_id)
        )
        reply = await self._send(content, own=own)
        step = next_step(reply.status, own=own)
        if step is Step.AS_REGISTRAR:
            reply = await self._send(content, own=False)
            step = next_step(reply.status, own=False)
        if step is Step.ENROL:
            reply = await self._enrol(content, hardware)
            step = next_step(reply.status, own=False)
        if step is not Step.DONE:
            raise NotRegistered(f"the gateway refuses registration: {reply.problem}", retry_after=reply.retry_after)
        return self._accept(reply, key)

    async def _send(self, content: RegistrationInfo, *, own: bool) -> Reply:
        if own:
            try:
                return await self.uplink.post(Directive.REGISTRATION, content)
            except (CertificateRefused, ClosedWithoutAnswer) as error:
                _log.info("the gateway refuses the device's certificate", error=error)
        self.uplink.present_registration()
        return await self.uplink.post(Directive.REGISTRATION, content, registering=True)

    async def _enrol(self, content: RegistrationInfo, hardware: HardwareInfo) -> Reply:
        """Asks for approval; where that is given already (208), registers."""
        enrolment = EnrolmentInfo(
            features=EnrolmentFeatures(
                hardware=hardware,
                model_name=hardware.system_vendor.product_name if hardware.system_vendor else "",
            ),
            target_namespace=self.settings.namespace,
            certificate_request=content.certificate_request,
        )
        self.uplink.present_registration()
        reply = await self.uplink.post(Directive.ENROLMENT, enrolment, registering=True)
        if reply.status == 208:
            return await self._send(content, own=False)
        if reply.status == 200:
            raise NotRegistered("the device is enrolled and waits for approval", retry_after=reply.retry_after)
        raise NotRegistered(f"the gateway refuses enrolment: {reply.problem}", retry_after=reply.retry_after)

    def _key(self) -> bytes:
        key = self.state.key()
        if key is not None:
            try:
                certificate_request(key, self.settings.client_id)
            except BadIdentity as error:
                _log.warning("the key on the disk cannot be used: a new one is made", error=error)
            else:
                return key
        key = new_key()
        self.state.keep_key(key)
        return key

    def _accept(self, reply: Reply, key: bytes) -> Identity:
        try:
            certificate = msgspec.json.decode(reply.content, type=RegistrationResponse).certificate.encode()
            accepted = identity(certificate, key)
        except (msgspec.MsgspecError, BadIdentity) as error:
            raise NotRegistered(f"the gateway's certificate cannot be used: {error}") from error
        self.state.keep_identity(certificate, key)
        self.uplink.present_device(accepted)
        _log.info("registered", device=self.settings.client_id, expires=accepted.not_after.isoformat())
        return accepted
