"""ObjectBucketClaims: one for the data of each device, where the cluster has that kind.

The loop over EdgeDevices calls `ensure`. A claim has no owner and is never deleted: the data outlives the device.
"""

from __future__ import annotations

from typing import ClassVar

from edgewright.api.edgedevice import EdgeDevice
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import AlreadyExists, NotFound
from edgewright.runtime.objects import Kind, ObjectMeta, Resource, Struct


class ObjectBucketClaimSpec(Struct, frozen=True, kw_only=True):
    """Which bucket is asked for."""

    generate_bucket_name: str = ""
    storage_class_name: str = ""


class ObjectBucketClaim(Resource, frozen=True, kw_only=True):
    """A bucket that is asked for; whoever provides it creates a ConfigMap and a Secret of its name."""

    kind: ClassVar[Kind] = Kind(
        group="objectbucket.io", version="v1alpha1", kind="ObjectBucketClaim", plural="objectbucketclaims"
    )

    spec: ObjectBucketClaimSpec = ObjectBucketClaimSpec()


class Claims:
    """Makes claims, and remembers for a while that their kind is not installed."""

    def __init__(self, client: Client, clock: Clock, *, storage_class: str, recheck: float) -> None:
        self._api = client.of(ObjectBucketClaim)
        self._clock = clock
        self._storage_class = storage_class
        self._recheck = recheck
        self._absent_until = 0.0

    async def ensure(self, device: EdgeDevice) -> str:
        """The name of the device's claim, which is there now; empty where the kind is not installed."""
        name = device.metadata.name
        if self._clock.elapsed() < self._absent_until:
            return ""
        claim = ObjectBucketClaim(
            metadata=ObjectMeta(name=name, namespace=device.metadata.namespace),
            spec=ObjectBucketClaimSpec(generate_bucket_name=name, storage_class_name=self._storage_class),
        )
        try:
            await self._api.create(claim)
        except AlreadyExists:
            return name
        except NotFound:
            self._absent_until = self._clock.elapsed() + self._recheck
            return ""
        return name
