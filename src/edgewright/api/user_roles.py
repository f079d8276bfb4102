"""Roles for people, by kind: who may look, who may change, and who may decide; and the sums of them that tokens get.

The manifests in config/ and `edgewright token` are made from these, so that both mean the same by a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from edgewright.api.capabilities import READ, Capability, Rule
from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.runtime.objects import Kind

APPROVED: Final = {"EdgeDeviceSignedRequest": "let devices in, or refuse them"}
"""The kinds whose objects somebody decides about, which those who make them must not be able to do."""
_CHANGES: Final = ("patch", "update")
_VIEWER, _EDITOR, _APPROVER = "viewer", "editor", "approver"


@dataclass(frozen=True, kw_only=True)
class UserRole:
    """A role for people who have to do with one kind."""

    name: str
    summary: str
    kind: Kind
    word: str
    """viewer, editor or approver."""
    rules: tuple[Rule, ...]
    owner: Capability


class TokenRole(StrEnum):
    """What somebody with a token may do with all kinds."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"


def user_roles(capabilities: Iterable[Capability]) -> Iterator[UserRole]:
    """Every role of every kind."""
    for owner in capabilities:
        for kind in (each.kind for each in owner.kinds):
            yield from _of_kind(kind, owner)


def _of_kind(kind: Kind, owner: Capability) -> Iterator[UserRole]:
    approved = kind.kind in APPROVED
    shown = Rule(groups=(kind.group,), resources=(kind.plural,), verbs=READ, why="look at them")
    state = Rule(groups=(kind.group,), resources=(f"{kind.plural}/status",), verbs=("get",), why="their state")
    verbs = ("create", "delete") if approved else ("create", "delete", "deletecollection", *_CHANGES)
    more = Rule(groups=(kind.group,), resources=(kind.plural,), verbs=verbs, why="make, change and remove them")
    made: list[tuple[str, str, tuple[Rule, ...]]] = [
        (_VIEWER, f"For people who look at {kind.kind}s.", (shown, state)),
        (_EDITOR, f"For people who work with {kind.kind}s.", (shown, state, more)),
    ]
    if approved:
        verdict = Rule(groups=(kind.group,), resources=(kind.plural,), verbs=_CHANGES, why=APPROVED[kind.kind])
        made.append((_APPROVER, f"For people who decide about {kind.kind}s.", (shown, state, verdict)))
    for word, summary, rules in made:
        name = f"{kind.kind.lower()}-{word}-role"
        yield UserRole(name=name, summary=summary, kind=kind, word=word, rules=rules, owner=owner)


def token_rules(role: TokenRole, capabilities: Sequence[Capability], *, namespaced: bool) -> list[Rule]:
    """What a token of a role is good for, with kinds that are in namespaces or with those that are in none.

    To approve a batch of a rollout is to change the rollout, so whoever approves may.
    """
    words = {TokenRole.VIEWER: {_VIEWER}, TokenRole.OPERATOR: {_EDITOR}, TokenRole.APPROVER: {_VIEWER, _APPROVER}}[role]
    found: list[Rule] = []
    for each in user_roles(capabilities):
        if each.word in words and each.kind.namespaced is namespaced:
            found += [rule for rule in each.rules if rule not in found]
    if namespaced:
        found.append(Rule(groups=("",), resources=("events",), verbs=READ, why="see what happened to them"))
    rollouts = FirmwareRollout.kind
    if role is TokenRole.APPROVER and namespaced and any(FirmwareRollout in each.kinds for each in capabilities):
        why = "approve a batch, or pause it"
        found.append(Rule(groups=(rollouts.group,), resources=(rollouts.plural,), verbs=_CHANGES, why=why))
    return found
