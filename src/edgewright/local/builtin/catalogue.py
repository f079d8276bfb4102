"""The list of built-in kinds as discovery shows them: names, verbs, subresources, and the rules of each.

`served` is called once, when the API server starts. What a kind demands of its objects stands in its own module, and
what it is called in the definition that its rules name.
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
from edgewright.local.served import VERBS, ScalePaths, Served, Subresource
from edgewright.local.structs.fields import GROUP_VERSION_KIND, REFERENCE, definitions
from edgewright.local.structs.rules import BuiltinRules
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
_OF_PODS = (
    Subresource(name="attach", verbs=("create", "get"), kind=_ATTACH_OPTIONS, described=False),
    Subresource(name="binding", verbs=("create",), kind=_BINDING),
    Subresource(name="eviction", verbs=("create",), kind=EVICTION),
    Subresource(name="exec", verbs=("create", "get"), kind=_EXEC_OPTIONS, described=False),
    Subresource(name="log", verbs=("get",)),
)
_TOKEN = Subresource(name="token", verbs=("create",), kind=access_kinds.TOKEN_REQUEST)
_NAMESPACES: dict[str, Any] = {
    "verbs": tuple(verb for verb in VERBS if verb != "deletecollection"),
    "subresources": (Subresource(name="finalize", verbs=("update",)),),
    "selectable": namespace.SELECTABLE,
}
_ALL = ("all",)
_SCALED: dict[str, Any] = {"categories": _ALL, "subresources": (_SCALE,), "scale": deployment.SCALE}


def served(
    *, service_range: str = SERVICE_RANGE, node_ports: range = NODE_PORTS, loopback: bool = False
) -> list[Served]:
    """All built-in kinds; each call gives rules of its own, which share nothing with those of another call.

    With `loopback` EndpointSlices may name addresses that only this machine reaches.
    """
    from edgewright.local import custom  # noqa: PLC0415  its rules are built on ours

    services = service.ServiceRules(service_range=service_range, node_ports=node_ports)
    return [
        _entry(binding.BindingRules(), verbs=("create",)),
        _entry(configmap.ConfigMapRules(), "cm"),
        _entry(event.EventRules(), "ev", selectable=event.SELECTABLE),
        _entry(namespace.NamespaceRules(), "ns", namespaced=False, **_NAMESPACES),
        _entry(node.NodeRules(), "no", namespaced=False, selectable=node.SELECTABLE),
        _entry(persistentvolume.PersistentVolumeRules(), "pv", namespaced=False),
        _entry(persistentvolumeclaim.PersistentVolumeClaimRules(), "pvc"),
        _entry(pod.PodRules(), "po", categories=_ALL, subresources=_OF_PODS, selectable=pod.SELECTABLE),
        _entry(podtemplate.PodTemplateRules()),
        _entry(secret.SecretRules(), selectable=secret.SELECTABLE),
        _entry(serviceaccount.ServiceAccountRules(), "sa", subresources=(_TOKEN,)),
        _entry(services, "svc", categories=_ALL, selectable=service.SELECTABLE),
        _entry(statefulset.ControllerRevisionRules()),
        _entry(daemonset.DaemonSetRules(), "ds", categories=_ALL),
        _entry(deployment.DeploymentRules(), "deploy", **_SCALED),
        _entry(deployment.ReplicaSetRules(), "rs", **_SCALED),
        _entry(statefulset.StatefulSetRules(), "sts", **_SCALED),
        _entry(job.JobRules(), categories=_ALL, selectable=job.SELECTABLE),
        _entry(cronjob.CronJobRules(), "cj", categories=_ALL),
        _entry(poddisruptionbudget.PodDisruptionBudgetRules(), "pdb"),
        _entry(endpointslice.EndpointSliceRules(loopback=loopback)),
        _entry(lease.LeaseRules()),
        _entry(event.NewEventRules(), "ev", storage=("events", "v1"), selectable=event.NEW_SELECTABLE),
        _entry(custom.definition_rules(), "crd", "crds", namespaced=False, categories=("api-extensions",)),
        *(_entry(rules, **settings) for rules, settings in access_kinds.entries()),
    ]


def _entry(
    rules: BuiltinRules,
    *short_names: str,
    namespaced: bool = True,
    storage: tuple[str, str] | None = None,
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = VERBS,
    subresources: tuple[Subresource, ...] = (),
    selectable: Mapping[str, Callable[[RawObject], str]] | None = None,
    scale: ScalePaths | None = None,
) -> Served:
    """A kind with its rules; `storage` is the resource and version as which it is stored, if they are another's."""
    from edgewright.local import tables  # noqa: PLC0415

    schema = definitions()[rules.definition]
    (said,) = schema[GROUP_VERSION_KIND]
    kind = Kind(**said, plural=f"{said['kind'].lower()}s", namespaced=namespaced)
    resource, api_version = storage or (kind.resource, kind.api_version)
    columns, row = tables.builtin_columns(kind)
    return Served(
        kind=kind,
        singular=kind.kind.lower(),
        list_kind=f"{kind.kind}List" if f"{rules.definition}List" in definitions() else "",
        storage=resource,
        storage_api_version=api_version,
        short_names=short_names,
        categories=categories,
        verbs=verbs,
        subresources=(*subresources, _STATUS) if rules.status else subresources,
        rules=rules,
        schema=schema,
        definition=rules.definition,
        selectable=selectable or {},
        scale=scale,
        columns=columns,
        row=row,
    )


__all__ = ["NODE_PORTS", "REFERENCE", "SERVICE_RANGE", "served"]
