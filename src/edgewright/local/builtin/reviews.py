"""The rules of the questions that are asked about identities and rights: who am I, may I, may they, whose token is it.

None of them is stored: the answer is the question with a status. What is decided is decided in `access`.
"""

from __future__ import annotations

from typing import Any

from edgewright.local.access.attributes import Attributes
from edgewright.local.access.authentication import User
from edgewright.local.access.policy import Rule
from edgewright.local.errors import bad_request
from edgewright.local.errors import invalid as invalid_object
from edgewright.local.field_errors import invalid
from edgewright.local.served import Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import Kind, RawObject

AUTHENTICATION = "io.k8s.api.authentication.v1"
AUTHORIZATION = "io.k8s.api.authorization.v1"
_ANONYMOUS = Kind(group="authorization.k8s.io", version="v1", kind="", plural="")
"""The real server names no kind in what it refuses here."""


class SelfSubjectReviewRules(BuiltinRules):
    """Tells a client as whom it is known."""

    definition = f"{AUTHENTICATION}.SelfSubjectReview"

    def respond(self, obj: RawObject, write: Write) -> RawObject:
        """The review with the user in its status."""
        metadata: RawObject = {"creationTimestamp": write.now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        if owners := obj["metadata"].get("managedFields"):
            metadata["managedFields"] = owners
        return {**obj, "metadata": metadata, "status": {"userInfo": _user_info(write.caller)}}


class TokenReviewRules(BuiltinRules):
    """Tells whose a token is."""

    definition = f"{AUTHENTICATION}.TokenReview"

    def respond(self, obj: RawObject, write: Write) -> RawObject:
        """The review with the user of the token in its status, if it is anybody's."""
        spec = obj["spec"]
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        found = write.recognise(spec["token"], spec.get("audiences") or ())
        status: RawObject = {"user": {}}
        if found.user is not None:
            status = {"authenticated": True, "user": _user_info(found.user)}
            if found.audiences:
                status["audiences"] = list(found.audiences)
        elif found.fault:
            status["error"] = found.fault
        return {**obj, "status": status}


class SelfSubjectAccessReviewRules(BuiltinRules):
    """Tells a client what it may do."""

    definition = f"{AUTHORIZATION}.SelfSubjectAccessReview"

    def respond(self, obj: RawObject, write: Write) -> RawObject:
        """The review with a yes or a no in its status."""
        if causes := _attribute_faults(obj["spec"]) + _metadata_faults(obj, "must be empty"):
            raise invalid_object(_ANONYMOUS, "", causes)
        return {**obj, "status": _decided(obj["spec"], write.caller, write)}


class SubjectAccessReviewRules(BuiltinRules):
    """Tells what somebody else may do."""

    definition = f"{AUTHORIZATION}.SubjectAccessReview"

    def respond(self, obj: RawObject, write: Write) -> RawObject:
        """The review with a yes or a no in its status."""
        causes = self.faults(obj)
        if causes:
            raise invalid_object(_ANONYMOUS, "", causes)
        spec = obj["spec"]
        user = User(name=spec.get("user", ""), groups=tuple(spec.get("groups") or ()), uid=spec.get("uid", ""))
        return {**obj, "status": _decided(spec, user, write)}

    def faults(self, obj: RawObject) -> list[Cause]:
        """What is wrong with the question."""
        return _subject_faults(obj["spec"]) + _metadata_faults(obj, "must be empty")


class LocalSubjectAccessReviewRules(SubjectAccessReviewRules):
    """Tells what somebody else may do in one namespace."""

    definition = f"{AUTHORIZATION}.LocalSubjectAccessReview"

    def faults(self, obj: RawObject) -> list[Cause]:
        """As for all namespaces, and it asks about its own."""
        spec = obj["spec"]
        causes = _subject_faults(spec) + _metadata_faults(obj, "must be empty except for namespace", "namespace")
        asked = (spec.get("resourceAttributes") or {}).get("namespace", "")
        if "resourceAttributes" in spec and asked != obj["metadata"].get("namespace", ""):
            path = "spec.resourceAttributes.namespace"
            causes.append(invalid(path, asked, "must match metadata.namespace"))
        if "nonResourceAttributes" in spec:
            shown = _path_shown(spec["nonResourceAttributes"])
            causes.append(invalid("spec.nonResourceAttributes", shown, "disallowed on this kind of request"))
        return causes


class SelfSubjectRulesReviewRules(BuiltinRules):
    """Tells a client all that it may do in a namespace."""

    definition = f"{AUTHORIZATION}.SelfSubjectRulesReview"

    def respond(self, obj: RawObject, write: Write) -> RawObject:
        """The rules that the client has."""
        namespace = obj["spec"].get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules, problems = ((), ()) if write.rights is None else write.rights.rules(write.caller, namespace)
        status: RawObject = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [_path_rule(rule) for rule in rules if rule.non_resource_urls],
            "incomplete": False,
        }
        if problems:
            status["evaluationError"] = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        return {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": {}, "spec": {}, "status": status}


def _user_info(user: User) -> RawObject:
    told = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra.items()},
    }
    return {name: value for name, value in told.items() if value}


def _decided(spec: RawObject, user: User, write: Write) -> RawObject:
    """The status of a review: a yes or a no, and why."""
    if write.rights is None:
        return {"allowed": False}
    decision = write.rights.decide(_attributes(spec), user)
    return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}


def _attributes(spec: RawObject) -> Attributes:
    if (path := spec.get("nonResourceAttributes")) is not None:
        return Attributes(verb=path.get("verb", ""), path=path.get("path", "") or "/")
    asked: dict[str, Any] = spec["resourceAttributes"]
    return Attributes(
        verb=asked.get("verb", ""),
        group=asked.get("group", ""),
        resource=asked.get("resource", ""),
        subresource=asked.get("subresource", ""),
        name=asked.get("name", ""),
        namespace=asked.get("namespace", ""),
    )


def _resource_rule(rule: Rule) -> RawObject:
    told = {
        "verbs": list(rule.verbs),
        "apiGroups": list(rule.api_groups),
        "resources": list(rule.resources),
        "resourceNames": list(rule.resource_names),
    }
    return {name: value for name, value in told.items() if value}


def _path_rule(rule: Rule) -> RawObject:
    return {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.non_resource_urls)}


def _path_shown(given: RawObject) -> RawObject:
    return {"Path": given.get("path", ""), "Verb": given.get("verb", "")}


def _attribute_faults(spec: RawObject) -> list[Cause]:
    if "resourceAttributes" in spec and "nonResourceAttributes" in spec:
        why = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", _path_shown(spec["nonResourceAttributes"]), why)]
    if "resourceAttributes" not in spec and "nonResourceAttributes" not in spec:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, why)]
    return []


def _subject_faults(spec: RawObject) -> list[Cause]:
    causes = _attribute_faults(spec)
    if not spec.get("user") and not spec.get("groups"):
        causes.append(invalid("spec.user", spec.get("user", ""), "at least one of user or group must be specified"))
    return causes


def _metadata_faults(obj: RawObject, why: str, *allowed: str) -> list[Cause]:
    if any(name not in ("managedFields", *allowed) for name in obj["metadata"]):
        return [invalid("metadata", obj["metadata"], why)]
    return []
