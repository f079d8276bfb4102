"""Objects that exchanges send, as small as they can be."""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.exchange import Step, made

Object = dict[str, Any]

MAPS = "/api/v1/namespaces/{ns}/configmaps"
SECRETS = "/api/v1/namespaces/{ns}/secrets"
PODS = "/api/v1/namespaces/{ns}/pods"
SERVICES = "/api/v1/namespaces/{ns}/services"
ACCOUNTS = "/api/v1/namespaces/{ns}/serviceaccounts"
TEMPLATES = "/api/v1/namespaces/{ns}/podtemplates"
EVENTS = "/api/v1/namespaces/{ns}/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/{ns}/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"
NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def named(name: str, *, metadata: Object | None = None, **fields: Any) -> Object:
    """An object of a name; the path says of which kind."""
    return {"metadata": {"name": name, **(metadata or {})}, **fields}


def secret(name: str, *, metadata: Object | None = None, **texts: str) -> Object:
    """A Secret: no controller makes any, so a list of them holds only what the exchange has made."""
    return named(name, metadata=metadata, stringData=texts)


def labelled(name: str, **labels: str) -> Object:
    """A Secret with labels."""
    return named(name, metadata={"labels": labels})


def pod(name: str, *, metadata: Object | None = None, **spec: Any) -> Object:
    """A Pod that no scheduler and no token controller touches."""
    whole = {
        "automountServiceAccountToken": False,
        "schedulerName": "nobody",
        "containers": [{"name": "c", "image": "example"}],
        **spec,
    }
    return named(name, metadata=metadata, spec=whole)


def service(name: str, **spec: Any) -> Object:
    """A Service."""
    return named(name, spec={"ports": [{"port": 80}], **spec})


def secrets(*names: str, **labels: str) -> list[Step]:
    """Steps that create Secrets of these names."""
    return [made(SECRETS, labelled(name, **labels)) for name in names]
