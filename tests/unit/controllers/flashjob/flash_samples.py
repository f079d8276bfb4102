"""Devices, jobs, Pods and Services as the tests of the pure parts need them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from edgewright.api.device import Claim, Device, DeviceSpec, DeviceStatus, FlashRecord, JobReference
from edgewright.api.flash_pod import FLASH_CONTAINER, INSPECT_CONTAINER, VERIFY_CONTAINER, Report, encode_report
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.api.pod import (
    ContainerRunning,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    ContainerWaiting,
    Pod,
    PodStatus,
)
from edgewright.api.service import LoadBalancerIngress, LoadBalancerStatus, Service, ServiceStatus
from edgewright.controllers.flashjob.manifests import pod_for, service_for
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.settings import Settings
from edgewright.runtime.objects import ObjectMeta

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SETTINGS = Settings()
UUID = "6f1a2b3c-0000-4000-8000-000000000001"


def a_job(name: str = "job", /, *, uid: str = "job-1", deleting: bool = False, **spec: Any) -> FlashJob:
    """A FlashJob for one device."""
    given = {"firmware": "registry.example/firmware:1.1.0", "version": "1.1.0", "uuid": (UUID,), **spec}
    metadata = ObjectMeta(
        name=name, namespace="default", uid=uid, generation=1, deletion_timestamp=NOW if deleting else None
    )
    return FlashJob(metadata=metadata, spec=FlashJobSpec(**given))


def a_claim(job: FlashJob, **changes: Any) -> Claim:
    """The job's claim on the device, for its present state."""
    metadata = job.metadata
    reference = JobReference(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
    claim = Claim(job=reference, uuid=UUID, state=state_of(job.spec), since=NOW - timedelta(seconds=5))
    return msgspec.structs.replace(claim, **changes)


def a_device(claim: Claim | None = None, *records: FlashRecord, name: str = "device-1", **spec: Any) -> Device:
    """A Device, perhaps claimed."""
    given = {"type": "esp32s3", "endpoint": "192.0.2.7", **spec}
    metadata = ObjectMeta(name=name, uid=f"uid-of-{name}", resource_version="7")
    return Device(metadata=metadata, spec=DeviceSpec(**given), status=DeviceStatus(claim=claim, records=records))


def a_record(job: FlashJob, **changes: Any) -> FlashRecord:
    """The job's outcome on the device, for its present state."""
    claim = a_claim(job)
    record = FlashRecord(
        job=claim.job, uuid=UUID, state=claim.state, outcome="succeeded", attempts=1, time=NOW - timedelta(seconds=9)
    )
    return msgspec.structs.replace(record, **changes)


def a_service(job: FlashJob, device: Device, claim: Claim, *, address: str = "", **metadata: Any) -> Service:
    """The Service of a claim, as the server has it."""
    made = msgspec.convert(service_for(job, device, claim, SETTINGS), Service)
    ingress = (LoadBalancerIngress(ip=address),) if address else ()
    about = msgspec.structs.replace(made.metadata, **{"uid": "service-1", "creation_timestamp": NOW, **metadata})
    status = ServiceStatus(load_balancer=LoadBalancerStatus(ingress=ingress))
    return msgspec.structs.replace(made, metadata=about, status=status)


def a_pod(
    job: FlashJob,
    device: Device,
    claim: Claim,
    *,
    age: float = 10,
    node: str = "",
    status: PodStatus | None = None,
    uid: str = "pod-1",
    marks: dict[str, str] | None = None,
    **metadata: Any,
) -> Pod:
    """The Pod of a claim, as the server has it; it was made so many seconds ago."""
    raw = pod_for(job, device, claim, address="198.51.100.1", digest="", settings=SETTINGS)
    made = msgspec.convert(raw, Pod)
    annotations = {**made.metadata.annotations, **(marks or {})}
    about = msgspec.structs.replace(
        made.metadata,
        **{"uid": uid, "creation_timestamp": NOW - timedelta(seconds=age), "annotations": annotations, **metadata},
    )
    spec = msgspec.structs.replace(made.spec, node_name=node)
    return msgspec.structs.replace(made, metadata=about, spec=spec, status=status or PodStatus(phase="Pending"))


def running(*, started: float = 5, containers: tuple[str, ...] = (FLASH_CONTAINER,)) -> PodStatus:
    """The status of a Pod that runs since so many seconds."""
    since = NOW - timedelta(seconds=started)
    state = ContainerState(running=ContainerRunning(started_at=since))
    statuses = tuple(ContainerStatus(name=name, state=state) for name in containers)
    return PodStatus(phase="Running", start_time=since, container_statuses=statuses)


def ended(
    report: Report | str | None = None,
    *,
    code: int = 0,
    signal: int = 0,
    reason: str = "",
    container: str = FLASH_CONTAINER,
    **status: Any,
) -> PodStatus:
    """The status of a Pod whose container ended with this report, or with another text."""
    text = encode_report(report).decode() if isinstance(report, Report) else report or ""
    state = terminated(text, code=code, signal=signal, reason=reason)
    statuses = (ContainerStatus(name=container, state=state),)
    return PodStatus(**{"phase": "Failed" if code else "Succeeded", "container_statuses": statuses, **status})


def terminated(text: str = "", *, code: int = 0, signal: int = 0, reason: str = "") -> ContainerState:
    """How a container ended."""
    return ContainerState(
        terminated=ContainerTerminated(exit_code=code, signal=signal, reason=reason, message=text, started_at=NOW)
    )


def waiting(reason: str, message: str = "") -> PodStatus:
    """The status of a Pod whose container cannot start."""
    state = ContainerState(waiting=ContainerWaiting(reason=reason, message=message))
    return PodStatus(phase="Pending", container_statuses=(ContainerStatus(name=FLASH_CONTAINER, state=state),))


def foreign(inspect: ContainerState, flash: ContainerState, verify: ContainerState, **status: Any) -> PodStatus:
    """The status of a Pod with somebody else's flasher between our two."""
    return PodStatus(
        **{
            "phase": "Failed",
            "init_container_statuses": (ContainerStatus(name=INSPECT_CONTAINER, state=inspect),),
            "container_statuses": (
                ContainerStatus(name=FLASH_CONTAINER, state=flash),
                ContainerStatus(name=VERIFY_CONTAINER, state=verify),
            ),
            **status,
        }
    )
