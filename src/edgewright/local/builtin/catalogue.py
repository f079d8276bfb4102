"""The list of built-in kinds as discovery shows them: names, verbs, subresources, and the rules of each.

`served` is called once, when the API server starts. What a kind demands of its objects stands in its own module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgewright.local.builtin import (
    binding,
    configmap,
    endpointslice,
    event,
    lease,
    namespace,
    node,
    pod,
    podtemplate,
    reviews,
    secret,
    service,
    serviceaccount,
)
from edgewright.local.served import VERBS, Rules, Served, Subresource
from edgewright.local.structs.fields import REFERENCE, definitions
from edgewright.runtime.objects import Kind, RawObject

SERVICE_RANGE = "10.96.0.0/16"
"""Where Services get their addresses from, unless told otherwise."""
NODE_PORTS = range(30000, 32768)
"""Where Services get their node ports from, unless told otherwise."""
_STATUS = Subresource(name="status")
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
        _entry(
            Kind(
                group="authentication.k8s.io",
                version="v1",
                kind="SelfSubjectReview",
                plural="selfsubjectreviews",
                namespaced=False,
            ),
            "io.k8s.api.authentication.v1",
            reviews.SelfSubjectReviewRules(),
            verbs=("create",),
        ),
        _entry(
            Kind(
                group="authorization.k8s.io",
                version="v1",
                kind="SelfSubjectAccessReview",
                plural="selfsubjectaccessreviews",
                namespaced=False,
            ),
            "io.k8s.api.authorization.v1",
            reviews.SelfSubjectAccessReviewRules(),
            verbs=("create",),
        ),
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
            "Pod",
            "pods",
            pod.PodRules(),
            short_names=("po",),
            categories=("all",),
            subresources=(
                Subresource(name="binding", verbs=("create",), kind=_BINDING),
                Subresource(name="log", verbs=("get",)),
                _STATUS,
            ),
            selectable=pod.SELECTABLE,
        ),
        _core_entry("PodTemplate", "podtemplates", podtemplate.PodTemplateRules()),
        _core_entry("Secret", "secrets", secret.SecretRules(), selectable=secret.SELECTABLE),
        _core_entry("ServiceAccount", "serviceaccounts", serviceaccount.ServiceAccountRules(), short_names=("sa",)),
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
        columns=columns,
        row=row,
    )


__all__ = ["NODE_PORTS", "REFERENCE", "SERVICE_RANGE", "served"]
