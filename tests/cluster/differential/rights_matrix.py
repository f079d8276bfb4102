"""Who may do what, as a whole: each of several identities is asked about every verb on many resources.

One exchange per identity. Only yes or no is compared: by which of several bindings something is allowed is chance on
the real server.
"""

from __future__ import annotations

import itertools
from typing import Any

from tests.cluster.differential.exchange import Exchange, Step, exchange, made, post
from tests.cluster.differential.rights import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    MAY_THEY,
    ROLES,
    binding,
    role,
    rule,
)

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "escalate", "bind")
_RESOURCES = (
    ("pods", ""),
    ("pods/log", ""),
    ("pods/status", ""),
    ("secrets", ""),
    ("configmaps", ""),
    ("services", ""),
    ("namespaces", ""),
    ("nodes", ""),
    ("serviceaccounts/token", ""),
    ("leases", "coordination.k8s.io"),
    ("roles", GROUP),
    ("clusterroles", GROUP),
    ("rolebindings", GROUP),
    ("customresourcedefinitions", "apiextensions.k8s.io"),
    ("deployments", "apps"),
    ("flashjobs", "application.flashjob.nbfc.io"),
)
_PATHS = (
    "/version",
    "/api",
    "/apis/apps",
    "/openapi/v3",
    "/healthz",
    "/metrics",
    "/.well-known/openid-configuration",
    "/x",
)
_KNOWN = ("system:authenticated",)
_USER = "{ns}-user"
_ACCOUNT = "system:serviceaccount:{ns}:robot"
_WHO = {"kind": "User", "name": _USER}


def _ask(spec: dict[str, Any], **about: Any) -> Step:
    return post(MAY_THEY, {"spec": {**spec, **about}})


def _matrix(who: dict[str, Any], *before: Step, known_by: dict[str, str] | None = None) -> Exchange:
    """All questions about one identity; `known_by` is one that is answered with yes once caches know what was made."""
    steps = list(before)
    if known_by:
        steps.append(
            made(
                MAY_THEY,
                {"spec": {**who, "resourceAttributes": known_by}},
                until=lambda answer: bool(answer.body["status"]["allowed"]),
            )
        )
    for (resource, group), verb, place in itertools.product(_RESOURCES, _VERBS, ("{ns}", "")):
        plain, _, part = resource.partition("/")
        about = {"resource": plain, "subresource": part, "group": group, "verb": verb, "namespace": place}
        steps.append(_ask(who, resourceAttributes=about))
    for name in ("a", "b"):
        about = {"resource": "secrets", "verb": "get", "namespace": "{ns}", "name": name}
        steps.append(_ask(who, resourceAttributes=about))
    steps += [_ask(who, nonResourceAttributes={"path": path, "verb": "get"}) for path in _PATHS]
    return exchange(*steps, stored=False, select=_allowed)


def _allowed(body: Any) -> Any:
    return body.get("status", {}).get("allowed") if isinstance(body, dict) else body


def _known(verb: str, resource: str, **more: str) -> dict[str, str]:
    return {"verb": verb, "resource": resource, "namespace": "{ns}", **more}


def _bound(name: str) -> Step:
    return made(BINDINGS, binding("b", name, _WHO))


def _bound_everywhere(name: str) -> Step:
    return made(CLUSTER_BINDINGS, binding("{ns}-b", name, _WHO))


MATRIX: dict[str, Exchange] = {
    "nobody known": _matrix({"user": "system:anonymous", "groups": ["system:unauthenticated"]}),
    "somebody": _matrix({"user": _USER, "groups": [*_KNOWN]}),
    "a master": _matrix({"user": _USER, "groups": ["system:masters"]}),
    "a viewer of a namespace": _matrix(
        {"user": _USER, "groups": [*_KNOWN]}, _bound("view"), known_by=_known("get", "pods")
    ),
    "an editor of a namespace": _matrix(
        {"user": _USER, "groups": [*_KNOWN]}, _bound("edit"), known_by=_known("create", "pods")
    ),
    "an admin of a namespace": _matrix(
        {"user": _USER, "groups": [*_KNOWN]}, _bound("admin"), known_by=_known("create", "roles", group=GROUP)
    ),
    "a viewer of everything": _matrix({"user": _USER}, _bound_everywhere("view"), known_by=_known("get", "pods")),
    "an admin of everything": _matrix(
        {"user": _USER}, _bound_everywhere("cluster-admin"), known_by=_known("get", "secrets")
    ),
    "an admin of everything in a namespace": _matrix(
        {"user": _USER}, _bound("cluster-admin"), known_by=_known("get", "secrets")
    ),
    "an account with a role of its namespace": _matrix(
        {"user": _ACCOUNT, "groups": ["system:serviceaccounts", "system:serviceaccounts:{ns}", *_KNOWN]},
        made(ROLES, role("r", rule("get,list", "pods,pods/log"), rule("get", "secrets", resourceNames=["a"]))),
        made(BINDINGS, binding("b", "r", {"kind": "ServiceAccount", "name": "robot"}, kind="Role")),
        known_by=_known("get", "pods"),
    ),
    "all accounts of a namespace": _matrix(
        {"user": _ACCOUNT, "groups": ["system:serviceaccounts", "system:serviceaccounts:{ns}"]},
        made(
            CLUSTER_ROLES, role("{ns}-r", rule("*", "*/status,leases", "*"), rule("get", nonResourceURLs=["/metrics"]))
        ),
        made(CLUSTER_BINDINGS, binding("{ns}-b", "{ns}-r", {"kind": "Group", "name": "system:serviceaccounts:{ns}"})),
        known_by=_known("get", "leases"),
    ),
    "somebody who may bind and escalate": _matrix(
        {"user": _USER},
        made(CLUSTER_ROLES, role("{ns}-r", rule("bind,escalate", "roles,clusterroles", GROUP), rule("*", "secrets"))),
        _bound("{ns}-r"),
        known_by=_known("bind", "roles", group=GROUP),
    ),
}
