"""The parts of a Namespace that we read: whether it is there, and whether it is being taken down.

Controllers look before they create something in a namespace that is going away; we never write one.
"""

from __future__ import annotations

from typing import ClassVar

from edgewright.runtime.objects import Kind, Resource, Struct


class NamespaceStatus(Struct, frozen=True, kw_only=True):
    """How far the life of the namespace is."""

    phase: str = ""


class Namespace(Resource, frozen=True, kw_only=True):
    """A space for names of objects."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)

    status: NamespaceStatus = NamespaceStatus()

    @property
    def terminating(self) -> bool:
        """Whether nothing new can be created in it any more."""
        return self.deleting or self.status.phase == "Terminating"
