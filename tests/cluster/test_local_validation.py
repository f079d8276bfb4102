"""What is wrong with an object is compared with what the real API server says of it, cause by cause."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from edgewright.local import schema
from tests.harness import ControlPlane, RequestError
from tests.unit.local.schema import cases

GROUP = "local-validation.example.io"
COMPILED = schema.compile(cases.SCHEMA)
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture(scope="module")
def paths(cluster: ControlPlane) -> Iterator[dict[str, str]]:
    """Where the kind of these tests is served: in v1 anything goes, in v2 the schema of the cases holds."""
    name = f"checks.{GROUP}"
    loose = {"type": "object", "properties": {"spec": OPEN, "status": {"x-kubernetes-preserve-unknown-fields": True}}}
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == "v1",
            "schema": {"openAPIV3Schema": held},
            "subresources": {"status": {}},
        }
        for version, held in (("v1", loose), ("v2", cases.SCHEMA))
    ]
    names = {"kind": "Check", "plural": "checks", "singular": "check", "listKind": "CheckList"}
    spec = {"group": GROUP, "scope": "Cluster", "names": names, "versions": versions}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}}
    cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps({**crd, "spec": spec}))
    cluster.until_served(name)
    yield {version: f"/apis/{GROUP}/{version}/checks" for version in ("v1", "v2")}
    cluster.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")


def body(version: str, spec: dict[str, Any], **metadata: str) -> dict[str, Any]:
    """An object of the kind."""
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Check", "metadata": metadata, "spec": spec}


def real_causes(cluster: ControlPlane, verb: str, path: str, sent: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The causes for which the real server refuses a request, sorted since it gives them in any order."""
    try:
        cluster.request(verb, f"{path}?dryRun=All&fieldValidation=Ignore", sent)
    except RequestError as refused:
        status = json.loads(refused.answer)
        return sorted((c.get("reason", ""), c["message"], c.get("field", "")) for c in status["details"]["causes"])
    return []


def our_causes(obj: dict[str, Any], old: dict[str, Any] | None = None, **more: Any) -> list[tuple[str, str, str]]:
    """The causes that we find in the object after what is done to it before."""
    pruned, _ = COMPILED.prune(COMPILED.default(obj))
    return sorted((c.reason, c.message, c.field) for c in COMPILED.validate(pruned, old, **more))


@pytest.mark.parametrize("spec", cases.CREATED.values(), ids=cases.CREATED.keys())
def test_a_new_object_is_refused_for_the_same_causes(
    cluster: ControlPlane, paths: dict[str, str], spec: dict[str, Any]
) -> None:
    sent = body("v2", spec, generateName="c-")
    assert our_causes(sent) == real_causes(cluster, "POST", paths["v2"], sent)


@pytest.mark.parametrize(("before", "after"), cases.UPDATED.values(), ids=cases.UPDATED.keys())
def test_an_update_is_refused_for_the_same_causes(
    cluster: ControlPlane, paths: dict[str, str], before: dict[str, Any], after: dict[str, Any]
) -> None:
    stored = cluster.request("POST", paths["v1"], body("v1", before, generateName="u-"))
    path = f"{paths['v2']}/{stored['metadata']['name']}"
    read = cluster.request("GET", path)
    sent = {**read, "spec": after}
    assert our_causes(sent, read) == real_causes(cluster, "PUT", path, sent)


@pytest.mark.parametrize(("before", "after"), cases.STATUSES.values(), ids=cases.STATUSES.keys())
def test_a_status_is_refused_for_the_same_causes(
    cluster: ControlPlane, paths: dict[str, str], before: Any, after: Any
) -> None:
    stored = cluster.request("POST", paths["v1"], body("v1", {"small": 11}, generateName="s-"))
    name = stored["metadata"]["name"]
    if before is not None:
        cluster.request("PUT", f"{paths['v1']}/{name}/status", {**stored, "status": before})
    read = cluster.request("GET", f"{paths['v2']}/{name}")
    sent = {key: value for key, value in {**read, "status": after}.items() if value is not None}
    ours = our_causes(sent, read, subresource="status")
    assert ours == real_causes(cluster, "PUT", f"{paths['v2']}/{name}/status", sent)
