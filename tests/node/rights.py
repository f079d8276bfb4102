"""Which rights our service accounts have in a cluster, and which of them the API server saw used.

The test of rights compares the two by the audit log of the whole run. A right is a verb on a resource of a group; where
a rule names objects, those count as their resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tests.harness import ControlPlane

SYSTEM: Final = "edgewright-system"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource, of one account."""

    account: str
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        """As it stands in the file of rights that are not seen."""
        return f"{self.account}: {self.verb} {'.'.join(filter(None, (self.resource, self.group)))}"


def granted(server: ControlPlane, *, namespaced: bool = True) -> set[Right]:
    """What the roles of our installation grant to its service accounts; without those in its namespace, if so said."""
    roles = {
        (each["kind"], each["metadata"]["name"]): each["rules"] or ()
        for kind, path in (("ClusterRole", "clusterroles"), ("Role", f"namespaces/{SYSTEM}/roles"))
        for each in ({**item, "kind": kind} for item in server.request("GET", f"{_RBAC}/{path}")["items"])
    }
    bindings = [
        *server.request("GET", f"{_RBAC}/clusterrolebindings")["items"],
        *(server.request("GET", f"{_RBAC}/namespaces/{SYSTEM}/rolebindings")["items"] if namespaced else ()),
    ]
    found: set[Right] = set()
    for binding in bindings:
        reference = binding["roleRef"]
        for subject in binding.get("subjects") or ():
            if subject["kind"] == "ServiceAccount" and subject.get("namespace") == SYSTEM:
                found |= _of_rules(subject["name"], roles[reference["kind"], reference["name"]])
    return found


def _of_rules(account: str, rules: Iterable[Mapping[str, Any]]) -> set[Right]:
    return {
        Right(account, group, resource, verb)
        for rule in rules
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }


def _ours(event: Mapping[str, Any]) -> str:
    """The service account of ours that made a request; empty where none did."""
    name: str = event["user"].get("username", "")
    prefix = f"system:serviceaccount:{SYSTEM}:"
    return name.removeprefix(prefix) if name.startswith(prefix) else ""


def used(events: Iterable[Mapping[str, Any]]) -> set[Right]:
    """What our accounts did, as the API server wrote it down."""
    found = set()
    for event in events:
        account, reference = _ours(event), event.get("objectRef")
        if account and reference and "resource" in reference:
            resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
            found.add(Right(account, reference.get("apiGroup", ""), resource, event["verb"]))
    return found


def refused(events: Iterable[Mapping[str, Any]], but: Iterable[tuple[datetime, datetime]] = ()) -> list[str]:
    """What the API server refused to accounts of ours for want of a right, at any time but these."""
    times = list(but)

    def excused(event: Mapping[str, Any]) -> bool:
        asked = datetime.fromisoformat(event["requestReceivedTimestamp"])
        return any(begin <= asked <= end for begin, end in times)

    def for_want_of_a_right(event: Mapping[str, Any]) -> bool:
        # What admission refuses, as Pod Security does, is answered with 403 too.
        allowed = event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow"
        return event.get("responseStatus", {}).get("code") == 403 and not allowed

    return [
        f"{_ours(event)}: {event['verb']} {event['requestURI']}"
        for event in events
        if _ours(event) and for_want_of_a_right(event) and not excused(event)
    ]
