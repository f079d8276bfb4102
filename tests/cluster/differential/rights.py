"""Exchanges about rights: roles, bindings, reviews, tokens, and what those are told who may not do what they ask.

Whoever asks is the administrator, who acts as somebody else by the headers of impersonation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.cluster.differential.bodies import ACCOUNTS, LEASES, MAPS, NAMESPACES, PODS, TABLE, named, pod
from tests.cluster.differential.exchange import (
    APPLY,
    Exchange,
    Step,
    delete,
    edited,
    exchange,
    get,
    made,
    patch,
    post,
    put,
)

GROUP = "rbac.authorization.k8s.io"
API = f"/apis/{GROUP}/v1"
ROLES, BINDINGS = f"{API}/namespaces/{{ns}}/roles", f"{API}/namespaces/{{ns}}/rolebindings"
CLUSTER_ROLES, CLUSTER_BINDINGS = f"{API}/clusterroles", f"{API}/clusterrolebindings"
REVIEWS = "/apis/authorization.k8s.io/v1"
MAY_I, MAY_THEY = f"{REVIEWS}/selfsubjectaccessreviews", f"{REVIEWS}/subjectaccessreviews"
MAY_THEY_HERE = f"{REVIEWS}/namespaces/{{ns}}/localsubjectaccessreviews"
MY_RULES = f"{REVIEWS}/selfsubjectrulesreviews"
WHOSE = "/apis/authentication.k8s.io/v1/tokenreviews"
TOKEN = f"{ACCOUNTS}/default/token"
BOB = "{ns}-bob"
"""Somebody whom nobody else has heard of."""


def rule(verbs: str, resources: str = "", groups: str = "", **more: Any) -> dict[str, Any]:
    """A rule from words."""
    about = {"apiGroups": groups.split(",") if groups else [""], "resources": resources.split(",")} if resources else {}
    return {"verbs": verbs.split(","), **about, **more}


def role(name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A role of either kind."""
    return named(name, rules=list(rules), **more)


def binding(name: str, role_name: str, *subjects: dict[str, Any], kind: str = "ClusterRole") -> dict[str, Any]:
    """A binding of either kind, to Bob unless others are named."""
    ref = {"apiGroup": GROUP, "kind": kind, "name": role_name}
    return named(name, roleRef=ref, subjects=list(subjects) or [{"kind": "User", "name": BOB}])


def by(step: Step, user: str = BOB, *groups: str) -> Step:
    """A step by somebody else."""
    headers = {"Impersonate-User": user, **({"Impersonate-Group": groups[0]} if groups else {})}
    return replace(step, headers={**step.headers, **headers})


def given(*rules: dict[str, Any], everywhere: bool = False) -> tuple[Step, ...]:
    """Steps that give Bob rights in the namespace, or in all."""
    return (
        made(CLUSTER_ROLES, role("{ns}-bobs", *rules)),
        made(CLUSTER_BINDINGS if everywhere else BINDINGS, binding("{ns}-bobs", "{ns}-bobs")),
        # What the real server decides by comes from caches, a moment after a write.
        made(MAY_THEY, _first(rules[0]), until=lambda answer: bool(answer.body["status"]["allowed"])),
    )


def _first(allowed: dict[str, Any]) -> dict[str, Any]:
    """A question that a rule answers with yes."""
    names = {"name": allowed["resourceNames"][0]} if "resourceNames" in allowed else {}
    return asked(allowed["verbs"][0], allowed["resources"][0], allowed["apiGroups"][0], **names)


def asked(verb: str, resource: str, group: str = "", user: str = BOB, **more: str) -> dict[str, Any]:
    """A question about somebody's rights in the namespace."""
    plain, _, part = resource.partition("/")
    about = {"verb": verb, "resource": plain, "group": group, "namespace": "{ns}", **more}
    return {"spec": {"user": user, "resourceAttributes": {**about, **({"subresource": part} if part else {})}}}


