"""Instances and Devices for the tests of the inventory, and what is known of them without a server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from edgewright.api.device import Claim, Device, DeviceSpec, DeviceStatus, JobReference, LastFlash
from edgewright.api.flash_pod import Outcome
from edgewright.api.instance import Instance, InstanceSpec
from edgewright.controllers.inventory.sightings import Sighting, canonical_endpoint, canonical_serial, sighting_of
from edgewright.runtime.objects import ObjectMeta

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BEFORE = NOW - timedelta(days=1)
CLAIM = Claim(job=JobReference(namespace="default", name="job", uid="job-uid"), uuid="u1")
CERTIFICATE = "ab" * 32


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def instance(
    uid: str = "u1",
    *,
    name: str = "",
    namespace: str = "default",
    configuration: str = "http",
    since: datetime | None = BEFORE,
    **properties: str,
) -> Instance:
    """An Instance as the discovery handler for HTTP devices writes it; a property that is empty is left out."""
    known = {"HOST_ENDPOINT": "10.0.0.7", "DEVICE": "esp32s3", "APPLICATION_TYPE": "thermo", "VERSION": "1.0.0"}
    given = {name: value for name, value in {**known, **properties}.items() if value}
    return Instance(
        metadata=ObjectMeta(
            name=name or f"{configuration}-{uid}", namespace=namespace, uid=uid, creation_timestamp=since
        ),
        spec=InstanceSpec(configuration_name=configuration, cdi_name="c", capacity=1, broker_properties=given),
    )


def sighting(uid: str = "u1", **fields: Any) -> Sighting:
    """What such an Instance shows."""
    found = sighting_of(instance(uid, **fields))
    assert found is not None
    return found


def device(
    name: str = "one",
    *,
    created: datetime | None = BEFORE,
    labels: dict[str, str] | None = None,
    deleting: bool = False,
    status: DeviceStatus | None = None,
    **spec: Any,
) -> Device:
    """A Device that the inventory made of such an Instance."""
    known: dict[str, Any] = {"type": "esp32s3", "endpoint": "10.0.0.7", "configuration": "http"}
    return Device(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-of-{name}",
            labels=labels or {},
            creation_timestamp=created,
            deletion_timestamp=NOW if deleting else None,
        ),
        spec=DeviceSpec(**{**known, **spec}),
        status=status or DeviceStatus(),
    )


def flashed(
    *, seconds_ago: float = 10, before: str = "1.0.0", after: str = "2.0.0", outcome: Outcome = Outcome.SUCCEEDED
) -> LastFlash:
    """A flash that ended lately."""
    return LastFlash(outcome=outcome, version_before=before, version_after=after, time=ago(seconds_ago))


@dataclass
class KnownFleet:
    """What is known, in two lists."""

    devices: Iterable[Device] = ()
    living: Iterable[Sighting] = ()

    def with_serial(self, serial: str) -> list[Device]:
        return [each for each in self.devices if each.spec.serial and canonical_serial(each.spec.serial) == serial]

    def with_instance(self, uid: str) -> list[Device]:
        return [each for each in self.devices if uid in each.status.instances]

    def with_certificate(self, fingerprint: str) -> list[Device]:
        return [each for each in self.devices if each.status.certificate == fingerprint]

    def with_endpoint(self, endpoint: str) -> list[Device]:
        return [each for each in self.devices if canonical_endpoint(each.spec.endpoint) == endpoint]

    def sighted_at(self, endpoint: str) -> list[Sighting]:
        return [each for each in self.living if each.place == endpoint]
