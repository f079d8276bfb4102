"""CEL rules are compared with the real API server: what they say of objects, and which of them cannot be used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from edgewright.local import schema
from tests.harness import ControlPlane, RequestError
from tests.unit.local.schema import cost_cases
from tests.unit.local.schema import rule_cases as cases

COSTS = cost_cases.CASES
GROUP = "local-rules.example.io"
COMPILED = schema.compile(cases.SCHEMA)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LOOSE = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}

Causes = list[tuple[str, str, str]]


def definition(plural: str, *schemas: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A CustomResourceDefinition with these versions; the first is stored."""
    versions = [
        {"name": name, "served": True, "storage": index == 0, "schema": {"openAPIV3Schema": held}}
        for index, (name, held) in enumerate(schemas)
    ]
    names = {"kind": plural.capitalize(), "plural": plural, "singular": plural, "listKind": f"{plural}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": versions},
    }


@pytest.fixture(scope="module")
def paths(cluster: ControlPlane) -> Iterator[dict[str, str]]:
    """Where the kind of these tests is served: in v1 anything goes, in v2 the rules hold."""
    crd = definition("rules", ("v1", LOOSE), ("v2", cases.SCHEMA))
    cluster.request("POST", CRDS, crd)
    cluster.until_served(f"rules.{GROUP}")
    yield {version: f"/apis/{GROUP}/{version}/rules" for version in ("v1", "v2")}
    cluster.request("DELETE", f"{CRDS}/rules.{GROUP}")


def body(version: str, spec: dict[str, Any], **metadata: str) -> dict[str, Any]:
    """An object of the kind."""
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Rules", "metadata": metadata, "spec": spec}


def real_causes(cluster: ControlPlane, verb: str, path: str, sent: dict[str, Any]) -> Causes:
    """The causes for which the real server refuses a request, sorted since it gives them in any order."""
    try:
        cluster.request(verb, f"{path}?dryRun=All&fieldValidation=Ignore", sent)
    except RequestError as refused:
        status = json.loads(refused.answer)
        return sorted((c.get("reason", ""), c["message"], c.get("field", "")) for c in status["details"]["causes"])
    return []


def our_causes(obj: dict[str, Any], old: dict[str, Any] | None = None) -> Causes:
    """The causes that we find in the object after what is done to it before."""
    pruned, _ = COMPILED.prune(COMPILED.default(obj))
    return sorted((c.reason, c.message, c.field) for c in COMPILED.validate(pruned, old))


@pytest.mark.parametrize("spec", cases.CREATED.values(), ids=cases.CREATED.keys())
def test_rules_say_the_same_of_a_new_object(cluster: ControlPlane, paths: dict[str, str], spec: dict[str, Any]) -> None:
    sent = body("v2", spec, name="good")
    assert our_causes(sent) == real_causes(cluster, "POST", paths["v2"], sent)


def test_rules_of_the_root_see_the_name(cluster: ControlPlane, paths: dict[str, str]) -> None:
    sent = body("v2", {}, name="bad-one")
    ours = our_causes(sent)
    assert ours == real_causes(cluster, "POST", paths["v2"], sent)
    assert ours


@pytest.mark.parametrize(("before", "after"), cases.UPDATED.values(), ids=cases.UPDATED.keys())
def test_rules_say_the_same_of_an_update(
    cluster: ControlPlane, paths: dict[str, str], before: dict[str, Any], after: dict[str, Any]
) -> None:
    stored = cluster.request("POST", paths["v1"], body("v1", before, generateName="u-"))
    path = f"{paths['v2']}/{stored['metadata']['name']}"
    read = cluster.request("GET", path)
    sent = {**read, "spec": after}
    assert our_causes(sent, read) == real_causes(cluster, "PUT", path, sent)


@pytest.mark.parametrize("held", cases.FAULTY.values(), ids=cases.FAULTY.keys())
def test_the_same_rules_cannot_be_used(cluster: ControlPlane, held: dict[str, Any]) -> None:
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": held}}}}
    real = real_causes(cluster, "POST", CRDS, definition("faults", ("v1", whole)))
    path = "spec.validation.openAPIV3Schema"  # where a schema is that all versions share
    ours = sorted((c.reason, c.message, c.field) for c in schema.rules_faults(whole, path))
    assert [outline(cause) for cause in ours] == [outline(cause) for cause in real]


def outline(cause: tuple[str, str, str]) -> tuple[str, str, str]:
    """A cause without what the compiler says of the place and the types."""
    reason, message, field = cause
    before, compiled, _ = message.partition("compilation failed: ")
    return reason, before + compiled, field


@pytest.mark.parametrize("name", COSTS)
def test_a_rule_that_could_take_too_long_is_refused_by_both(cluster: ControlPlane, name: str) -> None:
    """With the same reason and field, and a factor of the same order where one is named."""
    held, taken = COSTS[name]
    real = real_causes(cluster, "POST", CRDS, definition("costs", ("v1", cost_cases.root(held))))
    path = "spec.validation.openAPIV3Schema"  # as the real server says where there is one version
    ours = sorted((each.reason, each.message, each.field) for each in schema.rules_faults(cost_cases.root(held), path))
    assert (not real, not ours) == (taken, taken), (real, ours)
    # Of rules that are equally dear the real server names any four.
    named = [
        [(reason, "" if "contributed" in said else field) for reason, said, field in each] for each in (real, ours)
    ]
    assert named[0] == named[1]
    for theirs, own in zip(real, ours, strict=True):
        pair = [re.search(r"factor of ([0-9.]+)x", each[1]) for each in (theirs, own)]
        if pair[0] and pair[1]:
            assert 0.1 < float(pair[0][1]) / float(pair[1][1]) < 10, (theirs, own)
