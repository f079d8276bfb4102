"""Which Node a Pod may run on: readiness, cordons, taints, selectors and required affinity."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewright.local.controllers.node_fit import choose, objection, waits_for_a_node
from edgewright.local.controllers.resources import Node, Pod


def node(name: str = "n", *, ready: str = "True", labels: dict[str, str] | None = None, **spec: Any) -> Node:
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        },
        Node,
    )


def pod(*, metadata: Any = None, phase: str = "Pending", **spec: Any) -> Pod:
    body = {
        "metadata": metadata or {},
        "spec": {"schedulerName": "default-scheduler", **spec},
        "status": {"phase": phase},
    }
    return msgspec.convert(body, Pod)


def requiring(*terms: Any) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return pod(affinity={"nodeAffinity": required})


def expression(key: str, operator: str, *values: str) -> Any:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


TAINT = {"key": "only", "value": "mine", "effect": "NoSchedule"}
NO_MATCH = "didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("wanted", "offered", "answer"),
    [
        (pod(), node(), ""),
        (pod(), node(ready="Unknown"), "were not ready"),
        (pod(), node(unschedulable=True), "were unschedulable"),
        (pod(tolerations=[{"operator": "Exists"}]), node(unschedulable=True), ""),
        (pod(nodeSelector={"a": "1"}), node(labels={"a": "1"}), ""),
        (pod(nodeSelector={"a": "1"}), node(labels={"a": "2"}), NO_MATCH),
        (pod(), node(taints=[TAINT]), "had untolerated taint {only: mine}"),
        (pod(), node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), ""),
        (pod(tolerations=[{"key": "only", "value": "mine"}]), node(taints=[TAINT]), ""),
        (
            pod(tolerations=[{"key": "only", "value": "yours"}]),
            node(taints=[TAINT]),
            "had untolerated taint {only: mine}",
        ),
        (pod(tolerations=[{"key": "only", "operator": "Exists"}]), node(taints=[TAINT]), ""),
        (
            pod(tolerations=[{"key": "only", "operator": "Exists", "effect": "NoExecute"}]),
            node(taints=[TAINT]),
            "had untolerated taint {only: mine}",
        ),
        (requiring(expression("a", "In", "1", "2")), node(labels={"a": "2"}), ""),
        (requiring(expression("a", "NotIn", "1")), node(), ""),
        (requiring(expression("a", "NotIn", "1")), node(labels={"a": "1"}), NO_MATCH),
        (requiring(expression("a", "Exists")), node(), NO_MATCH),
        (requiring(expression("a", "DoesNotExist")), node(), ""),
        (requiring(expression("a", "Gt", "5")), node(labels={"a": "6"}), ""),
        (requiring(expression("a", "Lt", "5")), node(labels={"a": "6"}), NO_MATCH),
        (requiring(expression("a", "Gt", "5")), node(labels={"a": "six"}), NO_MATCH),
        (requiring(expression("a", "Gt")), node(labels={"a": "6"}), NO_MATCH),
        (requiring(expression("a", "Like", "5")), node(labels={"a": "5"}), NO_MATCH),
        (requiring(expression("a", "Exists"), expression("b", "Exists")), node(labels={"b": ""}), ""),
        (requiring({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}), node(), ""),
        (requiring({}), node(), NO_MATCH),
        (requiring(), node(), NO_MATCH),
    ],
)
def test_an_objection_says_why_a_node_does_not_fit(wanted: Pod, offered: Node, answer: str) -> None:
    assert objection(wanted, offered) == answer


@pytest.mark.parametrize(
    ("wanted", "waits"),
    [
        (pod(), True),
        (pod(nodeName="n"), False),
        (pod(schedulerName="other"), False),
        (pod(schedulingGates=[{"name": "later"}]), False),
        (pod(phase="Failed"), False),
        (pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False),
    ],
    ids=["new", "bound", "of another scheduler", "gated", "failed", "deleted"],
)
def test_only_a_new_pod_of_ours_waits_for_a_node(wanted: Pod, waits: bool) -> None:
    assert waits_for_a_node(wanted) is waits


def test_the_node_with_the_fewest_pods_is_chosen() -> None:
    nodes = [node("c"), node("b"), node("a"), node("cordoned", unschedulable=True)]
    assert choose(pod(), nodes, {"a": 2, "b": 1, "c": 1}).node == "b"
    assert choose(pod(), nodes, {}).node == "a"


def test_why_no_node_fits_is_one_sentence() -> None:
    nodes = [node("a", ready="False"), node("b", taints=[TAINT]), node("c", ready="False")]
    assert choose(pod(), nodes, {}).why == (
        "0/3 nodes are available: 1 node(s) had untolerated taint {only: mine}, 2 node(s) were not ready."
    )
    assert choose(pod(), [], {}).why == "no nodes available to schedule pods"
