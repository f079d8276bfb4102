"""Custom kinds that exchanges use: definitions, and the steps that install one and wait until it is served."""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.exchange import Answer, Step, delete, get, made

Object = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OWN_GROUP = "{ns}.example.io"
"""A group that only one exchange has."""
GROUP = "widgets.differential.example.io"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/{{ns}}/widgets"
TEXT: Object = {"type": "string"}
NUMBER: Object = {"type": "integer"}
ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def struct(properties: Object, **more: Any) -> Object:
    """The schema of an object."""
    return {"type": "object", "properties": properties, **more}


def version(name: str = "v1", schema: Object | None = None, **more: Any) -> Object:
    """A version that is served; the first one is stored unless it is said."""
    root = {"openAPIV3Schema": ANYTHING if schema is None else schema}
    return {"name": name, "served": True, "storage": name == "v1", "schema": root, **more}


def definition(
    plural: str, kind: str, *versions: Object, group: str = OWN_GROUP, scope: str = "Namespaced", **names: Any
) -> Object:
    """A CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **names},
            "versions": list(versions) or [version()],
        },
    }


def established(answer: Answer) -> bool:
    """Whether the definition is served."""
    return _condition(answer, "Established") == "True"


def refused(answer: Answer) -> bool:
    """Whether the definition cannot have its names."""
    return _condition(answer, "Established") == "False"


def gone(answer: Answer) -> bool:
    """Whether nothing is there any more."""
    return answer.code == 404


def served(answer: Answer) -> bool:
    """Whether a kind answers; one that has just been installed asks for patience."""
    return answer.code == 200


def _condition(answer: Answer, kind: str) -> str:
    status = answer.body.get("status") if isinstance(answer.body, dict) else None
    conditions = (status.get("conditions") if isinstance(status, dict) else None) or ()
    return next((each["status"] for each in conditions if each["type"] == kind), "")


def installed(crd: Object, *, served_version: str = "v1") -> list[Step]:
    """Steps that install a definition, if it is not there, and wait until its kind is served."""
    name, spec = crd["metadata"]["name"], crd["spec"]
    return [
        made(DEFINITIONS, crd),
        get(f"{DEFINITIONS}/{name}", until=established, compared=False),
        get(f"/apis/{spec['group']}/{served_version}/{spec['names']['plural']}", until=served, compared=False),
    ]


def removed(crd: Object) -> list[Step]:
    """Steps that remove a definition."""
    name = crd["metadata"]["name"]
    return [
        delete(f"{DEFINITIONS}/{name}", compared=False),
        get(f"{DEFINITIONS}/{name}", until=gone, compared=False),
    ]


_SPEC = struct(
    {
        "size": {**NUMBER, "minimum": 0, "maximum": 10},
        "replicas": NUMBER,
        "text": {**TEXT, "maxLength": 8, "pattern": "^[a-z]*$"},
        "mode": {**TEXT, "enum": ["a", "b"], "default": "a"},
        "maybe": {**TEXT, "nullable": True},
        "given": {**TEXT, "nullable": True, "default": "g"},
        "inner": struct({"x": {**NUMBER, "default": 3}, "y": TEXT}, default={}),
        "amount": {"x-kubernetes-int-or-string": True},
        "when": {**TEXT, "format": "date-time"},
        "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set", "maxItems": 4},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": struct({"name": TEXT, "value": NUMBER, "note": TEXT}, required=["name"]),
        },
        "whole": {"type": "array", "x-kubernetes-list-type": "atomic", "items": NUMBER},
        "map": {"type": "object", "additionalProperties": NUMBER, "maxProperties": 3},
        "atom": {"type": "object", "additionalProperties": TEXT, "x-kubernetes-map-type": "atomic"},
        "free": {**ANYTHING, "properties": {"known": struct({"k": TEXT})}},
        "embedded": {**ANYTHING, "x-kubernetes-embedded-resource": True},
        "fixed": {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]},
        "low": NUMBER,
        "high": NUMBER,
        "flag": {"type": "boolean"},
        "side": struct({"left": TEXT, "right": TEXT}, oneOf=[{"required": ["left"]}, {"required": ["right"]}]),
        "number": {"type": "number", "multipleOf": 0.5},
    },
    required=["size"],
    **{
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.low) || !has(self.high) || self.low <= self.high",
                "messageExpression": "'low is above high of ' + (has(self.text) ? self.text : 'nothing')",
                "fieldPath": ".low",
                "reason": "FieldValueForbidden",
            },
            {"rule": "self.size >= oldSelf.size", "message": "must not shrink"},
            {"rule": "!has(self.text) || self.text != 'bad'"},
        ]
    },
)
_STATUS = struct({"phase": TEXT, "ready": NUMBER, "selector": TEXT})
_COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how large"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
    {"name": "Tags", "type": "string", "jsonPath": ".spec.tags"},
    {"name": "First", "type": "string", "jsonPath": ".spec.parts[0].name"},
    {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag"},
    {"name": "When", "type": "date", "jsonPath": ".spec.when"},
    {"name": "Number", "type": "number", "format": "double", "jsonPath": ".spec.number"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
WIDGET = definition(
    "widgets",
    "Widget",
    version(
        schema=struct({"spec": _SPEC, "status": _STATUS}, required=["spec"]),
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.ready",
                "labelSelectorPath": ".status.selector",
            },
        },
        additionalPrinterColumns=_COLUMNS,
        selectableFields=[{"jsonPath": ".spec.mode"}, {"jsonPath": ".spec.size"}, {"jsonPath": ".spec.flag"}],
    ),
    group=GROUP,
    shortNames=["wg"],
    categories=["all"],
)
"""A definition with something of everything, which the exchanges share."""
READY = installed(WIDGET)
"""The steps with which an exchange about Widgets begins."""
FIRST = len(READY)
"""The place of the first step after those."""
FULL: Object = {
    "size": 3,
    "replicas": 2,
    "text": "abc",
    "maybe": None,
    "given": None,
    "inner": {"y": "z"},
    "amount": "5%",
    "when": "2020-01-02T03:04:05Z",
    "tags": ["a", "b"],
    "parts": [{"name": "p", "value": 1}],
    "whole": [2, 1],
    "map": {"m": 1},
    "atom": {"a": "b"},
    "free": {"a": {"b": 1}, "known": {"k": "v", "unknown": 1}},
    "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "more": 1},
    "fixed": "f",
    "flag": True,
    "number": 1.5,
}
"""The spec of a Widget with every field."""


def widget(name: str = "a", *, metadata: Object | None = None, **spec: Any) -> Object:
    """A Widget."""
    about = {"name": name, **(metadata or {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": about, "spec": spec}
