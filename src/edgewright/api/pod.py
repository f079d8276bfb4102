"""The parts of a Pod that we write (one container with its environment) and read (how it ended, or why it waits).

The FlashJob controller makes Pods and reads them from a cache. Fields that are not here are kept by the server and
never sent by us: Pods are created and deleted, not replaced.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from edgewright.runtime.objects import Condition, Kind, Resource, Struct


class EnvVar(Struct, frozen=True, kw_only=True):
    """One environment variable of a container."""

    name: str
    value: str = ""


class Container(Struct, frozen=True, kw_only=True):
    """A program in a Pod."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()


class PodSpec(Struct, frozen=True, kw_only=True):
    """What runs in the Pod, and where."""

    containers: tuple[Container, ...] = ()
    restart_policy: str = ""
    node_name: str = ""


class ContainerWaiting(Struct, frozen=True, kw_only=True):
    """Why a container has not started, for example an image that cannot be pulled."""

    reason: str = ""
    message: str = ""


class ContainerRunning(Struct, frozen=True, kw_only=True):
    """Since when a container runs."""

    started_at: datetime | None = None


class ContainerTerminated(Struct, frozen=True, kw_only=True):
    """How a container ended; `message` is what it wrote as its termination message."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Struct, frozen=True, kw_only=True):
    """Exactly one of the three, or none before anything is known."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Struct, frozen=True, kw_only=True):
    """What the node says about one container."""

    name: str
    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True, kw_only=True):
    """What the node and the scheduler say about the Pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Resource, frozen=True, kw_only=True):
    """Containers that run together on one node."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Pod", plural="pods")

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether the Pod has ended for good, well or badly."""
        return self.status.phase in {"Succeeded", "Failed"}

    def terminated(self, container: str) -> ContainerTerminated | None:
        """How the named container ended, or None while it has not."""
        for status in self.status.container_statuses:
            if status.name == container:
                return status.state.terminated
        return None
