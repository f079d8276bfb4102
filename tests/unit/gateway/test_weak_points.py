"""The weak points of the published operator, each by its number: none of them is here. The tenth is the agent's."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.controllers.settings import Settings, Timing
from edgewright.gateway import assembly, configurations
from edgewright.gateway.gateway import Gateway
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import Invalid, NotFound
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.gateway.requests import broken
from tests.unit.gateway.stage import NAMESPACE, Answered, Device, devices_of, gateway_of
from tests.unit.gateway.test_workflows import Stage, staged

PUBLISHED = {"User-Agent": "yggdrasil/0.2.98"}


class Late(SystemClock):
    """A clock that a test can put forward by days, while everything else goes on as usual."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def condition(stage: Stage, kind: str, status: str, name: str = "one") -> None:
    """Waits until a condition of the device has this status."""

    async def has() -> bool:
        found = (await stage.object(name)).status.conditions
        return any((each.type, each.status) == (kind, status) for each in found)

    await wait_until_async(has, what=f"{kind} is {status}")


async def test_weak_point_1_an_expired_device_is_told_by_every_answer_and_comes_back(tmp_path: Path) -> None:
    async with staged(tmp_path, device_days=30) as stage:
        (device,) = stage.devices
        assert (await device.heartbeat()).code == 200
        stage.gateway._server._clock = clock = Late()
        clock.ahead = timedelta(days=31)
        for answer in (await device.heartbeat(), await device.configuration(), await device.control()):
            assert (answer.code, answer.body) == (401, None)
        assert (await device.register_again()).code == 200


async def test_weak_point_1_published_agents_get_long_certificates_and_a_grace_period(tmp_path: Path) -> None:
    async with staged(tmp_path, device_days=30, published_days=400, published_grace_days=10) as stage:
        (device,) = await devices_of(tmp_path, stage.gateway, stage.client, ["stock"])
        answer = await device.post("registration", device.registration(), identity=device.shared, headers=PUBLISHED)
        device.certificate = answer.content["certificate"]
        made = x509.load_pem_x509_certificate(device.certificate.encode())
        assert made.not_valid_after_utc - datetime.now(UTC) > timedelta(days=399)
        stage.gateway._server._clock = clock = Late()
        for days, agent, code in ((405, PUBLISHED, 200), (405, {}, 401), (411, PUBLISHED, 401)):
            clock.ahead = timedelta(days=days)
            assert (await device.post("heartbeat", {"status": "up"}, headers=agent)).code == code


async def test_weak_point_2_a_certificate_is_for_a_proven_key_and_for_the_id_that_was_approved(tmp_path: Path) -> None:
    async with staged(tmp_path, automatic_approval=True) as stage:
        (device,) = stage.devices
        await device.heartbeat()
        unproven = {"hardware": None, "certificate_request": broken()}
        assert (await device.post("registration", unproven, identity=device.shared, name="new")).code == 400
        assert (
            await device.post("registration", device.registration(), identity=device.shared, name="register")
        ).code == 400
        assert (await device.post("enrolment", {}, name="another")).code == 403  # a device's certificate is for its id
        # Whoever enrols with a key registers with that key: nobody else takes a place that was just approved.
        honest, thief = await devices_of(tmp_path, stage.gateway, stage.client, ["new", "new"])
        assert (await honest.enrol(certificate_request=honest.csr())).code == 200
        refused = await thief.register()
        assert refused.code == 403
        assert "another key" in refused.body["message"]

        async def registers() -> bool:
            return (await honest.register()).code == 200

        await wait_until_async(registers, what="the one with the key registers")
        assert (await honest.enrol(certificate_request="junk")).code == 208


