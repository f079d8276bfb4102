"""A kind and a body without a type of their own, for tests that send JSON as it is.

The client's tests use them; the kinds that tests install are in `kinds`.
"""

from __future__ import annotations

from typing import Any

from edgewright.runtime import Kind

REVIEW = Kind(
    group="authentication.k8s.io", version="v1", kind="SelfSubjectReview", plural="selfsubjectreviews", namespaced=False
)


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap as JSON."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}
