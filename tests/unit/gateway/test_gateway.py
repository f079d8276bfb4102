"""The agents' API from end to end, on an API server of ours: what the document's three workflows ask of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509

from edgewright.api.edgedevice import KEY_ANNOTATION, EdgeDevice
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.gateway.gateway import Gateway
from edgewright.gateway.settings import Limits
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.errors import NotFound
from edgewright.runtime.health import ListenError
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.requests import broken
from tests.unit.gateway.stage import NAMESPACE, Device, devices_of, gateway_of, settings

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


async def test_a_registration_certificate_can_do_nothing_but_register(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        device = stage.device
        shared = device._registration
        assert (await device.register()).code == 200
        await device.heartbeat()
        assert (await device.post("heartbeat", {"status": "up"}, identity=shared)).code == 403
        for path in (f"data/{NAME}/in", f"control/{NAME}/in"):
            answer = await device.request("GET", path, identity=shared)
            assert (answer.code, answer.body) == (401, None)
        again = await device.register()
        assert again.code == 200  # the same key: the answer may have been lost
        thief = (await devices_of(tmp_path, stage.gateway, stage.client, [NAME]))[0]
        refused = await thief.register()
        assert refused.code == 403
        assert "registers again with its own certificate only" in refused.body["message"]


async def test_a_device_that_never_used_its_certificate_registers_again_with_another_key(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        assert (await stage.device.register()).code == 200
        again = (await devices_of(tmp_path, stage.gateway, stage.client, [NAME]))[0]
        assert (await again.register()).code == 200
        assert (await again.heartbeat()).code == 200


async def test_an_expired_certificate_gets_401_and_can_only_register_again(tmp_path: Path) -> None:
    async with staged(tmp_path, device_days=-0.001) as stage:
        device = stage.device
        assert (await device.register()).code == 200
        for answer in (await device.heartbeat(), await device.configuration(), await device.control()):
            assert (answer.code, answer.body) == (401, None)
        expired = device.certificate
        assert (await device.register_again()).code == 200
        assert device.certificate != expired


async def test_a_renewed_certificate_of_a_device_is_taken_with_a_new_key(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        device = stage.device
        await device.register()
        assert (await device.heartbeat()).code == 200
        assert (await device.register_again()).code == 200
        assert (await device.heartbeat()).code == 200


async def test_a_device_speaks_for_itself_only(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        (other,) = await devices_of(tmp_path, stage.gateway, stage.client, ["other"])
        for device in (stage.device, other):
            assert (await device.register()).code == 200
        assert (await other.post("heartbeat", {"status": "up"}, name=NAME)).code == 403
        assert (await other.post("registration", other.registration(), name=NAME)).code == 403
        assert (await other.post("enrolment", {}, name="third")).code == 403
        assert (await other.request("GET", f"data/{NAME}/in")).code == 403


async def test_a_foreign_certificate_and_none_at_all_fail_in_the_handshake(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from edgewright.gateway.certificates import Authority

    async with staged(tmp_path) as stage:
        foreign = Authority.create(datetime.now(UTC)).registration(datetime.now(UTC))
        with pytest.raises(aiohttp.ClientError):
            await stage.device.request("GET", f"data/{NAME}/in", identity=foreign)


async def test_what_cannot_be_a_name_is_refused(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        for device in await devices_of(tmp_path, stage.gateway, stage.client, ["register", "Bad_Name", "a" * 64]):
            answer = await device.register()
            assert answer.code == 400
            assert "cannot be the id of a device" in answer.body["message"]


async def test_a_request_that_does_not_prove_its_key_is_refused(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        content = {"hardware": None, "certificate_request": broken()}
        answer = await stage.device.post("registration", content, identity=stage.device._registration)
        assert answer.code == 400
        assert "certificate_request" in answer.body["message"]
        with pytest.raises(NotFound):
            await stage.object()


async def test_enrolment_is_recorded_and_a_foreign_namespace_is_refused(tmp_path: Path) -> None:
    async with staged(tmp_path, automatic_approval=False) as stage:
        device = stage.device
        refused = await device.enrol(target_namespace="kube-system")
        assert (refused.code, refused.body["message"]) == (
            403,
            "target_namespace 'kube-system' is not one of default",
        )
        for content in ({}, {"features": {"modelName": "m", "hardware": {"hostname": "h"}}}):
            assert (await device.enrol(**content)).code == 200
        api = stage.client.of(EdgeDeviceSignedRequest)
        request = await api.get(Key(NAMESPACE, NAME))
        assert (request.spec.target_namespace, request.spec.approved) == (NAMESPACE, False)
        unapproved = await device.register()
        assert unapproved.code == 404
        assert "approve EdgeDeviceSignedRequest" in unapproved.body["message"]
        await api.patch(request.key, {"spec": {"approved": True, "targetSet": "all"}})

        async def registers() -> bool:
            return (await device.register()).code == 200

        await wait_until_async(registers, what="the approved device registers")
        assert (await stage.object()).metadata.labels == {"flotta/member-of": "all"}
        assert (await device.enrol()).code == 208


async def test_without_automatic_approval_nobody_registers_who_did_not_enrol(tmp_path: Path) -> None:
    async with staged(tmp_path, automatic_approval=False) as stage:
        assert (await stage.device.register()).code == 404


WRONG: list[tuple[str, str, bytes | None, str, int]] = [
    ("GET", "data/{}/out", None, "", 405),
    ("POST", "data/{}/in", b"{}", "application/json", 405),
    ("GET", "data/{}", None, "", 404),
    ("GET", "other/{}/in", None, "", 404),
    ("POST", "data/{}/out", b"{}", "text/plain", 415),
    ("POST", "data/{}/out", b"", "application/json", 422),
    ("POST", "data/{}/out", b"{", "application/json", 400),
    ("POST", "data/{}/out", b"null", "application/json", 422),
    ("POST", "data/{}/out", b'{"type":"other"}', "application/json", 422),
    ("POST", "data/{}/out", b'{"type":"data","directive":"dance"}', "application/json", 400),
    ("POST", "data/{}/out", b'{"type":"data","directive":"ansible","content":null}', "application/json", 400),
    ("POST", "data/{}/out", b'{"type":"data","directive":"heartbeat","content":[]}', "application/json", 400),
    ("POST", "data/{}/out", b" " * 2000, "application/json", 413),
    ("POST", "control/{}/out", b"null", "application/json", 200),
    ("POST", "control/{}/out", b'{"type":"connection-status"}', "application/json", 200),
]


async def test_what_is_wrong_with_a_request_has_its_code_and_json_or_nothing(tmp_path: Path) -> None:
    async with staged(tmp_path, limits=Limits(body_bytes=1500)) as stage:
        await stage.device.register(small=True)
        for method, path, body, media, code in WRONG:
            answer = await stage.device.request(method, path.format(NAME), body, media=media)
            assert answer.code == code, (method, path, body, answer)
            if code >= 400:
                assert answer.body["code"] == code


async def test_paths_with_two_slashes_and_ids_in_upper_case_are_understood(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.device.register()
        path = f"data/{NAME.upper()}/in"
        answer = await stage.device.request("GET", path, prefix="//api/flotta-management/v1")
        assert (answer.code, answer.content["device_id"]) == (200, NAME)


async def test_a_configuration_that_is_known_already_is_not_sent_again(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.device.register()
        first = await stage.device.configuration()
        tag = first.headers["Etag"]
        assert tag == f'"{first.content["version"]}"'
        again = await stage.device.configuration(**{"If-None-Match": tag})
        assert (again.code, again.body) == (304, None)


async def test_a_device_without_its_object_gets_404_and_is_never_told_to_wipe_itself(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.device.register()
        api = stage.client.of(EdgeDevice)
        await api.patch(Key(NAMESPACE, NAME), {"metadata": {"finalizers": []}})
        await api.delete(Key(NAMESPACE, NAME))

        async def gone() -> bool:
            return (await stage.device.control()).code == 404

        await wait_until_async(gone, what="the gateway knows that the object is gone")
        assert (await stage.device.configuration()).code == 404
        assert (await stage.device.heartbeat()).code == 404


async def test_two_gateways_that_start_at_once_share_one_authority(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, Client(config) as client:
        gateways = [Gateway(Client(config), settings()) for _ in range(2)]
        async with gateways[0].serving(), gateways[1].serving():
            assert len({each.certificates.authority.fingerprint for each in gateways}) == 1
            for number, gateway in enumerate(gateways):
                (device,) = await devices_of(tmp_path, gateway, client, [f"device-{number}"])
                assert (await device.register()).code == 200


async def test_a_gateway_that_cannot_listen_says_why(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        second = Gateway(Client(stage.config), settings(port=stage.gateway.port))
        with pytest.raises(ListenError, match="another program listens there already"):
            async with second.serving():
                pass
        with pytest.raises(RuntimeError, match="not open yet"):
            _ = second.port


async def test_a_gateway_runs_until_it_is_stopped_and_counts_what_it_did(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, Client(config) as client:
        gateway, stop = Gateway(Client(config), settings()), asyncio.Event()
        running = asyncio.create_task(gateway.run(stop))
        await wait_until_async(lambda: gateway._listener is not None, what="the gateway listens")
        (device,) = await devices_of(tmp_path, gateway, client, [NAME])
        await device.register()
        await device.heartbeat()
        page = gateway.manager.metrics.render().decode()
        assert "flotta_api_edge_devices_successful_registration 1.0" in page
        assert f'deviceID="{NAME}"' in page
        stop.set()
        await running
