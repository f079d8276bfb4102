"""As whom somebody acts who signed in at a provider that the API server does not know. Pure, and off by default.

`identity` asks when a session begins or is refreshed; the console then acts for them with its own credentials and the
headers of impersonation, as far as the API server allows its ServiceAccount that. Every name has a prefix, so that
nobody becomes a user or a group of Kubernetes' own, and only groups that were allowed are passed on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edgewright.console.id_token import TokenError

USERNAME_CLAIM: Final = "sub"
"""The claim with the name unless told otherwise, as kube-apiserver has it."""
GROUPS_CLAIM: Final = "groups"
"""The claim with the groups unless told otherwise."""
_PREFIX: Final = re.compile(r"(?!system:)[!-~]{0,200}[:#/]")
_NAME: Final = re.compile(r"[!-~]([ -~]{0,510}[!-~])?")
"""What a header carries as it is."""


@dataclass(frozen=True, kw_only=True)
class Impersonation:
    """How names of the provider become names of the API server."""

    prefix: str
    groups: frozenset[str] = frozenset()
    """The groups that are passed on, by their names at the provider."""
    username_claim: str = USERNAME_CLAIM
    groups_claim: str = GROUPS_CLAIM

    @property
    def words(self) -> tuple[str, ...]:
        """What tells these rules from others."""
        return self.prefix, self.username_claim, self.groups_claim, *sorted(self.groups)


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody by the names that roles are bound to."""

    user: str
    groups: tuple[str, ...] = ()


def prefix_problem(prefix: str) -> str:
    """What is wrong with a prefix, nothing where no name that it makes can be one of Kubernetes' own."""
    if prefix.startswith("system:"):
        return "must not begin with system:, which is Kubernetes' own"
    return "" if _PREFIX.fullmatch(prefix) else "must end with one of : # /, such as oidc:"


def person_of(claims: Mapping[str, Any], rules: Impersonation) -> Person:
    """As whom somebody acts with the claims of an ID token; a TokenError where they have no name."""
    name = claims.get(rules.username_claim)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TokenError(f"the ID token has no name in its claim {rules.username_claim}")
    if rules.username_claim == "email" and claims.get("email_verified", True) is not True:
        raise TokenError("the ID token has an e-mail address that was not verified")
    given = claims.get(rules.groups_claim)
    groups = given if isinstance(given, list) else [given]
    allowed = sorted({each for each in groups if isinstance(each, str) and each in rules.groups})
    return Person(user=rules.prefix + name, groups=tuple(rules.prefix + each for each in allowed))
