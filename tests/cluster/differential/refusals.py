"""Exchanges that a server must refuse: bodies, paths, methods and queries that cannot be."""

from __future__ import annotations

import json

from tests.cluster.differential.bodies import MAPS, NAMESPACES, PODS, SECRETS, named, pod
from tests.cluster.differential.exchange import Exchange, Step, delete, exchange, get, made, patch, post, put


def _plain(method: str, path: str, **headers: str) -> Step:
    return Step(method=method, path=path, headers={name.replace("_", "-"): value for name, value in headers.items()})


BODIES: dict[str, Exchange] = {
    "nothing": exchange(post(MAPS, "")),
    "no JSON": exchange(post(MAPS, "{")),
    "a text": exchange(post(MAPS, '"text"')),
    "a list": exchange(post(MAPS, "[]")),
    "a number": exchange(post(MAPS, "5")),
    "null": exchange(post(MAPS, "null")),
    "an empty object": exchange(post(MAPS, "{}")),
    "more than one object": exchange(post(MAPS, '{"metadata":{"name":"a"}}{"metadata":{"name":"b"}}')),
    "words after the object": exchange(post(MAPS, '{"metadata":{"name":"a"}} more')),
    "a comma too many": exchange(post(MAPS, '{"metadata":{"name":"a"},}')),
    "single quotes": exchange(post(MAPS, "{'metadata':{'name':'a'}}")),
    "no UTF-8": exchange(post(MAPS, b'{"metadata":{"name":"a"},"data":{"k":"\xff"}}')),
    "a control character": exchange(post(MAPS, '{"metadata":{"name":"a"},"data":{"k":"a\x01b"}}')),
    "half a surrogate": exchange(post(MAPS, '{"metadata":{"name":"a"},"data":{"k":"\\ud800"}}')),
    "YAML as JSON": exchange(post(MAPS, "metadata:\n  name: a\n")),
    "broken YAML": exchange(post(MAPS, "metadata: [", "application/yaml")),
    "empty YAML": exchange(post(MAPS, "", "application/yaml")),
    "JSON as YAML": exchange(post(MAPS, json.dumps(named("a")), "application/yaml")),
    "an unknown format": exchange(post(MAPS, "<a/>", "application/xml")),
    "a plain text": exchange(post(MAPS, "a", "text/plain")),
    "no format said": exchange(Step(method="POST", path=MAPS, body=json.dumps(named("a")))),
    "a charset": exchange(post(MAPS, named("a"), "application/json; charset=utf-8")),
    "another kind": exchange(post(MAPS, {"apiVersion": "v1", "kind": "Secret", **named("a")})),
    "an unknown kind": exchange(post(MAPS, {"apiVersion": "v1", "kind": "Thing", **named("a")})),
    "another group": exchange(post(MAPS, {"apiVersion": "apps/v1", "kind": "ConfigMap", **named("a")})),
    "an unknown group": exchange(post(MAPS, {"apiVersion": "none.example.com/v1", "kind": "ConfigMap", **named("a")})),
    "a kind without a version": exchange(post(MAPS, {"kind": "ConfigMap", **named("a")})),
    "a version without a kind": exchange(post(MAPS, {"apiVersion": "v1", **named("a")})),
    "a version of three parts": exchange(post(MAPS, {"apiVersion": "a/b/c", "kind": "ConfigMap", **named("a")})),
    "a kind that is a number": exchange(post(MAPS, {"apiVersion": "v1", "kind": 5, **named("a")})),
    "metadata that is a text": exchange(post(MAPS, {"metadata": "a"})),
    "metadata that is a list": exchange(post(MAPS, {"metadata": []})),
    "a name that is a number": exchange(post(MAPS, {"metadata": {"name": 5}})),
    "labels that are a list": exchange(post(MAPS, named("a", metadata={"labels": ["a"]}))),
    "a label that is a number": exchange(post(MAPS, named("a", metadata={"labels": {"a": 1}}))),
    "a time that is none": exchange(post(MAPS, named("a", metadata={"creationTimestamp": "yesterday"}))),
    "data that is a text": exchange(post(MAPS, named("a", data="text"))),
    "a text for a yes": exchange(post(MAPS, named("a", immutable="yes"))),
    "a number that is too large": exchange(
        post(PODS, json.dumps(pod("a", priority=5)).replace('"priority": 5', '"priority": 99999999999'))
    ),
    "a fraction for a number": exchange(post(PODS, pod("a", priority=1.5))),
    "a text for a number": exchange(post(PODS, pod("a", activeDeadlineSeconds="5"))),
    "an object for a list": exchange(post(PODS, pod("a", containers={"name": "c"}))),
    "a text for an object in a list": exchange(post(PODS, pod("a", containers=["c"]))),
    "a list of objects": exchange(post(MAPS, {"apiVersion": "v1", "kind": "ConfigMapList", "items": [named("a")]})),
    "a body that is too large": exchange(post(MAPS, json.dumps(named("a", data={"k": "x" * 3_200_000})))),
    "deep nesting": exchange(post(MAPS, '{"metadata":' + '{"a":' * 11_000 + "1" + "}" * 11_000 + "}")),
    "an object in an update that is a list": exchange(made(MAPS, named("a")), put(f"{MAPS}/a", "[]")),
    "nothing in an update": exchange(made(MAPS, named("a")), put(f"{MAPS}/a", "")),
}

