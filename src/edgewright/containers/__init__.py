"""Podman behind a small typed client over its REST socket.

The agent on a Linux edge device uses it, and the embedded node may; it knows neither. Everything public is re-exported
here.
"""

from edgewright.containers.errors import ContainersError, NotFound, PodmanUnavailable, Refused
from edgewright.containers.podman import Podman
from edgewright.containers.types import Container, Played, Pod, Secret, Version, Volume

__all__ = [
    "Container",
    "ContainersError",
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
