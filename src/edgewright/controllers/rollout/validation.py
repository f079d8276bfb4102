"""Whether the spec of a rollout can be acted on, and what to change where it cannot.

The loop asks it before anything is made, and the plan before anything is planned. The schema refuses some of this
already; what an older schema let through, and what no schema can say, is told here with the field. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from edgewright.api.firmwarerollout import (
    REGRESSED,
    Approval,
    Batch,
    Budget,
    DeviceSelector,
    FirmwareRolloutSpec,
    StopAction,
    StopRule,
)
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import MAX_VERSION
from edgewright.api.problem import Problem
from edgewright.api.reference import BadReference, parse_reference
from edgewright.controllers.flashjob.windows import window_problem
from edgewright.controllers.rollout.selection import OPERATORS, is_empty
from edgewright.controllers.staging.amounts import BadAmount, parse_amount
from edgewright.runtime.text import cut

_MAX_TEXT: Final = 2048
_MAX_PERCENT: Final = 100
OUTCOMES: Final = frozenset({*(outcome.value for outcome in Outcome if not outcome.good), REGRESSED})
"""What a rule of stop may name."""


def problems(spec: FirmwareRolloutSpec) -> list[Problem]:
    """What is wrong with the spec; empty where it can be acted on."""
    return [
        *_firmware_problems(spec),
        *_selector_problems("spec.selector", spec.selector),
        *_exclude_problems(spec.exclude),
        *_form_problems(spec),
        *_batch_problems(spec.batches),
        *_budget_problems(spec.budgets),
        *_window_problems(spec),
        *_stop_problems(spec.stop),
    ]


def in_a_sentence(found: Iterable[Problem]) -> str:
    """All that is wrong, as it stands in the message of a condition."""
    return cut("; ".join(map(str, found)), _MAX_TEXT)


def _firmware_problems(spec: FirmwareRolloutSpec) -> list[Problem]:
    if spec.recall is not None:
        return _recall_problems(spec)
    if spec.firmware and spec.firmwares:
        return [Problem("spec.firmwares", "spec.firmware is given too: keep one of them")]
    if not spec.firmwares:
        if not spec.firmware:
            return [Problem("spec.firmware", "it is empty: name an image here, or one for each type in spec.firmwares")]
        return _image_problems("spec.firmware", spec.firmware, "spec.version", spec.version)
    found = []
    if spec.version:
        found.append(Problem("spec.version", "each of spec.firmwares has its own: leave this one out"))
    types = Counter(each.type.casefold() for each in spec.firmwares)
    for place, each in enumerate(spec.firmwares):
        field = f"spec.firmwares[{place}]"
        if not each.type:
            found.append(Problem(f"{field}.type", "it is empty: name a type of device"))
        elif types[each.type.casefold()] > 1:
            found.append(Problem(f"{field}.type", f"{each.type} is there more than once: keep one of them"))
        found += _image_problems(f"{field}.firmware", each.firmware, f"{field}.version", each.version)
    return found


def _recall_problems(spec: FirmwareRolloutSpec) -> list[Problem]:
    found = []
    if spec.firmware or spec.firmwares:
        field = "spec.firmware" if spec.firmware else "spec.firmwares"
        found.append(Problem(field, "spec.recall is given too, which brings back what each device ran: leave this out"))
    if not is_empty(spec.selector):
        found.append(Problem("spec.selector", "spec.recall is given too, which knows its devices: leave this out"))
    if spec.recall is not None and not spec.recall.uid:
        found.append(Problem("spec.recall.uid", "it is empty: give metadata.uid of the rollout to recall"))
    return found


def _image_problems(field: str, firmware: str, version_field: str, version: str) -> list[Problem]:
    found = []
    try:
        parse_reference(firmware)
    except BadReference as error:
        found.append(Problem(field, str(error)))
    if not version.strip():
        found.append(Problem(version_field, "it is empty: name what the devices must report"))
    elif len(version) > MAX_VERSION:
        found.append(Problem(version_field, f"it has {len(version)} characters and may have {MAX_VERSION}"))
    return found


def _selector_problems(field: str, selector: DeviceSelector) -> list[Problem]:
    found = []
    for place, each in enumerate(selector.labels.match_expressions if selector.labels is not None else ()):
        where = f"{field}.labels.matchExpressions[{place}]"
        if each.operator not in OPERATORS:
            found.append(Problem(f"{where}.operator", f"{each.operator[:40]!r} is none of {', '.join(OPERATORS)}"))
        elif each.operator in ("In", "NotIn") and not each.values:
            found.append(Problem(f"{where}.values", f"it is empty: {each.operator} needs values"))
        elif each.operator in ("Exists", "DoesNotExist") and each.values:
            found.append(Problem(f"{where}.values", f"{each.operator} takes none: leave them out"))
        if not each.key:
            found.append(Problem(f"{where}.key", "it is empty: name a label"))
    return found


def _exclude_problems(exclude: DeviceSelector | None) -> list[Problem]:
    if exclude is None:
        return []
    if is_empty(exclude):
        return [Problem("spec.exclude", "it is empty and so would leave out every device: say which, or leave it out")]
    return _selector_problems("spec.exclude", exclude)


def _form_problems(spec: FirmwareRolloutSpec) -> list[Problem]:
    found = []
    if spec.batch_size is not None and spec.batches:
        found.append(Problem("spec.batchSize", "spec.batches is given too: keep one of them"))
    if spec.batch_size is not None and spec.batch_size < 1:
        found.append(Problem("spec.batchSize", f"{spec.batch_size} is too small: at least 1"))
    if spec.interval_seconds and spec.batch_size is None:
        message = "it goes with spec.batchSize only: in spec.batches write soakSeconds"
        found.append(Problem("spec.intervalSeconds", message))
    if spec.interval_seconds < 0:
        found.append(Problem("spec.intervalSeconds", f"{spec.interval_seconds} is below zero"))
    return found


def _batch_problems(batches: tuple[Batch, ...]) -> list[Problem]:
    found = []
    names = Counter(batch.name for batch in batches)
    for place, batch in enumerate(batches):
        field = f"spec.batches[{place}]"
        if not batch.name:
            found.append(Problem(f"{field}.name", "it is empty: give the batch a name"))
        elif names[batch.name] > 1:
            found.append(Problem(f"{field}.name", f"{batch.name} is there more than once: approvals could not tell"))
        if batch.size is not None:
            found += _amount_problems(f"{field}.size", batch.size)
        takes_all = batch.size is None and (batch.selector is None or is_empty(batch.selector))
        if takes_all and place < len(batches) - 1:
            message = "it has neither size nor selector, so it takes all devices, and the batches after it get none"
            found.append(Problem(field, message))
        if batch.selector is not None:
            found += _selector_problems(f"{field}.selector", batch.selector)
        gate = batch.gate
        if gate.success_percent is not None and not 0 <= gate.success_percent <= _MAX_PERCENT:
            found.append(Problem(f"{field}.gate.successPercent", f"{gate.success_percent} is not from 0 to 100"))
        if gate.approval is not None and gate.approval not in set(Approval):
            found.append(Problem(f"{field}.gate.approval", f"{gate.approval[:40]!r} is neither automatic nor manual"))
        if batch.soak_seconds < 0:
            found.append(Problem(f"{field}.soakSeconds", f"{batch.soak_seconds} is below zero"))
    return found


def _amount_problems(field: str, amount: int | str) -> list[Problem]:
    try:
        parse_amount(amount)
    except BadAmount as error:
        return [Problem(field, str(error))]
    return []


def _budget_problems(budgets: tuple[Budget, ...]) -> list[Problem]:
    found = []
    for place, budget in enumerate(budgets):
        field = f"spec.budgets[{place}]"
        if not budget.label:
            found.append(Problem(f"{field}.label", "it is empty: name the label by whose value devices are grouped"))
        if budget.max_unavailable is None:
            found.append(Problem(f"{field}.maxUnavailable", "it is missing: write 1, or a share such as 10%"))
        else:
            found += _amount_problems(f"{field}.maxUnavailable", budget.max_unavailable)
    return found


def _window_problems(spec: FirmwareRolloutSpec) -> list[Problem]:
    found = []
    for place, window in enumerate(spec.windows):
        field, problem = f"spec.windows[{place}]", window_problem(window)
        if problem is not None:
            name, _, message = problem.partition(": ")
            found.append(Problem(f"{field}.{name}", message))
        elif window.duration_seconds <= 0:
            found.append(Problem(f"{field}.durationSeconds", f"{window.duration_seconds} is too short"))
    return found


def _stop_problems(rules: tuple[StopRule, ...]) -> list[Problem]:
    found = []
    for place, rule in enumerate(rules):
        field = f"spec.stop[{place}]"
        if rule.action not in set(StopAction):
            found.append(Problem(f"{field}.action", f"{rule.action[:40]!r} is none of pause, abort, recall"))
        found += _amount_problems(f"{field}.threshold", rule.threshold)
        for number, outcome in enumerate(rule.outcomes):
            if outcome not in OUTCOMES:
                message = f"{outcome[:40]!r} is no failure: write one of {', '.join(sorted(OUTCOMES))}"
                found.append(Problem(f"{field}.outcomes[{number}]", message))
    return found
