"""Exchanges about what a server tells of itself: versions, groups, kinds, schemas, readiness."""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.exchange import Exchange, Step, exchange, get, post

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_BETA = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
_GROUPS = (
    "apiextensions.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "rbac.authorization.k8s.io",
)


def _version(document: Any) -> Any:
    """What a client reads of the version; how and when the server was built is its own."""
    return {name: document[name] for name in ("major", "minor", "gitVersion", "platform")}


def _without_addresses(document: Any) -> Any:
    return {**document, "serverAddressByClientCIDRs": len(document["serverAddressByClientCIDRs"])}


def _paths_below_groups(document: Any) -> Any:
    return [path for path in document["paths"] if path.startswith("/apis/") and path.split("/")[2] in _GROUPS]


DISCOVERY: dict[str, Exchange] = {
    "the version": exchange(get("/version"), select=_version),
    "readiness": exchange(get("/readyz")),
    "life": exchange(get("/livez")),
    "health": exchange(get("/healthz")),
    "readiness of what is not there": exchange(get("/readyz/none-has-this")),
    "the versions of the core group": exchange(get("/api"), select=_without_addresses),
    "the groups": exchange(get("/apis")),
    "the core kinds": exchange(get("/api/v1")),
    "the groups, aggregated": exchange(get("/apis", _AGGREGATED)),
    "the core kinds, aggregated": exchange(get("/api", _AGGREGATED)),
    "aggregated or else as ever": exchange(get("/apis", f"{_AGGREGATED.replace('v=v2', 'v=v9')},application/json")),
    "aggregated in a version that is not served": exchange(get("/apis", _AGGREGATED.replace("v=v2", "v=v9"))),
    "aggregated in an old version": exchange(get("/apis", f"{_BETA},application/json")),
    "as YAML": exchange(get("/apis/coordination.k8s.io/v1", "application/yaml")),
    **{f"the group {group}": exchange(get(f"/apis/{group}")) for group in _GROUPS},
    **{f"the kinds of {group}": exchange(get(f"/apis/{group}/v1")) for group in _GROUPS},
    "a group that is not there": exchange(get("/apis/none.example.com")),
    "a version that is not there": exchange(get("/apis/coordination.k8s.io/v9")),
    "a version of a group that is not there": exchange(get("/apis/none.example.com/v1")),
    "a core version that is not there": exchange(get("/api/v9")),
    "the paths": exchange(get("/"), select=_paths_below_groups),
    "a format of a document that is not served": exchange(get("/api/v1", "text/html")),
    **{
        f"a timeout that is none, at {path}": exchange(get(f"{path}?timeout=soon"))
        for path in ("/version", "/readyz", "/livez", "/apis", "/api/v1", "/openapi/v3", "/none-has-this")
    },
    "a timeout without a unit, at /version": exchange(get("/version?timeout=5")),
    "POST to a group": exchange(post("/apis/coordination.k8s.io", {})),
    "DELETE of a list of kinds": exchange(Step(method="DELETE", path="/api/v1")),
}
