"""An installation of the published operator that is taken over: its authority, its devices, and who may be them.

The Secret, the certificates and the EdgeDevices are made here as the last published operator makes them.
"""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edgewright.api.capabilities import EDGE
from edgewright.api.edgedevice import DEVICE_FINALIZER, SIGNED_REQUEST, EdgeDevice
from edgewright.controllers.operator import add_controllers
from edgewright.gateway.certificates import Issued
from edgewright.gateway.gateway import Gateway
from edgewright.gateway.objects import Secret
from edgewright.gateway.rotation import CA_SECRET
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.stage import NAMESPACE, Device, gateway_of
from tests.unit.gateway.test_workflows import QUICK
from tests.unit.runtime.fakeserver import running

USAGES = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


class PublishedAuthority:
    """Who signs in a published installation: without a common name, and with the second as the serial number."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "flotta-operator")])
        self.issued = Issued(self._signed(self._name, self._key, is_authority=True, days=3650), pem(self._key))

    def certificate(self, name: str, key: ec.EllipticCurvePrivateKey, *, days: float) -> bytes:
        parts = [(NameOID.ORGANIZATION_NAME, "flotta-operator"), (NameOID.COMMON_NAME, name)]
        if name != "register":
            parts.append((NameOID.ORGANIZATIONAL_UNIT_NAME, NAMESPACE))
        subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])
        return self._signed(subject, key, days=days)

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: float, is_authority: bool = False
    ) -> bytes:
        end = datetime.now(UTC) + timedelta(days=days)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(int(time.time()))
            .not_valid_before(end - timedelta(days=4000 if is_authority else 30))
            .not_valid_after(end)
            .add_extension(USAGES, critical=False)
        )
        if is_authority:
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class TakenOver:
    """A gateway and an operator where the published ones were, and devices with what these had given them."""

    def __init__(self, client: Client, gateway: Gateway, authority: PublishedAuthority, directory: Path) -> None:
        self.client = client
        self._gateway = gateway
        self._authority = authority
        self._directory = directory

    def device(self, name: str, *, days: float = 20) -> Device:
        """A device with a certificate of theirs, which has expired where it has fewer than 0 days."""
        key = ec.generate_private_key(ec.SECP256R1())
        shared = Issued(self._authority.certificate("register", key, days=20), pem(key))
        found = Device(self._directory, name, self._gateway.port, self._authority.issued, shared)
        found.certificate = self._authority.certificate(name, found.key, days=days).decode()
        return found

    async def object(self, name: str) -> EdgeDevice | None:
        """The EdgeDevice as it is now."""
        try:
            return await self.client.of(EdgeDevice).get(Key(NAMESPACE, name))
        except NotFound:
            return None


async def put_in_place(client: Client, authority: PublishedAuthority, names: tuple[str, ...]) -> None:
    """The Secret of the authority, and EdgeDevices that have registered with the published operator."""
    files = {"ca.crt": authority.issued.certificate, "ca.key": authority.issued.key}
    secret: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CA_SECRET, "namespace": NAMESPACE},
        "data": {name: base64.b64encode(text).decode() for name, text in files.items()},
    }
    await client.raw(Secret.kind).create(secret)
    devices = client.raw(EdgeDevice.kind)
    for name in names:
        device: dict[str, Any] = {
            "apiVersion": EdgeDevice.kind.api_version,
            "kind": "EdgeDevice",
            "metadata": {"name": name, "namespace": NAMESPACE, "finalizers": [DEVICE_FINALIZER]},
            "spec": {"requestTime": "2022-10-01T00:00:00Z"},
        }
        await devices.create(device)
        status = {"hardware": {"hostname": name}, "phase": "up", "lastSyncedResourceVersion": "17"}
        await devices.patch(Key(NAMESPACE, name), {"status": status}, subresource="status")


@asynccontextmanager
async def taken_over(directory: Path, *names: str) -> AsyncIterator[TakenOver]:
    authority = PublishedAuthority()
    async with AsyncExitStack() as stack:
        config = await stack.enter_async_context(plane(directory))
        client = await stack.enter_async_context(Client(config))
        await put_in_place(client, authority, names)
        gateway = await stack.enter_async_context(gateway_of(config))
        manager = Manager(Client(config))
        add_controllers(manager, QUICK, capabilities=[EDGE])
        await stack.enter_async_context(running(manager.run()))
        yield TakenOver(client, gateway, authority, directory)


async def test_devices_go_on_with_the_certificates_that_the_published_operator_gave_them(tmp_path: Path) -> None:
    async with taken_over(tmp_path, "good", "late") as site:
        good, late = site.device("good"), site.device("late", days=-1)
        assert (await good.heartbeat()).code == 200
        assert (await good.configuration()).content["device_id"] == "good"
        assert (await late.heartbeat()).code == 401
        assert (await late.register_again()).code == 200
        assert (await late.heartbeat()).code == 200
        new = site.device("new")  # with a bundle of theirs
        assert (await new.register()).code == 200
        assert (await new.heartbeat()).code == 200


async def test_nobody_registers_as_a_device_that_the_published_operator_let_in(tmp_path: Path) -> None:
    """It has not been heard here yet, so that its key is not known; a bundle is all that a thief needs to have."""
    async with taken_over(tmp_path, "one") as site:
        thief = site.device("one")
        refused = await thief.register()
        assert refused.code == 403
        assert "registers again with its own certificate only" in refused.body["message"]
        # What `edgewright edge approve` does.
        approved = {"metadata": {"labels": {SIGNED_REQUEST: "true"}}}
        await site.client.of(EdgeDevice).patch(Key(NAMESPACE, "one"), approved)

        async def registers() -> bool:
            return (await thief.register()).code == 200

        await wait_until_async(registers, what="it registers after it was approved")
        found = await site.object("one")
        assert found is not None
        assert SIGNED_REQUEST not in found.metadata.labels


async def test_a_device_of_theirs_that_is_deleted_is_told_to_disconnect_and_stays_out(tmp_path: Path) -> None:
    async with taken_over(tmp_path, "one") as site:
        await site.client.of(EdgeDevice).delete(Key(NAMESPACE, "one"))
        device = site.device("one")

        async def told() -> bool:
            assert (await device.configuration()).code == 200
            answer = await device.control()
            return answer.body is not None and answer.content["command"] == "disconnect"

        await wait_until_async(told, what="it is told to disconnect")

        async def gone() -> bool:
            return await site.object("one") is None

        await wait_until_async(gone, what="its EdgeDevice is gone, with the published finalizer")
        assert (await site.device("one").register()).code == 403