REFUSED: dict[str, Exchange] = {
    f"{title}": exchange(by(step), stored=False)
    for title, step in {
        "a list": get(PODS),
        "a list of all namespaces": get("/api/v1/pods"),
        "an object": get(f"{PODS}/a"),
        "a part of an object": get(f"{PODS}/a/log"),
        "a status": patch(f"{PODS}/a/status", {}),
        "a creation": post(PODS, pod("a")),
        "a creation with a bad body": post(PODS, "{"),
        "an update": put(f"{MAPS}/a", named("a")),
        "a patch": patch(f"{MAPS}/a", {}),
        "an apply": patch(f"{MAPS}/a", named("a"), APPLY),
        "a deletion": delete(f"{MAPS}/a"),
        "a deletion of all": delete(MAPS),
        "a watch": get(f"{MAPS}?watch=true"),
        "a watch of long ago": get("/api/v1/watch/namespaces/{ns}/configmaps"),
        "one name of a list": get(f"{MAPS}?fieldSelector=metadata.name%3Da"),
        "another name of a list": get(f"{MAPS}?fieldSelector=metadata.name!%3Da"),
        "a bad selector": get(f"{MAPS}?fieldSelector=metadata.name"),
        "a namespace": get(f"{NAMESPACES}/{{ns}}"),
        "the namespaces": get(NAMESPACES),
        "a new namespace": post(NAMESPACES, named("x")),
        "the end of a namespace": put(f"{NAMESPACES}/{{ns}}/finalize", named("{ns}")),
        "a node": get("/api/v1/nodes/a"),
        "a kind of a group": get(LEASES),
        "a kind that is not served": get("/apis/none.example.com/v1/namespaces/{ns}/things/a"),
        "a core kind that is not served": get("/api/v1/namespaces/{ns}/things"),
        "a version that is not served": get("/api/v9/pods"),
        "a part that is not served": get(f"{MAPS}/a/odd"),
        "a method that is not served": Step(method="TRACE", path=MAPS),
        "a path": get("/metrics"),
        "a path that is written to": post("/metrics", {}),
        "a path with marks": get("/a%3Cb%3E&c"),
        "a token": post(TOKEN, {}),
        "a role": post(ROLES, role("a", rule("get", "pods"))),
        "a question about others": post(MAY_THEY, asked("get", "pods")),
        "a token of somebody": post(WHOSE, {"spec": {"token": "x"}}),
        "an answer as YAML": get(PODS, "application/yaml"),
    }.items()
}
REFUSED |= {
    "what everybody who is known may read": exchange(
        by(get("/version", compared=False)),
        by(get("/apis/coordination.k8s.io")),
        by(post(MAY_I, {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})),
        by(get("/readyz")),
    ),
    "somebody anonymous": exchange(
        by(get(PODS), "system:anonymous"),
        by(get("/apis"), "system:anonymous"),
        by(post(MAY_I, {"spec": {"resourceAttributes": {"verb": "get"}}}), "system:anonymous"),
        by(get("/healthz"), "system:anonymous"),
    ),
    "a binding to a role that is not there": exchange(
        made(BINDINGS, binding("a", "{ns}-none")),
        by(get(PODS, until=lambda answer: "RBAC: " in answer.body["message"])),
        stored=False,
    ),
}

