"""`edgewright cleanup`: what it counts, what it frees and in which order, and when it frees nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from edgewright.api.device import Claim, Device, DeviceStatus, JobReference, Mark
from edgewright.api.edgeheartbeatshard import EdgeHeartbeatShard, EdgeHeartbeatShardSpec
from edgewright.api.flashjob import FINALIZER, FlashJob, FlashJobSpec
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.cli import cleanup, operator_options
from edgewright.cli.failure import Failed
from edgewright.controllers.flashjob.manifests import OUTCOME_FINALIZER
from edgewright.runtime import config
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import NotFound
from edgewright.runtime.lease import Lease, LeaseSpec
from edgewright.runtime.objects import Key, ObjectMeta
from tests.unit.cli.planes import planes

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def lease(*, age: float = 0.0, holder: str | None = "operator-1", renewed: str | None = None) -> Lease:
    at = (NOW - timedelta(seconds=age)).isoformat() if renewed is None else renewed
    return Lease(
        metadata=ObjectMeta(name="edgewright", namespace="default"),
        spec=LeaseSpec(holder_identity=holder, renew_time=at, lease_duration_seconds=15),
    )


@pytest.mark.parametrize(
    ("found", "held"),
    [
        (lease(age=1), True),
        (lease(age=16), False),
        (lease(holder=""), False),
        (lease(renewed=""), False),
        (lease(renewed="yesterday"), True),
        (lease(renewed="2026-01-01T00:00:00"), True),
    ],
    ids=["renewed", "run out", "given back", "never renewed", "unreadable", "without a zone"],
)
def test_who_holds_a_lease(found: Lease, held: bool) -> None:
    assert cleanup.holds(found, NOW) is held


def flash_pod() -> dict[str, Any]:
    metadata = {
        "name": "job-flashing-pod-a",
        "namespace": "default",
        "labels": {Mark.JOB_UID.value: "1", "uuid": "a"},
        "finalizers": [OUTCOME_FINALIZER],
    }
    spec = {"containers": [{"name": "flash-container", "image": "edgewright/flasher"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@asynccontextmanager
async def half_flashed(data: Path) -> AsyncIterator[Client]:
    """A job that is being deleted, its device with a claim, and what was made for it; no operator."""
    async with planes(data) as client:
        await operator_options.install_kinds(client)
        job = await client.of(FlashJob).create(
            FlashJob(
                metadata=ObjectMeta(name="job", namespace="default", finalizers=(FINALIZER,)),
                spec=FlashJobSpec(uuid=("a",), firmware="registry.example/f:1", version="1"),
            )
        )
        device = await client.of(Device).create(Device(metadata=ObjectMeta(name="a")))
        reference = JobReference(namespace="default", name="job", uid=job.metadata.uid)
        await client.of(Device).write_status(device, DeviceStatus(claim=Claim(job=reference, uuid="a")))
        await client.raw(Pod.kind).create(flash_pod())
        service = {**flash_pod(), "kind": "Service", "spec": {"ports": [{"port": 4433}]}}
        del service["metadata"]["finalizers"]
        await client.raw(Service.kind).create(service)
        yield client


async def test_what_is_left_is_counted_by_kind_and_by_flashes(tmp_path: Path) -> None:
    async with half_flashed(tmp_path / "data") as client:
        assert await cleanup.left(client) == ["1 flashjobs.application.flashjob.nbfc.io", "1 flashes that run"]


async def test_nothing_is_left_where_there_are_no_kinds(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        assert await cleanup.left(client) == []
        assert await cleanup.free_claims(client, SystemClock()) == ["no flash was left"]


async def test_a_device_that_no_job_has_is_no_reason_to_refuse(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        await operator_options.install_kinds(client)
        await client.of(Device).create(Device(metadata=ObjectMeta(name="a")))
        assert await cleanup.left(client) == []


async def test_what_gateways_write_of_heartbeats_is_no_reason_to_refuse(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        await operator_options.install_kinds(client)
        await client.of(EdgeHeartbeatShard).create(
            EdgeHeartbeatShard(
                metadata=ObjectMeta(name="gateway-0", namespace="default"), spec=EdgeHeartbeatShardSpec(replica="g")
            )
        )
        assert await cleanup.left(client) == []


async def test_claims_are_freed_with_what_was_made_for_them(tmp_path: Path) -> None:
    async with half_flashed(tmp_path / "data") as client:
        await client.of(FlashJob).delete(Key("default", "job"))
        done = await cleanup.free_claims(client, SystemClock())
        assert done == [
            "Pod default/job-flashing-pod-a deleted",
            "Service default/job-flashing-pod-a deleted",
            "Device a is free",
            "FlashJob default/job is let go",
        ]
        assert (await client.of(Device).get(Key("", "a"))).status.claim is None
        assert (await client.of(Pod).list()).items == []
        with pytest.raises(NotFound):
            await client.of(FlashJob).get(Key("default", "job"))


async def test_nothing_is_freed_while_an_operator_leads(tmp_path: Path) -> None:
    async with half_flashed(tmp_path / "data") as client:
        held = lease(renewed=datetime.now(UTC).isoformat(timespec="microseconds"))
        await client.of(Lease).create(held)
        with pytest.raises(Failed, match="operator-1 leads by the Lease default/edgewright: stop the operator first"):
            await cleanup.free_claims(client, SystemClock())
        assert (await client.of(Device).get(Key("", "a"))).status.claim is not None
        assert len((await client.of(Pod).list()).items) == 1


async def test_a_pod_that_does_not_go_keeps_its_device_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stays(*_: object) -> bool:
        return False

    monkeypatch.setattr(cleanup, "_delete", stays)
    monkeypatch.setattr(cleanup._until_gone, "__defaults__", (0.01,))
    async with half_flashed(tmp_path / "data") as client:
        with pytest.raises(Failed, match="Pod default/job-flashing-pod-a did not end, so no device was freed"):
            await cleanup.free_claims(client, SystemClock())
        assert (await client.of(Device).get(Key("", "a"))).status.claim is not None


def test_the_command_says_what_is_left_or_what_it_freed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ["3 flashjobs"]

    async def left(_: object) -> list[str]:
        return found

    async def freed(*_: object, **_more: object) -> list[str]:
        return ["Device a is free"]

    monkeypatch.setattr(config, "load", lambda **_: config.Config(server="http://127.0.0.1:1"))
    monkeypatch.setattr(cleanup, "left", left)
    monkeypatch.setattr(cleanup, "free_claims", freed)
    with pytest.raises(Failed, match="there is still 3 flashjobs: delete them first"):
        cleanup.cleanup(check=True)
    found.clear()
    cleanup.cleanup()
    cleanup.cleanup(claims=True)
    assert capsys.readouterr().out == "nothing is left\nDevice a is free\n"
    with pytest.raises(typer.BadParameter):
        cleanup.cleanup(check=True, claims=True)
