"""Every certificate that a client can have, for every operation, over real TLS: allowed exactly where it is written."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.gateway import rotation
from edgewright.gateway.certificates import Authority, Issued, read_request
from edgewright.gateway.gateway import Gateway
from edgewright.gateway.objects import Secret
from edgewright.runtime.client import Client
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.stage import NAMESPACE, Answered, Device, devices_of, gateway_of

OPERATIONS = ("enrolment", "registration", "heartbeat", "data in", "control in", "control out")
CLOSED = "closed"
"""The connection ends in the handshake."""
YES = "yes"
EXPECTED: dict[str, dict[str, Any]] = {
    "none": dict.fromkeys(OPERATIONS, CLOSED),
    "foreign": dict.fromkeys(OPERATIONS, CLOSED),
    "registration": {
        "enrolment": YES,
        "registration": YES,
        "heartbeat": 403,
        "data in": 401,
        "control in": 401,
        "control out": 401,
    },
    "device": dict.fromkeys(OPERATIONS, YES),
    "renewed": dict.fromkeys(OPERATIONS, YES),
    "old authority": dict.fromkeys(OPERATIONS, YES),
    "expired": dict.fromkeys(OPERATIONS, 401) | {"registration": YES},
    "revoked": dict.fromkeys(OPERATIONS, 403),
    "another device's": dict.fromkeys(OPERATIONS, 403),
}


@dataclass
class Stage:
    gateway: Gateway
    client: Client
    device: Device
    other: Device
    revoked: Device
    identities: dict[str, Issued] = field(default_factory=dict)


@asynccontextmanager
async def staged(directory: Path) -> AsyncIterator[Stage]:
    async with (
        plane(directory) as config,
        Client(config) as client,
        gateway_of(config, certificates_every=0.05, trusted_before_use=0.0) as gateway,
    ):
        devices = await devices_of(directory, gateway, client, ["one", "two", "three"])
        for device in devices:
            assert (await device.register()).code == 200
            assert (await device.heartbeat()).code == 200
        one, two, three = devices
        yield Stage(gateway, client, one, two, three)


async def rotate(client: Client, gateway: Gateway) -> Authority:
    """Begins a rotation, and waits until the next authority signs; gives the one before."""
    before = gateway.certificates.authority
    secrets, key = client.of(Secret), Key(NAMESPACE, rotation.CA_SECRET)
    known = rotation.authorities_in(await secrets.get(key))
    await secrets.patch(key, {"data": rotation.begun(known, datetime.now(UTC))})
    await wait_until_async(
        lambda: gateway.certificates.authority.fingerprint != before.fingerprint, what="the next authority signs"
    )
    return before


def signed(authority: Authority, device: Device, *, days: float) -> Issued:
    """A certificate for the device's key."""
    made = authority.device(
        read_request(device.csr()), device.name, NAMESPACE, days=days, now=datetime.now(UTC) - timedelta(minutes=10)
    )
    return Issued(made, device.key_pem())


async def test_each_certificate_may_do_what_the_table_says_and_nothing_else(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        device = stage.device
        old = await rotate(stage.client, stage.gateway)
        now = stage.gateway.certificates.authority
        stage.identities["old authority"] = device.identity
        assert (await device.register_again()).code == 200
        assert (await device.heartbeat()).code == 200
        record = {
            "apiVersion": EdgeDeviceSignedRequest.kind.api_version,
            "kind": EdgeDeviceSignedRequest.kind.kind,
            "metadata": {"name": "three", "namespace": NAMESPACE},
            "spec": {"targetNamespace": NAMESPACE, "revokedBefore": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"},
        }
        await stage.client.raw(EdgeDeviceSignedRequest.kind).create(record)

        async def refused() -> bool:
            return (await stage.revoked.configuration()).code == 403

        await wait_until_async(refused, what="the revocation is known")
        stage.identities |= {
            "registration": device.shared,
            "device": signed(now, device, days=1),
            "renewed": device.identity,
            "expired": signed(now, device, days=0.001),
            "foreign": signed(Authority.create(datetime.now(UTC)), device, days=1),
            "another device's": stage.other.identity,
            "revoked": stage.revoked.identity,
        }
        found = {name: await codes(stage, name) for name in EXPECTED}
        assert found == EXPECTED
        assert old.fingerprint != now.fingerprint


async def codes(stage: Stage, name: str) -> dict[str, Any]:
    """What each operation is answered, with the certificate of this name."""
    device = stage.revoked if name == "revoked" else stage.device
    tls = device.stranger() if name == "none" else device.tls(stage.identities[name])
    return {each: await code(device, each, tls) for each in OPERATIONS}


async def code(device: Device, operation: str, tls: ssl.SSLContext) -> Any:
    try:
        answer = await asked(device, operation, tls)
    except (aiohttp.ClientError, ssl.SSLError, ConnectionError):
        return CLOSED
    if answer.code in {401, 403}:
        assert answer.body is None or answer.body["code"] == answer.code
        return answer.code
    assert answer.code in {200, 208}, (operation, answer)
    return YES


async def asked(device: Device, operation: str, tls: ssl.SSLContext) -> Answered:
    match operation:
        case "enrolment":
            return await device.post(operation, {}, tls=tls)
        case "registration":
            return await device.post(operation, device.registration(), tls=tls)
        case "heartbeat":
            return await device.post(operation, {"status": "up"}, tls=tls)
        case "data in":
            return await device.request("GET", f"data/{device.name}/in", tls=tls)
        case "control in":
            return await device.request("GET", f"control/{device.name}/in", tls=tls)
        case _:
            return await device.request("POST", f"control/{device.name}/out", b"null", tls=tls)


async def test_a_rotation_loses_no_device_whichever_authority_it_knows(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        for _ in range(2):  # the second one: who vouches for whom is a chain
            await rotate(stage.client, stage.gateway)
            for device in (stage.device, stage.other):  # they know the first authority alone
                assert (await device.heartbeat()).code == 200
        assert (await stage.device.register_again()).code == 200
        assert (await stage.device.heartbeat()).code == 200
        (newcomer,) = await devices_of(tmp_path, stage.gateway, stage.client, ["newcomer"])
        assert (await newcomer.register()).code == 200  # it knows the last one alone
        assert (await newcomer.heartbeat()).code == 200
        # With an end to the old authorities, their devices are refused, and those that have renewed are not.
        secrets, key = stage.client.of(Secret), Key(NAMESPACE, rotation.CA_SECRET)
        await secrets.patch(key, {"data": rotation.ended()})

        async def refused() -> bool:
            return (await stage.other.heartbeat()).code == 401

        await wait_until_async(refused, what="the old authority is not trusted any more")
        assert (await stage.device.heartbeat()).code == 200


async def test_a_revoked_registration_certificate_is_replaced_and_lets_nobody_in(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        leaked = stage.device.shared
        record = {
            "apiVersion": EdgeDeviceSignedRequest.kind.api_version,
            "kind": EdgeDeviceSignedRequest.kind.kind,
            "metadata": {"name": "register", "namespace": NAMESPACE},
            "spec": {"targetNamespace": NAMESPACE, "revokedBefore": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"},
        }
        await stage.client.raw(EdgeDeviceSignedRequest.kind).create(record)

        async def replaced() -> bool:
            (fresh,) = await devices_of(tmp_path, stage.gateway, stage.client, ["fresh"])
            return fresh.shared != leaked and (await fresh.register()).code == 200

        await wait_until_async(replaced, what="there is a new registration certificate, and it is good")
        assert (await stage.device.post("enrolment", {}, identity=leaked)).code == 403
        assert (await stage.device.heartbeat()).code == 200
