"""What the operator can do, by name: each capability with the kinds that it brings and the rights that it needs.

`edgewright run --controllers`, `edgewright crds` and the manifests in config/ read these, so that an installation of
one capability has the kinds and the rights of that one alone. A capability is declared here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from edgewright.api.crd import CustomResource
from edgewright.api.device import Device
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedeviceset import EdgeDeviceGroup, EdgeDeviceSet
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload
from edgewright.api.flashjob import FlashJob
from edgewright.api.flux import Flux
from edgewright.api.fluxsetup import FluxSetup

READ: Final = ("get", "list", "watch")
"""The verbs of a cache."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A right in all namespaces, as a ClusterRole grants it, and why the operator needs it."""

    groups: tuple[str, ...] = ("",)
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str


@dataclass(frozen=True, kw_only=True)
class Capability:
    """One thing that the operator does, which an installation has or has not."""

    name: str
    summary: str
    kinds: tuple[type[CustomResource], ...] = ()
    rules: tuple[Rule, ...] = ()


FLASHJOB: Final = Capability(
    name="flashjob",
    summary="firmware for microcontrollers: FlashJob, and the inventory of Devices",
    kinds=(FlashJob, Device),
    rules=(
        Rule(
            groups=(FlashJob.kind.group,),
            resources=(FlashJob.kind.plural,),
            verbs=(*READ, "patch", "update", "delete"),
            why="reads the jobs, puts its finalizer on them, and deletes those whose ttl is over",
        ),
        Rule(
            groups=(FlashJob.kind.group,),
            resources=(f"{FlashJob.kind.plural}/status", f"{FlashJob.kind.plural}/finalizers"),
            verbs=("get", "patch", "update"),
            why="writes the status, and owns the Pods and Services of a job",
        ),
        Rule(
            groups=(Device.kind.group,),
            resources=(Device.kind.plural, f"{Device.kind.plural}/status"),
            verbs=(*READ, "create", "patch", "update", "delete"),
            why="keeps the inventory: one Device per physical device, its claim and its records",
        ),
        Rule(groups=("akri.sh",), resources=("instances",), verbs=READ, why="finds the devices that Akri discovered"),
        Rule(
            resources=("pods", "services"),
            verbs=(*READ, "create", "patch", "update", "delete"),
            why="runs one flash Pod behind one Service per device",
        ),
        Rule(resources=("secrets",), verbs=("get",), why="sees whether the Secrets that a job names have their keys"),
        Rule(resources=("namespaces", "nodes"), verbs=("get",), why="sees whether a namespace goes and a node is out"),
        Rule(
            groups=("coordination.k8s.io",),
            resources=("leases",),
            verbs=("get", "list"),
            why="waits while the original FlashJob operator holds its Lease",
        ),
    ),
)

FLUX: Final = Capability(
    name="flux",
    summary="Flux mini-clusters: Flux and FluxSetup",
    kinds=(Flux, FluxSetup),
    rules=(
        Rule(
            groups=(Flux.kind.group,),
            resources=(Flux.kind.plural, FluxSetup.kind.plural),
            verbs=READ,
            why="reads what is to run, and how it is set up",
        ),
        Rule(
            groups=(Flux.kind.group,),
            resources=(f"{Flux.kind.plural}/status", f"{FluxSetup.kind.plural}/status"),
            verbs=("get", "patch", "update"),
            why="writes the status",
        ),
        Rule(
            groups=(Flux.kind.group,),
            resources=(f"{Flux.kind.plural}/finalizers",),
            verbs=("update",),
            why="owns the objects of a mini-cluster",
        ),
        Rule(
            resources=("configmaps", "services"),
            verbs=(*READ, "create", "patch", "update", "delete"),
            why="keeps the brokers' configuration, their names, and the Service of a command that serves a port",
        ),
        Rule(
            groups=("apps",),
            resources=("statefulsets",),
            verbs=(*READ, "create", "patch", "update", "delete"),
            why="runs the workers",
        ),
        Rule(
            groups=("batch",),
            resources=("jobs",),
            verbs=(*READ, "create", "patch", "update", "delete"),
            why="runs the launcher",
        ),
        Rule(resources=("pods",), verbs=READ, why="sees why a worker does not start, and how the command ended"),
        Rule(
            resources=("secrets",),
            verbs=("get", "create", "patch"),
            why="keeps the certificate by which the brokers of a mini-cluster know each other, by its name",
        ),
    ),
)

