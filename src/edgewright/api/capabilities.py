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
from edgewright.api.edgeaccess import EdgeExecRequest, EdgeLogRequest
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedeviceset import EdgeDeviceGroup, EdgeDeviceSet
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.api.edgeheartbeatshard import EdgeHeartbeatShard
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload
from edgewright.api.edgeworkloadrevision import EdgeWorkloadRevision
from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.api.flashjob import FlashJob
from edgewright.api.fleet import Fleet
from edgewright.api.flux import Flux
from edgewright.api.fluxsetup import FluxSetup
from edgewright.api.minicluster import MiniCluster

READ: Final = ("get", "list", "watch")
"""The verbs of a cache."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A right in all namespaces, as a ClusterRole grants it, and why the operator needs it."""

    groups: tuple[str, ...] = ("",)
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    switch: str = ""
    """The value of the chart that takes the right away where it is false; empty: it is always granted."""


@dataclass(frozen=True, kw_only=True)
class Capability:
    """One thing that the operator does, which an installation has or has not."""

    name: str
    summary: str
    kinds: tuple[type[CustomResource], ...] = ()
    rules: tuple[Rule, ...] = ()


SECRET_CHECK: Final = Rule(
    resources=("secrets",),
    verbs=("get",),
    why="sees whether the Secrets that a job names have their keys; --no-check-secrets does without",
    switch="flashjob.checkSecrets",
)

FLASHJOB: Final = Capability(
    name="flashjob",
    summary="firmware for microcontrollers: FlashJob, and the inventory of Devices",
    kinds=(FlashJob, Device),
    rules=(
        Rule(
            groups=(FlashJob.kind.group,),
            resources=(FlashJob.kind.plural,),
            verbs=(*READ, "patch", "delete"),
            why="reads the jobs, puts its finalizer on them, and deletes those whose ttl is over",
        ),
        Rule(
            groups=(FlashJob.kind.group,),
            resources=(f"{FlashJob.kind.plural}/status",),
            verbs=("patch",),
            why="writes the status",
        ),
        Rule(
            groups=(FlashJob.kind.group,),
            resources=(f"{FlashJob.kind.plural}/finalizers",),
            verbs=("update",),
            why="owns the Pods and Services of a job",
        ),
        Rule(
            groups=(Device.kind.group,),
            resources=(Device.kind.plural,),
            verbs=(*READ, "create", "patch"),
            why="keeps the inventory: one Device per physical device",
        ),
        Rule(
            groups=(Device.kind.group,),
            resources=(f"{Device.kind.plural}/status",),
            verbs=("patch",),
            why="writes the claim of a Device and its records",
        ),
        Rule(groups=("akri.sh",), resources=("instances",), verbs=READ, why="finds the devices that Akri discovered"),
        Rule(
            resources=("pods",),
            verbs=(*READ, "create", "patch", "delete"),
            why="runs one flash Pod per device",
        ),
        Rule(
            resources=("services",),
            verbs=(*READ, "create", "delete"),
            why="gives each flash Pod a Service, at which its device finds it",
        ),
        Rule(
            groups=(Fleet.kind.group,),
            resources=(Fleet.kind.plural, FirmwareRollout.kind.plural),
            verbs=READ,
            why="starts no device while the fleet is frozen, nor beyond the limits of the rollout that a job is of",
        ),
        SECRET_CHECK,
        Rule(resources=("namespaces", "nodes"), verbs=("get",), why="sees whether a namespace goes and a node is out"),
        Rule(
            groups=("coordination.k8s.io",),
            resources=("leases",),
            verbs=("get", "list"),
            why="waits while the original FlashJob operator holds its Lease",
        ),
    ),
)

