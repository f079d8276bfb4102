"""The list of built-in kinds as discovery shows them: names, verbs, subresources, and the rules of each.

`served` is called once, when the API server starts. What a kind demands of its objects stands in its own module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgewright.local.builtin import (
    access_kinds,
    binding,
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
    persistentvolume,
    persistentvolumeclaim,
    pod,
    poddisruptionbudget,
    podtemplate,
    secret,
    service,
    serviceaccount,
    statefulset,
)
from edgewright.local.served import VERBS, Rules, ScalePaths, Served, Subresource
from edgewright.local.structs.fields import REFERENCE, definitions
from edgewright.runtime.objects import Kind, RawObject

SERVICE_RANGE = "10.96.0.0/16"
"""Where Services get their addresses from, unless told otherwise."""
NODE_PORTS = range(30000, 32768)
"""Where Services get their node ports from, unless told otherwise."""
_STATUS = Subresource(name="status")
_SCALE = Subresource(name="scale", kind=Kind(group="autoscaling", version="v1", kind="Scale", plural="scales"))
EVICTION = Kind(group="policy", version="v1", kind="Eviction", plural="evictions")
"""What is posted to a Pod that is to go, if the budgets let it."""
_ATTACH_OPTIONS = Kind(group="", version="v1", kind="PodAttachOptions", plural="")
_EXEC_OPTIONS = Kind(group="", version="v1", kind="PodExecOptions", plural="")
_BINDING = Kind(group="", version="v1", kind="Binding", plural="bindings")


def served(
    *, service_range: str = SERVICE_RANGE, node_ports: range = NODE_PORTS, loopback: bool = False
) -> list[Served]:
    """All built-in kinds; each call gives rules of its own, which share nothing with those of another call.

    With `loopback` EndpointSlices may name addresses that only this machine reaches.
    """
    from edgewright.local import custom  # noqa: PLC0415  its rules are built on ours

    return [
        *_core(service_range, node_ports),
        *_workloads(),
        _entry(
            Kind(group="discovery.k8s.io", version="v1", kind="EndpointSlice", plural="endpointslices"),
            "io.k8s.api.discovery.v1",
            endpointslice.EndpointSliceRules(loopback=loopback),
        ),
        _entry(
            Kind(group="coordination.k8s.io", version="v1", kind="Lease", plural="leases"),
            "io.k8s.api.coordination.v1",
            lease.LeaseRules(),
        ),
        _entry(
            Kind(group="events.k8s.io", version="v1", kind="Event", plural="events"),
            "io.k8s.api.events.v1",
            event.NewEventRules(),
            storage="events",
            storage_api_version="v1",
            short_names=("ev",),
            selectable=event.NEW_SELECTABLE,
        ),
        _entry(
            Kind(
                group="apiextensions.k8s.io",
                version="v1",
                kind="CustomResourceDefinition",
                plural="customresourcedefinitions",
                namespaced=False,
            ),
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
            custom.definition_rules(),
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            subresources=(_STATUS,),
        ),
        *(_entry(each.kind, each.package, each.rules, **each.settings) for each in access_kinds.entries()),
    ]


def _core(service_range: str, node_ports: range) -> list[Served]:
    return [
        _core_entry("Binding", "bindings", binding.BindingRules(), verbs=("create",)),
        _core_entry("ConfigMap", "configmaps", configmap.ConfigMapRules(), short_names=("cm",)),
        _core_entry("Event", "events", event.EventRules(), short_names=("ev",), selectable=event.SELECTABLE),
        _core_entry(
            "Namespace",
            "namespaces",
            namespace.NamespaceRules(),
            namespaced=False,
            short_names=("ns",),
            verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
            subresources=(Subresource(name="finalize", verbs=("update",)), _STATUS),
            selectable=namespace.SELECTABLE,
        ),
        _core_entry(
            "Node",
            "nodes",
            node.NodeRules(),
            namespaced=False,
            short_names=("no",),
            subresources=(_STATUS,),
            selectable=node.SELECTABLE,
        ),
        _core_entry(
            "PersistentVolume",
            "persistentvolumes",
            persistentvolume.PersistentVolumeRules(),
            namespaced=False,
            short_names=("pv",),
            subresources=(_STATUS,),
        ),
        _core_entry(
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            persistentvolumeclaim.PersistentVolumeClaimRules(),
            short_names=("pvc",),
            subresources=(_STATUS,),
        ),
        _core_entry(
            "Pod",
            "pods",
            pod.PodRules(),
            short_names=("po",),
            categories=("all",),
            subresources=(
                Subresource(name="attach", verbs=("create", "get"), kind=_ATTACH_OPTIONS, described=False),
                Subresource(name="binding", verbs=("create",), kind=_BINDING),
                Subresource(name="eviction", verbs=("create",), kind=EVICTION),
                Subresource(name="exec", verbs=("create", "get"), kind=_EXEC_OPTIONS, described=False),
                Subresource(name="log", verbs=("get",)),
                _STATUS,
            ),
            selectable=pod.SELECTABLE,
        ),
        _core_entry("PodTemplate", "podtemplates", podtemplate.PodTemplateRules()),
        _core_entry("Secret", "secrets", secret.SecretRules(), selectable=secret.SELECTABLE),
        _core_entry(
            "ServiceAccount",
            "serviceaccounts",
            serviceaccount.ServiceAccountRules(),
            short_names=("sa",),
            subresources=(Subresource(name="token", verbs=("create",), kind=access_kinds.TOKEN_REQUEST),),
        ),
        _core_entry(
            "Service",
            "services",
            service.ServiceRules(service_range=service_range, node_ports=node_ports),
            short_names=("svc",),
            categories=("all",),
            subresources=(_STATUS,),
            selectable=service.SELECTABLE,
        ),
    ]


def _workloads() -> list[Served]:
    """The kinds that make Pods of a template, and what they keep of their past."""
    return [
        _apps_entry("ControllerRevision", statefulset.ControllerRevisionRules()),
        _apps_entry(
            "DaemonSet", daemonset.DaemonSetRules(), short_names=("ds",), categories=("all",), subresources=(_STATUS,)
        ),
        _apps_entry("Deployment", deployment.DeploymentRules(), **_SCALED, short_names=("deploy",)),
        _apps_entry(
            "ReplicaSet",
            deployment.ReplicaSetRules(),
            **_SCALED,
            short_names=("rs",),
        ),
        _apps_entry("StatefulSet", statefulset.StatefulSetRules(), **_SCALED, short_names=("sts",)),
        _entry(
            Kind(group="batch", version="v1", kind="Job", plural="jobs"),
            "io.k8s.api.batch.v1",
            job.JobRules(),
            categories=("all",),
            subresources=(_STATUS,),
            selectable=job.SELECTABLE,
        ),
        _entry(
            Kind(group="batch", version="v1", kind="CronJob", plural="cronjobs"),
            "io.k8s.api.batch.v1",
            cronjob.CronJobRules(),
            short_names=("cj",),
            categories=("all",),
            subresources=(_STATUS,),
        ),
        _entry(
            Kind(group="policy", version="v1", kind="PodDisruptionBudget", plural="poddisruptionbudgets"),
            "io.k8s.api.policy.v1",
            poddisruptionbudget.PodDisruptionBudgetRules(),
            short_names=("pdb",),
            subresources=(_STATUS,),
        ),
    ]


_SCALED: dict[str, Any] = {
    "categories": ("all",),
    "subresources": (_SCALE, _STATUS),
    "scale": deployment.SCALE,
}


def _apps_entry(name: str, rules: Rules, **settings: Any) -> Served:
    kind = Kind(group="apps", version="v1", kind=name, plural=f"{name.lower()}s")
    return _entry(kind, "io.k8s.api.apps.v1", rules, **settings)


def _core_entry(name: str, plural: str, rules: Rules, *, namespaced: bool = True, **settings: Any) -> Served:
    kind = Kind(group="", version="v1", kind=name, plural=plural, namespaced=namespaced)
    return _entry(kind, "io.k8s.api.core.v1", rules, **settings)


def _entry(
    kind: Kind,
    package: str,
    rules: Rules,
    *,
    storage: str = "",
    storage_api_version: str = "",
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = VERBS,
    subresources: tuple[Subresource, ...] = (),
    selectable: Mapping[str, Callable[[RawObject], str]] | None = None,
    scale: ScalePaths | None = None,
) -> Served:
    definition = f"{package}.{kind.kind}"
    listed = f"{package}.{kind.kind}List" in definitions()
    from edgewright.local import tables  # noqa: PLC0415

    columns, row = tables.builtin_columns(kind)
    return Served(
        kind=kind,
        singular=kind.kind.lower(),
        list_kind=f"{kind.kind}List" if listed else "",
        storage=storage or kind.resource,
        storage_api_version=storage_api_version or kind.api_version,
        short_names=short_names,
        categories=categories,
        verbs=verbs,
        subresources=subresources,
        rules=rules,
        schema=definitions()[definition],
        definition=definition,
        selectable=selectable or {},
        scale=scale,
        columns=columns,
        row=row,
    )


__all__ = ["NODE_PORTS", "REFERENCE", "SERVICE_RANGE", "served"]
