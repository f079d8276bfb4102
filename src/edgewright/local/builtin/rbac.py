"""The rules of roles and bindings: what their fields must be, and that nobody gives a right that they do not have.

`catalogue` lists the four kinds. What roles mean is decided in `access`; an aggregated ClusterRole gets its rules from
a controller.
"""

from __future__ import annotations

from typing import ClassVar

from edgewright.local import names
from edgewright.local.access import escalation
from edgewright.local.access.authorization import GROUP
from edgewright.local.builtin import labelselector
from edgewright.local.field_errors import invalid, required, unsupported
from edgewright.local.served import Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import Kind, RawObject

PACKAGE = "io.k8s.api.rbac.v1"
ROLE = Kind(group=GROUP, version="v1", kind="Role", plural="roles")
CLUSTER_ROLE = Kind(group=GROUP, version="v1", kind="ClusterRole", plural="clusterroles", namespaced=False)
ROLE_BINDING = Kind(group=GROUP, version="v1", kind="RoleBinding", plural="rolebindings")
CLUSTER_ROLE_BINDING = Kind(
    group=GROUP, version="v1", kind="ClusterRoleBinding", plural="clusterrolebindings", namespaced=False
)
_KEPT_BY_COLLECTORS = ("ownerReferences", "finalizers", "managedFields")


class RoleRules(BuiltinRules):
    """What is special about Roles."""

    definition = f"{PACKAGE}.Role"
    name_rule = "path"
    create_on_update = True
    kind: ClassVar[Kind] = ROLE

    def decode(self, obj: RawObject) -> tuple[RawObject, list[str]]:
        """As for every kind, but who says that there are no rules has an opinion on them."""
        read, unknown = super().decode(obj)
        if obj.get("rules") == []:
            read["rules"] = []
        return read, unknown

    def to_store(self, obj: RawObject) -> RawObject:
        """No rules are stored as nothing."""
        return {**obj, "rules": obj.get("rules") or None}

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """Whoever creates a role must have what is in it."""
        if write.rights is not None:
            escalation.check_role(write.rights, write.caller, self.kind, obj, None)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """As for a new one."""
        if write.rights is not None and not _only_collected(obj, old):
            escalation.check_role(write.rights, write.caller, self.kind, obj, old)

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """Every rule has verbs, and is about resources or about paths."""
        return [
            cause
            for index, rule in enumerate(obj.get("rules") or ())
            for cause in _rule_faults(rule, f"rules[{index}]", namespaced=self.kind.namespaced)
        ]


class ClusterRoleRules(RoleRules):
    """What is special about ClusterRoles."""

    definition = f"{PACKAGE}.ClusterRole"
    kind = CLUSTER_ROLE

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """An aggregated one also says whose rules it has."""
        causes = super().validate(obj, old, write)
        aggregation = obj.get("aggregationRule")
        if aggregation is None:
            return causes
        selectors = aggregation.get("clusterRoleSelectors") or ()
        path = "aggregationRule.clusterRoleSelectors"
        if not selectors:
            why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            causes.append(required(path, why))
        for index, selector in enumerate(selectors):
            found = labelselector.faults(f"{path}[{index}]", selector)
            causes += found
            if found:
                causes.append(invalid(f"{path}[{index}]", None, "invalid label selector."))
        return causes


class RoleBindingRules(BuiltinRules):
    """What is special about RoleBindings."""

    definition = f"{PACKAGE}.RoleBinding"
    name_rule = "path"
    create_on_update = True
    kind: ClassVar[Kind] = ROLE_BINDING
    roles: ClassVar[tuple[str, ...]] = ("Role", "ClusterRole")

    def default(self, obj: RawObject) -> None:
        """Users and groups are of this group, and so are roles."""
        if not obj["roleRef"].get("apiGroup"):
            obj["roleRef"]["apiGroup"] = GROUP
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = GROUP

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """Whoever gives a role must have what is in it, or may bind it."""
        if write.rights is not None:
            escalation.check_binding(write.rights, write.caller, self.kind, obj)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """As for a new one."""
        if write.rights is not None and not _only_collected(obj, old):
            escalation.check_binding(write.rights, write.caller, self.kind, obj)

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """It names a role, which stays, and those who get it."""
        ref, causes = obj["roleRef"], []
        if ref.get("apiGroup") != GROUP:
            causes.append(unsupported("roleRef.apiGroup", ref.get("apiGroup", ""), (GROUP,)))
        if ref.get("kind") not in self.roles:
            causes.append(unsupported("roleRef.kind", ref.get("kind", ""), self.roles))
        if not ref.get("name"):
            causes.append(required("roleRef.name"))
        else:
            causes += [invalid("roleRef.name", ref["name"], why) for why in names.path_segment(ref["name"])]
        for index, subject in enumerate(obj.get("subjects") or ()):
            causes += _subject_faults(subject, f"subjects[{index}]", namespaced=self.kind.namespaced)
        if old is not None and ref != old["roleRef"]:
            shown = {"APIGroup": ref.get("apiGroup", ""), "Kind": ref.get("kind", ""), "Name": ref.get("name", "")}
            causes.append(invalid("roleRef", shown, "cannot change roleRef"))
        return causes


class ClusterRoleBindingRules(RoleBindingRules):
    """What is special about ClusterRoleBindings."""

    definition = f"{PACKAGE}.ClusterRoleBinding"
    kind = CLUSTER_ROLE_BINDING
    roles = ("ClusterRole",)


def _only_collected(obj: RawObject, old: RawObject) -> bool:
    """Whether only those fields change that a garbage collector writes, who has no rights of its own to give."""

    def rest(each: RawObject) -> RawObject:
        about = {name: value for name, value in each["metadata"].items() if name not in _KEPT_BY_COLLECTORS}
        return {**each, "metadata": about}

    return rest(obj) == rest(old)


def _rule_faults(rule: RawObject, path: str, *, namespaced: bool) -> list[Cause]:
    causes = [] if rule.get("verbs") else [required(f"{path}.verbs", "verbs must contain at least one value")]
    if urls := rule.get("nonResourceURLs"):
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            causes.append(invalid(f"{path}.nonResourceURLs", urls, why))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            causes.append(invalid(f"{path}.nonResourceURLs", urls, why))
        return causes
    if not rule.get("apiGroups"):
        causes.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        causes.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return causes


def _subject_faults(subject: RawObject, path: str, *, namespaced: bool) -> list[Cause]:
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    causes = [] if name else [required(f"{path}.name")]
    match subject.get("kind", ""):
        case "ServiceAccount":
            causes += [invalid(f"{path}.name", name, why) for why in names.subdomain(name)] if name else []
            if group:
                causes.append(unsupported(f"{path}.apiGroup", group, ("",)))
            if not namespaced and not subject.get("namespace"):
                causes.append(required(f"{path}.namespace"))
        case "User" | "Group":
            if group != GROUP:
                causes.append(unsupported(f"{path}.apiGroup", group, (GROUP,)))
        case other:
            causes.append(unsupported(f"{path}.kind", other, ("ServiceAccount", "User", "Group")))
    return causes