ROLLOUT: Final = Capability(
    name="rollout",
    summary="firmware for whole fleets, step by step: FirmwareRollout, and Fleet, the switch that stops all",
    kinds=(FirmwareRollout, Fleet),
    rules=(
        Rule(
            groups=(FirmwareRollout.kind.group,),
            resources=(FirmwareRollout.kind.plural,),
            verbs=(*READ, "create", "patch", "delete"),
            why="reads the rollouts, creates the one that recalls another, deletes those whose ttl is over, and notes "
            "on them what webhooks have told",
        ),
        Rule(
            groups=(FirmwareRollout.kind.group,),
            resources=(f"{FirmwareRollout.kind.plural}/status",),
            verbs=("patch",),
            why="writes the status",
        ),
        Rule(
            groups=(FirmwareRollout.kind.group,),
            resources=(f"{FirmwareRollout.kind.plural}/finalizers",),
            verbs=("update",),
            why="owns the FlashJobs of a rollout",
        ),
        Rule(
            groups=(FlashJob.kind.group,),
            resources=(FlashJob.kind.plural,),
            verbs=(*READ, "create", "patch", "delete"),
            why="creates the FlashJobs of each batch",
        ),
        Rule(groups=(Device.kind.group,), resources=(Device.kind.plural,), verbs=READ, why="selects the devices"),
    ),
)

