"""The original operator as it stands in a cluster before ours comes: its definition, its Lease, a job half done.

`test_2_upgrade` makes it. What its controller made is made here with its names, labels and finalizer. Its Deployment
runs a program that does nothing, and its Lease is renewed as long as that has replicas, as the original's would be.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from edgewright.api.flash_pod import TLS_FOLDER, Variable
from edgewright.api.flashjob import FINALIZER, TLS_SECRET, FlashJob
from edgewright.controllers.flashjob.legacy.original import ORIGINAL_LEASE
from tests.harness import RequestError, wait_until
from tests.node.cluster import PATIENCE, RealCluster
from tests.node.lan import ATTESTATION_PORT, Fleet
from tests.node.layout import APPLICATION, DEVICE, FIRMWARE, FLEET_ADDRESS, REGISTRY

SYSTEM: Final = "operator-system"
NAMESPACE: Final = "old"
"""Where its job is: its Pods run as root, so the namespace enforces nothing."""
JOB: Final = "half"
VERSION: Final = "0.2.0"
JOBS: Final = f"/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/{NAMESPACE}/flashjobs"
_DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
_EVERY: Final = 2.0
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}


def definition() -> dict[str, Any]:
    """The original's definition: no default, no column, and hardly any rule."""
    fields = ("applicationType", "device", "externalIP", "firmware", "flashjobPodImage", "hostEndpoint", "version")
    condition = dict.fromkeys(("lastTransitionTime", "message", "reason", "status", "type"), _TEXT)
    status = {
        "completedUUIDs": _TEXTS,
        "conditions": {"type": "array", "items": {"type": "object", "properties": condition}},
        **dict.fromkeys(("hostEndpoint", "message", "phase"), _TEXT),
    }
    spec = {
        "type": "object",
        "properties": {**dict.fromkeys(fields, _TEXT), "uuid": _TEXTS},
        "required": ["firmware", "uuid", "version"],
    }
    schema = {
        "type": "object",
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object"},
            "spec": spec,
            "status": {"type": "object", "properties": status},
        },
    }
    names = {"kind": "FlashJob", "listKind": "FlashJobList", "plural": "flashjobs", "singular": "flashjob"}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": FlashJob.kind.resource},
        "spec": {"group": FlashJob.kind.group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


class OriginalOperator:
    """The original, at work in a cluster until its Deployment is scaled to nothing."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="original", daemon=True)

    def install(self) -> None:
        """Its definition, its Deployment and its Lease."""
        cluster = self._cluster
        cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
        cluster.until_served(FlashJob.kind.resource)
        for name in (SYSTEM, NAMESPACE):
            cluster.kubectl("create", "namespace", name)
        labels = {"control-plane": "controller-manager"}
        pod = {
            "metadata": {"labels": labels},
            "spec": {
                "containers": [{"name": "manager", "image": cluster.image("pause")}],
                "terminationGracePeriodSeconds": 0,
            },
        }
        metadata = {"name": "operator-controller-manager", "namespace": SYSTEM}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}
        cluster.request("POST", _DEPLOYMENT, {"metadata": metadata, "spec": spec})
        lease = {"holderIdentity": "operator-controller-manager-0_1", "leaseDurationSeconds": 15, "renewTime": _now()}
        cluster.request("POST", _LEASES, {"metadata": {"name": ORIGINAL_LEASE, "namespace": SYSTEM}, "spec": lease})
        self._thread.start()

    def close(self) -> None:
        """Renews no more."""
        self._stop.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._stop.wait(_EVERY):
            with suppress(OSError, RequestError, AssertionError):
                found = self._cluster.request("GET", f"{_DEPLOYMENT}/operator-controller-manager")
                if found["spec"]["replicas"]:
                    change = {"spec": {"renewTime": _now()}}
                    merge = "application/merge-patch+json"
                    self._cluster.request("PATCH", f"{_LEASES}/{ORIGINAL_LEASE}", change, content_type=merge)

    def leave_half_done(self, fleet: Fleet) -> None:
        """A job for three devices: the first it counts as completed and has not flashed, the second it is flashing."""
        first, second, third = fleet.uids()
        cluster, firmware = self._cluster, f"{REGISTRY}/{FIRMWARE}:{VERSION}"
        job = {
            "apiVersion": FlashJob.kind.api_version,
            "kind": "FlashJob",
            "metadata": {"name": JOB, "namespace": NAMESPACE, "finalizers": [FINALIZER]},
            "spec": {"uuid": [first, second, third], "firmware": firmware, "version": VERSION},
        }
        uid = cluster.request("POST", JOBS, job)["metadata"]["uid"]
        status = {"phase": "InProgress", "message": "Flashing in progress", "completedUUIDs": [first]}
        merge = "application/merge-patch+json"
        cluster.request("PATCH", f"{JOBS}/{JOB}/status", {"status": status}, content_type=merge)
        owner = {"apiVersion": FlashJob.kind.api_version, "kind": "FlashJob", "name": JOB, "uid": uid}
        labels = {"app": JOB, "uuid": second}
        about = {"namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}
        services, pods = (f"/api/v1/namespaces/{NAMESPACE}/{kind}" for kind in ("services", "pods"))
        service = {"type": "LoadBalancer", "selector": labels, "ports": [{"port": 4433, "protocol": "TCP"}]}
        name = f"{JOB}-service-{second}"
        cluster.request("POST", services, {"metadata": {"name": name, **about}, "spec": service})

        def address() -> str:
            found = cluster.request("GET", f"{services}/{name}")["status"].get("loadBalancer", {}).get("ingress")
            return str(found[0]["ip"]) if found else ""

        variables = {
            Variable.FIRMWARE: firmware,
            Variable.UUID: second,
            Variable.HOST_ENDPOINT: fleet.addresses[1],
            Variable.DEVICE: DEVICE,
            Variable.APPLICATION_TYPE: APPLICATION,
            Variable.VERSION: VERSION,
            Variable.EXTERNAL_IP: wait_until(address, what="its Service has an address", timeout=PATIENCE),
            # Its program is our flasher here, which is told more than the original's.
            Variable.ATTESTATION: f"http://{FLEET_ADDRESS}:{ATTESTATION_PORT}",
            Variable.PLAIN_REGISTRIES: REGISTRY,
        }
        own = {"name": Variable.POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        container = {
            "name": "flash-container",
            "image": cluster.image("flasher"),
            "args": ["flasher"],
            "env": [*({"name": each, "value": value} for each, value in variables.items()), own],
            "volumeMounts": [{"name": "tls", "mountPath": TLS_FOLDER}],
        }
        spec = {
            "containers": [container],
            "restartPolicy": "Never",
            "volumes": [{"name": "tls", "secret": {"secretName": TLS_SECRET}}],
        }
        cluster.request("POST", pods, {"metadata": {"name": f"{JOB}-flashing-pod-{second}", **about}, "spec": spec})


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
