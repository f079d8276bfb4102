"""Configurations and questions that the tests of edge devices share."""

from __future__ import annotations

import hashlib

import msgspec
import yaml

from edgewright.api.edge_protocol import (
    DataConfiguration,
    DataPath,
    DeviceConfiguration,
    DeviceConfigurationMessage,
    HeartbeatConfiguration,
    LogsCollection,
    MetricsConfiguration,
    S3Configuration,
    StorageConfiguration,
    WireSecret,
    Workload,
    WorkloadMetrics,
)
from tests.edge.machine import IMAGE

DEVICE = "242e48d0-286b-4170-9b97-95502066e6ae"

SERVE = (
    "/bin/busybox mkdir -p /export/out && echo $DEVICE_ID > /export/out/hello.txt && "
    "exec /bin/busybox httpd -f -p 80 -h /export"
)
"""What a container does: writes a file to upload, and serves it."""


def workload(
    name: str = "nginx",
    *,
    host_port: int | None = 9090,
    script: str = SERVE,
    data: bool = False,
    image: str = IMAGE,
    env: list[dict[str, object]] | None = None,
    configmaps: tuple[str, ...] | None = None,
    protocol: str = "TCP",
    container: str = "web",
    more: tuple[dict[str, object], ...] = (),
    logs: str = "",
    metrics: WorkloadMetrics | None = None,
    ingress: tuple[DataPath, ...] | None = None,
) -> Workload:
    """A workload of one container that serves its /export on a host port; `more` are other containers of it."""
    port = {"containerPort": 80, "protocol": protocol, **({"hostPort": host_port} if host_port else {})}
    first = {"name": container, "image": image, "command": ["/bin/sh", "-c", script], "ports": [port]}
    first |= {"imagePullPolicy": "IfNotPresent", **({"env": env} if env else {})}
    egress = (DataPath(source="out", target=name),) if data else None
    return Workload(
        name=name,
        namespace="default",
        labels={"app": name},
        specification=yaml.safe_dump({"containers": [first, *more], "terminationGracePeriodSeconds": 1}),
        data=DataConfiguration(egress=egress, ingress=ingress) if egress or ingress else None,
        log_collection=logs,
        metrics=metrics,
        configmaps=configmaps,
    )


def configuration(
    *workloads: Workload,
    device: str = DEVICE,
    period: int = 1,
    s3: S3Configuration | None = None,
    secrets: tuple[WireSecret, ...] = (),
    logs: dict[str, LogsCollection] | None = None,
    metrics: MetricsConfiguration | None = None,
) -> DeviceConfigurationMessage:
    """What a device is told, with a version as the gateway makes it."""
    message = DeviceConfigurationMessage(
        device_id=device,
        workloads_monitoring_interval=1,
        configuration=DeviceConfiguration(
            heartbeat=HeartbeatConfiguration(period_seconds=period),
            storage=StorageConfiguration(s3=s3) if s3 else None,
            log_collection=logs or {},
            metrics=metrics,
        ),
        workloads=workloads,
        secrets=secrets,
    )
    version = hashlib.sha256(msgspec.json.encode(message)).hexdigest()[:16]
    return msgspec.structs.replace(message, version=version)