_EDGE_GROUP: Final = EdgeDevice.kind.group

EDGE: Final = Capability(
    name="edge",
    summary="Linux edge devices with an agent: EdgeDevice, EdgeWorkload, EdgeDeviceSet, and their first names",
    kinds=(EdgeDevice, EdgeDeployment, EdgeWorkload, EdgeDeviceGroup, EdgeDeviceSet, EdgeDeviceSignedRequest),
    rules=(
        Rule(
            groups=(_EDGE_GROUP,),
            resources=(EdgeDevice.kind.plural, f"{EdgeDevice.kind.plural}/status"),
            verbs=(*READ, "create", "patch", "update"),
            why="makes the devices of approved requests, and keeps their labels, finalizers, claims and workloads",
        ),
        Rule(
            groups=(_EDGE_GROUP,),
            resources=tuple(
                f"{kind.kind.plural}{part}"
                for kind in (EdgeDeployment, EdgeWorkload, EdgeDeviceGroup, EdgeDeviceSet, EdgeDeviceSignedRequest)
                for part in ("", "/status")
            ),
            verbs=(*READ, "patch", "update"),
            why="matches workloads and sets to devices, puts its finalizer on them and writes their status",
        ),
        Rule(
            groups=("objectbucket.io",),
            resources=("objectbucketclaims",),
            verbs=("get", "list", "create"),
            why="claims a bucket for the data of each device, where that kind is installed",
        ),
    ),
)

CHARTS: Final = Capability(
    name="charts",
    summary="Helm charts as custom resources: the kinds of a watches file",
    rules=(
        Rule(
            resources=("secrets",),
            verbs=("get", "create", "update", "patch", "delete"),
            why="stores releases as Helm does; listing them is granted per namespace, by a RoleBinding",
        ),
    ),
)
"""Its kinds, and the rights on them and on what their charts hold, come with the watches file: `edgewright chart init`
writes both."""

GATEWAY_RULES: Final = (
    Rule(
        groups=(_EDGE_GROUP,),
        resources=tuple(
            kind.kind.plural for kind in (EdgeDeployment, EdgeWorkload, EdgeDeviceGroup, EdgeDeviceSet, EdgeDevice)
        ),
        verbs=READ,
        why="assembles the configuration of each device",
    ),
    Rule(
        groups=(_EDGE_GROUP,),
        resources=(EdgeDevice.kind.plural, f"{EdgeDevice.kind.plural}/status"),
        verbs=("create", "patch"),
        why="makes the EdgeDevice of a device that registers, and writes what its heartbeats tell",
    ),
    Rule(
        groups=(_EDGE_GROUP,),
        resources=(EdgeDeviceSignedRequest.kind.plural,),
        verbs=(*READ, "create"),
        why="records devices that ask to be let in",
    ),
    Rule(
        resources=("secrets",),
        verbs=("get", "create", "patch"),
        why="keeps its authority and certificates, and reads the Secrets that workloads name; it lists none",
    ),
    Rule(resources=("configmaps",), verbs=("get",), why="reads the ConfigMaps that workloads and devices name"),
    Rule(resources=("events",), verbs=("get", "create", "patch"), why="tells what happens on devices"),
)
"""What the gateway may do under a ServiceAccount of its own: a Role in each namespace that devices may be in."""

SHARED: Final = (
    Rule(
        resources=("events",),
        verbs=("create", "patch"),
        why="tells as Events what happens to an object, in the object's namespace",
    ),
)
"""The rights that the operator needs for each capability, whichever there are."""

CAPABILITIES: Final = (FLASHJOB, FLUX, EDGE, CHARTS)
"""All that there are, in the order in which they are named to people."""


def kinds_of(capabilities: Iterable[Capability]) -> tuple[type[CustomResource], ...]:
    """The kinds that these bring, each once."""
    return tuple(dict.fromkeys(kind for each in capabilities for kind in each.kinds))


def named(names: Iterable[str]) -> tuple[Capability, ...]:
    """The capabilities of these names, in our order; ValueError says which name is unknown and which there are."""
    wanted = set(names)
    known = [each.name for each in CAPABILITIES]
    if unknown := sorted(wanted.difference(known)):
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(known)}")
    return tuple(each for each in CAPABILITIES if each.name in wanted)
