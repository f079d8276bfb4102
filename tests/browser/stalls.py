"""A kind of somebody else's with everything that a schema can say: for the form that is made from it."""

from __future__ import annotations

from typing import Any, Final

STALLS: Final = "stalls.market.example.com"
TEXT: Final = {"type": "string"}
SPEC: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["owner", "goods"],
    "properties": {
        "owner": {**TEXT, "minLength": 3, "description": "Who pays the rent. An account at the market's office."},
        "row": {**TEXT, "enum": ["north", "south"], "default": "north", "description": "Where it stands."},
        "width": {"type": "integer", "minimum": 1, "maximum": 12, "default": 3, "description": "In metres."},
        "covered": {"type": "boolean", "description": "Whether it has a roof."},
        "goods": {
            "type": "array",
            "minItems": 1,
            "description": "What is sold.",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": TEXT,
                    "price": {"type": "number", "minimum": 0},
                    "tags": {"type": "array", "items": TEXT},
                },
            },
        },
        "hours": {
            "type": "object",
            "description": "When it is open.",
            "properties": {"from": {**TEXT, "pattern": "^[0-9]{2}:[0-9]{2}$"}, "to": TEXT},
        },
        "signs": {"type": "object", "additionalProperties": TEXT, "description": "A text for each language."},
        "share": {"x-kubernetes-int-or-string": True, "description": "A number, or a share in percent."},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "description": "Anything else."},
        "token": {**TEXT, "format": "password"},
        "since": {**TEXT, "format": "date-time"},
    },
}
STALL: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": STALLS},
    "spec": {
        "group": "market.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Stall", "listKind": "StallList", "plural": "stalls", "singular": "stall"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A stall on the market.",
                        "required": ["spec"],
                        "properties": {
                            "spec": SPEC,
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
"""Its definition."""
