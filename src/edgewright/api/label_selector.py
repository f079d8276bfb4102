"""A selector of labels, as every Kubernetes kind has it: what EdgeWorkloads and FirmwareRollouts choose devices by.

Structs only; whether labels match is asked elsewhere.
"""

from __future__ import annotations

from typing import Annotated

from edgewright.api.annotations import Schema
from edgewright.runtime.objects import Struct


class LabelSelectorRequirement(Struct, frozen=True, kw_only=True):
    """One condition on the labels of a device."""

    key: Annotated[str, Schema(required=True)] = ""
    """The label."""
    operator: Annotated[str, Schema(required=True)] = ""
    """In, NotIn, Exists or DoesNotExist."""
    values: tuple[str, ...] = ()
    """The values, for In and NotIn."""


class LabelSelector(Struct, frozen=True, kw_only=True):
    """Which devices are meant, by their labels; an empty one selects all."""

    match_labels: dict[str, str] = {}
    """Labels that they have."""
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    """Conditions on their labels."""
