"""The conditions of a CustomResourceDefinition and its state by them, as plain functions on the object.

`definition` sets one when a deletion begins and `crd_controller` sets the others. A condition keeps the time of its
last change as long as its status stays the same.
"""

from __future__ import annotations

from datetime import datetime

from edgewright.runtime.objects import RawObject

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a deleted definition until its objects are gone."""


def is_true(crd: RawObject, name: str) -> bool:
    """Whether the definition has this condition with status True."""
    condition = find(crd, name)
    return condition is not None and condition.get("status") == "True"


def find(crd: RawObject, name: str) -> RawObject | None:
    """The condition of this type, if the definition has it."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == name), None)


def set_condition(crd: RawObject, condition: RawObject, now: datetime) -> None:
    """Puts a condition in, in place; its time is now only where its status changes."""
    status = crd.get("status") or {}
    conditions = [dict(each) for each in status.get("conditions") or ()]
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    for each in conditions:
        if each.get("type") == condition["type"]:
            if each.get("status") != condition["status"]:
                each["lastTransitionTime"] = at
            each.update(condition)
            break
    else:
        head = {"type": condition["type"], "status": condition["status"], "lastTransitionTime": at}
        conditions.append({**head, **condition})
    crd["status"] = {**status, "conditions": conditions}


def terminating(reason: str, message: str, *, going: bool) -> RawObject:
    """The condition that tells how far the deletion of a definition's objects has come."""
    return {"type": "Terminating", "status": "True" if going else "False", "reason": reason, "message": message}
