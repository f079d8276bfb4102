"""The rules of the two questions that a client asks about itself: who am I, and may I. Neither is stored.

Whoever is authenticated is the administrator here, so the answer to the second is always yes.
"""

from __future__ import annotations

from edgewright.local.errors import invalid as invalid_object
from edgewright.local.field_errors import invalid
from edgewright.local.served import Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import Kind, RawObject

_ANONYMOUS = Kind(group="authorization.k8s.io", version="v1", kind="", plural="")
"""The real server names no kind in what it refuses here."""


class SelfSubjectReviewRules(BuiltinRules):
    """Tells a client as whom it is known."""

    definition = "io.k8s.api.authentication.v1.SelfSubjectReview"

    def respond(self, obj: RawObject, write: Write) -> RawObject:
        """The review with the user in its status."""
        told = {
            "username": write.user,
            "uid": write.uid,
            "groups": list(write.groups),
            "extra": {name: list(values) for name, values in write.extra.items()},
        }
        user = {name: value for name, value in told.items() if value}
        metadata = {"creationTimestamp": write.now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return {**obj, "metadata": metadata, "status": {"userInfo": user}}


class SelfSubjectAccessReviewRules(BuiltinRules):
    """Tells a client what it may do."""

    definition = "io.k8s.api.authorization.v1.SelfSubjectAccessReview"

    def respond(self, obj: RawObject, write: Write) -> RawObject:
        """The review with a yes in its status."""
        if causes := _faults(obj):
            raise invalid_object(_ANONYMOUS, "", causes)
        return {**obj, "status": {"allowed": True}}


def _faults(obj: RawObject) -> list[Cause]:
    spec, causes = obj["spec"], []
    if "resourceAttributes" in spec and "nonResourceAttributes" in spec:
        why = "cannot be specified in combination with resourceAttributes"
        given = spec["nonResourceAttributes"]
        shown = {"Path": given.get("path", ""), "Verb": given.get("verb", "")}
        causes.append(invalid("spec.nonResourceAttributes", shown, why))
    elif "resourceAttributes" not in spec and "nonResourceAttributes" not in spec:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(invalid("spec.resourceAttributes", None, why))
    if any(name != "managedFields" for name in obj["metadata"]):
        causes.append(invalid("metadata", obj["metadata"], "must be empty"))
    return causes
