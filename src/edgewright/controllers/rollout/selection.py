"""Which devices a rollout means, and which of those cannot get it.

The decisions, the plan and the triggers of the loop ask it for every Device, so a selector is made into a function
once. Pure; it never reads what a rollout has done so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import DeviceSelector, FirmwareRolloutSpec
from edgewright.api.label_selector import LabelSelector, LabelSelectorRequirement
from edgewright.runtime.label_requirements import holds

Choice: TypeAlias = Callable[[Device], bool]
"""Whether a device is meant."""

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
"""What an expression of a label selector may ask."""


def choice_of(spec: FirmwareRolloutSpec) -> Choice:
    """Whether the selector of a rollout means a device, and its exclusion does not."""
    selected = selects(spec.selector)
    if spec.exclude is None:
        return selected
    excluded = selects(spec.exclude)
    return lambda device: selected(device) and not excluded(device)


def is_empty(selector: DeviceSelector) -> bool:
    """Whether a selector asks for nothing, and so means every device."""
    return selector == DeviceSelector() or selector == DeviceSelector(labels=LabelSelector())


def selects(selector: DeviceSelector) -> Choice:
    """Whether a device meets every condition of a selector."""
    tests = [*_named(selector), *_running(selector), *_labelled(selector.labels)]
    if not tests:
        return lambda _: True
    if len(tests) == 1:
        return tests[0]
    return lambda device: all(test(device) for test in tests)


def _named(selector: DeviceSelector) -> list[Choice]:
    tests: list[Choice] = []
    if selector.types:
        types = {each.casefold() for each in selector.types}
        tests.append(lambda device: device.spec.type.casefold() in types)
    if selector.names:
        names = frozenset(selector.names)
        tests.append(lambda device: device.metadata.name in names)
    if selector.uuids:
        uuids = frozenset(selector.uuids)
        tests.append(lambda device: device.metadata.uid in uuids or not uuids.isdisjoint(device.status.instances))
    return tests


def _running(selector: DeviceSelector) -> list[Choice]:
    tests: list[Choice] = []
    if selector.applications:
        applications = {each.casefold() for each in selector.applications}
        tests.append(lambda device: device.status.application.casefold() in applications)
    if selector.versions:
        versions = frozenset(selector.versions)
        tests.append(lambda device: device.status.version in versions)
    return tests


def _labelled(labels: LabelSelector | None) -> list[Choice]:
    if labels is None:
        return []
    tests = [_has(key, value) for key, value in labels.match_labels.items()]
    return [*tests, *map(_meets, labels.match_expressions)]


def _has(key: str, value: str) -> Choice:
    return lambda device: device.metadata.labels.get(key) == value


def _meets(requirement: LabelSelectorRequirement) -> Choice:
    return lambda device: holds(requirement, device.metadata.labels)
