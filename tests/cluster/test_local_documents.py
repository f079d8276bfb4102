"""Discovery and OpenAPI of custom kinds are compared with the real API server: same definitions, same documents.

Descriptions are left out: the real server's tell what Kubernetes is, ours what the author of a definition wrote.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from edgewright.local import builtin, custom
from edgewright.local.documents import discovery, openapi, swagger
from edgewright.local.served import Served
from tests.harness import ControlPlane
from tests.harness.waiting import wait_until
from tests.unit.local.custom import samples

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = samples.GROUP


def fetched(cluster: ControlPlane, path: str, accept: str = "application/json") -> Any:
    """A document of the real server, None where there is none."""
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=cluster.admin_tls, timeout=120)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        answer = connection.getresponse()
        body = answer.read()
        return json.loads(body) if answer.status == 200 else None
    finally:
        connection.close()


@pytest.fixture(scope="module")
def kinds(cluster: ControlPlane) -> Iterator[list[Served]]:
    """The custom kinds of the definitions as the real server has them, when it publishes them."""
    wanted = [samples.gadgets(), samples.widgets()]
    for crd in wanted:
        body = {**crd, "metadata": {"name": crd["metadata"]["name"]}}
        del body["status"]
        cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(body))
        cluster.until_served(crd["metadata"]["name"])

    found = [fetched(cluster, f"{CRDS}/{crd['metadata']['name']}") for crd in wanted]
    served = [each for crd in found for each in custom.served(crd)]

    def published() -> bool:
        older = fetched(cluster, "/openapi/v2")["definitions"]
        for kind in (each.kind for each in served):
            newer = fetched(cluster, f"/openapi/v3/apis/{GROUP}/{kind.version}") or {"components": {"schemas": {}}}
            for schemas in (newer["components"]["schemas"], older):
                if f"io.example.probe.{kind.version}.{kind.kind}" not in schemas:
                    return False
        return True

    wait_until(published, what="the definitions are published")
    yield served
    for crd in wanted:
        cluster.request("DELETE", f"{CRDS}/{crd['metadata']['name']}")


def by_name(document: dict[str, Any]) -> dict[str, Any]:
    """The real server lists the resources of custom groups in another order each time."""
    return {**document, "resources": sorted(document["resources"], key=lambda each: str(each["name"].split("/")[0]))}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_resources_of_a_version_are_told_word_by_word(
    cluster: ControlPlane, kinds: list[Served], version: str
) -> None:
    real = by_name(fetched(cluster, f"/apis/{GROUP}/{version}"))
    ours = discovery.resource_list(kinds, GROUP, version)
    assert json.dumps(ours) == json.dumps(real)


def test_the_group_is_told_word_by_word(cluster: ControlPlane, kinds: list[Served]) -> None:
    assert json.dumps(discovery.group(kinds, GROUP)) == json.dumps(fetched(cluster, f"/apis/{GROUP}"))
    listed = fetched(cluster, "/apis")
    mine = [each for each in listed["groups"] if each["name"] == GROUP]
    assert json.dumps(discovery.group_list(kinds)) == json.dumps({**listed, "groups": mine})


def test_the_aggregated_document_is_told_word_by_word(cluster: ControlPlane, kinds: list[Served]) -> None:
    real = fetched(cluster, "/apis", discovery.AGGREGATED)
    mine = [each for each in real["items"] if each["metadata"]["name"] == GROUP]
    assert json.dumps(discovery.aggregated(kinds, core=False)) == json.dumps({**real, "items": mine})


def test_groups_are_in_the_order_of_the_real_server(cluster: ControlPlane, kinds: list[Served]) -> None:
    ours = discovery.groups([*builtin.served(), *kinds])
    real = [each["name"] for each in fetched(cluster, "/apis")["groups"]]
    assert ours == [name for name in real if name in ours]


def test_built_in_kinds_are_told_as_the_real_server_tells_them(cluster: ControlPlane) -> None:
    served = builtin.served()
    for group, version in sorted({(each.kind.group, each.kind.version) for each in served}):
        ours = discovery.resource_list(served, group, version)
        real = fetched(cluster, f"/apis/{group}/{version}" if group else f"/api/{version}")
        assert ours is not None
        names = {each["name"] for each in ours["resources"]}
        assert ours["resources"] == [each for each in real["resources"] if each["name"] in names]
        assert [*ours] == [*real]


def without_words(value: Any) -> Any:
    """A document without descriptions."""
    if isinstance(value, dict):
        return {
            name: without_words(child)
            for name, child in value.items()
            if not (name == "description" and isinstance(child, str))
        }
    return [without_words(child) for child in value] if isinstance(value, list) else value


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_newer_openapi_says_the_same_of_custom_kinds(
    cluster: ControlPlane, kinds: list[Served], version: str
) -> None:
    real = without_words(fetched(cluster, f"/openapi/v3/apis/{GROUP}/{version}"))
    ours = without_words(openapi.document(kinds, builtin.definitions(), GROUP, version))
    assert ours["paths"] == real["paths"]
    assert ours["components"]["schemas"].keys() == real["components"]["schemas"].keys()
    for name, schema in ours["components"]["schemas"].items():
        if name.startswith("io.example."):
            assert schema == real["components"]["schemas"][name]


def test_the_older_openapi_has_the_same_definitions(cluster: ControlPlane, kinds: list[Served]) -> None:
    ours = without_words(swagger.document([*builtin.served(), *kinds], builtin.definitions()))["definitions"]
    real = without_words(fetched(cluster, "/openapi/v2"))["definitions"]
    # It is a kind of every group that there is, and we have fewer.
    shared = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    assert {name: schema for name, schema in ours.items() if name != shared and schema != real[name]} == {}


def test_operations_on_built_in_kinds_have_the_names_of_the_real_server(cluster: ControlPlane) -> None:
    ours = openapi.document(builtin.served(), builtin.definitions(), "", "v1")
    real = fetched(cluster, "/openapi/v3/api/v1")["paths"]
    assert ours is not None
    for path, operations in ours["paths"].items():
        for method, operation in operations.items():
            if method != "parameters":
                for said in ("operationId", "tags", "x-kubernetes-action", "x-kubernetes-group-version-kind"):
                    assert operation[said] == real[path][method][said]
