"""Exchanges about built-in kinds: bodies, what our rules make of them, and the form in which outcomes are compared.

Unit tests compare with what the real API server was recorded to answer, cluster tests with what it answers. Rules are
called in the order in which the request path calls them; no server of ours runs.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgewright.local.builtin import (
    configmap,
    cronjob,
    daemonset,
    deployment,
    endpointslice,
    event,
    job,
    lease,
    namespace,
    node,
    persistentvolumeclaim,
    pod,
    poddisruptionbudget,
    podtemplate,
    secret,
    service,
    serviceaccount,
    statefulset,
)
from edgewright.local.errors import Refusal
from edgewright.local.served import Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.objects import Kind, RawObject

Body = dict[str, Any]
Change = Callable[[Body], None]
RANGE = "10.96.0.0/16"
RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded.json").read_text(encoding="utf-8"))
"""What the real server made of each exchange."""
_BOOKKEEPING = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "namespace")


def _kind(kind: str, plural: str, group: str = "", *, namespaced: bool = True) -> Kind:
    return Kind(group=group, version="v1", kind=kind, plural=plural, namespaced=namespaced)


WORKLOADS: dict[str, tuple[Kind, Callable[[], BuiltinRules]]] = {
    "deployment": (_kind("Deployment", "deployments", "apps"), deployment.DeploymentRules),
    "replicaset": (_kind("ReplicaSet", "replicasets", "apps"), deployment.ReplicaSetRules),
    "statefulset": (_kind("StatefulSet", "statefulsets", "apps"), statefulset.StatefulSetRules),
    "daemonset": (_kind("DaemonSet", "daemonsets", "apps"), daemonset.DaemonSetRules),
    "job": (_kind("Job", "jobs", "batch"), job.JobRules),
    "cronjob": (_kind("CronJob", "cronjobs", "batch"), cronjob.CronJobRules),
    "budget": (
        _kind("PodDisruptionBudget", "poddisruptionbudgets", "policy"),
        poddisruptionbudget.PodDisruptionBudgetRules,
    ),
    "claim": (
        _kind("PersistentVolumeClaim", "persistentvolumeclaims"),
        persistentvolumeclaim.PersistentVolumeClaimRules,
    ),
}
"""Kinds whose status a controller of the real cluster may write at any time."""
KINDS: dict[str, tuple[Kind, Callable[[], BuiltinRules]]] = {
    "pod": (pod.KIND, pod.PodRules),
    "service": (service.KIND, lambda: service.ServiceRules(service_range=RANGE, node_ports=range(30000, 32768))),
    "configmap": (_kind("ConfigMap", "configmaps"), configmap.ConfigMapRules),
    "secret": (_kind("Secret", "secrets"), secret.SecretRules),
    "serviceaccount": (_kind("ServiceAccount", "serviceaccounts"), serviceaccount.ServiceAccountRules),
    "namespace": (_kind("Namespace", "namespaces", namespaced=False), namespace.NamespaceRules),
    "node": (_kind("Node", "nodes", namespaced=False), node.NodeRules),
    "podtemplate": (_kind("PodTemplate", "podtemplates"), podtemplate.PodTemplateRules),
    "event": (_kind("Event", "events"), event.EventRules),
    "newevent": (_kind("Event", "events", "events.k8s.io"), event.NewEventRules),
    "lease": (_kind("Lease", "leases", "coordination.k8s.io"), lease.LeaseRules),
    "controllerrevision": (
        _kind("ControllerRevision", "controllerrevisions", "apps"),
        statefulset.ControllerRevisionRules,
    ),
    **WORKLOADS,
    "endpointslice": (_kind("EndpointSlice", "endpointslices", "discovery.k8s.io"), endpointslice.EndpointSliceRules),
}


@dataclass(frozen=True)
class Exchange:
    """A create, or a create and then an update by `change`, which is what is compared then."""

    kind: str
    body: Body
    change: Change | None = None
    subresource: str = ""


def body_of(exchange: Exchange, place: str, name: str) -> Body:
    """The body that is sent, with a name and a namespace."""
    kind = KINDS[exchange.kind][0]
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **copy.deepcopy(exchange.body)}
    body["metadata"] = {**body.get("metadata", {}), "name": name}
    for field_name in ("involvedObject", "regarding"):
        if field_name in body:
            body[field_name].setdefault("namespace", place)
    if kind.namespaced:
        body["metadata"]["namespace"] = place
    return body


def changed(exchange: Exchange, change: Change, old: Body) -> Body:
    """The body of the update."""
    body = copy.deepcopy(old)
    change(body)
    if KINDS[exchange.kind][1]().unconditional_update:  # the controllers of a real cluster write too
        body["metadata"].pop("resourceVersion", None)
    return body


def refusal(code: int, status: Body) -> Body:
    """What is compared of a Status."""
    causes = (status.get("details") or {}).get("causes") or []
    found = sorted((cause.get("reason", ""), cause.get("field", "")) for cause in causes)
    return {"refused": [code, status.get("reason"), found], "message": status.get("message")}


def ours(exchange: Exchange, body: Body, old: Body | None) -> Body:
    """What our rules make of a create, or of an update of what was there."""
    rules, subresource = KINDS[exchange.kind][1](), exchange.subresource if old else ""
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
    write = Write(
        verb="update" if old else "create",
        now=datetime.now(UTC),
        subresource=subresource,
        find=lambda resource, _, wanted: account if (resource, wanted) == ("serviceaccounts", "default") else None,
    )
    try:
        obj, _ = rules.decode(copy.deepcopy(body))
        rules.default(obj)
        if old is None:
            rules.prepare_create(obj, write)
        else:
            rules.prepare_update(obj, copy.deepcopy(old), write)
        causes = rules.validate(obj, old, write)
    except Refusal as refused:
        return refusal(refused.code, refused.status())
    if causes:
        listed = [{"reason": cause.reason, "field": cause.field} for cause in causes]
        message = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
        return refusal(422, {"reason": "Invalid", "details": {"causes": listed}, "message": message})
    return rules.read(rules.to_store(obj)) if not rules.reads_as_stored else obj


def plain(outcome: RawObject, exchange: Exchange) -> Any:
    """An outcome without what differs from run to run."""
    if "refused" in outcome:
        return json.loads(json.dumps(outcome["refused"]))
    metadata = {name: value for name, value in outcome["metadata"].items() if name not in _BOOKKEEPING}
    rest = dict(outcome)
    if exchange.kind in WORKLOADS:
        metadata["labels"] = {key: value for key, value in (metadata.get("labels") or {}).items() if "uid" not in key}
        if exchange.change is not None and not exchange.subresource:
            rest.pop("status", None)
    if exchange.kind == "node":
        rest["spec"] = _without_taint(rest["spec"])
    text = json.dumps({**rest, "metadata": metadata})
    text = re.sub(r'"lastTransitionTime": "[^"]*"', '"lastTransitionTime": "now"', text)
    text = re.sub(r'controller-uid": "[^"]*"', 'controller-uid": "a-uid"', text)
    if exchange.kind == "service":
        asked = json.dumps(exchange.body)
        text = re.sub(r"(10\.96|127)\.[\d.]+", lambda found: found[0] if found[0] in asked else "an address", text)
        text = re.sub(r"\b3[0-2]\d{3}\b", lambda found: found[0] if found[0] in asked else "30000", text)
    return json.loads(text)


def _without_taint(spec: RawObject) -> RawObject:
    """The spec without the taint that holds Pods off until a controller that we have not takes it away."""
    taints = [taint for taint in spec.get("taints") or () if taint["key"] != "node.kubernetes.io/not-ready"]
    rest = {name: value for name, value in spec.items() if name != "taints"}
    return {**rest, "taints": taints} if taints else rest


def put(path: str, value: Any) -> Change:
    """Sets a field, by its path with dots; None takes it away."""

    def change(obj: Body) -> None:
        *parents, last = path.split(".")
        here: Any = obj
        for name in parents:
            here = here[int(name)] if isinstance(here, list) else here.setdefault(name, {})
        if isinstance(here, list):
            here[int(last)] = value
        elif value is None:
            here.pop(last, None)
        else:
            here[last] = value

    return change


def without(*names: str) -> Change:
    """Takes fields of the spec away."""

    def change(obj: Body) -> None:
        for name in names:
            del obj["spec"][name]

    return change