_GIVEN_BY = lambda answer: "RBAC: allowed" in answer.body["status"].get("reason", "")  # noqa: E731 - read as a name
ALLOWED: dict[str, Exchange] = {
    "by a role of a namespace": exchange(
        made(ROLES, role("a", rule("get,list", "configmaps"))),
        made(BINDINGS, binding("b", "a", kind="Role")),
        post(MAY_THEY, asked("get", "configmaps"), until=_GIVEN_BY),
        by(get(MAPS, compared=False)),
        by(get(f"{MAPS}/a")),
        by(delete(f"{MAPS}/a")),
        by(get("/api/v1/configmaps")),
        post(MAY_THEY, asked("list", "configmaps", namespace="default")),
        post(MAY_THEY_HERE, asked("list", "configmaps")),
    ),
    "by a role of the cluster": exchange(
        *given(rule("get,list", "configmaps"), everywhere=True),
        post(MAY_THEY, asked("get", "configmaps", namespace="")),
        post(MAY_THEY, asked("get", "configmaps", namespace="else")),
        by(get(f"{MAPS}/a")),
        by(post(MAPS, named("a"))),
        stored=False,
    ),
    "of one name": exchange(
        *given(rule("*", "configmaps", resourceNames=["a", "c"])),
        by(get(f"{MAPS}/a")),
        by(get(f"{MAPS}/b")),
        by(get(MAPS)),
        by(get(f"{MAPS}?fieldSelector=metadata.name%3Dc", compared=False)),
        by(post(MAPS, named("a"))),
        by(delete(MAPS)),
        stored=False,
    ),
    "of one namespace": exchange(
        *given(rule("get", "namespaces")),
        by(get(f"{NAMESPACES}/{{ns}}")),
        by(get(f"{NAMESPACES}/default")),
        by(get(NAMESPACES)),
    ),
    "of parts": exchange(
        *given(rule("get", "pods/log"), rule("patch", "*/status")),
        post(MAY_THEY, asked("get", "pods/log")),
        post(MAY_THEY, asked("get", "pods")),
        post(MAY_THEY, asked("patch", "nodes/status")),
        post(MAY_THEY, asked("get", "nodes/status")),
        by(get(f"{PODS}/a/log")),
        by(get(f"{PODS}/a")),
    ),
    "of a path": exchange(
        made(CLUSTER_ROLES, role("{ns}-p", rule("get", nonResourceURLs=["/{ns}/*", "/{ns}"]))),
        made(CLUSTER_BINDINGS, binding("{ns}-p", "{ns}-p")),
        post(
            MAY_THEY,
            {"spec": {"user": BOB, "nonResourceAttributes": {"verb": "get", "path": "/{ns}"}}},
            until=_GIVEN_BY,
        ),
        by(get("/{ns}/a/b")),
        by(get("/{ns}-c")),
    ),
    "to a group": exchange(
        made(CLUSTER_ROLES, role("{ns}-g", rule("get", "configmaps"))),
        made(CLUSTER_BINDINGS, binding("{ns}-g", "{ns}-g", {"kind": "Group", "name": "{ns}-team"})),
        post(
            MAY_THEY,
            {"spec": {"groups": ["x", "{ns}-team"], "resourceAttributes": {"verb": "get", "resource": "configmaps"}}},
            until=_GIVEN_BY,
        ),
        by(get(f"{MAPS}/a"), BOB, "{ns}-team"),
        by(get(f"{MAPS}/a"), BOB),
    ),
    "to accounts": exchange(
        made(CLUSTER_ROLES, role("{ns}-s", rule("get", "configmaps"))),
        made(BINDINGS, binding("s", "{ns}-s", {"kind": "ServiceAccount", "name": "default"})),
        post(MAY_THEY, asked("get", "configmaps", user="system:serviceaccount:{ns}:default"), until=_GIVEN_BY),
        by(get(f"{MAPS}/a"), "system:serviceaccount:{ns}:default"),
        by(get(f"{MAPS}/a"), "system:serviceaccount:{ns}:other"),
    ),
    "an apply that makes an object": exchange(
        *given(rule("patch", "configmaps")),
        by(patch(f"{MAPS}/a?fieldManager=me", {"apiVersion": "v1", "kind": "ConfigMap", **named("a")}, APPLY)),
        stored=False,
    ),
    "an update that makes an object": exchange(
        *given(rule("update", "leases", "coordination.k8s.io")), by(put(f"{LEASES}/a", named("a"))), stored=False
    ),
}

