"""The columns and rows of RoleBindings and ClusterRoleBindings: which role, and who has it.

`builtin` lists them; each row is a pure function of the object.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from edgewright.local.served import Column
from edgewright.runtime.objects import RawObject

from .ages import age
from .custom import AGE, NAME

BINDING = (
    NAME,
    Column(name="Role", description="The role that it gives."),
    Column(name="Age", description=AGE),
    Column(name="Users", description="The users that have it.", priority=1),
    Column(name="Groups", description="The groups that have it.", priority=1),
    Column(name="ServiceAccounts", description="The accounts that have it.", priority=1),
)


def binding_row(obj: RawObject, now: datetime) -> list[Any]:
    """The cells of a binding."""
    ref, metadata, subjects = obj.get("roleRef") or {}, obj.get("metadata") or {}, obj.get("subjects") or ()
    named: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in subjects:
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        named.get(subject.get("kind", ""), []).append(name)
    return [
        metadata.get("name", ""),
        f"{ref.get('kind', '')}/{ref.get('name', '')}",
        age(metadata.get("creationTimestamp"), now),
        *(", ".join(names) for names in named.values()),
    ]
