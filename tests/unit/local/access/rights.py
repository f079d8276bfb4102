"""Roles, bindings and a store with them in it, for the tests of who may do what."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from edgewright.local.access.attributes import Attributes
from edgewright.local.access.authentication import User
from edgewright.local.access.authorization import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    Authorizer,
)
from edgewright.local.history import StoreKey
from edgewright.local.store import Store
from edgewright.runtime.clock import SystemClock

BOB = User(name="bob", groups=("team", "system:authenticated"))
ROBOT = User(
    name="system:serviceaccount:plant:robot",
    groups=("system:serviceaccounts", "system:serviceaccounts:plant", "system:authenticated"),
)


def rule(verbs: str, resources: str = "", groups: str = "", **more: Any) -> dict[str, Any]:
    """A rule from words."""
    about = {"apiGroups": groups.split(",") if groups else [""], "resources": resources.split(",")} if resources else {}
    return {"verbs": verbs.split(","), **about, **more}


def subject(kind: str, name: str, **more: str) -> dict[str, str]:
    """Somebody that a binding is about."""
    return {"kind": kind, "name": name, **more}


def pods(verb: str, namespace: str = "", **more: str) -> Attributes:
    """What is asked of Pods."""
    return Attributes(verb=verb, resource="pods", namespace=namespace, **more)


class Policy:
    """Roles and bindings in a store, and the authorizer that follows them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.rights = Authorizer(store)

    async def role(self, name: str, *rules: dict[str, Any], namespace: str = "") -> None:
        """Makes a role; with a namespace one of that."""
        await self._create(StoreKey(ROLES if namespace else CLUSTER_ROLES, namespace, name), {"rules": list(rules)})

    async def bind(self, name: str, role: str, *subjects: dict[str, str], namespace: str = "", kind: str = "") -> None:
        """Gives somebody a ClusterRole, or in a namespace the kind of role that is named."""
        ref = {"kind": kind or "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
        key = StoreKey(ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, namespace, name)
        await self._create(key, {"roleRef": ref, "subjects": list(subjects)})

    async def change(self, resource: str, name: str, content: dict[str, Any], namespace: str = "") -> None:
        """Replaces what is stored."""
        key = StoreKey(resource, namespace, name)
        stored = self._store.get(key)
        assert stored is not None
        await self._store.update(key, stored.revision, lambda _: json.dumps(content).encode())

    async def remove(self, resource: str, name: str, namespace: str = "") -> None:
        """Removes what is stored."""
        await self._store.delete(StoreKey(resource, namespace, name))

    async def _create(self, key: StoreKey, content: dict[str, Any]) -> None:
        await self._store.create(key, lambda _: json.dumps({"metadata": {}, **content}).encode())


@asynccontextmanager
async def policy(directory: Path) -> AsyncIterator[Policy]:
    """An empty policy."""
    store = await Store.open(directory / "data", clock=SystemClock())
    try:
        yield Policy(store)
    finally:
        await store.close()
