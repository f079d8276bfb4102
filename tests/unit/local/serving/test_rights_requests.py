"""Rights in the whole way of a request: roles, reviews and tokens on a server in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.unit.local.serving.inprocess import Api, config_map, serving

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/namespaces/default/roles", f"{RBAC}/namespaces/default/rolebindings"
MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
BOB = {"Impersonate_User": "bob"}


async def allow(api: Api, *rules: dict[str, Any], **subject: str) -> None:
    """Gives somebody a role in the namespace."""
    await api.made(ROLES, {"metadata": {"name": "r"}, "rules": list(rules)})
    subjects = [subject or {"kind": "User", "name": "bob"}]
    await api.made(
        BINDINGS, {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}
    )


def rule(verbs: str, resources: str, group: str = "") -> dict[str, Any]:
    return {"verbs": verbs.split(","), "apiGroups": [group], "resources": resources.split(",")}


async def test_somebody_may_do_what_a_role_says_and_is_told_what_not(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await allow(api, rule("get,patch,update", "configmaps"))
        await api.made(MAPS, config_map("a"))
        assert (await api("GET", f"{MAPS}/a", **BOB)).code == 200
        refused = await api("DELETE", f"{MAPS}/a", **BOB)
        assert refused.code == 403
        assert refused.body["message"] == (
            'configmaps "a" is forbidden: User "bob" cannot delete resource "configmaps" in API group "" '
            'in the namespace "default"'
        )
        assert (await api("GET", "/apis/none.example.com/v1/things", **BOB)).code == 403
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
        applied = await api("PATCH", f"{MAPS}/new?fieldManager=x", body, media="application/apply-patch+yaml", **BOB)
        assert 'cannot create resource "configmaps"' in applied.body["message"]


async def test_roles_and_bindings_are_checked(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        bad = await api("POST", ROLES, {"metadata": {"name": "a"}, "rules": [{"nonResourceURLs": ["/x"]}, {}]})
        assert [each["field"] for each in bad.body["details"]["causes"]] == [
            "rules[0].verbs",
            "rules[0].nonResourceURLs",
            "rules[1].verbs",
            "rules[1].apiGroups",
            "rules[1].resources",
        ]
        gathered = {
            "metadata": {"name": "a"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a b": ""}}]},
        }
        assert (await api("POST", f"{RBAC}/clusterroles", gathered)).code == 422
        subjects = [
            {"kind": "Odd", "name": "x"},
            {"kind": "User", "apiGroup": "odd"},
            {"kind": "ServiceAccount", "name": "A b", "apiGroup": "x"},
        ]
        body = {"metadata": {"name": "a"}, "roleRef": {"kind": "Role", "name": "a/b"}, "subjects": subjects}
        bad = await api("POST", f"{RBAC}/clusterrolebindings", body)
        assert [each["field"] for each in bad.body["details"]["causes"]] == [
            "roleRef.kind",
            "roleRef.name",
            "subjects[0].kind",
            "subjects[1].name",
            "subjects[1].apiGroup",
            "subjects[2].name",
            "subjects[2].apiGroup",
            "subjects[2].namespace",
        ]
        await api.made(BINDINGS, {"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "x"}})
        changed = await api("PATCH", f"{BINDINGS}/b", {"roleRef": {"name": "y"}}, media="application/merge-patch+json")
        assert changed.body["details"]["causes"][0]["field"] == "roleRef"


async def test_nobody_gives_more_than_they_have_over_the_wire(tmp_path: Path) -> None:
    group = "rbac.authorization.k8s.io"
    async with serving(tmp_path) as api:
        await allow(api, rule("create,patch", "roles,rolebindings", group), rule("get", "pods"))
        more = {"metadata": {"name": "more"}, "rules": [rule("get,list", "pods")]}
        refused = await api("POST", ROLES, more, **BOB)
        assert 'not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["list"]}' in refused.body["message"]
        assert (await api("POST", ROLES, {**more, "rules": [rule("get", "pods")]}, **BOB)).code == 201
        patch = {"rules": [rule("list", "pods")]}
        changed = await api("PATCH", f"{ROLES}/more", patch, media="application/merge-patch+json", **BOB)
        assert changed.code == 403
        held = {"metadata": {"finalizers": ["example.com/a"]}}
        assert (await api("PATCH", f"{ROLES}/r", held, media="application/merge-patch+json", **BOB)).code == 200


@pytest.mark.parametrize("verb", ["get", "delete"])
async def test_reviews_say_what_somebody_may_do(tmp_path: Path, verb: str) -> None:
    async with serving(tmp_path) as api:
        await allow(api, rule("get", "configmaps"))
        about = {"verb": verb, "resource": "configmaps", "namespace": "default"}
        asked = {"spec": {"user": "bob", "resourceAttributes": about}}
        answers = [
            await api("POST", f"{AUTHORIZATION}/subjectaccessreviews", asked),
            await api("POST", f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews", asked),
        ]
        assert [each.body["status"]["allowed"] for each in answers] == [verb == "get"] * 2
        everybody = {"spec": {"groups": ["x"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}}
        assert (await api("POST", f"{AUTHORIZATION}/subjectaccessreviews", everybody)).body["status"] == {
            "allowed": False
        }
        wrong = {"spec": {"user": "bob", "resourceAttributes": {"namespace": "other"}}}
        assert (await api("POST", f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews", wrong)).code == 422
        mine = await api("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, **BOB)
        assert mine.code == 403  # the roles that every cluster has are not in this one


async def test_a_token_on_request_lets_its_account_in_until_that_is_gone(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(ACCOUNTS, {"metadata": {"name": "robot"}})
        await allow(api, rule("list", "configmaps"), kind="ServiceAccount", name="robot")
        made = await api.made(f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 600}})
        token = made["status"]["token"]
        headers = {"Authorization": f"Bearer {token}"}

        async def code(path: str) -> int:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{api.url}{path}", ssl=False, headers=headers) as got,
            ):
                return got.status

        assert [await code(MAPS), await code(f"{MAPS}/a")] == [200, 403]
        review = await api("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
        assert review.body["status"]["user"]["username"] == "system:serviceaccount:default:robot"
        assert (await api("GET", "/openid/v1/jwks")).code == 200
        assert (await api("GET", "/.well-known/openid-configuration")).body["response_types_supported"] == ["id_token"]
        await api("DELETE", f"{ACCOUNTS}/robot")
        assert await code(MAPS) == 401


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"spec": {"expirationSeconds": 10}}, 422),
        ({"spec": {"expirationSeconds": 2**33}}, 422),
        ({"metadata": {"name": "other"}}, 422),
        ({"metadata": {"namespace": "other"}}, 400),
        ({"metadata": {"uid": "other"}}, 409),
        ({"spec": {"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}}, 400),
        ({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "a"}}}, 404),
        ({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "x"}}}, 409),
        ({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}}, 201),
        ({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}}}, 400),
    ],
)
async def test_a_request_for_a_token_is_checked(tmp_path: Path, body: dict[str, Any], code: int) -> None:
    async with serving(tmp_path) as api:
        for name in ("robot", "default"):
            await api.made(ACCOUNTS, {"metadata": {"name": name}})
        await api.made("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
        spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": "n"}
        await api.made("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
        answer = await api("POST", f"{ACCOUNTS}/robot/token", body)
        assert answer.code == code, answer.body
        bound = {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}}}
        assert (await api("POST", f"{ACCOUNTS}/default/token", bound)).code == 201
        dry = await api("POST", f"{ACCOUNTS}/default/token?dryRun=All", bound)
        assert dry.body["status"]["token"] == ""
