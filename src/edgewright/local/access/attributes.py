"""What is asked of the API server, as authorization sees it: who, which verb, on what; and how a refusal says it.

`serving.server` creates one of each request, the reviews one of what they are asked. The words of a refusal are those
of kube-apiserver. Nothing here decides.
"""

from __future__ import annotations

import msgspec

from edgewright.local.access.authentication import User
from edgewright.local.errors import Refusal
from edgewright.local.go_format import quote


class Attributes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request, or the thought of one; with a path it is about no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""

    def text(self, user: User) -> str:
        """What the user cannot do, as people are told."""
        who = f"User {quote(user.name)} cannot {self.verb}"
        if self.path:
            return _harmless(f"{who} path {quote(self.path)}")
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f"in the namespace {quote(self.namespace)}" if self.namespace else "at the cluster scope"
        return _harmless(f"{who} resource {quote(resource)} in API group {quote(self.group)} {where}")


def refused(asked: Attributes, user: User, reason: str = "") -> Refusal:
    """The answer to somebody who may not do this."""
    why = f"{asked.text(user)}: {reason}" if reason else asked.text(user)
    if asked.path:
        return Refusal(403, "Forbidden", f"forbidden: {why}", {})
    resource = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    about = f"{resource} {quote(asked.name)}" if asked.name else resource
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return Refusal(
        403, "Forbidden", f"{about} is forbidden: {why}", {name: value for name, value in details.items() if value}
    )


def _harmless(text: str) -> str:
    """A text that no browser takes for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
