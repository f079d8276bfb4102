"""What `kubectl explain` says of the metadata that every object has, in words of our own.

The OpenAPI documents put these in; the other built-in fields are published without descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from edgewright.runtime.objects import RawObject

_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OF_METADATA: Final = {
    "annotations": "Annotations are texts by name that tools keep with the object; nothing is selected by them.",
    "creationTimestamp": "CreationTimestamp is a timestamp that the server sets when the object is made.",
    "deletionGracePeriodSeconds": "How many seconds the object may live on after its deletion was asked for.",
    "deletionTimestamp": "The time at which the object is to be gone; set by the server when it is deleted.",
    "finalizers": "What must be done before a deleted object goes; each is removed by whoever has done it.",
    "generateName": "The beginning of a name that the server completes where no name is given.",
    "generation": "A number that grows with each change of what is wanted.",
    "labels": "Labels are short texts by name by which objects are selected.",
    "managedFields": "Who has set which fields, and when.",
    "name": "The name of the object, unique for its kind within its namespace.",
    "namespace": "The namespace that the object is in; empty for kinds that are in none.",
    "ownerReferences": "The objects that this one belongs to; it goes when they have all gone.",
    "resourceVersion": "The state of the object, for watches and for changes that must not overwrite others.",
    "selfLink": "No longer set.",
    "uid": "Tells this object from all others of the same name, before and after it.",
}


def described(definitions: Mapping[str, RawObject]) -> Mapping[str, RawObject]:
    """The definitions with descriptions of metadata."""
    plain = definitions.get(_OBJECT_META)
    if plain is None:
        return definitions
    fields = {
        name: {**schema, "description": _OF_METADATA[name]} if name in _OF_METADATA else schema
        for name, schema in plain["properties"].items()
    }
    description = "ObjectMeta is what every object that is kept has."
    return {**definitions, _OBJECT_META: {**plain, "description": description, "properties": fields}}
