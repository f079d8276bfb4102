"""Small kinds for the tests of the runtime, as structs and as the definitions that a real API server installs.

`Widget` has a strict schema, a status and a scale; `Loose` takes anything, so that objects can be stored that do not
fit its struct; `Planet` belongs to no namespace; `Gizmo` and `Late` are there to be installed and removed by one
test each. Nothing here talks to a server but `install` and `remove`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from edgewright.runtime import Client, Condition, Key, Kind, ObjectMeta, RawObject, Resource, Struct, definitions
from edgewright.runtime.definitions import DEFINITION
from edgewright.runtime.errors import KubernetesError, NotFound
from tests.cluster.support import eventually

GROUP = "test.edgewright.dev"

CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")


class WidgetSpec(Struct, frozen=True, kw_only=True):
    """What people ask of a widget."""

    count: int = 0
    replicas: int = 1
    text: str = ""


class WidgetStatus(Struct, frozen=True, kw_only=True):
    """What the tests' controllers say of a widget."""

    phase: str = ""
    count: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class Widget(Resource, frozen=True, kw_only=True):
    """A namespaced kind with a strict schema, a status and a scale."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version="v1", kind="Widget", plural="widgets")

    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus | None = None


class Loose(Resource, frozen=True, kw_only=True):
    """A kind whose server-side schema allows what this struct cannot read."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version="v1", kind="Loose", plural="looses")

    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus | None = None


class Gizmo(Resource, frozen=True, kw_only=True):
    """A kind that is removed and installed again while somebody watches it."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version="v1", kind="Gizmo", plural="gizmos")

    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus | None = None


class Late(Resource, frozen=True, kw_only=True):
    """A kind that is not installed before somebody watches it."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version="v1", kind="Late", plural="lates")

    spec: WidgetSpec = WidgetSpec()


class Planet(Resource, frozen=True, kw_only=True):
    """A kind that belongs to no namespace."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version="v1", kind="Planet", plural="planets", namespaced=False)

    spec: WidgetSpec = WidgetSpec()


_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRICT = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 0, "maximum": 1_000_000},
        "replicas": {"type": "integer", "minimum": 0},
        "text": {"type": "string", "maxLength": 4096},
    },
}


def definition(kind: Kind, *, spec: RawObject = _ANYTHING) -> RawObject:
    """The definition of one of our kinds, with a status and a scale and a selectable field."""
    schema: dict[str, Any] = {"type": "object", "properties": {"spec": spec, "status": _ANYTHING}}
    subresources = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    }
    version: RawObject = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": subresources,
        "schema": {"openAPIV3Schema": schema},
    }
    if spec is _STRICT:
        version["selectableFields"] = [{"jsonPath": ".spec.text"}]
    return {
        "apiVersion": DEFINITION.api_version,
        "kind": DEFINITION.kind,
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "listKind": f"{kind.kind}List",
            },
            "versions": [version],
        },
    }


DEFINITIONS = {
    Widget: definition(Widget.kind, spec=_STRICT),
    Loose: definition(Loose.kind),
    Gizmo: definition(Gizmo.kind),
    Late: definition(Late.kind),
    Planet: definition(Planet.kind),
}


async def install(client: Client, *resources: type[Resource]) -> None:
    """Makes sure that the server serves these kinds."""
    for resource in resources:
        await definitions.install(client, DEFINITIONS[resource])

    async def served() -> bool:
        try:
            for resource in resources:
                await client.raw(resource.kind).list("default")
        except KubernetesError:
            return False
        return True

    await eventually(served, what="the kinds are served")  # an established kind is served a moment later


async def remove(client: Client, resource: type[Resource]) -> None:
    """Takes a kind away, with all objects of it, and waits until it is gone."""
    api = client.raw(DEFINITION)
    key = Key("", resource.kind.resource)
    await api.delete(key)

    async def gone() -> bool:
        try:
            await api.get(key)
        except NotFound:
            return True
        return False

    await eventually(gone, what=f"the definition of {resource.kind} is gone")


def widget(
    namespace: str, name: str, *, count: int = 0, text: str = "", labels: dict[str, str] | None = None
) -> Widget:
    """A widget that can be created."""
    return Widget(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=labels or {}),
        spec=WidgetSpec(count=count, text=text),
    )
