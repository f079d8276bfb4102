"""The parts of a Pod that we read: what it was told, how it ended, or why it waits.

The FlashJob controller creates Pods and reads them from a cache. Fields that are not here are kept by the server and
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
    """What runs in the Pod, where, and for how long."""

    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    restart_policy: str = ""
    node_name: str = ""
    active_deadline_seconds: int | None = None


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
    signal: int = 0
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
    start_time: datetime | None = None
    """When the node took it on; its active deadline counts from here."""
    init_container_statuses: tuple[ContainerStatus, ...] = ()
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

    @property
    def began(self) -> bool:
        """Whether any of its containers runs or has run."""
        return any(status.state.running or status.state.terminated for status in self._statuses)

    @property
    def ran(self) -> bool:
        """Whether any of its containers has been started in fact: one that was only called off has no start."""
        states = [status.state for status in self._statuses]
        return any(state.running or (state.terminated and state.terminated.started_at) for state in states)

    @property
    def starting(self) -> float | None:
        """How many seconds it took from its creation until the first of its containers ran; None where none did."""
        running = (status.state.running for status in self._statuses)
        ended = (status.state.terminated for status in self._statuses)
        times = [state.started_at for state in (*running, *ended) if state is not None and state.started_at is not None]
        created = self.metadata.creation_timestamp
        return max(0.0, (min(times) - created).total_seconds()) if times and created is not None else None

    def terminated(self, container: str) -> ContainerTerminated | None:
        """How the named container, an init container or not, ended, or None while it has not."""
        for status in self._statuses:
            if status.name == container:
                return status.state.terminated
        return None

    def variable(self, name: str) -> str:
        """The value of an environment variable in the first container that has it; empty where none has."""
        for container in (*self.spec.containers, *self.spec.init_containers):
            for variable in container.env:
                if variable.name == name:
                    return variable.value
        return ""

    def why_waiting(self) -> str:
        """Why it has not started, as the node or the scheduler says it; empty where neither says anything."""
        return _sentence(*(self.waiting_for() or ("", "")))

    def waiting_for(self) -> tuple[str, str] | None:
        """The reason and the message of what it waits for; None where neither node nor scheduler says anything."""
        for status in self._statuses:
            waiting = status.state.waiting
            if waiting is not None and waiting.reason not in {"", "ContainerCreating", "PodInitializing"}:
                return waiting.reason, waiting.message
        for condition in self.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                return condition.reason, condition.message
        return None

    @property
    def _statuses(self) -> tuple[ContainerStatus, ...]:
        return (*self.status.init_container_statuses, *self.status.container_statuses)


def _sentence(reason: str, message: str) -> str:
    return f"{reason}: {message}" if reason and message else reason or message
