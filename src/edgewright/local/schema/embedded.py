"""Whole Kubernetes objects inside of objects have an apiVersion, a kind and metadata that is right.

`Compiled.validate` calls it for objects of custom kinds. The metadata of the object itself is validated by the request
path, and what else is in an embedded object by its schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgewright.local import names
from edgewright.local.schema import value_errors
from edgewright.local.schema.nodes import Node
from edgewright.local.selectors import label_key_faults, label_value_faults
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject


def embedded_faults(value: Any, node: Node | None, path: str = "", *, root: bool = True) -> Iterator[Cause]:
    """What is wrong with the identity of each embedded object in a value."""
    if node is None:
        return
    if isinstance(value, dict):
        if node.embedded and not root:
            yield from _identity_faults(value, path)
        for name, child in value.items():
            if name in node.properties:
                below = f"{path}.{name}" if path else name
                yield from embedded_faults(child, node.properties[name], below, root=False)
            else:
                yield from embedded_faults(child, node.values, f"{path}[{name}]", root=False)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from embedded_faults(item, node.items, f"{path}[{index}]", root=False)


def _identity_faults(obj: RawObject, path: str) -> Iterator[Cause]:
    for name in ("apiVersion", "kind"):
        field = f"{path}.{name}"
        if name not in obj:
            yield value_errors.required(field)
        elif not isinstance(obj[name], str):
            yield value_errors.invalid(field, obj[name], "must be a string")
        elif not obj[name]:
            yield value_errors.invalid(field, "", "must not be empty")
        elif name == "apiVersion" and obj[name].count("/") > 1:
            yield value_errors.invalid(field, obj[name], f"unexpected GroupVersion string: {obj[name]}")
        elif name == "kind" and (wrong := names.label1035(obj[name].lower())):
            why = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            yield value_errors.invalid(field, obj[name], why)
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        yield from _metadata_faults(metadata, f"{path}.metadata")


def _metadata_faults(metadata: RawObject, path: str) -> Iterator[Cause]:
    for name in ("generateName", "name"):
        given = metadata.get(name)
        if isinstance(given, str) and given:
            wrong = names.prefix("path", given) if name == "generateName" else names.path_segment(given)
            yield from (value_errors.invalid(f"{path}.{name}", given, why) for why in wrong)
    namespace = metadata.get("namespace")
    if isinstance(namespace, str) and namespace:
        yield from (value_errors.invalid(f"{path}.namespace", namespace, why) for why in names.label(namespace))
    labels = metadata.get("labels")
    for key, value in labels.items() if isinstance(labels, dict) else ():
        yield from (value_errors.invalid(f"{path}.labels", key, why) for why in label_key_faults(key))
        if isinstance(value, str):
            yield from (value_errors.invalid(f"{path}.labels", value, why) for why in label_value_faults(value))
    annotations = metadata.get("annotations")
    for key in annotations if isinstance(annotations, dict) else ():
        yield from (value_errors.invalid(f"{path}.annotations", key, why) for why in label_key_faults(key.lower()))
    for each in metadata.get("finalizers") or ():
        if isinstance(each, str):
            yield from (value_errors.invalid(f"{path}.finalizers", each, why) for why in label_key_faults(each))
