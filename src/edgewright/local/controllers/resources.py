"""The built-in kinds as the in-process controllers read them: structs with only the fields that they act on.

Every module of `controllers`, and `node.services`, asks the manager for caches of these. They are only read: what a
controller writes is a patch or a plain object, so fields that are not here are never lost.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec

from edgewright.runtime import Condition, Kind, Resource, Struct


class NamespaceSpec(Struct, frozen=True, gc=False, kw_only=True):
    """What holds a Namespace that is being deleted."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Struct, frozen=True, gc=False, kw_only=True):
    """Whether a Namespace is in use or going, and why it is not gone yet."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Resource, frozen=True, gc=False, kw_only=True):
    """A part of the cluster that goes with everything in it."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ServiceAccount(Resource, frozen=True, gc=False, kw_only=True):
    """What a Pod says it is."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts")


class ConfigMap(Resource, frozen=True, gc=False, kw_only=True):
    """Settings as text."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")

    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class Requirement(Struct, frozen=True, gc=False, kw_only=True):
    """One term of a selector: a key, an operator (In, NotIn, Exists, DoesNotExist, Gt, Lt) and values."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeTerm(Struct, frozen=True, gc=False, kw_only=True):
    """Requirements on a Node that must all be met."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeTerms(Struct, frozen=True, gc=False, kw_only=True):
    """Terms of which one must be met."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


class NodeAffinity(Struct, frozen=True, gc=False, kw_only=True):
    """The Nodes on which a Pod may run; what it merely prefers is not looked at."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None


class Affinity(Struct, frozen=True, gc=False, kw_only=True):
    """The part of a Pod's affinity that is about Nodes."""

    node_affinity: NodeAffinity | None = None


class Toleration(Struct, frozen=True, gc=False, kw_only=True):
    """A taint that a Pod does not mind."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class ContainerPort(Struct, frozen=True, gc=False, kw_only=True):
    """A port that a container names."""

    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class Container(Struct, frozen=True, gc=False, kw_only=True):
    """The ports of a container; an init container that always restarts serves too."""

    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class SchedulingGate(Struct, frozen=True, gc=False, kw_only=True):
    """Something that a Pod waits for before it may get a Node."""

    name: str = ""


class ClaimSource(Struct, frozen=True, gc=False, kw_only=True):
    """The claim that a volume is."""

    claim_name: str = ""


class Volume(Struct, frozen=True, gc=False, kw_only=True):
    """A volume of a Pod; only claims are looked at."""

    persistent_volume_claim: ClaimSource | None = None


class PodSpec(Struct, frozen=True, gc=False, kw_only=True):
    """Where a Pod may run and what it serves."""

    node_name: str = ""
    scheduler_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None


class PodIP(Struct, frozen=True, gc=False, kw_only=True):
    """One address of a Pod."""

    ip: str = ""


class Terminated(Struct, frozen=True, gc=False, kw_only=True):
    """How a container ended."""

    exit_code: int = 0
    finished_at: datetime | None = None


class ContainerState(Struct, frozen=True, gc=False, kw_only=True):
    """What a container does; only its end is looked at."""

    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True, gc=False, kw_only=True):
    """How a container is doing."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True, gc=False, kw_only=True):
    """How a Pod is doing."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ips: tuple[PodIP, ...] = msgspec.field(name="podIPs", default=())


class Pod(Resource, frozen=True, gc=False, kw_only=True):
    """Containers that run together on a Node."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Pod", plural="pods")

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """Whether its Ready condition says so."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class Taint(Struct, frozen=True, gc=False, kw_only=True):
    """What keeps Pods away from a Node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True, gc=False, kw_only=True):
    """Whether and for whom a Node is open."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Struct, frozen=True, gc=False, kw_only=True):
    """How a Node is doing."""

    conditions: tuple[Condition, ...] = ()


class Node(Resource, frozen=True, gc=False, kw_only=True):
    """A machine that runs Pods."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether its Ready condition says so."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class ServicePort(Struct, frozen=True, gc=False, kw_only=True):
    """A port of a Service and the port of its Pods that it leads to, by number or by name."""

    name: str = ""
    protocol: str = "TCP"
    app_protocol: str | None = None
    port: int = 0
    target_port: int | str = 0
    node_port: int = 0


class ServiceSpec(Struct, frozen=True, gc=False, kw_only=True):
    """Which Pods serve, and at which addresses."""

    type: str = "ClusterIP"
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    publish_not_ready_addresses: bool = False
    load_balancer_ip: str = msgspec.field(name="loadBalancerIP", default="")
    load_balancer_class: str | None = None
    load_balancer_source_ranges: tuple[str, ...] = ()


class Ingress(Struct, frozen=True, gc=False, kw_only=True):
    """An address at which a Service is reached from outside."""

    ip: str = ""
    hostname: str = ""


class LoadBalancerStatus(Struct, frozen=True, gc=False, kw_only=True):
    """The addresses of a Service of type LoadBalancer."""

    ingress: tuple[Ingress, ...] = ()


class ServiceStatus(Struct, frozen=True, gc=False, kw_only=True):
    """Where a Service can be reached."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Service(Resource, frozen=True, gc=False, kw_only=True):
    """A name and addresses for the Pods that a selector finds."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Service", plural="services")

    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class EndpointConditions(Struct, frozen=True, gc=False, kw_only=True):
    """Whether an endpoint takes connections; what is not said counts as yes for ready and serving."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class TargetReference(Struct, frozen=True, gc=False, kw_only=True):
    """The Pod behind an endpoint."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Endpoint(Struct, frozen=True, gc=False, kw_only=True):
    """One who serves."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    node_name: str | None = None
    target_ref: TargetReference | None = None
    zone: str | None = None


class EndpointPort(Struct, frozen=True, gc=False, kw_only=True):
    """A port at which all endpoints of a slice serve."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class EndpointSlice(Resource, frozen=True, gc=False, kw_only=True):
    """Some of the endpoints of a Service, all with the same ports."""

    kind: ClassVar[Kind] = Kind(group="discovery.k8s.io", version="v1", kind="EndpointSlice", plural="endpointslices")

    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = ()
    ports: tuple[EndpointPort, ...] | None = ()


class EventSeries(Struct, frozen=True, gc=False, kw_only=True):
    """When an Event that goes on was seen last."""

    last_observed_time: datetime | None = None


class OldEvent(Resource, frozen=True, gc=False, kw_only=True):
    """When an Event happened, in each of the places where that may be said."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Event", plural="events")

    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: EventSeries | None = None


class CustomResourceDefinition(Resource, frozen=True, gc=False, kw_only=True):
    """That a kind was added, changed or taken away; which one it is, discovery says."""

    kind: ClassVar[Kind] = Kind(
        group="apiextensions.k8s.io",
        version="v1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        namespaced=False,
    )


SERVICE_NAME = "kubernetes.io/service-name"
"""The label of an EndpointSlice that names its Service."""
