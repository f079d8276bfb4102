"""The scale subresource: an object's replicas as an autoscaling/v1 Scale, and back.

`server` calls these for GET, PUT and PATCH of `/scale`. Where the numbers are is said by the kind's definition.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from edgewright.local import labelselector, tables
from edgewright.local.apply.scale import FIELDS, entries_of_object, entries_of_scale, record_scale
from edgewright.local.builtin import checks
from edgewright.local.errors import conflict, invalid
from edgewright.local.go_format import quote
from edgewright.local.served import ScalePaths, Served
from edgewright.local.serving import metadata
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.objects import Kind, RawObject

__all__ = ["FIELDS", "SCALE", "applied", "of", "owned", "put", "record", "replicas", "served"]

SCALE: Final = Kind(group="autoscaling", version="v1", kind="Scale", plural="scales")
_COLUMNS, _ROW = tables.scale_columns()
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class _ScaleRules(BuiltinRules):
    definition = "io.k8s.api.autoscaling.v1.Scale"


_RULES: Final = _ScaleRules()


def served(of: Served) -> Served:
    """The Scales of a kind as a kind of their own: how they are read, and how they look as a table."""
    return dataclasses.replace(of, kind=SCALE, custom=False, rules=_RULES, columns=_COLUMNS, row=_ROW)


def of(served: Served, obj: RawObject) -> RawObject:
    """The Scale of an object."""
    paths = _paths(served)
    about = metadata.of(obj)
    spec: RawObject = {}
    if replicas := _find(obj, paths.spec_replicas):
        spec["replicas"] = replicas
    status: RawObject = {"replicas": _find(obj, paths.status_replicas) or 0}
    if paths.selector and (selector := _find(obj, paths.selector)):
        status["selector"] = selector if isinstance(selector, str) else labelselector.text(selector)
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {name: about[name] for name in _SHOWN if about.get(name)},
        "spec": spec,
        "status": status,
    }


def owned(served: Served, obj: RawObject) -> RawObject:
    """The Scale of an object, and who owns its replicas."""
    shown = of(served, obj)
    entries = entries_of_scale(metadata.of(obj).get("managedFields") or [], path=_paths(served).spec_replicas)
    return {**shown, "metadata": {**shown["metadata"], "managedFields": entries}}


def put(served: Served, obj: RawObject, scale: RawObject, name: str) -> RawObject:
    """The object with the replicas that a Scale asks for; a Scale of another object or state is refused."""
    about, there = metadata.of(scale), metadata.of(obj)
    metadata.match_name(scale, name)
    wanted = scale["spec"].get("replicas", 0)
    if not served.custom and wanted < 0:
        raise invalid(SCALE, name, checks.not_negative("spec.replicas", wanted))
    if about.get("uid") and about["uid"] != there.get("uid"):
        why = f"Precondition failed: UID in precondition: {about['uid']}, UID in object meta: {there.get('uid')}"
        raise conflict(served.kind, name, why)
    # Without a version the object is scaled whatever its state.
    there["resourceVersion"] = about.get("resourceVersion") or ""
    _set(obj, _paths(served).spec_replicas, wanted)
    return obj


def applied(served: Served, obj: RawObject, scale: RawObject, name: str) -> RawObject:
    """The object with the replicas of a Scale that was merged with its own, and with the owners that came of it."""
    owners, entries = metadata.of(scale).pop("managedFields", []), metadata.of(obj).get("managedFields") or []
    metadata.of(scale).pop("resourceVersion", None)
    after = put(served, obj, scale, name)
    path, api_version = _paths(served).spec_replicas, served.kind.api_version
    metadata.of(after)["managedFields"] = entries_of_object(entries, owners, path=path, api_version=api_version)
    return after


def replicas_field(served: Served) -> str:
    """Where the wanted replicas of a kind are, as its definition says it."""
    return quote("." + ".".join(_paths(served).spec_replicas))


def replicas(served: Served, obj: RawObject) -> int | None:
    """How many replicas an object wants."""
    found = _find(obj, _paths(served).spec_replicas)
    return found if isinstance(found, int) else None


def record(served: Served, obj: RawObject, *, before: int | None, manager: str, now: datetime) -> None:
    """Gives the replicas of a scaled object to who has scaled it."""
    about = metadata.of(obj)
    about["managedFields"] = record_scale(
        about.get("managedFields") or [],
        before=before,
        after=replicas(served, obj) or 0,
        path=_paths(served).spec_replicas,
        manager=manager,
        api_version=served.kind.api_version,
        now=now,
    )


def _paths(served: Served) -> ScalePaths:
    assert served.scale is not None  # noqa: S101  the subresource is served only where there are paths
    return served.scale


def _find(obj: RawObject, path: Sequence[str]) -> Any:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _set(obj: RawObject, path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        obj = obj.setdefault(name, {})
    obj[path[-1]] = value
