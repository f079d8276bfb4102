"""The published schema of a condition, the same for every kind, with the limits that Kubernetes has for its own.

`schema` puts it wherever a struct holds a `runtime.objects.Condition`. The message may be left out, other than in
Kubernetes, because our structs leave out what is empty.
"""

from __future__ import annotations

from typing import Any, Final

_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"

CONDITION_SCHEMA: Final[dict[str, Any]] = {
    "description": "One aspect of the object's state at the time it was last looked at.",
    "type": "object",
    "required": ["type", "status", "reason", "lastTransitionTime"],
    "properties": {
        "type": {
            "description": "What is being said, for example Ready.",
            "type": "string",
            "pattern": rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?({_NAME})$",
            "maxLength": 316,
        },
        "status": {
            "description": "Whether it holds.",
            "type": "string",
            "enum": ["True", "False", "Unknown"],
        },
        "reason": {
            "description": "Why, in one word that programs can rely on.",
            "type": "string",
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            "minLength": 1,
            "maxLength": 1024,
        },
        "message": {
            "description": "Why, in a sentence for people.",
            "type": "string",
            "maxLength": 32768,
        },
        "lastTransitionTime": {
            "description": "When the status last changed.",
            "type": "string",
            "format": "date-time",
        },
        "observedGeneration": {
            "description": "The generation of the object that this was said about.",
            "type": "integer",
            "format": "int64",
            "minimum": 0,
        },
    },
}
