"""The parts of a StatefulSet that we read: how many Pods are asked for, and how many are there.

The mini-cluster controller creates them from plain JSON and patches the few fields that change; what is not here is
kept by the server and never sent back.
"""

from __future__ import annotations

from typing import ClassVar

from edgewright.runtime.objects import Kind, Resource, Struct


class StatefulSetSpec(Struct, frozen=True, kw_only=True):
    """How many Pods there are to be."""

    replicas: int = 1


class StatefulSetStatus(Struct, frozen=True, kw_only=True):
    """What the StatefulSet controller says about the Pods."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0


class StatefulSet(Resource, frozen=True, kw_only=True):
    """Pods with stable names."""

    kind: ClassVar[Kind] = Kind(group="apps", version="v1", kind="StatefulSet", plural="statefulsets")

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def settled(self) -> bool:
        """Whether every Pod that is asked for is ready and of the present template, and no other is left."""
        status, wanted = self.status, self.spec.replicas
        return (
            status.observed_generation >= self.metadata.generation
            and status.replicas == status.ready_replicas == wanted
            and (status.updated_replicas == wanted or not wanted)
        )
