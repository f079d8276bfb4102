"""The rules of CustomResourceDefinition are compared with the real API server: the same bodies, the same causes.

Each body is sent with dryRun, so that nothing stays behind. Causes are compared in their alphabetical order: the real
server walks over Go's maps, in another order each time.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewright.local import custom
from edgewright.local.errors import Refusal
from tests.harness import ControlPlane
from tests.unit.local.custom import cases

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RECORDED = json.loads((Path(cases.__file__).parent / "refusals.json").read_text())
OBJECTS = "/apis/local-crds.example.io/v1/namespaces/default/widgets?dryRun=All&fieldValidation=Strict"


def answered(cluster: ControlPlane, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    """What the real server answers."""
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=cluster.admin_tls, timeout=120)
    try:
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def told(answer: dict[str, Any]) -> list[dict[str, str]]:
    """The causes of an answer."""
    causes: list[dict[str, str]] = answer.get("details", {}).get("causes", []) if answer.get("kind") == "Status" else []
    return causes


@pytest.mark.parametrize("name", cases.CASES)
def test_the_causes_are_those_of_the_real_server(cluster: ControlPlane, name: str) -> None:
    body = cases.CASES[name]
    code, answer = answered(cluster, "POST", f"{PATH}?dryRun=All", body)
    ours, causes = cases.decided(body)
    assert cases.in_order(causes) == cases.in_order(told(answer)) == RECORDED[name]
    assert (code == 201) == (causes == [])
    if code == 201:
        assert (ours["spec"], ours["status"]) == (answer["spec"], answer["status"])


@pytest.fixture(scope="module")
def established(cluster: ControlPlane) -> Iterator[dict[str, Any]]:
    """A definition that is there and served."""
    name = cases.crd()["metadata"]["name"]
    cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(cases.crd()))
    cluster.until_served(name)
    yield answered(cluster, "GET", f"{PATH}/{name}", None)[1]
    cluster.request("DELETE", f"{PATH}/{name}")


@pytest.mark.parametrize("name", cases.CHANGES)
def test_a_change_is_refused_as_on_the_real_server(
    cluster: ControlPlane, established: dict[str, Any], name: str
) -> None:
    body = cases.CHANGES[name]
    version = established["metadata"]["resourceVersion"]
    sent = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
    code, answer = answered(cluster, "PUT", f"{PATH}/{body['metadata']['name']}?dryRun=All", sent)
    ours, causes = cases.decided(body, established)
    assert cases.in_order(causes) == cases.in_order(told(answer)) == RECORDED[f"change: {name}"]
    if code == 200:
        assert (ours["spec"], ours["status"]) == (answer["spec"], answer["status"])


METADATA: dict[str, Any] = {
    "unknown fields": {"name": "a", "foo": 1, "bar": {"x": 1}},
    "unknown fields of an owner": {"name": "a", "zoo": 1, "ownerReferences": [{"foo": 1, "name": "y"}]},
    "unknown fields of a manager": {"name": "a", "managedFields": [{"manager": "x", "bad": 1}]},
    "a name that is a number": {"name": 1},
    "a generation that is a text": {"name": "a", "generation": "1"},
    "a generation with a fraction": {"name": "a", "generation": 1.5},
    "a time that is a number": {"name": "a", "creationTimestamp": 5},
    "a field in capitals": {"name": "a", "Labels": {"a": "b"}},
    "a finalizer that is a number": {"name": "a", "finalizers": [1]},
    "a text": "x",
    "a list": ["x"],
}


@pytest.fixture(scope="module")
def widgets(cluster: ControlPlane) -> Iterator[custom.CustomRules]:
    """A kind that is served on the real server, and our rules for it."""
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "inner": embedded}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    crd = cases.crd(
        cases.version(schema={"type": "object", "properties": {"spec": spec}}),
        name=f"widgets.{cases.GROUP}",
        names=names,
    )
    cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(crd))
    cluster.until_served(f"widgets.{cases.GROUP}")
    rules = custom.served(crd)[0].rules
    assert isinstance(rules, custom.CustomRules)
    yield rules
    cluster.request("DELETE", f"{PATH}/widgets.{cases.GROUP}")


def said(rules: custom.CustomRules, body: dict[str, Any]) -> str:
    """What a strict request would be refused with, by our rules."""
    try:
        unknown = rules.decode(body)[1]
    except Refusal as refusal:
        return refusal.message
    named = ", ".join(f'unknown field "{path}"' for path in unknown)
    return f'Widget in version "v1" cannot be handled as a Widget: strict decoding error: {named}'


@pytest.mark.parametrize("name", METADATA)
def test_metadata_is_read_as_on_the_real_server(cluster: ControlPlane, widgets: custom.CustomRules, name: str) -> None:
    body = {"apiVersion": f"{cases.GROUP}/v1", "kind": "Widget", "metadata": METADATA[name]}
    assert said(widgets, body) == answered(cluster, "POST", OBJECTS, body)[1]["message"]


INNER: dict[str, Any] = {
    "a name that is a number": {"apiVersion": "v1", "kind": "X", "metadata": {"name": 1}},
    "an apiVersion that is a number": {"apiVersion": 1, "kind": "X", "metadata": {"name": "x"}},
    "an unknown field": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "foo": 1}, "x": 1},
}


@pytest.mark.parametrize("name", INNER)
def test_embedded_objects_are_read_as_on_the_real_server(
    cluster: ControlPlane, widgets: custom.CustomRules, name: str
) -> None:
    metadata, spec = {"name": "a", "foo": 1}, {"inner": INNER[name], "wrong": 1}
    body = {"apiVersion": f"{cases.GROUP}/v1", "kind": "Widget", "metadata": metadata, "spec": spec, "zzz": 1}
    assert said(widgets, body) == answered(cluster, "POST", OBJECTS, body)[1]["message"]
