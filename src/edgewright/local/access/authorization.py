"""Who may do what: roles and bindings as the store holds them, indexed so that a check takes microseconds.

`Authorizer` reads them once and then hears of each committed change before the client that made it gets its answer.
Rights only add up; whoever is in `system:masters` may do everything. Nothing here writes or answers a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from edgewright.local.access.attributes import Attributes, refused
from edgewright.local.access.authentication import User
from edgewright.local.access.policy import Rule
from edgewright.local.go_format import quote
from edgewright.local.history import Change, ChangeType, Stored, StoreKey
from edgewright.local.store import Store

GROUP: Final = "rbac.authorization.k8s.io"
MASTERS: Final = "system:masters"
NODES: Final = "system:nodes"
NODE_ROLE: Final = "system:node"
ROLES: Final = f"roles.{GROUP}"
CLUSTER_ROLES: Final = f"clusterroles.{GROUP}"
ROLE_BINDINGS: Final = f"rolebindings.{GROUP}"
CLUSTER_ROLE_BINDINGS: Final = f"clusterrolebindings.{GROUP}"
_STORED: Final = frozenset({ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS})
_NODE_PREFIX: Final = "system:node:"
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
# Who asks for ever new resources and namespaces makes others wait a little, and takes no memory.
_MAX_KEPT: Final = 8192


class RoleRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which role a binding gives."""

    kind: str = ""
    name: str = ""
    api_group: str = ""


class Subject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whom a binding gives a role to."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    api_group: str = ""

    def text(self, namespace: str) -> str:
        """The subject as reasons name it."""
        if self.kind == "ServiceAccount":
            return f"{self.kind} {quote(f'{self.name}/{self.namespace or namespace}')}"
        return f"{self.kind} {quote(self.name)}"


class _Role(msgspec.Struct, frozen=True, gc=False):
    rules: tuple[Rule, ...] | None = None


class _Binding(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] | None = None


_role = msgspec.json.Decoder(_Role)
_binding = msgspec.json.Decoder(_Binding)


class Decision(NamedTuple):
    """Whether something is allowed, and why, in the words of the real server; often there is nothing to say."""

    allowed: bool
    reason: str = ""


class Grant(NamedTuple):
    """A rule that a user has, and by what."""

    rule: Rule
    source: str


@dataclass(frozen=True, slots=True)
class _Held:
    """All that a user has in one namespace (or everywhere, for what has none)."""

    grants: tuple[Grant, ...]
    problems: tuple[str, ...]
    known: dict[tuple[str, str, str, str], bool | frozenset[str]] = field(default_factory=dict)
    """Whether a verb is allowed on a resource: for all names, for some, for none."""


class RoleMissing(Exception):
    """A binding names a role that is not there; the message names it."""


