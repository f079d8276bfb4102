"""The part of a PodSpec that the schema of a workload for edge devices knows: what no agent can do is refused at once.

Only published: a workload is decoded with its PodSpec as it was written, and the server keeps what is not named here.
`edge_rules` asks more of it, and of what was stored before.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, TypeAlias

from edgewright.api.annotations import Rule, Schema
from edgewright.runtime.objects import Struct

NODE_EXPORTER: Final = 9100
"""The port on which a device has its own metrics."""
IMPOSSIBLE: Final = "is not possible on a device: leave it out"
"""What is said of a field that no agent can act on."""
TAKEN_PORT: Final = f"{NODE_EXPORTER} is the device's own: choose another port"
ONLY_HOST_PATH: Final = "only hostPath is possible on a device"

Port: TypeAlias = Annotated[int, Schema(minimum=0, maximum=65535)]
Free: TypeAlias = dict[str, Any]

_NAMES: Final = (
    "(self.containers.map(each, each.name) +"
    " (has(self.initContainers) ? self.initContainers.map(each, each.name) : []))"
)


def _impossible(*fields: str) -> Schema:
    """An object that may have none of these fields; empty it may stay, as many programs write it."""
    rule = " && ".join(f"!has(self.{field})" for field in fields)
    refused = Rule(rule=rule, message=IMPOSSIBLE, reason="FieldValueForbidden")
    return Schema(preserve_unknown_fields=True, rules=(refused,))


class Lifecycle(Struct, frozen=True, kw_only=True):
    """Not possible on a device."""

    object_schema: ClassVar[Schema] = _impossible("postStart", "preStop", "stopSignal")

    post_start: Free = {}
    """Not possible on a device."""
    pre_stop: Free = {}
    """Not possible on a device."""
    stop_signal: str = ""
    """Not possible on a device."""


class Probe(Struct, frozen=True, kw_only=True):
    """Not possible on a device."""

    object_schema: ClassVar[Schema] = _impossible("exec", "httpGet", "tcpSocket", "grpc")

    exec: Free = {}
    """Not possible on a device."""
    http_get: Free = {}
    """Not possible on a device."""
    tcp_socket: Free = {}
    """Not possible on a device."""
    grpc: Free = {}
    """Not possible on a device."""


class Resources(Struct, frozen=True, kw_only=True):
    """Not possible on a device."""

    object_schema: ClassVar[Schema] = _impossible("limits", "requests", "claims")

    limits: Free = {}
    """Not possible on a device."""
    requests: Free = {}
    """Not possible on a device."""
    claims: tuple[Free, ...] = ()
    """Not possible on a device."""


class VariableSource(Struct, frozen=True, kw_only=True):
    """Where the value of a variable comes from: a Secret or a ConfigMap."""

    object_schema: ClassVar[Schema] = _impossible("fieldRef", "resourceFieldRef")

    field_ref: Free = {}
    """Not possible on a device."""
    resource_field_ref: Free = {}
    """Not possible on a device."""


class Variable(Struct, frozen=True, kw_only=True):
    """A variable of a container's environment."""

    object_schema: ClassVar[Schema] = Schema(preserve_unknown_fields=True)

    value_from: VariableSource = VariableSource()
    """Where its value comes from: a Secret or a ConfigMap."""


class ContainerPort(Struct, frozen=True, kw_only=True):
    """A port of a container."""

    object_schema: ClassVar[Schema] = Schema(preserve_unknown_fields=True)

    host_port: Annotated[Port, Schema(rules=(Rule(rule=f"self != {NODE_EXPORTER}", message=TAKEN_PORT),))] = 0
    """The port of the device that leads to it."""


class Container(Struct, frozen=True, kw_only=True):
    """A container of the pod."""

    object_schema: ClassVar[Schema] = Schema(preserve_unknown_fields=True)

    name: Annotated[str, Schema(min_length=1, max_length=253, required=True)] = ""
    """Its name, which no other container of the pod has."""
    env: Annotated[tuple[Variable, ...], Schema(max_items=2000)] = ()
    """Its environment."""
    ports: Annotated[tuple[ContainerPort, ...], Schema(max_items=2000)] = ()
    """Its ports."""
    lifecycle: Lifecycle = Lifecycle()
    """Not possible on a device."""
    liveness_probe: Probe = Probe()
    """Not possible on a device."""
    readiness_probe: Probe = Probe()
    """Not possible on a device."""
    startup_probe: Probe = Probe()
    """Not possible on a device."""
    volume_devices: Annotated[
        tuple[Free, ...],
        Schema(rules=(Rule(rule="self.size() == 0", message=IMPOSSIBLE, reason="FieldValueForbidden"),)),
    ] = ()
    """Not possible on a device."""
    resources: Resources = Resources()
    """Not possible on a device."""


class Volume(Struct, frozen=True, kw_only=True):
    """A directory of the device that containers of the pod mount."""

    object_schema: ClassVar[Schema] = Schema(
        preserve_unknown_fields=True, rules=(Rule(rule="has(self.hostPath)", message=ONLY_HOST_PATH),)
    )

    host_path: Free = {}
    """Where it is."""


Containers: TypeAlias = Annotated[tuple[Container, ...], Schema(max_items=50)]


class WorkloadPodSpec(Struct, frozen=True, kw_only=True):
    """A PodSpec; fields that are not named here are for podman to judge."""

    object_schema: ClassVar[Schema] = Schema(
        preserve_unknown_fields=True,
        rules=(
            Rule(
                rule=f"{_NAMES}.all(name, {_NAMES}.exists_one(other, other == name))",
                message="two containers have one name",
            ),
        ),
    )

    containers: Annotated[Containers, Schema(min_items=1, required=True)] = ()
    """Its containers."""
    init_containers: Containers = ()
    """Containers that end before those start."""
    volumes: Annotated[tuple[Volume, ...], Schema(max_items=200)] = ()
    """Directories of the device."""