async def test_weak_point_3_what_is_missing_costs_one_workload_and_no_answer(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        (device,) = stage.devices
        (new,) = await devices_of(tmp_path, stage.gateway, stage.client, ["new"])
        assert (await new.enrol()).code == 200  # without features
        bad: dict[str, Any] = {
            "containers": [{"name": "a", "image": "a", "envFrom": [{"secretRef": {"name": "gone"}}]}]
        }
        await stage.apply("EdgeWorkload", "bad", {"device": "one", "pod": {"spec": bad}})
        await stage.apply("EdgeWorkload", "good", {"device": "one"})
        await stage.apply(
            "EdgeWorkload", "unpullable", {"device": "one", "imageRegistries": {"secretRef": {"name": "no"}}}
        )
        await stage.until({"bad": "Deploying", "good": "Deploying", "unpullable": "Deploying"})
        answer = await device.configuration()
        assert answer.code == 200
        assert [each["name"] for each in answer.content["workloads"]] == ["good"]
        await condition(stage, "Configured", "False")


async def test_weak_point_4_a_silent_device_is_offline_and_a_heard_one_is_not_written_again(tmp_path: Path) -> None:
    quick = Settings(timing=Timing(recheck=0.2, offline_after=1.5, online_every=0.1))
    async with staged(tmp_path, settings=quick, heard_every=0.1) as stage:
        (device,) = stage.devices
        one = stage.client.of(EdgeDevice)
        await one.patch(Key(NAMESPACE, "one"), {"spec": {"heartbeat": {"periodSeconds": 1}}})
        for name in ("b", "a"):
            await stage.apply("EdgeWorkload", name, {"device": "one"})
        await stage.until({"a": "Deploying", "b": "Deploying"})
        workloads = [{"name": name, "status": "Running"} for name in ("a", "b")]
        await device.heartbeat(workloads=workloads, hardware={"hostname": "h", "cpu": {"architecture": "arm64"}})
        await condition(stage, "Ready", "True")
        before = await stage.object()
        for _ in range(2):  # another order, and a part of the hardware
            await device.heartbeat(workloads=workloads[::-1], hardware={"hostname": "h"})
        after = await stage.object()
        assert after.metadata.resource_version == before.metadata.resource_version
        assert after.status.hardware is not None
        assert after.status.hardware.cpu is not None
        await condition(stage, "Online", "False")  # it says nothing for three of its periods
        await condition(stage, "Ready", "False")
        assert (await stage.object()).status.last_seen_time is not None
        await device.heartbeat(workloads=workloads)
        await condition(stage, "Online", "True")


async def test_weak_point_5_the_version_is_a_hash_of_the_content_and_an_etag(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        (device,) = stage.devices
        first = await device.configuration()
        await stage.client.of(EdgeDevice).patch(Key(NAMESPACE, "one"), {"metadata": {"annotations": {"a": "b"}}})
        await device.heartbeat()
        second = await device.configuration()
        assert second.content["version"] == first.content["version"]
        assert second.headers["Etag"] == f'"{first.content["version"]}"'
        known = {"If-None-Match": second.headers["Etag"]}
        assert (await device.configuration(**known)).code == 304
        await stage.apply("EdgeWorkload", "w", {"device": "one"})

        async def changed() -> bool:
            return (await device.configuration(**known)).code == 200

        await wait_until_async(changed, what="there is another version")


async def waiting_at(device: Device, replica: Gateway) -> asyncio.Task[Answered]:
    """A question that waits for news at this replica."""
    device.port = replica.port
    tag = (await device.configuration()).headers["Etag"]
    asked = asyncio.create_task(device.configuration(**{"If-None-Match": tag, "Prefer": "wait=300"}))
    await wait_until_async(lambda: replica._server._configurations.waiting == 1, what="the device waits")
    return asked


async def test_weak_point_6_a_revocation_counts_within_moments_at_every_replica(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, gateway_of(stage.config, replica="second") as second:
        (device,) = stage.devices
        for replica in (second, stage.gateway):
            device.port = replica.port
            assert (await device.heartbeat()).code == 200
        polls = [await waiting_at(device, replica) for replica in (second, stage.gateway)]
        now = datetime.now(UTC)
        record = {
            "apiVersion": EdgeDeviceSignedRequest.kind.api_version,
            "kind": EdgeDeviceSignedRequest.kind.kind,
            "metadata": {"name": "one", "namespace": NAMESPACE},
            "spec": {"targetNamespace": NAMESPACE, "revokedBefore": f"{now:%Y-%m-%dT%H:%M:%SZ}"},
        }
        await stage.client.raw(EdgeDeviceSignedRequest.kind).create(record)

        async def refused() -> bool:
            return (await device.heartbeat()).code == 403

        await wait_until_async(refused, what="the certificate is refused")
        device.port = second.port
        await wait_until_async(refused, what="the other replica refuses it too")
        device.port = stage.gateway.port
        assert (await device.register_again()).code == 403
        # Whoever waits for news is let go at once.
        assert [(each.code, each.body) for each in await asyncio.gather(*polls)] == [(403, None)] * 2
        serials = set()
        for name in ("x", "y"):
            (new,) = await devices_of(tmp_path, stage.gateway, stage.client, [name])
            await new.register()
            serials.add(x509.load_pem_x509_certificate(new.certificate.encode()).serial_number)
        assert len(serials) == 2


async def test_weak_point_7_devices_with_equal_settings_share_one_assembly_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    real = assembly.assemble

    def counted(device: EdgeDevice, *others: Any) -> Any:
        made.append(device.metadata.name)
        return real(device, *others)

    monkeypatch.setattr(configurations, "assemble", counted)
    async with staged(tmp_path, "one", "two", "three") as stage:
        await stage.apply("EdgeWorkload", "w", {"deviceSelector": {}})
        for device in stage.devices:
            await stage.until({"w": "Deploying"}, device.name)
        made.clear()
        await stage.apply("EdgeWorkload", "v", {"deviceSelector": {}})
        for device in stage.devices:
            await stage.until({"v": "Deploying", "w": "Deploying"}, device.name)
            for _ in range(3):
                names = [each["name"] for each in (await device.configuration()).content["workloads"]]
                assert names == ["v", "w"]
        assert len(made) <= 2  # one for each state of the namespace that was asked for, however many devices ask


async def test_weak_point_8_a_missing_object_is_no_order_and_a_deleted_device_stays_out(tmp_path: Path) -> None:
    quick = Settings(timing=Timing(recheck=0.2, disconnect_grace=0.5))
    async with staged(tmp_path, "one", "two", settings=quick) as stage:
        lost, deleted = stage.devices
        for device in stage.devices:
            await device.heartbeat()
        api = stage.client.of(EdgeDevice)
        # A restored cluster, of which the backup was older than the device: no order, and it comes back.
        await api.patch(Key(NAMESPACE, "one"), {"metadata": {"finalizers": []}})
        await api.delete(Key(NAMESPACE, "one"))

        async def unknown() -> bool:
            return (await lost.control()).code == 404

        await wait_until_async(unknown, what="the object is gone")
        assert (await lost.configuration()).code == 404
        assert (await lost.register_again()).code == 200
        # Somebody deletes a device that is offline: it is told when it comes back, and does not enrol again by itself.
        await api.delete(Key(NAMESPACE, "two"))

        async def gone() -> bool:
            try:
                await api.get(Key(NAMESPACE, "two"))
            except NotFound:
                return True
            return False

        await wait_until_async(gone, what="the EdgeDevice is gone")
        requests = stage.client.of(EdgeDeviceSignedRequest)
        record = await requests.get(Key(NAMESPACE, "two"))
        assert (record.spec.denied, record.spec.decommissioned) == (True, True)

        async def told() -> bool:
            answer = await deleted.control()
            return answer.code == 200 and answer.content["command"] == "disconnect"

        await wait_until_async(told, what="it is told to disconnect")
        for answer in (await deleted.enrol(), await deleted.register(), await deleted.register_again()):
            assert answer.code == 403
        await requests.patch(record.key, {"spec": {"approved": True, "denied": False, "decommissioned": False}})
        (again,) = await devices_of(tmp_path, stage.gateway, stage.client, ["two"])

        async def back() -> bool:
            return (await again.register()).code == 200

        await wait_until_async(back, what="the approved device is back")


async def test_weak_point_9_selectors_of_every_form_match_and_foreign_finalizers_stay(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        api = stage.client.of(EdgeDevice)
        labels = {"example.com/site": "north"}
        finalizers = [*(await stage.object()).metadata.finalizers, "example.com/theirs"]
        await api.patch(Key(NAMESPACE, "one"), {"metadata": {"labels": labels, "finalizers": finalizers}})
        await stage.apply("EdgeWorkload", "prefixed", {"deviceSelector": {"matchLabels": labels}})
        await stage.apply("EdgeWorkload", "everywhere", {"deviceSelector": {}})
        not_in = {"key": "site", "operator": "NotIn", "values": ["south"]}
        await stage.apply("EdgeWorkload", "elsewhere", {"deviceSelector": {"matchExpressions": [not_in]}})
        with pytest.raises(Invalid, match="a pod is named after it: use at most 63"):
            await stage.apply("EdgeWorkload", f"long-{'x' * 70}", {"deviceSelector": {}})
        await stage.until(dict.fromkeys(("elsewhere", "everywhere", "prefixed"), "Deploying"))
        assert "example.com/theirs" in (await stage.object()).metadata.finalizers
        await api.patch(Key(NAMESPACE, "one"), {"metadata": {"finalizers": ["example.com/theirs"]}})
