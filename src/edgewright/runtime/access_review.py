"""Asking the API server who somebody is, and what they may do.

Those who serve something of their own ask it: the manager for metrics, the node for logs. What the answer means is for
them to decide, also where there is none.
"""

from __future__ import annotations

from typing import Final

from edgewright.runtime.client import Client
from edgewright.runtime.objects import Kind, RawObject


def _kind(group: str, kind: str) -> Kind:
    return Kind(group=group, version="v1", kind=kind, plural=f"{kind.lower()}s", namespaced=False)


TOKEN_REVIEW: Final = _kind("authentication.k8s.io", "TokenReview")
ACCESS_REVIEW: Final = _kind("authorization.k8s.io", "SubjectAccessReview")


async def review(client: Client, kind: Kind, spec: RawObject) -> RawObject:
    """The status that the API server gives a review with this spec."""
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, "spec": spec}
    return (await client.raw(kind).create(body)).get("status") or {}