class Authorizer:
    """Decides by what the store holds now."""

    def __init__(self, store: Store) -> None:
        self._roles: dict[StoreKey, tuple[Rule, ...]] = {}
        self._bindings: dict[StoreKey, _Binding] = {}
        self._by_subject: dict[tuple[str, str, str], dict[StoreKey, Subject]] = {}
        self._held: dict[tuple[str, tuple[str, ...], str], _Held] = {}
        self.kept = 0
        """How many answers are remembered."""
        for resource in _STORED:
            for stored in store.list(resource).items:
                self._add(stored)
        store.history.observe(self._note)

    # Questions

    def decide(self, asked: Attributes, user: User) -> Decision:
        """Whether the user may do this."""
        if MASTERS in user.groups:
            return Decision(True)
        if NODES in user.groups and user.name.startswith(_NODE_PREFIX) and self._allows_node(asked):
            return Decision(True)
        held = self._of(user, asked.namespace)
        if asked.path:
            grants = (each for each in held.grants if each.rule.allows_verb(asked.verb))
            found = next((each for each in grants if each.rule.reaches_path(asked.path)), None)
        else:
            found = next((each for each in held.grants if _allows(each.rule, asked)), None)
        if found is not None:
            return Decision(True, f"RBAC: allowed by {found.source}")
        return Decision(False, _problems("RBAC: ", held.problems))

    def allows(self, asked: Attributes, user: User) -> bool:
        """Whether the user may do this; of the many requests that are allowed nobody asks why."""
        if MASTERS in user.groups:
            return True
        if asked.path or NODES in user.groups:
            return self.decide(asked, user).allowed
        held = self._of(user, asked.namespace)
        key = (asked.verb, asked.group, asked.resource, asked.subresource)
        known = held.known.get(key)
        if known is None:
            known = held.known[key] = _names(held.grants, asked)
            self._count()
        return known if isinstance(known, bool) else asked.name in known

    def check(self, asked: Attributes, user: User) -> None:
        """Refuses what the user may not do."""
        if not self.allows(asked, user):
            raise refused(asked, user, self.decide(asked, user).reason)

    def rules(self, user: User, namespace: str) -> tuple[Sequence[Rule], Sequence[str]]:
        """All rules that a user has in a namespace, and what was wrong in finding them."""
        held = self._of(user, namespace)
        return [each.rule for each in held.grants], held.problems

    def rules_of(self, ref: RoleRef, namespace: str) -> tuple[Rule, ...]:
        """The rules of a role that a binding in a namespace (or in none) names; RoleMissing where it is not there."""
        if ref.kind == "ClusterRole":
            rules = self._roles.get(StoreKey(CLUSTER_ROLES, "", ref.name))
        elif ref.kind == "Role":
            rules = self._roles.get(StoreKey(ROLES, namespace, ref.name))
        else:
            raise RoleMissing(f"unsupported role reference kind: {quote(ref.kind)}")
        if rules is None:
            raise RoleMissing(f"{ref.kind.lower()}.{GROUP} {quote(ref.name)} not found")
        return rules

    # The index

    def _of(self, user: User, namespace: str) -> _Held:
        key = (user.name, user.groups, namespace)
        held = self._held.get(key)
        if held is None:
            grants: list[Grant] = []
            problems: list[str] = []
            for where, binding, subject in self._bound(user, namespace):
                try:
                    rules = self.rules_of(binding.role_ref, where.namespace)
                except RoleMissing as missing:
                    problems.append(str(missing))
                    continue
                source = _source(where, binding.role_ref, subject)
                grants += [Grant(rule, source) for rule in rules]
            held = self._held[key] = _Held(tuple(grants), tuple(dict.fromkeys(problems)))
            self._count()
        return held

    def _bound(self, user: User, namespace: str) -> Iterator[tuple[StoreKey, _Binding, Subject]]:
        """The bindings that are about a user, those of the whole cluster first, each once."""
        subjects = [("User", "", user.name), *(("Group", "", group) for group in user.groups)]
        if user.name.startswith(_ACCOUNT_PREFIX):
            of, _, name = user.name.removeprefix(_ACCOUNT_PREFIX).partition(":")
            subjects.append(("ServiceAccount", of, name))
        found: dict[StoreKey, Subject] = {}
        for subject in subjects:
            for key, each in self._by_subject.get(subject, {}).items():
                if not key.namespace or key.namespace == namespace:
                    found.setdefault(key, each)
        for key in sorted(found):
            yield key, self._bindings[key], found[key]

    def _allows_node(self, asked: Attributes) -> bool:
        """What the node of this control plane may do: what the role of nodes says."""
        rules = self._roles.get(StoreKey(CLUSTER_ROLES, "", NODE_ROLE), ())
        return not asked.path and any(_allows(rule, asked) for rule in rules)

    def _count(self) -> None:
        self.kept += 1
        if self.kept > _MAX_KEPT:
            self._forget()

    def _forget(self) -> None:
        self._held = {}
        self.kept = 0

    def _note(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.stored.key.resource in _STORED:
                self._remove(change.stored.key)
                if change.type is not ChangeType.DELETED:
                    self._add(change.stored)
                self._forget()

    def _add(self, stored: Stored) -> None:
        key = stored.key
        if key.resource in (ROLES, CLUSTER_ROLES):
            self._roles[key] = _role.decode(stored.body).rules or ()
            return
        binding = self._bindings[key] = _binding.decode(stored.body)
        for subject in binding.subjects or ():
            self._by_subject.setdefault(_about(subject, key.namespace), {}).setdefault(key, subject)

    def _remove(self, key: StoreKey) -> None:
        self._roles.pop(key, None)
        binding = self._bindings.pop(key, None)
        for subject in (binding.subjects or ()) if binding is not None else ():
            about = _about(subject, key.namespace)
            bound = self._by_subject.get(about, {})
            bound.pop(key, None)
            if not bound:
                self._by_subject.pop(about, None)


def _about(subject: Subject, namespace: str) -> tuple[str, str, str]:
    """Where a subject stands in the index; an account without a namespace is one of the binding's."""
    return subject.kind, (subject.namespace or namespace) if subject.kind == "ServiceAccount" else "", subject.name


def _allows(rule: Rule, asked: Attributes) -> bool:
    return (
        rule.allows_verb(asked.verb)
        and rule.reaches(asked.group, asked.resource, asked.subresource)
        and (not rule.resource_names or asked.name in rule.resource_names)
    )


def _names(grants: Sequence[Grant], asked: Attributes) -> bool | frozenset[str]:
    """For which names a verb is allowed on a resource."""
    found: set[str] = set()
    for rule, _ in grants:
        if rule.allows_verb(asked.verb) and rule.reaches(asked.group, asked.resource, asked.subresource):
            if not rule.resource_names:
                return True
            found.update(rule.resource_names)
    return frozenset(found) if found else False


def _source(key: StoreKey, ref: RoleRef, subject: Subject) -> str:
    kind = "RoleBinding" if key.namespace else "ClusterRoleBinding"
    name = f"{key.name}/{key.namespace}" if key.namespace else key.name
    return f"{kind} {quote(name)} of {ref.kind} {quote(ref.name)} to {subject.text(key.namespace)}"


def _problems(prefix: str, found: Sequence[str]) -> str:
    if not found:
        return ""
    return prefix + (found[0] if len(found) == 1 else f"[{', '.join(found)}]")
