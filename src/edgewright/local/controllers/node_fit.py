"""Which Node a Pod may run on, and why on no other: pure decisions over structs.

`scheduler` asks `choose` with what its caches hold. It looks at readiness, cordons, taints, node selectors and required
node affinity; a Node of processes has no capacity to share out, so requests of CPU and memory are not looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgewright.local.controllers.resources import Node, NodeTerm, Pod, PodSpec, Taint, Toleration
from edgewright.runtime.label_requirements import holds

DEFAULT_SCHEDULER = "default-scheduler"

_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True)
class Choice:
    """The Node that was chosen; empty where there is none, and then `why` is a sentence for people."""

    node: str = ""
    why: str = ""


def waits_for_a_node(pod: Pod) -> bool:
    """Whether this Pod is the default scheduler's to place."""
    return not (
        pod.spec.node_name
        or pod.deleting
        or pod.spec.scheduling_gates
        or pod.spec.scheduler_name != DEFAULT_SCHEDULER
        or pod.status.phase in {"Succeeded", "Failed"}
    )


def choose(pod: Pod, nodes: Iterable[Node], load: Mapping[str, int]) -> Choice:
    """The fitting Node with the fewest Pods (`load`, by name), or what is wrong with each."""
    fitting: list[str] = []
    reasons: Counter[str] = Counter()
    for node in nodes:
        reason = objection(pod, node)
        if reason:
            reasons[reason] += 1
        else:
            fitting.append(node.metadata.name)
    if fitting:
        return Choice(node=min(fitting, key=lambda name: (load.get(name, 0), name)))
    if not reasons:
        return Choice(why="no nodes available to schedule pods")
    told = ", ".join(f"{count} node(s) {reason}" for reason, count in sorted(reasons.items()))
    return Choice(why=f"0/{reasons.total()} nodes are available: {told}.")


def objection(pod: Pod, node: Node) -> str:
    """Why the Pod may not run on the Node, to follow "1 node(s) …"; empty where it may."""
    tolerations = pod.spec.tolerations
    if node.deleting or not node.ready:
        return "were not ready"
    if node.spec.unschedulable and not _tolerated(_CORDONED, tolerations):
        return "were unschedulable"
    if not _selected(pod.spec, node):
        return "didn't match Pod's node affinity/selector"
    for taint in node.spec.taints:
        if taint.effect in _KEEPS_AWAY and not _tolerated(taint, tolerations):
            return f"had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def fits(spec: PodSpec, node: Node) -> tuple[bool, bool]:
    """Whether a Pod that every Node gets is to run on this one, and whether one that runs there may stay."""
    if not _selected(spec, node):
        return False, False
    taints = [*node.spec.taints, *((_CORDONED,) if node.spec.unschedulable else ())]
    effects = {each.effect for each in taints if not _tolerated(each, spec.tolerations)}
    return not effects & _KEEPS_AWAY, "NoExecute" not in effects


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(
        each.effect in {"", taint.effect}
        and each.key in {"", taint.key}
        and (each.operator == "Exists" or (each.operator in {"", "Equal"} and each.key and each.value == taint.value))
        for each in tolerations
    )


def _selected(spec: PodSpec, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return not required or any(_meets(node, term) for term in required.node_selector_terms)


def _meets(node: Node, term: NodeTerm) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False  # an empty term selects nothing
    fields = {"metadata.name": node.metadata.name}
    return all(holds(each, node.metadata.labels, numbers=True) for each in term.match_expressions) and all(
        holds(each, fields, numbers=True) for each in term.match_fields
    )
