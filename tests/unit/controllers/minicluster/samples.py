"""Flux, FluxSetup and the objects of a mini-cluster, for the tests of decisions."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewright.api.flux import Flux, FluxSpec
from edgewright.api.fluxsetup import ConfigText, FluxSetup, FluxSetupSpec
from edgewright.api.job import Job
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.api.statefulset import StatefulSet
from edgewright.controllers.minicluster import launched_manifests as manifests
from edgewright.controllers.minicluster.conversion import cluster_of
from edgewright.controllers.minicluster.model import LaunchedCluster
from edgewright.controllers.minicluster.objects import CLUSTER, EXIT_CODE, ROLE, ConfigMap
from edgewright.controllers.minicluster.plan import Snapshot
from edgewright.runtime.objects import ObjectMeta, owner_reference

ENDED = "2026-03-01T12:00:00Z"


def flux(name: str = "one", **spec: Any) -> Flux:
    return Flux(
        metadata=ObjectMeta(name=name, namespace="n", uid="flux-uid", generation=1),
        spec=FluxSpec(**{"command": "sleep 2", **spec}),
    )


def setup(*, spec: FluxSetupSpec | None = None, size: int | None = None, **texts: str) -> FluxSetup:
    given = {name: ConfigText(config=text) for name, text in texts.items()}
    metadata = ObjectMeta(name="one", namespace="n", uid="setup-uid", generation=1)
    return FluxSetup(metadata=metadata, spec=spec or FluxSetupSpec(size=size, **given))


def cluster(given: FluxSetup | None = None, **spec: Any) -> LaunchedCluster:
    found = cluster_of(flux(**spec), given)
    assert isinstance(found, LaunchedCluster), found
    return found


OWNER = owner_reference(flux())


def made(asked: LaunchedCluster, *, ready: int | None = None, page: bool = False, **more: Any) -> Snapshot:
    """All that workers need, as it was made for what is asked; so many of them are ready (all)."""
    ready = asked.size if ready is None else ready
    workers = manifests.workers(asked, OWNER)
    status = {
        "observedGeneration": 1,
        "replicas": asked.size,
        "readyReplicas": ready,
        "updatedReplicas": asked.size,
    }
    known: dict[str, Any] = {
        "config": msgspec.convert(manifests.config_map(asked, OWNER), ConfigMap),
        "service": msgspec.convert(manifests.headless_service(asked, OWNER), Service),
        "page": msgspec.convert(manifests.page_service(asked, OWNER), Service) if page else None,
        "workers": msgspec.convert(
            workers | {"metadata": {**workers["metadata"], "generation": 1}, "status": status}, StatefulSet
        ),
    }
    return Snapshot(**{**known, **more})


def launcher(asked: LaunchedCluster, end: str = "", *, code: str = "", deleting: bool = False) -> Job:
    """The launcher that was made for what is asked; `end` is Complete or Failed."""
    body = manifests.launcher(asked, OWNER)
    body["metadata"]["uid"] = "job-uid"
    if code:
        body["metadata"]["annotations"][EXIT_CODE] = code
    if deleting:
        body["metadata"]["deletionTimestamp"] = ENDED
    if end:
        reason = {"reason": "BackoffLimitExceeded", "message": "it has failed"} if end == "Failed" else {}
        condition = {"type": end, "status": "True", "lastTransitionTime": ENDED, **reason}
        body["status"] = {"conditions": [{"type": "Suspended", "status": "False"}, condition]}
    return msgspec.convert(body, Job)


def pod(name: str, role: str, **status: Any) -> Pod:
    labels = {CLUSTER: "one", ROLE: role}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "one-launcher", "uid": "job-uid"}
    metadata = {"name": name, "namespace": "n", "labels": labels, "ownerReferences": [owner]}
    return msgspec.convert({"metadata": metadata, "status": status}, Pod)


def ended(code: int, message: str = "", container: str = "flux") -> dict[str, Any]:
    """The status of a Pod whose container has ended."""
    field = "containerStatuses" if container == "flux" else "initContainerStatuses"
    terminated = {"exitCode": code, "message": message}
    return {
        "phase": "Failed" if code else "Succeeded",
        field: [{"name": container, "state": {"terminated": terminated}}],
    }
