"""The node: runs Pods as processes on one machine, for any Kubernetes API server.

`Node` is the program; `PodAddresses` is who hands out the addresses of Pods. It speaks only the Kubernetes API and
knows neither the embedded API server nor Services. What would reach out of a Pod is refused (`refusals`); what only
cgroups could hold (requests and limits, sizes of volumes) is not enforced; lifecycle hooks and `exec` are not offered.
"""

from edgewright.local.node.addresses import LoopbackAddresses, PodAddresses
from edgewright.local.node.folders import FolderTaken
from edgewright.local.node.lifecycle import Timing
from edgewright.local.node.node import Advertised, Containers, Network, Node

__all__ = [
    "Advertised",
    "Containers",
    "FolderTaken",
    "LoopbackAddresses",
    "Network",
    "Node",
    "PodAddresses",
    "Timing",
]
