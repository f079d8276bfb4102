"""Rules of roles as pure data: what one allows, what one covers of another, and how the real server writes one down.

`authorization` asks whether a rule allows a request, `escalation` whether the rules of a user cover those that it would
grant. Nothing here knows users, bindings or a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from edgewright.local.go_format import quote

ALL: Final = "*"


class Rule(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A PolicyRule."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def allows_verb(self, verb: str) -> bool:
        """Whether the verb is one of the rule's."""
        return ALL in self.verbs or verb in self.verbs

    def reaches(self, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule is about this resource (of which `subresource` may be a part), whatever its name."""
        if ALL not in self.api_groups and group not in self.api_groups:
            return False
        if not subresource:
            return ALL in self.resources or resource in self.resources
        return any(each in self.resources for each in (ALL, f"{resource}/{subresource}", f"*/{subresource}"))

    def reaches_path(self, path: str) -> bool:
        """Whether the rule is about this path of no resource."""
        return any(_path_covers(each, path) for each in self.non_resource_urls)

    def text(self) -> str:
        """The rule as refusals show it."""
        parts = {
            "APIGroups": self.api_groups,
            "Resources": self.resources,
            "NonResourceURLs": self.non_resource_urls,
            "ResourceNames": self.resource_names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in parts.items() if values) + "}"


def quoted(values: Iterable[str]) -> str:
    """A list of texts as Go prints it."""
    return f"[{' '.join(map(quote, values))}]"


def _path_covers(owned: str, path: str) -> bool:
    return owned == path or (owned.endswith(ALL) and path.startswith(owned.rstrip(ALL)))


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """What the owned rules do not allow of the wanted ones, each with one verb and one resource or path."""
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(each, part) for each in owned)]


def compact(rules: Iterable[Rule]) -> list[Rule]:
    """The same rules with those joined that differ in their verb alone."""
    joined: dict[tuple[tuple[str, ...], ...], Rule] = {}
    others: list[Rule] = []
    for rule in rules:
        if rule.non_resource_urls:
            others.append(rule)
            continue
        key = (rule.api_groups, rule.resources, rule.resource_names)
        known = joined.get(key)
        joined[key] = rule if known is None else msgspec.structs.replace(known, verbs=(*known.verbs, *rule.verbs))
    return [*others, *joined.values()]


def _parts(rule: Rule) -> Iterator[Rule]:
    """A rule as rules that have no more than one of anything."""
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                for name in rule.resource_names or (None,):
                    names = () if name is None else (name,)
                    yield Rule(verbs=(verb,), api_groups=(group,), resources=(resource,), resource_names=names)
    for url in rule.non_resource_urls:
        for verb in rule.verbs:
            yield Rule(verbs=(verb,), non_resource_urls=(url,))


def _covers(owned: Rule, part: Rule) -> bool:
    """Whether a rule allows all that a rule of one part allows."""
    return (
        owned.allows_verb(part.verbs[0])
        and (ALL in owned.api_groups or set(part.api_groups) <= set(owned.api_groups))
        and all(_covers_resource(owned.resources, each) for each in part.resources)
        and all(owned.reaches_path(each) for each in part.non_resource_urls)
        and (not owned.resource_names or (bool(part.resource_names) and part.resource_names[0] in owned.resource_names))
    )


def _covers_resource(owned: tuple[str, ...], resource: str) -> bool:
    if ALL in owned or resource in owned:
        return True
    _, slash, part = resource.partition("/")
    return bool(slash) and f"*/{part}" in owned
