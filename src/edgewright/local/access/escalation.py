"""Nobody gives a right that they do not have: the checks of whoever writes roles and bindings.

The rules of the four kinds call `check_role` and `check_binding` before an object is stored. The right to `escalate` a
role, or to `bind` one, stands for all that is in it. Refusals are worded as kube-apiserver words them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from edgewright.local.access.attributes import Attributes
from edgewright.local.access.authentication import User
from edgewright.local.access.authorization import MASTERS, Authorizer, RoleMissing, RoleRef
from edgewright.local.access.policy import ALL, Rule, compact, quoted, uncovered
from edgewright.local.errors import Refusal, forbidden, not_found
from edgewright.local.go_format import quote
from edgewright.runtime.objects import Kind, RawObject

_EVERYTHING: Final = (
    Rule(verbs=(ALL,), api_groups=(ALL,), resources=(ALL,)),
    Rule(verbs=(ALL,), non_resource_urls=(ALL,)),
)
_NOT_AGGREGATED: Final = "must have cluster-admin privileges to use the aggregationRule"


def check_role(rights: Authorizer, user: User, kind: Kind, obj: RawObject, old: RawObject | None) -> None:
    """Refuses a role with more in it than its author has."""
    about = obj["metadata"]
    namespace = about.get("namespace", "") if kind.namespaced else ""
    asked = Attributes(
        verb="escalate",
        group=kind.group,
        resource=kind.plural,
        # A new object is named in its body, which a right cannot be about.
        name=old["metadata"]["name"] if old else "",
        namespace=namespace,
    )
    if MASTERS in user.groups or rights.allows(asked, user):
        return
    rules = msgspec.convert(obj.get("rules") or [], tuple[Rule, ...])
    if why := _missing(rights, user, namespace, rules):
        raise forbidden(kind, _name(about), why)
    aggregates = any((each or {}).get("aggregationRule", {}).get("clusterRoleSelectors") for each in (obj, old))
    if aggregates and _missing(rights, user, namespace, _EVERYTHING):
        raise forbidden(kind, _name(about), _NOT_AGGREGATED)


def check_binding(rights: Authorizer, user: User, kind: Kind, obj: RawObject) -> None:
    """Refuses to give a role with more in it than the binding's author has."""
    if MASTERS in user.groups:
        return
    about = obj["metadata"]
    namespace = about.get("namespace", "") if kind.namespaced else ""
    ref = msgspec.convert(obj["roleRef"], RoleRef)
    plural = {"ClusterRole": "clusterroles", "Role": "roles"}.get(ref.kind)
    asked = Attributes(verb="bind", group=ref.api_group, resource=plural or "", name=ref.name, namespace=namespace)
    if plural and rights.allows(asked, user):
        return
    try:
        rules = rights.rules_of(ref, namespace)
    except RoleMissing as missing:
        if plural is None:
            raise Refusal(500, "", str(missing)) from None
        raise not_found(kind, ref.name) from None  # so the real server says it, as if the binding were not there
    if why := _missing(rights, user, namespace, rules):
        raise forbidden(kind, _name(about), why)


def _name(about: RawObject) -> str:
    """The name that the author gave; the real server makes one up only after these checks."""
    name: str = about.get("name", "")
    prefix = about.get("generateName")
    return "" if prefix and name.startswith(prefix) else name


def _missing(rights: Authorizer, user: User, namespace: str, wanted: Sequence[Rule]) -> str:
    """That a user would give what it does not have; empty where it has all."""
    owned, problems = rights.rules(user, namespace)
    lacking = uncovered(owned, wanted)
    if not lacking:
        return ""
    shown = "\n".join(sorted({rule.text() for rule in compact(lacking)}))
    why = (
        f"user {quote(user.name)} (groups={quoted(user.groups)}) is attempting to grant RBAC permissions "
        f"not currently held:\n{shown}"
    )
    if not problems:
        return why
    found = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return f"{why}; resolution errors: [{found}]"
