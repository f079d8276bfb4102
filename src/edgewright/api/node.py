"""The parts of a Node that we read, and the taint that keeps other Pods than ours off a node of ours.

The FlashJob controller asks for one Node where a Pod on it should have ended and has not, and lets its Pods tolerate
the taint; `edgewright node` registers with it. Nothing is written from here.
"""

from __future__ import annotations

from typing import ClassVar, Final

from edgewright.runtime.objects import Kind, Resource, Struct

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""The taint by which an administrator says that nothing runs on the node any more."""
NODE_TAINT: Final = "edgewright.dev/node"
"""The key of the taint, with the effect NoSchedule, that `edgewright node` has and flash Pods tolerate."""


class Taint(Struct, frozen=True, kw_only=True):
    """What keeps Pods away from the node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True, kw_only=True):
    """What the administrator says of the node."""

    taints: tuple[Taint, ...] = ()


class Node(Resource, frozen=True, kw_only=True):
    """A machine that runs Pods."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)

    spec: NodeSpec = NodeSpec()

    @property
    def out_of_service(self) -> bool:
        """Whether nothing runs on it any more, by its administrator's word."""
        return any(taint.key == OUT_OF_SERVICE for taint in self.spec.taints)
