"""What podman tells of pods, containers, secrets and volumes, as structs with only the fields that callers use.

`podman` decodes them from podman's JSON, where unknown fields are ignored and null stands for an empty list.
"""

from __future__ import annotations

from typing import Final

import msgspec

RUNNING: Final = "Running"
"""The state of a pod all of whose containers run."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container of a pod."""

    id: str = msgspec.field(name="Id", default="")
    name: str = msgspec.field(name="Names", default="")
    status: str = msgspec.field(name="Status", default="")
    """created, running, exited …"""


class Executed(msgspec.Struct, frozen=True, kw_only=True):
    """How a command in a container ended."""

    exit_code: int
    output: bytes
    """What it printed, on both of its outputs."""
    truncated: bool = False
    """Whether it printed more."""


class ContainerState(msgspec.Struct, frozen=True, kw_only=True):
    """How a container is."""

    status: str = msgspec.field(name="Status", default="")
    """created, running, exited …"""
    exit_code: int = msgspec.field(name="ExitCode", default=0)
    error: str = msgspec.field(name="Error", default="")
    """Why it could not be started."""
    oom_killed: bool = msgspec.field(name="OOMKilled", default=False)
    started_at: str = msgspec.field(name="StartedAt", default="")
    finished_at: str = msgspec.field(name="FinishedAt", default="")
    pid: int = msgspec.field(name="Pid", default=0)
    monitor: int = msgspec.field(name="ConmonPid", default=0)
    """The process of podman's that watches over it, and ends after it."""


class ContainerNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """A container in one network."""

    ip_address: str = msgspec.field(name="IPAddress", default="")


class ContainerNetworks(msgspec.Struct, frozen=True, kw_only=True):
    """The networks of a container."""

    networks: dict[str, ContainerNetwork] | None = msgspec.field(name="Networks", default=None)


class ContainerDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What podman knows of one container."""

    id: str = msgspec.field(name="Id", default="")
    name: str = msgspec.field(name="Name", default="")
    restarts: int = msgspec.field(name="RestartCount", default=0)
    state: ContainerState = msgspec.field(name="State", default_factory=ContainerState)
    network: ContainerNetworks = msgspec.field(name="NetworkSettings", default_factory=ContainerNetworks)

    @property
    def address(self) -> str:
        """Its address in the first network that it is in; empty where it is in none."""
        return next((each.ip_address for each in (self.network.networks or {}).values() if each.ip_address), "")


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as the list of pods shows it."""

    id: str = msgspec.field(name="Id", default="")
    name: str = msgspec.field(name="Name", default="")
    status: str = msgspec.field(name="Status", default="")
    """Created, Running, Degraded, Exited, Stopped, Paused, Dead or Error."""
    created: str = msgspec.field(name="Created", default="")
    infra_id: str = msgspec.field(name="InfraId", default="")
    networks: list[str] | None = msgspec.field(name="Networks", default=None)
    labels: dict[str, str] | None = msgspec.field(name="Labels", default=None)
    containers: list[Container] | None = msgspec.field(name="Containers", default=None)

    def label(self, name: str) -> str | None:
        """The value of one label; None where the pod does not carry it."""
        return (self.labels or {}).get(name)

    @property
    def workers(self) -> tuple[Container, ...]:
        """Its containers without the one that only holds the namespaces."""
        return tuple(each for each in self.containers or () if each.id != self.infra_id)


class PlayedPod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that was made from a manifest."""

    id: str = msgspec.field(name="ID", default="")
    containers: list[str] | None = msgspec.field(name="Containers", default=None)
    errors: list[str] | None = msgspec.field(name="ContainerErrors", default=None)
    """Why containers of it could not be started."""


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a manifest."""

    pods: list[PlayedPod] | None = msgspec.field(name="Pods", default=None)

    @property
    def errors(self) -> tuple[str, ...]:
        """Why containers could not be started, in podman's words."""
        return tuple(text for pod in self.pods or () for text in pod.errors or ())


class _Named(msgspec.Struct, frozen=True, kw_only=True):
    name: str = msgspec.field(name="Name", default="")


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret; podman does not give its content back."""

    id: str = msgspec.field(name="ID", default="")
    spec: _Named = msgspec.field(name="Spec", default_factory=_Named)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.spec.name


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """A named volume."""

    name: str = msgspec.field(name="Name", default="")
    mountpoint: str = msgspec.field(name="Mountpoint", default="")
    labels: dict[str, str] | None = msgspec.field(name="Labels", default=None)


class ImageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What an image says of the containers made from it."""

    user: str = msgspec.field(name="User", default="")
    stop_signal: str = msgspec.field(name="StopSignal", default="")


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image that podman has."""

    id: str = msgspec.field(name="Id", default="")
    digests: list[str] | None = msgspec.field(name="RepoDigests", default=None)
    config: ImageConfig = msgspec.field(name="Config", default_factory=ImageConfig)


class Subnet(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of a network."""

    subnet: str = ""
    gateway: str = ""


class ContainerNetworkDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A network that containers can be in."""

    name: str = ""
    interface: str = msgspec.field(name="network_interface", default="")
    """The bridge on this machine; it is there as long as a container is in the network."""
    subnets: list[Subnet] | None = None


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """Which podman answers."""

    version: str = msgspec.field(name="Version", default="")
    api_version: str = msgspec.field(name="ApiVersion", default="")
