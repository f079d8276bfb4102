"""The agents' API from end to end, on an API server of ours: what the document's three workflows ask of the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from edgewright.api.edgedevice import KEY_ANNOTATION, EdgeDevice
from edgewright.gateway.gateway import Gateway
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.objects import Key
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.stage import NAMESPACE, Device, devices_of, gateway_of

NAME = "242e48d0-286b-4170-9b97-95502066e6ae"


@dataclass
class Stage:
    """A gateway, a client of its API server, and one device."""

    config: Config
    client: Client
    gateway: Gateway
    device: Device

    async def object(self, name: str = NAME) -> EdgeDevice:
        """The EdgeDevice as it is now."""
        return await self.client.of(EdgeDevice).get(Key(NAMESPACE, name))


@asynccontextmanager
async def staged(directory: Path, **given: Any) -> AsyncIterator[Stage]:
    async with (
        plane(directory) as config,
        Client(config) as client,
        gateway_of(config, **given) as gateway,
    ):
        (device,) = await devices_of(directory, gateway, client, [NAME])
        yield Stage(config, client, gateway, device)


async def test_an_unknown_device_that_registers_gets_its_edgedevice_and_a_certificate_for_its_key(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        answer = await stage.device.register()
        assert answer.code == 200, answer.body
        assert (answer.body["directive"], answer.body["message_id"]) == ("registration", "m-1")
        certificate = x509.load_pem_x509_certificate(stage.device.certificate.encode())
        assert certificate.public_key() == stage.device.key.public_key()
        assert certificate.subject.rfc4514_string() == f"OU={NAMESPACE},O=flotta-operator,CN={NAME}"
        device = await stage.object()
        assert device.spec.request_time is not None
        assert device.status.hardware is not None
        assert device.status.hardware.hostname == "fedora"
        assert KEY_ANNOTATION not in device.metadata.annotations
        assert (await stage.device.heartbeat()).code == 200
        device = await stage.object()
        assert device.status.phase == "up"
        assert device.metadata.annotations[KEY_ANNOTATION]
