"""Which workloads and which settings an edge device has: pure functions that the gateway and the controllers share.

Objects of both eras go in; of two with one name the older counts, and the newer is told so. Nothing here reads a
status, so that a wiped status changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, TypeVar

from edgewright.api.edge_rules import problem_of
from edgewright.api.edgedevice import MEMBER_OF, DeviceSettings, EdgeDevice
from edgewright.api.edgedeviceset import EdgeDeviceSet
from edgewright.api.edgeworkload import EdgeWorkload, EdgeWorkloadSpec
from edgewright.runtime.label_requirements import holds
from edgewright.runtime.objects import Key, Resource

R = TypeVar("R", bound=Resource)

_LAST: Final = datetime.max.replace(tzinfo=UTC)


def oldest(objects: Iterable[R]) -> dict[Key, R]:
    """The object that counts under each name: the oldest; of two of one second, the one of the later era's kind."""
    counting: dict[Key, R] = {}
    for each in objects:
        other = counting.get(each.key)
        if other is None or _rank(each) < _rank(other):
            counting[each.key] = each
    return counting


def yields_to(mine: Resource, other: Resource | None) -> bool:
    """Whether an object does not count because of one of the same name and the other era's kind."""
    return other is not None and other.key == mine.key and _rank(other) < _rank(mine)


def _rank(each: Resource) -> tuple[datetime, bool, str]:
    early = each.kind.kind in {"EdgeDeployment", "EdgeDeviceGroup"}
    return each.metadata.creation_timestamp or _LAST, early, each.metadata.uid


def selects(spec: EdgeWorkloadSpec, device: EdgeDevice) -> bool:
    """Whether a workload names the device, or selects it by its labels; a name goes before a selector."""
    if spec.device:
        return spec.device.lower() == device.metadata.name
    selector = spec.device_selector
    if selector is None:
        return False
    labels = device.metadata.labels
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        holds(requirement, labels) for requirement in selector.match_expressions
    )


def candidates(workloads: Iterable[EdgeWorkload]) -> list[EdgeWorkload]:
    """The workloads that count, whomever they select, by name: not those that are being deleted or are not valid."""
    counting = oldest(each for each in workloads if not each.deleting).values()
    return sorted((each for each in counting if problem_of(each) is None), key=lambda each: each.metadata.name)


def selected(device: EdgeDevice, counting: Iterable[EdgeWorkload]) -> list[EdgeWorkload]:
    """Which of the workloads that count in its namespace the device is to run."""
    return [] if device.deleting else [each for each in counting if selects(each.spec, device)]


def workloads_of(device: EdgeDevice, workloads: Iterable[EdgeWorkload]) -> list[EdgeWorkload]:
    """The workloads that the device is to run, by name; one that is being deleted or is not valid is not among them."""
    namespace = device.metadata.namespace
    here = (each for each in workloads if each.metadata.namespace == namespace and not each.deleting)
    found = (each for each in selected(device, oldest(here).values()) if problem_of(each) is None)
    return sorted(found, key=lambda each: each.metadata.name)


def settings_of(device: EdgeDevice, sets: Iterable[EdgeDeviceSet]) -> DeviceSettings:
    """What the device is to do: the whole spec of the set that it is a member of, else its own."""
    name = device.metadata.labels.get(MEMBER_OF, "")
    if not name:
        return device.spec
    key = Key(device.metadata.namespace, name)
    found = oldest(each for each in sets if each.key == key).get(key)
    return device.spec if found is None else found.spec
