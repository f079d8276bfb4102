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


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """Which podman answers."""

    version: str = msgspec.field(name="Version", default="")
    api_version: str = msgspec.field(name="ApiVersion", default="")