FLUX: Final = Capability(
    name="flux",
    summary="Flux mini-clusters: MiniCluster, Flux and FluxSetup",
    kinds=(Flux, FluxSetup, MiniCluster),
    rules=(
        Rule(
            groups=(Flux.kind.group,),
            resources=(Flux.kind.plural, FluxSetup.kind.plural),
            verbs=READ,
            why="reads what is to run, and how it is set up",
        ),
        Rule(
            groups=(Flux.kind.group,),
            resources=(MiniCluster.kind.plural,),
            verbs=(*READ, "delete"),
            why="reads what is to run, and deletes what is to be cleaned up when its command has ended",
        ),
        Rule(
            groups=(Flux.kind.group,),
            resources=tuple(f"{each.kind.plural}/status" for each in (Flux, FluxSetup, MiniCluster)),
            verbs=("patch",),
            why="writes the status",
        ),
        Rule(
            groups=(Flux.kind.group,),
            resources=tuple(f"{each.kind.plural}/finalizers" for each in (Flux, MiniCluster)),
            verbs=("update",),
            why="owns the objects of a mini-cluster",
        ),
        Rule(
            resources=("configmaps", "services"),
            verbs=(*READ, "create", "patch", "delete"),
            why="keeps the brokers' configuration, their names, and the Service of a command that serves a port",
        ),
        Rule(
            groups=("apps",),
            resources=("statefulsets",),
            verbs=(*READ, "create", "patch", "delete"),
            why="runs the workers of a Flux",
        ),
        Rule(
            groups=("batch",),
            resources=("jobs",),
            verbs=(*READ, "create", "patch", "delete"),
            why="runs the Pods of a MiniCluster, and the launcher of a Flux",
        ),
        Rule(
            resources=("pods",),
            verbs=(*READ, "create", "delete"),
            why="sees why a broker does not start and how the command ended, and runs the services of a MiniCluster",
        ),
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
    kinds=(
        EdgeDevice,
        EdgeDeployment,
        EdgeWorkload,
        EdgeDeviceGroup,
        EdgeDeviceSet,
        EdgeDeviceSignedRequest,
        EdgeHeartbeatShard,
        EdgeWorkloadRevision,
        EdgeLogRequest,
        EdgeExecRequest,
    ),
    rules=(
        Rule(
            groups=(_EDGE_GROUP,),
            resources=(EdgeDevice.kind.plural,),
            verbs=(*READ, "create", "patch"),
            why="creates the devices of approved requests, and keeps their labels and finalizers",
        ),
        Rule(
            groups=(_EDGE_GROUP,),
            resources=tuple(
                kind.kind.plural
                for kind in (EdgeDeployment, EdgeWorkload, EdgeDeviceGroup, EdgeDeviceSet, EdgeDeviceSignedRequest)
            ),
            verbs=(*READ, "patch"),
            why="matches workloads and sets to devices, and puts its finalizer on them",
        ),
        Rule(
            groups=(_EDGE_GROUP,),
            resources=(EdgeDeviceSignedRequest.kind.plural,),
            verbs=("create",),
            why="records a device that was decommissioned, so that it does not come back by itself",
        ),
        Rule(
            groups=(EdgeHeartbeatShard.kind.group,),
            resources=(EdgeHeartbeatShard.kind.plural,),
            verbs=(*READ, "delete"),
            why="decides who is offline, and removes the shards of replicas that are gone",
        ),
        Rule(
            groups=(EdgeWorkloadRevision.kind.group,),
            resources=(EdgeWorkloadRevision.kind.plural,),
            verbs=(*READ, "create", "patch", "delete"),
            why="keeps the versions of workloads, and which devices have got which",
        ),
        Rule(
            groups=(EdgeLogRequest.kind.group,),
            resources=(EdgeLogRequest.kind.plural, EdgeExecRequest.kind.plural),
            verbs=("list",),
            why="sees that their kinds are served; the gateway does the rest",
        ),
        Rule(
            groups=(_EDGE_GROUP,),
            resources=tuple(
                f"{kind.kind.plural}/status"
                for kind in (
                    EdgeDevice,
                    EdgeDeployment,
                    EdgeWorkload,
                    EdgeDeviceGroup,
                    EdgeDeviceSet,
                    EdgeDeviceSignedRequest,
                )
            ),
            verbs=("patch",),
            why="writes their status: workloads, claims, and what matches",
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
        resources=(EdgeDevice.kind.plural,),
        verbs=("create", "patch"),
        why="creates the EdgeDevice of a device that registers",
    ),
    Rule(
        groups=(_EDGE_GROUP,),
        resources=(f"{EdgeDevice.kind.plural}/status",),
        verbs=("patch",),
        why="writes what the heartbeats of a device tell",
    ),
    Rule(
        groups=(_EDGE_GROUP,),
        resources=(EdgeDeviceSignedRequest.kind.plural,),
        verbs=(*READ, "create", "patch"),
        why="records devices that ask to be let in, and those that were told to go",
    ),
    Rule(
        groups=(EdgeHeartbeatShard.kind.group,),
        resources=(EdgeHeartbeatShard.kind.plural,),
        verbs=("list", "create", "patch"),
        why="sees that their kind is served, and writes when it heard which devices",
    ),
    Rule(
        groups=(EdgeWorkloadRevision.kind.group,),
        resources=(EdgeWorkloadRevision.kind.plural,),
        verbs=READ,
        why="sends each device the version of a workload that is its own",
    ),
    Rule(
        groups=(EdgeLogRequest.kind.group,),
        resources=(EdgeLogRequest.kind.plural, EdgeExecRequest.kind.plural),
        verbs=(*READ, "delete"),
        why="hands requests for logs and commands to devices, and removes old ones",
    ),
    Rule(
        groups=(EdgeLogRequest.kind.group,),
        resources=(f"{EdgeLogRequest.kind.plural}/status", f"{EdgeExecRequest.kind.plural}/status"),
        verbs=("patch",),
        why="writes what devices answer to them",
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

CAPABILITIES: Final = (FLASHJOB, ROLLOUT, FLUX, EDGE, CHARTS)
"""All that there are, in the order in which they are named to people."""


def kinds_of(capabilities: Iterable[Capability]) -> tuple[type[CustomResource], ...]:
    """The kinds that these bring, each once."""
    return tuple(dict.fromkeys(kind for each in capabilities for kind in each.kinds))


def console_rules() -> tuple[Rule, ...]:
    """What the console's shared cache reads of our kinds, with the console's own rights; it never writes."""
    groups: dict[str, list[str]] = {}
    for each in kinds_of(CAPABILITIES):
        groups.setdefault(each.kind.group, []).append(each.kind.plural)
    return tuple(
        Rule(groups=(group,), resources=tuple(plurals), verbs=("list", "watch"), why="reads them once for all callers")
        for group, plurals in groups.items()
    )


def named(names: Iterable[str]) -> tuple[Capability, ...]:
    """The capabilities of these names, in our order; ValueError says which name is unknown and which there are."""
    wanted = set(names)
    known = [each.name for each in CAPABILITIES]
    if unknown := sorted(wanted.difference(known)):
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(known)}")
    return tuple(each for each in CAPABILITIES if each.name in wanted)
