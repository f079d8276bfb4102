"""The columns and rows of built-in kinds: what `kubectl get` shows of a Service, a Node, an Event and the others.

`builtin` asks for them by kind; serving calls the row for each object of a table. Each row is a pure function of the
object as it is stored and the moment of the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from edgewright.local.served import Column
from edgewright.runtime.objects import Kind, RawObject

from . import workloads
from .ages import age, moment, since
from .bindings import BINDING, binding_row
from .custom import AGE, NAME, Row
from .pods import pod_row

_AGE = Column(name="Age", description=AGE)
_NO_TIME = "0001-01-01T00:00:00Z"
_SHOWN = 3
"""How many ports or addresses of an EndpointSlice a cell has room for."""
_ROLE_LABEL = "kubernetes.io/role"
_ROLE_PREFIX = "node-role.kubernetes.io/"


def _column(name: str, description: str, *, wide: bool = False) -> Column:
    return Column(name=name, description=description, priority=1 if wide else 0)


def builtin_columns(kind: Kind) -> tuple[Sequence[Column], Row]:
    """Columns and row of a built-in kind; one that has no row of its own shows its name and when it was created."""
    return _KINDS.get((kind.group, kind.kind), (CREATED_AT, created_at_row))


def created_at_row(obj: RawObject, _now: datetime) -> list[Any]:
    """The cells of a kind that has no table of its own."""
    created = moment(_metadata(obj).get("creationTimestamp"))
    return [_name(obj), f"{created:%Y-%m-%dT%H:%M:%SZ}" if created else _NO_TIME]


def _metadata(obj: RawObject) -> RawObject:
    return obj.get("metadata") or {}


def _name(obj: RawObject) -> str:
    return str(_metadata(obj).get("name", ""))


def _age(obj: RawObject, now: datetime) -> str:
    return age(_metadata(obj).get("creationTimestamp"), now)


def _labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(sorted(f"{key}={value}" for key, value in (labels or {}).items())) or "<none>"


def _namespace(obj: RawObject, now: datetime) -> list[Any]:
    return [_name(obj), (obj.get("status") or {}).get("phase", ""), _age(obj, now)]


def _configmap(obj: RawObject, now: datetime) -> list[Any]:
    return [_name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), _age(obj, now)]


def _secret(obj: RawObject, now: datetime) -> list[Any]:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or ()), _age(obj, now)]


def _service_account(obj: RawObject, now: datetime) -> list[Any]:
    return [_name(obj), _age(obj, now)]


def _lease(obj: RawObject, now: datetime) -> list[Any]:
    return [_name(obj), (obj.get("spec") or {}).get("holderIdentity") or "", _age(obj, now)]


def _pod_template(obj: RawObject, _now: datetime) -> list[Any]:
    template = obj.get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or ()
    return [
        _name(obj),
        ",".join(each.get("name", "") for each in containers),
        ",".join(each.get("image", "") for each in containers),
        _labels(_metadata(template).get("labels")),
    ]


def _service(obj: RawObject, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP")]
    return [
        _name(obj),
        spec.get("type", ""),
        addresses[0] or "<none>",
        _external_address(spec, obj.get("status") or {}),
        ",".join(map(_service_port, spec.get("ports") or ())) or "<none>",
        _age(obj, now),
        _labels(spec.get("selector")),
    ]


def _external_address(spec: RawObject, status: RawObject) -> str:
    external = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or "<none>"
        case "LoadBalancer":
            points = (status.get("loadBalancer") or {}).get("ingress") or ()
            given = {each.get("ip") or each.get("hostname") for each in points} - {None, ""}
            return ",".join([*sorted(given), *external]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return "<unknown>"


def _service_port(port: RawObject) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node_port}/{port.get('protocol', '')}"


def _endpoint_slice(obj: RawObject, now: datetime) -> list[Any]:
    return [
        _name(obj),
        obj.get("addressType", ""),
        _some(map(_endpoint_port, obj.get("ports") or ())),
        _some(address for each in obj.get("endpoints") or () for address in each.get("addresses") or ()),
        _age(obj, now),
    ]


def _endpoint_port(port: RawObject) -> str:
    for part in ("port", "name"):
        if port.get(part) is not None:
            return str(port[part])
    return "*"


def _some(items: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    every = list(items)
    shown = ",".join(every[:_SHOWN])
    if len(every) > _SHOWN:
        return f"{shown} + {len(every) - _SHOWN} more..."
    return shown or "<unset>"


def _node(obj: RawObject, now: datetime) -> list[Any]:
    status = obj.get("status") or {}
    info = status.get("nodeInfo") or {}
    architecture = info.get("architecture")
    return [
        _name(obj),
        _node_status(obj, status),
        _node_roles(_metadata(obj).get("labels") or {}),
        _age(obj, now),
        info.get("kubeletVersion", ""),
        _node_address(status, "InternalIP"),
        _node_address(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        (info.get("kernelVersion") or "<unknown>") + (f" ({architecture})" if architecture else ""),
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _node_status(obj: RawObject, status: RawObject) -> str:
    ready = [each.get("status") == "True" for each in status.get("conditions") or () if each.get("type") == "Ready"]
    words = ["Unknown" if not ready else "Ready" if ready[-1] else "NotReady"]
    if (obj.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(labels: Mapping[str, str]) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE_LABEL, ""))
    return ",".join(sorted(roles - {""})) or "<none>"


def _node_address(status: RawObject, sort: str) -> str:
    addresses = (each for each in status.get("addresses") or () if each.get("type") == sort)
    return str(next((each.get("address", "") for each in addresses), "<none>"))


def _core_event(obj: RawObject, now: datetime) -> list[Any]:
    return _event(
        obj,
        now,
        subject=obj.get("involvedObject") or {},
        source=obj.get("source") or {},
        reporter=(obj.get("reportingComponent"), obj.get("reportingInstance")),
        message=obj.get("message", ""),
        times=(obj.get("firstTimestamp"), obj.get("lastTimestamp")),
        count=obj.get("count") or 0,
    )


def _events_event(obj: RawObject, now: datetime) -> list[Any]:
    return _event(
        obj,
        now,
        subject=obj.get("regarding") or {},
        source=obj.get("deprecatedSource") or {},
        reporter=(obj.get("reportingController"), obj.get("reportingInstance")),
        message=obj.get("note", ""),
        times=(obj.get("deprecatedFirstTimestamp"), obj.get("deprecatedLastTimestamp")),
        count=obj.get("deprecatedCount") or 0,
    )


def _event(
    obj: RawObject,
    now: datetime,
    *,
    subject: RawObject,
    source: RawObject,
    reporter: tuple[str | None, str | None],
    message: str,
    times: tuple[Any, Any],
    count: int,
) -> list[Any]:
    first = moment(times[0]) or moment(obj.get("eventTime"))
    last = moment(times[1]) or first
    series = obj.get("series")
    if series is not None:
        last, count = moment(series.get("lastObservedTime")), series.get("count") or 0
    elif not count:
        count = 1  # the newer API counts only what happened again
    component, instance = source.get("component") or reporter[0] or "", source.get("host") or reporter[1] or ""
    kind, name = str(subject.get("kind", "")).lower(), subject.get("name")
    return [
        since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        subject.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        message.strip(),
        since(first, now),
        count,
        _name(obj),
    ]


CREATED_AT = (NAME, Column(name="Created At", type="date", description=AGE))
"""The columns of a kind that has no table of its own."""

_EVENT = (
    _column("Last Seen", "When it happened last."),
    _column("Type", "Normal, or Warning."),
    _column("Reason", "Why it happened, in a word for machines."),
    _column("Object", "What it happened to."),
    _column("Subobject", "The part of the object that it happened to.", wide=True),
    _column("Source", "Who reported it.", wide=True),
    _column("Message", "What happened, for people."),
    _column("First Seen", "When it happened first.", wide=True),
    _column("Count", "How often it has happened.", wide=True),
    Column(name="Name", format="name", description=NAME.description, priority=1),
)
_POD = (
    NAME,
    _column("Ready", "How many of its containers are ready."),
    _column("Status", "What its containers are doing."),
    _column("Restarts", "How often containers were started again, and when one of them ended last."),
    _AGE,
    _column("IP", "Its address.", wide=True),
    _column("Node", "The node that runs it.", wide=True),
    _column("Nominated Node", "The node on which room is being made for it.", wide=True),
    _column("Readiness Gates", "How many of the conditions that others must set are true.", wide=True),
)
_SERVICE = (
    NAME,
    _column("Type", "How it is reached."),
    _column("Cluster-IP", "Its address inside the cluster."),
    _column("External-IP", "Its addresses outside of the cluster."),
    _column("Port(s)", "Its ports, and the ports of nodes that lead to them."),
    _AGE,
    _column("Selector", "The labels of the Pods behind it.", wide=True),
)
_NODE = (
    NAME,
    _column("Status", "Whether it is ready and takes Pods."),
    _column("Roles", "What it is there for."),
    _AGE,
    _column("Version", "The version of the program that runs its Pods."),
    _column("Internal-IP", "Its address inside the cluster.", wide=True),
    _column("External-IP", "Its address outside of the cluster.", wide=True),
    _column("OS-Image", "Its operating system.", wide=True),
    _column("Kernel-Version", "Its kernel.", wide=True),
    _column("Container-Runtime", "What runs its containers.", wide=True),
)
_ENDPOINT_SLICE = (
    NAME,
    _column("AddressType", "What sort of addresses it holds."),
    _column("Ports", "The ports of its endpoints."),
    _column("Endpoints", "The addresses of its endpoints."),
    _AGE,
)
_POD_TEMPLATE = (
    NAME,
    _column("Containers", "The names of its containers."),
    _column("Images", "The images of its containers."),
    _column("Pod Labels", "The labels that its Pods get."),
)
_DATA = _column("Data", "How many entries it holds.")
_KINDS: dict[tuple[str, str], tuple[Sequence[Column], Row]] = {
    ("", "ConfigMap"): ((NAME, _DATA, _AGE), _configmap),
    ("", "Event"): (_EVENT, _core_event),
    ("", "Namespace"): ((NAME, _column("Status", "Whether it is in use or going away."), _AGE), _namespace),
    ("", "Node"): (_NODE, _node),
    ("", "Pod"): (_POD, pod_row),
    ("", "PodTemplate"): (_POD_TEMPLATE, _pod_template),
    ("", "Secret"): ((NAME, _column("Type", "What it is for."), _DATA, _AGE), _secret),
    ("", "Service"): (_SERVICE, _service),
    ("", "ServiceAccount"): ((NAME, _AGE), _service_account),
    ("coordination.k8s.io", "Lease"): ((NAME, _column("Holder", "Who holds it."), _AGE), _lease),
    ("discovery.k8s.io", "EndpointSlice"): (_ENDPOINT_SLICE, _endpoint_slice),
    ("events.k8s.io", "Event"): (_EVENT, _events_event),
    **workloads.KINDS,
    **{("rbac.authorization.k8s.io", kind): (BINDING, binding_row) for kind in ("ClusterRoleBinding", "RoleBinding")},
}
