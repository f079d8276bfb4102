"""What every object's metadata goes through: filled in on create, kept on update, validated as the real server does.

The write path calls these for all kinds, before and after the rules of the kind itself. Objects are changed in place;
nothing is read or written elsewhere.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from edgewright.local import field_errors, names
from edgewright.local.builtin import checks
from edgewright.local.errors import Cause, bad_request
from edgewright.local.go_format import quote
from edgewright.local.selectors import label_key_faults
from edgewright.local.served import Served
from edgewright.runtime.objects import Kind, RawObject

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_OLD_GROUPS = frozenset(
    {"", "apps", "batch", "discovery.k8s.io", "events.k8s.io", "policy", "rbac.authorization.k8s.io"}
)
_OLD_EVENT = Kind(group="", version="v1", kind="Event", plural="events")
"""It takes nearly anything."""
_IMMUTABLE = "field is immutable"


def timestamp(moment: datetime) -> str:
    """A time as metadata has it: UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def of(obj: RawObject) -> RawObject:
    """The metadata of an object, made where it has none."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        metadata = obj["metadata"] = {}
    return metadata


def prepare_create(obj: RawObject, served: Served, namespace: str, now: datetime) -> None:
    """Gives a new object its namespace, name and identity; what only the server may say is dropped."""
    metadata = of(obj)
    _match_namespace(metadata, served, namespace)
    prefix = metadata.get("generateName")
    if prefix and not metadata.get("name"):
        metadata["name"] = names.generated(str(prefix))
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = timestamp(now)
    if served.rules.generations:
        metadata["generation"] = 1


def give_namespace(obj: RawObject, served: Served, namespace: str) -> None:
    """Gives an object that is not stored the namespace of its request."""
    _match_namespace(of(obj), served, namespace)


def wipe(obj: RawObject) -> None:
    """Takes what only the server may say out of a new object."""
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        of(obj).pop(name, None)


def prepare_update(obj: RawObject, old: RawObject, served: Served, namespace: str) -> None:
    """Puts back what an update may not change, so that a client may leave it out."""
    metadata, before = of(obj), of(old)
    _match_namespace(metadata, served, namespace)
    _keep(metadata, before, "generation")
    if not metadata.get("uid"):
        metadata["uid"] = before.get("uid", "")
    _keep(metadata, before, "creationTimestamp")
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in before:
        metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])


def _keep(metadata: RawObject, before: RawObject, name: str) -> None:
    if name in before:
        metadata[name] = before[name]
    else:
        metadata.pop(name, None)


def _match_namespace(metadata: RawObject, served: Served, namespace: str) -> None:
    if not served.kind.namespaced:
        metadata.pop("namespace", None)
    elif not metadata.get("namespace"):
        metadata["namespace"] = namespace
    elif metadata["namespace"] != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def match_name(obj: RawObject, name: str) -> None:
    """An object that is put at a path must say the name of the path."""
    said = of(obj).get("name") or ""
    if said != name:
        if not said:
            raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
        raise bad_request(f"the name of the object ({said}) does not match the name on the URL ({name})")


def created_faults(obj: RawObject, served: Served) -> list[Cause]:
    """What is wrong with the metadata of a new object."""
    metadata = of(obj)
    found = []
    rule = served.rules.name_rule
    if prefix := metadata.get("generateName"):
        found += [field_errors.invalid("metadata.generateName", prefix, why) for why in names.prefix(rule, prefix)]
    if not metadata.get("name"):
        found.append(field_errors.required("metadata.name", "name or generateName is required"))
    else:
        name = metadata["name"]
        found += [field_errors.invalid("metadata.name", name, why) for why in names.RULES[rule](name)]
    return found + _common_faults(metadata, served)


def updated_faults(obj: RawObject, old: RawObject, served: Served) -> list[Cause]:
    """What is wrong with the metadata of a changed object, or with the change."""
    metadata, before = of(obj), of(old)
    found = _common_faults(metadata, served)
    if "deletionTimestamp" in before:
        added = sorted(set(metadata.get("finalizers") or ()) - set(before.get("finalizers") or ()))
        if added:
            listed = ", ".join(quote(each) for each in added)
            why = "no new finalizers can be added if the object is being deleted, found new finalizers"
            found.append(field_errors.forbidden("metadata.finalizers", f"{why} []string{{{listed}}}"))
    found += [
        field_errors.invalid(f"metadata.{name}", metadata.get(name, ""), _IMMUTABLE)
        for name in _FIXED
        if metadata.get(name, "") != before.get(name, "")
    ]
    return found


def _common_faults(metadata: RawObject, served: Served) -> list[Cause]:
    found = []
    if served.kind.namespaced:
        if not metadata.get("namespace"):
            found.append(field_errors.required("metadata.namespace"))
        else:
            namespace = metadata["namespace"]
            found += [field_errors.invalid("metadata.namespace", namespace, why) for why in names.label(namespace)]
    found += checks.labels("metadata.labels", metadata.get("labels") or {})
    found += checks.notes("metadata.annotations", metadata.get("annotations") or {})
    found += _owner_faults(metadata.get("ownerReferences") or [])
    finalizers = metadata.get("finalizers") or []
    found += _finalizer_faults(finalizers)
    if not served.custom and served.kind.group in _OLD_GROUPS and served.kind != _OLD_EVENT:
        found += _plain_finalizer_faults(finalizers)
    return found


def _owner_faults(owners: list[RawObject]) -> list[Cause]:
    field = "metadata.ownerReferences"
    found = []
    controller = ""
    for owner in owners:
        if not str(owner.get("apiVersion", "")).rpartition("/")[2]:
            found.append(
                field_errors.invalid(f"{field}.apiVersion", owner.get("apiVersion", ""), "version must not be empty")
            )
        missing = [name for name in ("kind", "name", "uid") if not owner.get(name)]
        found += [field_errors.invalid(f"{field}.{name}", "", "must not be empty") for name in missing]
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            found.append(field_errors.invalid(field, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            current = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                why = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {current}"
                )
                found.append(field_errors.invalid(field, owners, why))
            else:
                controller = current
    return found


def _plain_finalizer_faults(finalizers: list[Any]) -> list[Cause]:
    """Kinds of old want finalizers to say whose they are."""
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        field_errors.invalid(f"metadata.finalizers[{index}]", each, why)
        for index, each in enumerate(finalizers)
        if "/" not in each and each not in (ORPHAN, FOREGROUND, "kubernetes")
    ]


def _finalizer_faults(finalizers: list[Any]) -> list[Cause]:
    field = "metadata.finalizers"
    found = [field_errors.invalid(field, each, why) for each in finalizers for why in label_key_faults(each)]
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        why = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        found.append(field_errors.invalid(field, finalizers, why))
    return found
