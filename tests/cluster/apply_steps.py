"""Writes whose owners are compared with the real server: the kinds that are written, and the verbs that write them.

`apply_sequences` has what is written with them, `test_local_apply` writes it. Nothing here touches a server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from edgewright.local.apply import apply
from edgewright.runtime.objects import Kind

Raw: TypeAlias = dict[str, Any]
OLD, NOW = "2020-01-01T00:00:00Z", datetime(2100, 1, 1, tzinfo=UTC)
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
GROUP = "local-apply.example.io"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}

SPEC: Raw = {
    "type": "object",
    "properties": {
        "size": NUMBER,
        "text": TEXT,
        "amount": {"x-kubernetes-int-or-string": True},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "port"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": TEXT,
                    "port": {**NUMBER, "default": 80},
                    "value": TEXT,
                    "more": {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
                },
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "whole": {"type": "array", "items": NUMBER},
        "map": {"type": "object", "additionalProperties": TEXT},
        "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "deep": {"type": "object", "properties": {"one": {"type": "object", "properties": {"x": TEXT, "y": TEXT}}}},
        "given": {**TEXT, "default": "by the schema"},
    },
}
STATUS: Raw = {"type": "object", "properties": {"phase": TEXT, "ready": NUMBER}}


def version(name: str, *, stored: bool) -> Raw:
    """A version of the custom kind; both have the same schema."""
    schema = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"},
        },
        "schema": {"openAPIV3Schema": schema},
    }


CRD: Raw = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [version("v1", stored=True), version("v2", stored=False)],
    },
}


@dataclass(frozen=True)
class Subject:
    """A kind to write objects of."""

    kind: Kind
    status: bool = False
    unowned: tuple[str, ...] = ()
    """Fields of a spec that the real server fills in after it has recorded who owns what."""


CONFIG = Subject(Kind(group="", version="v1", kind="ConfigMap", plural="configmaps"))
TEMPLATE = Subject(Kind(group="", version="v1", kind="PodTemplate", plural="podtemplates"))
SERVICE = Subject(
    Kind(group="", version="v1", kind="Service", plural="services"),
    status=True,
    unowned=("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"),
)
EVENT = Subject(Kind(group="", version="v1", kind="Event", plural="events"))
WIDGET = Subject(Kind(group=GROUP, version="v1", kind="Widget", plural="widgets"), status=True)
WIDGET_2 = Subject(Kind(group=GROUP, version="v2", kind="Widget", plural="widgets"), status=True)


@dataclass(frozen=True)
class Step:
    """A write by a manager."""

    verb: str
    body: Raw
    manager: str
    force: bool = False
    subresource: str = ""
    version: str = ""
    entries: Callable[[list[Raw]], Any] | None = field(default=None)
    """What a client sends as managedFields."""


def create(body: Raw, manager: str = "maker", **more: Any) -> Step:
    return Step("create", body, manager, **more)


def update(body: Raw, manager: str = "updater", **more: Any) -> Step:
    return Step("update", body, manager, **more)


def patch(body: Raw, manager: str = "patcher", **more: Any) -> Step:
    return Step("patch", body, manager, **more)


def scaled(replicas: int, manager: str = "scaler", **more: Any) -> Step:
    """A patch of the scale, which is one of the object's size."""
    return Step("patch", {"spec": {"replicas": replicas}}, manager, subresource="scale", **more)


def applied(body: Raw, manager: str = "applier", **more: Any) -> Step:
    return Step("apply", body, manager, **more)


def spec(**fields: Any) -> Raw:
    return {"spec": fields}


def data(**fields: Any) -> Raw:
    return {"data": fields}


def pods(**fields: Any) -> Raw:
    return {"template": {"spec": fields}}


def part(name: str, **fields: Any) -> Raw:
    return {"name": name, **fields}


def last_applied(body: Raw) -> Raw:
    """A body as client-side apply sends it."""
    inner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, **body}
    text = json.dumps(inner, separators=(",", ":")) + "\n"
    return {**body, "metadata": {"annotations": {apply.LAST_APPLIED: text}}}
