"""Exchanges about what the documents of the server, discovery and OpenAPI, say of custom kinds."""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.custom_kinds import GROUP, READY
from tests.cluster.differential.exchange import Answer, Exchange, exchange, get

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NAME = ".".join(reversed(GROUP.split(".")))


def _of_the_group(body: Any) -> Any:
    """Of a document about everything that which is about the group of Widgets."""
    if not isinstance(body, dict):
        return body
    if listed := body.get("groups") or body.get("items"):
        return [each for each in listed if (each.get("name") or each["metadata"]["name"]) == GROUP]
    schemas = body.get("definitions") or body.get("components", {}).get("schemas", {})
    own = {name: schema for name, schema in schemas.items() if name.startswith(_NAME)}
    return {"openapi": {"version": body.get("openapi"), "schemas": own, "paths": _paths(body)}}


def _paths(body: Any) -> Any:
    """The paths of a document of version 3; how those of version 2 are written differs and matters to nobody."""
    return body["paths"] if "openapi" in body else sorted(path for path in body["paths"] if f"/{GROUP}/" in path)


def _known(answer: Answer) -> bool:
    return answer.code == 200 and GROUP in str(answer.body)


DOCUMENTS: dict[str, Exchange] = {
    title: exchange(*READY, get(path, accept, until=_known), stored=False, select=_of_the_group)
    for title, path, accept in (
        ("the list of groups", "/apis", ""),
        ("the list of groups with their kinds", "/apis", _AGGREGATED),
        ("OpenAPI v3", f"/openapi/v3/apis/{GROUP}/v1", ""),
        ("OpenAPI v2", "/openapi/v2", ""),
    )
}
DOCUMENTS |= {
    "a group": exchange(*READY, get(f"/apis/{GROUP}", until=_known)),
    "a version": exchange(*READY, get(f"/apis/{GROUP}/v1", until=_known)),
}
