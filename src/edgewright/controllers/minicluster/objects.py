"""What all objects of mini-clusters have: labels by which caches find them, annotations that remember, an owner.

Manifests and decisions of both flows read it, and `loop` for its caches. Pure.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from edgewright.controllers.minicluster.model import Cluster
from edgewright.runtime.objects import Kind, OwnerReference, RawObject, Resource

CLUSTER: Final = "flux-framework.org/cluster"
"""The label with the name of the mini-cluster, on everything that belongs to one."""
ROLE: Final = "flux-framework.org/role"
SHARED: Final = "flux-framework.org/service"
"""The label of a headless Service that several mini-clusters share, and of the Pods that it names."""
DIGEST: Final = "flux-framework.org/digest"
"""The annotation with the digest of what an object was made for."""
EXIT_CODE: Final = "flux-framework.org/exit-code"
"""The annotation of a Job that has ended, with the exit code of the command: its Pod may go."""
FIRST_SIZE: Final = "flux-framework.org/first-size"
"""The annotation of a Job with the size that its brokers were started with."""


class ConfigMap(Resource, frozen=True, kw_only=True):
    """Texts by their names."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")

    data: dict[str, str] = {}


def labels_of(cluster: Cluster, role: str = "") -> dict[str, str]:
    """The labels of an object of the mini-cluster."""
    common = {
        "app.kubernetes.io/name": "flux",
        "app.kubernetes.io/instance": cluster.name,
        "app.kubernetes.io/managed-by": "edgewright",
        CLUSTER: cluster.name,
    }
    return common | ({ROLE: role} if role else {})


def object_of(
    cluster: Cluster, owner: OwnerReference, api_version: str, kind: str, name: str, *, digest: str = ""
) -> RawObject:
    """The beginning of an object that belongs to the mini-cluster."""
    metadata: RawObject = {
        "name": name,
        "namespace": cluster.namespace,
        "labels": labels_of(cluster),
        "ownerReferences": [msgspec.to_builtins(owner)],
    }
    if digest:
        metadata["annotations"] = {DIGEST: digest}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