_WIDE = (rule("create,update,patch", "roles,clusterroles,rolebindings,clusterrolebindings", GROUP), rule("get", "pods"))
ESCALATION: dict[str, Exchange] = {
    "a role with what one has": exchange(
        *given(*_WIDE), by(post(ROLES, role("a", rule("get", "pods")))), by(post(ROLES, role("b"))), stored=False
    ),
    "a role with more": exchange(
        *given(*_WIDE),
        by(post(ROLES, role("a", rule("get,list,delete", "pods,secrets"), rule("get", "pods", resourceNames=["x"])))),
        by(post(ROLES, role("a", rule("*", "*", "*")))),
        by(post(ROLES, role("a", rule("get", "pods/log", ",apps", resourceNames=["x", "y"])))),
        by(post(ROLES, {"metadata": {"generateName": "a-"}, "rules": [rule("list", "pods")]}), BOB),
        stored=False,
    ),
    "a bad role with more": exchange(*given(*_WIDE), by(post(ROLES, role("a", rule("list")))), stored=False),
    "a role of the cluster with more": exchange(
        *given(*_WIDE, everywhere=True),
        by(post(CLUSTER_ROLES, role("{ns}-a", rule("get,post", nonResourceURLs=["/a", "/b"]), rule("list", "pods")))),
        by(post(CLUSTER_ROLES, role("{ns}-a", rule("get", "pods")))),
        stored=False,
    ),
    "more in an update": exchange(
        *given(*_WIDE),
        made(ROLES, role("a", rule("list", "pods"))),
        by(patch(f"{ROLES}/a", {"rules": [rule("list,watch", "pods")]})),
        by(patch(f"{ROLES}/a", {"metadata": {"labels": {"a": "b"}}})),
        by(patch(f"{ROLES}/a", {"metadata": {"finalizers": ["example.com/a"]}})),
        by(patch(f"{ROLES}/a", {"rules": [rule("get", "pods")]})),
        patch(f"{ROLES}/a", {"metadata": {"finalizers": None}}, compared=False),
    ),
    "the right to escalate": exchange(
        *given(rule("escalate", "roles", GROUP), *_WIDE),
        by(post(ROLES, role("a", rule("*", "*", "*")))),
        by(post(CLUSTER_ROLES, role("{ns}-a", rule("get", "pods")))),
        stored=False,
    ),
    "an aggregated role": exchange(
        *given(*_WIDE, everywhere=True),
        by(
            post(CLUSTER_ROLES, role("{ns}-a", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}))
        ),
        stored=False,
    ),
    "a binding of what one has": exchange(
        *given(*_WIDE),
        made(ROLES, role("a", rule("get", "pods"))),
        by(post(BINDINGS, binding("b", "a", kind="Role"), until=lambda answer: answer.code != 404)),
        stored=False,
    ),
    "a binding of more": exchange(
        *given(*_WIDE),
        made(ROLES, role("a", rule("get,list", "pods,secrets"))),
        by(post(BINDINGS, binding("b", "a", kind="Role"), until=lambda answer: answer.code != 404)),
        by(post(BINDINGS, binding("b", "cluster-admin"))),
        by(post(CLUSTER_BINDINGS, binding("{ns}-b", "cluster-admin"))),
        stored=False,
    ),
    "a binding of nothing": exchange(
        *given(*_WIDE),
        by(post(BINDINGS, binding("b", "none", kind="Role"))),
        by(post(BINDINGS, binding("b", "{ns}-none"))),
        post(BINDINGS, binding("b", "none", kind="Role")),
    ),
    "the right to bind": exchange(
        *given(rule("bind", "clusterroles", GROUP, resourceNames=["cluster-admin"]), *_WIDE),
        by(post(BINDINGS, binding("b", "cluster-admin"))),
        by(post(BINDINGS, binding("c", "admin"))),
        by(post(CLUSTER_BINDINGS, binding("{ns}-b", "cluster-admin"))),
        stored=False,
    ),
    "subjects in an update": exchange(
        *given(*_WIDE),
        made(BINDINGS, binding("b", "cluster-admin", {"kind": "User", "name": "x"})),
        by(patch(f"{BINDINGS}/b", {"subjects": [{"kind": "User", "name": BOB, "apiGroup": GROUP}]})),
        by(patch(f"{BINDINGS}/b", {"metadata": {"ownerReferences": []}})),
    ),
}
KINDS: dict[str, Exchange] = {
    "the least role": exchange(post(ROLES, named("a"))),
    "a role": exchange(post(ROLES, role("a", rule("get", "pods", resourceNames=["x"]), rule("*", "*", "*")))),
    "a role with an odd name": exchange(post(ROLES, role("a:bC", rule("get", "pods")))),
    "a role with a name that fits into no path": exchange(post(ROLES, role("a/b", rule("get", "pods")))),
    "a rule of nothing": exchange(post(ROLES, role("a", {}))),
    "a rule without verbs": exchange(post(ROLES, role("a", {"apiGroups": [""], "resources": ["pods"]}))),
    "a rule without resources": exchange(post(ROLES, role("a", {"apiGroups": [""], "verbs": ["get"]}))),
    "a path in a namespace": exchange(post(ROLES, role("a", rule("get", nonResourceURLs=["/a"])))),
    "a path and a resource": exchange(
        post(CLUSTER_ROLES, role("{ns}", rule("get", "pods", nonResourceURLs=["/a"]))),
    ),
    "a role of the cluster": exchange(post(CLUSTER_ROLES, role("{ns}", rule("get", nonResourceURLs=["/a"])))),
    "no selectors": exchange(post(CLUSTER_ROLES, named("{ns}", aggregationRule={}))),
    "bad selectors": exchange(
        post(
            CLUSTER_ROLES,
            named(
                "{ns}",
                aggregationRule={
                    "clusterRoleSelectors": [
                        {"matchLabels": {"a b": "c d"}},
                        {"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "b", "operator": "Exists"}]},
                    ]
                },
            ),
        )
    ),
    "an aggregated role": exchange(
        made(CLUSTER_ROLES, role("{ns}-x", rule("get", "pods"), metadata={"labels": {"{ns}": "x"}})),
        made(
            CLUSTER_ROLES, role("{ns}-y", rule("get", "pods"), rule("list", "pods"), metadata={"labels": {"{ns}": "y"}})
        ),
        made(
            CLUSTER_ROLES,
            named(
                "{ns}-a",
                aggregationRule={
                    "clusterRoleSelectors": [{"matchExpressions": [{"key": "{ns}", "operator": "Exists"}]}]
                },
            ),
        ),
        get(f"{CLUSTER_ROLES}/{{ns}}-a", until=lambda answer: len(answer.body.get("rules") or ()) == 2),
        delete(f"{CLUSTER_ROLES}/{{ns}}-y", compared=False),
        get(f"{CLUSTER_ROLES}/{{ns}}-a", until=lambda answer: len(answer.body.get("rules") or ()) == 1),
        stored=False,
    ),
    "a binding": exchange(post(BINDINGS, binding("a", "view"))),
    "a binding without a group": exchange(
        post(BINDINGS, named("a", roleRef={"kind": "Role", "name": "x"}, subjects=[{"kind": "Group", "name": "g"}]))
    ),
    "a binding of nothing": exchange(post(BINDINGS, named("a", roleRef={}))),
    "a binding of an odd role": exchange(
        post(BINDINGS, named("a", roleRef={"apiGroup": "x", "kind": "Odd", "name": "a/b"}))
    ),
    "a binding of a role of a namespace to the cluster": exchange(
        post(CLUSTER_BINDINGS, binding("{ns}", "x", kind="Role"))
    ),
    "odd subjects": exchange(
        post(
            CLUSTER_BINDINGS,
            binding(
                "{ns}",
                "view",
                {"kind": "Odd", "name": "x"},
                {"kind": "User"},
                {"kind": "User", "name": "x", "apiGroup": "odd"},
                {"kind": "ServiceAccount", "name": "x"},
                {"kind": "ServiceAccount", "name": "X y", "namespace": "x", "apiGroup": GROUP},
            ),
        )
    ),
    "another role in an update": exchange(
        made(BINDINGS, binding("a", "view")), patch(f"{BINDINGS}/a", {"roleRef": {"name": "edit"}})
    ),
    "an unversioned update": exchange(made(ROLES, role("a")), put(f"{ROLES}/a", role("a", rule("get", "pods")))),
    "an update that makes one": exchange(put(f"{ROLES}/a", role("a", rule("get", "pods")))),
    "a versioned update": exchange(
        made(BINDINGS, binding("a", "view")), put(f"{BINDINGS}/a", edited(0, subjects=None))
    ),
    "an apply": exchange(
        patch(
            f"{ROLES}/a?fieldManager=me",
            {"apiVersion": f"{GROUP}/v1", "kind": "Role", **role("a", rule("get", "pods"))},
            APPLY,
        )
    ),
    "a deletion": exchange(made(ROLES, role("a")), delete(f"{ROLES}/a")),
    "a deletion of a binding": exchange(made(BINDINGS, binding("a", "view")), delete(f"{BINDINGS}/a")),
    "as Tables": exchange(
        made(ROLES, role("a", rule("get", "pods"))),
        made(
            BINDINGS,
            binding(
                "a",
                "view",
                {"kind": "User", "name": "u"},
                {"kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                {"kind": "User", "name": "v"},
            ),
        ),
        made(CLUSTER_BINDINGS, binding("{ns}", "view")),
        get(ROLES, TABLE),
        get(BINDINGS, TABLE),
        get(f"{CLUSTER_BINDINGS}/{{ns}}", TABLE),
        get(f"{CLUSTER_ROLES}/cluster-admin", TABLE, compared=False),
    ),
    "by labels and names": exchange(
        made(ROLES, role("a", metadata={"labels": {"x": "y"}})),
        get(f"{ROLES}?labelSelector=x%3Dy"),
        get(f"{ROLES}?fieldSelector=metadata.name%3Da"),
        get(f"{ROLES}?fieldSelector=spec.x%3Da"),
    ),
}


def _policy(body: Any) -> Any:
    """What a default role or binding says; who wrote it is another matter."""
    about = body.get("metadata", {})
    kept = {name: about.get(name) for name in ("name", "labels", "annotations")}
    return {**{name: body.get(name) for name in ("rules", "aggregationRule", "roleRef", "subjects")}, **kept}


_DEFAULTS = (
    "cluster-admin",
    "system:auth-delegator",
    "system:basic-user",
    "system:discovery",
    "system:monitoring",
    "system:node",
    "system:public-info-viewer",
    "system:service-account-issuer-discovery",
    "system:aggregate-to-admin",
    "system:aggregate-to-edit",
    "system:aggregate-to-view",
)
DEFAULTS: dict[str, Exchange] = {
    **{f"the role {name}": exchange(get(f"{CLUSTER_ROLES}/{name}"), select=_policy) for name in _DEFAULTS},
    **{
        f"the role {name}": exchange(
            get(f"{CLUSTER_ROLES}/{name}", until=lambda answer: bool(answer.body.get("rules"))), select=_policy
        )
        for name in ("admin", "edit", "view")
    },
    **{
        f"the binding {name}": exchange(get(f"{CLUSTER_BINDINGS}/{name}"), select=_policy)
        for name in ("cluster-admin", "system:basic-user", "system:discovery", "system:public-info-viewer")
    },
}


def _sorted_rules(body: Any) -> Any:
    status = body.get("status") if isinstance(body, dict) else None
    if not isinstance(status, dict) or "resourceRules" not in status:
        return body
    lists = {name: sorted(status[name], key=str) for name in ("resourceRules", "nonResourceRules")}
    return {**body, "status": {**status, **lists}}


QUESTIONS: dict[str, Exchange] = {
    "may somebody": exchange(post(MAY_THEY, asked("get", "pods"))),
    "may a master": exchange(
        post(MAY_THEY, {"spec": {"groups": ["system:masters"], "resourceAttributes": {"verb": "get"}}})
    ),
    "may nobody": exchange(post(MAY_THEY, {"spec": {"resourceAttributes": {"verb": "get"}}})),
    "may they do nothing": exchange(post(MAY_THEY, {"spec": {"user": "a"}})),
    "may they do two things": exchange(
        post(MAY_THEY, {"spec": {"user": "a", "resourceAttributes": {}, "nonResourceAttributes": {"path": "/a"}}})
    ),
    "may they, with a name": exchange(post(MAY_THEY, {**asked("get", "pods"), "metadata": {"name": "x"}})),
    "may they, in another namespace": exchange(post(MAY_THEY_HERE, asked("get", "pods", namespace="other"))),
    "may they, of a path in a namespace": exchange(
        post(MAY_THEY_HERE, {"spec": {"user": "a", "nonResourceAttributes": {"path": "/a", "verb": "get"}}})
    ),
    "may they, in a namespace": exchange(post(MAY_THEY_HERE, asked("get", "pods"))),
    "may they, with extra": exchange(
        post(MAY_THEY, {"spec": {"user": "a", "uid": "u", "extra": {"x": ["y"]}, "resourceAttributes": {}}})
    ),
    "may I, as somebody": exchange(by(post(MAY_I, {"spec": {"resourceAttributes": {"verb": "get"}}}))),
    "my rules": exchange(
        *given(rule("get", "pods", resourceNames=["a"])),
        by(post(MY_RULES, {"spec": {"namespace": "{ns}"}})),
        select=_sorted_rules,
    ),
    "my rules, without a namespace": exchange(by(post(MY_RULES, {"spec": {}}))),
    "the rules of a master": exchange(post(MY_RULES, {"spec": {"namespace": "{ns}"}}), select=_sorted_rules),
}


def _token_shape(body: Any) -> Any:
    """A token is another each time."""
    status = body.get("status") if isinstance(body, dict) else None
    if isinstance(status, dict) and isinstance(status.get("token"), str):
        return {**body, "status": {**status, "token": f"<{status['token'].count('.')} dots>"}}
    if isinstance(status, dict) and "user" in status:
        spec = {**body["spec"], "token": "<token>"}
        user = {name: sorted(value) if name == "extra" else value for name, value in status["user"].items()}
        return {**body, "spec": spec, "status": {**status, "user": user}}
    return body


def _wait_for_pod() -> Sequence[Step]:
    return (made(PODS, pod("a"), keep={"uid": "metadata.uid"}),)


_BOUND = {"apiVersion": "v1", "kind": "Pod", "name": "a"}
TOKENS: dict[str, Exchange] = {
    title: exchange(*steps, stored=False, select=_token_shape)
    for title, steps in {
        "the least": (post(TOKEN, {}),),
        "with a time": (post(TOKEN, {"spec": {"expirationSeconds": 7200, "audiences": ["a", "b"]}}),),
        "too short": (post(TOKEN, {"spec": {"expirationSeconds": 599}}),),
        "too long": (post(TOKEN, {"spec": {"expirationSeconds": 2**32 + 1}}),),
        "of nobody": (post(f"{ACCOUNTS}/none/token", {}),),
        "of another": (post(TOKEN, {"metadata": {"name": "other"}}),),
        "of another namespace": (post(TOKEN, {"metadata": {"namespace": "other"}}),),
        "of another uid": (post(TOKEN, {"metadata": {"uid": "0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b"}}),),
        "for a Pod": (*_wait_for_pod(), post(TOKEN, {"spec": {"boundObjectRef": _BOUND}})),
        "for a Pod of another account": (
            *_wait_for_pod(),
            made(ACCOUNTS, named("b")),
            post(f"{ACCOUNTS}/b/token", {"spec": {"boundObjectRef": _BOUND}}),
        ),
        "for a Pod with another uid": (
            *_wait_for_pod(),
            post(TOKEN, {"spec": {"boundObjectRef": {**_BOUND, "uid": "0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b"}}}),
        ),
        "for a Pod that is not there": (post(TOKEN, {"spec": {"boundObjectRef": _BOUND}}),),
        "for a kind that cannot be": (
            post(TOKEN, {"spec": {"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}}),
        ),
        "of another kind": (post(TOKEN, {"apiVersion": "v1", "kind": "Secret"}),),
        "with an odd field": (post(f"{TOKEN}?fieldValidation=Strict", {"spec": {"odd": 1}}),),
        "whose it is": (
            *_wait_for_pod(),
            post(TOKEN, {"spec": {"boundObjectRef": _BOUND}}, keep={"token": "status.token"}, compared=False),
            post(WHOSE, {"spec": {"token": "{token}"}}),
            post(WHOSE, {"spec": {"token": "{token}", "audiences": ["other"]}}),
            delete(f"{PODS}/a?gracePeriodSeconds=0", compared=False),
            post(WHOSE, {"spec": {"token": "{token}"}}, until=lambda answer: "error" in answer.body["status"]),
        ),
        "whose no token is": (post(WHOSE, {"spec": {}}), post(WHOSE, {})),
        "whose nobody's token is": (post(WHOSE, {"spec": {"token": "a.b.c"}}), post(WHOSE, {"spec": {"token": "x"}})),
        "whose it was": (
            made(ACCOUNTS, named("b")),
            post(f"{ACCOUNTS}/b/token", {}, keep={"token": "status.token"}, compared=False),
            delete(f"{ACCOUNTS}/b", compared=False),
            post(WHOSE, {"spec": {"token": "{token}"}}, until=lambda answer: "error" in answer.body["status"]),
        ),
    }.items()
}
