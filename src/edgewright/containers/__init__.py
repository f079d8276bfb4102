"""Podman behind a small typed client over its REST socket.

The agent on a Linux edge device uses it, and the embedded node may; it knows neither. Everything public is re-exported
here.
"""

from edgewright.containers.errors import ContainersError, NotFound, PodmanUnavailable, Refused
from edgewright.containers.podman import Podman
from edgewright.containers.types import (
    RUNNING,
    Container,
    ContainerDetails,
    ContainerNetworkDefinition,
    ContainerState,
    Executed,
    Image,
    Played,
    Pod,
    Secret,
    Version,
    Volume,
)

__all__ = [
    "RUNNING",
    "Container",
    "ContainerDetails",
    "ContainerNetworkDefinition",
    "ContainerState",
    "ContainersError",
    "Executed",
    "Image",
    "NotFound",
    "Played",
    "Pod",
    "Podman",
    "PodmanUnavailable",
    "Refused",
    "Secret",
    "Version",
    "Volume",
]