PATHS: dict[str, Exchange] = {
    "nowhere": exchange(get("/nowhere")),
    "below nowhere": exchange(get("/nowhere/at/all")),
    "an unknown kind": exchange(post("/api/v1/namespaces/{ns}/things", named("a"))),
    "an unknown version": exchange(get("/api/v9/namespaces")),
    "an unknown version of a group": exchange(get("/apis/coordination.k8s.io/v9/namespaces/{ns}/leases")),
    "an unknown group": exchange(post("/apis/none.example.com/v1/namespaces/{ns}/things", named("a"))),
    "an unknown subresource": exchange(made(MAPS, named("a")), get(f"{MAPS}/a/odd")),
    "below a subresource": exchange(made(PODS, pod("a")), get(f"{PODS}/a/status/more")),
    "below a name": exchange(made(MAPS, named("a")), get(f"{MAPS}/a/b/c/d")),
    "an object without its namespace": exchange(get("/api/v1/configmaps/a")),
    "an object of all in a namespace": exchange(get("/api/v1/namespaces/{ns}/namespaces/x")),
    "a slash at the end of a list": exchange(get(f"{SECRETS}/")),
    "a slash at the end of an object": exchange(made(SECRETS, named("a")), get(f"{SECRETS}/a/")),
    "an escaped name": exchange(made(SECRETS, named("a")), get(f"{SECRETS}/%61")),
    "a name that cannot be": exchange(get(f"{SECRETS}/A%20B")),
    "a namespace that cannot be": exchange(get("/api/v1/namespaces/A%20B/secrets")),
    "a name with a percent sign": exchange(get(f"{SECRETS}/a%25b")),
    "upper case": exchange(get("/api/v1/namespaces/{ns}/ConfigMaps")),
    "a singular": exchange(get("/api/v1/namespaces/{ns}/configmap")),
}

METHODS: dict[str, Exchange] = {
    "POST to an object": exchange(made(MAPS, named("a")), post(f"{MAPS}/a", named("a"))),
    "PUT to a list": exchange(put(MAPS, named("a"))),
    "PATCH to a list": exchange(patch(MAPS, {})),
    "DELETE of all ConfigMaps everywhere": exchange(delete("/api/v1/configmaps?labelSelector=none-has-this")),
    "DELETE of all Namespaces": exchange(delete(NAMESPACES)),
    "GET of a review": exchange(get("/apis/authentication.k8s.io/v1/selfsubjectreviews")),
    "GET of a review by name": exchange(get("/apis/authentication.k8s.io/v1/selfsubjectreviews/a")),
    "POST to a status": exchange(made(PODS, pod("a")), post(f"{PODS}/a/status", pod("a"))),
    "DELETE of a status": exchange(made(PODS, pod("a")), delete(f"{PODS}/a/status")),
    "GET of a binding": exchange(made(PODS, pod("a")), get(f"{PODS}/a/binding")),
    "TRACE of a list": exchange(_plain("TRACE", MAPS)),
    "HEAD of a list": exchange(_plain("HEAD", SECRETS)),
    "OPTIONS of a list": exchange(_plain("OPTIONS", SECRETS)),
    "POST to the version": exchange(post("/version", {})),
    "POST to the list of groups": exchange(post("/apis", {})),
}

QUERIES: dict[str, Exchange] = {
    "an unknown option": exchange(get(f"{SECRETS}?colour=red")),
    "an unknown option of a creation": exchange(post(f"{MAPS}?colour=red", named("a"))),
    "an option twice": exchange(made(SECRETS, named("a")), get(f"{SECRETS}?limit=1&limit=2")),
    "a broken escape": exchange(get(f"{SECRETS}?labelSelector=%zz")),
    "a semicolon": exchange(get(f"{SECRETS}?limit=1;watch=true")),
    "a manager in a read": exchange(get(f"{SECRETS}?fieldManager=me")),
    "a pretty answer": exchange(made(SECRETS, named("a")), get(f"{SECRETS}/a?pretty=true")),
    "a dry run twice": exchange(post(f"{MAPS}?dryRun=All&dryRun=All", named("a"))),
    "a dry run of two kinds": exchange(post(f"{MAPS}?dryRun=All&dryRun=Some", named("a"))),
    "a watch and a limit": exchange(get(f"{SECRETS}?limit=1&timeoutSeconds=1&watch=false")),
    "a timeout of a list": exchange(get(f"{SECRETS}?timeoutSeconds=5")),
    "a timeout of a request": exchange(get(f"{SECRETS}?timeout=5s")),
    "a bad timeout of a request": exchange(get(f"{SECRETS}?timeout=soon")),
    "a version of the wrong sort": exchange(get(f"{SECRETS}?resourceVersion=-1")),
    "a version that is too long": exchange(get(f"{SECRETS}?resourceVersion=99999999999999999999")),
    "options of a creation that cannot be": exchange(
        post(f"{MAPS}?dryRun=X&fieldValidation=Y&fieldManager={'m' * 129}", named("a"))
    ),
    "force in a creation": exchange(post(f"{MAPS}?force=true", named("a"))),
}
