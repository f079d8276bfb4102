"""Callers of a console who may read one of our kinds in some namespaces alone, by roles of the API server behind it."""

from __future__ import annotations

from typing import Any

from edgewright.api import FlashJob
from edgewright.runtime.objects import Kind
from tests.unit.console.consoles import Application, Portal, job
from tests.unit.local.serving.inprocess import namespace

RBAC = "/apis/rbac.authorization.k8s.io/v1"
_GROUP = "rbac.authorization.k8s.io"
_ASKED = {
    "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"],
    "resources": ["selfsubjectreviews", "selfsubjectaccessreviews"],
    "verbs": ["create"],
}


async def narrow(portal: Portal, *namespaces: str, kind: Kind = FlashJob.kind) -> Application:
    """Somebody who may read a kind in these namespaces, and nothing else; the namespaces are made."""
    reads = {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["get", "list", "watch"]}
    for each in namespaces:
        if each != "default":
            await portal.api.made("/api/v1/namespaces", namespace(each))
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await portal.api.made(accounts, _of("v1", "ServiceAccount", "narrow"))
    for name, rule in (("asks", _ASKED), ("reads", reads)):
        await portal.api.made(f"{RBAC}/clusterroles", _of(f"{_GROUP}/v1", "ClusterRole", name, rules=[rule]))
    await portal.api.made(f"{RBAC}/clusterrolebindings", _binding("ClusterRoleBinding", "asks"))
    for each in namespaces:
        await grant(portal, each)
    token = await portal.api.made(
        f"{accounts}/narrow/token", _of("authentication.k8s.io/v1", "TokenRequest", "", spec={})
    )
    return Application(portal.url, portal.session, token["status"]["token"])


async def grant(portal: Portal, place: str) -> None:
    """Gives the right to read in one more namespace, which is there."""
    await portal.api.made(f"{RBAC}/namespaces/{place}/rolebindings", _binding("RoleBinding", "reads"))


async def deny(portal: Portal, place: str) -> None:
    """Takes it away."""
    done = await portal.api("DELETE", f"{RBAC}/namespaces/{place}/rolebindings/reads")
    assert done.code == 200, done.body


async def jobs(portal: Portal, place: str, *names: str) -> None:
    """Makes FlashJobs past the console."""
    for name in names:
        await portal.api.made(FlashJob.kind.path(place), _of(FlashJob.kind.api_version, "FlashJob", "") | job(name))


def _of(version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    metadata = {"name": name} if name else {}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _binding(kind: str, role: str) -> dict[str, Any]:
    subject = {"kind": "ServiceAccount", "name": "narrow", "namespace": "default"}
    ref = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role}
    return _of(f"{_GROUP}/v1", kind, role, roleRef=ref, subjects=[subject])
