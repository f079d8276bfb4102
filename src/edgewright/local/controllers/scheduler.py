"""Gives each new Pod a Node: binds it to one that fits, or says on the Pod why there is none.

`add` registers it as the scheduler `default-scheduler`; `node_fit` decides. A Pod that fits nowhere is looked at again
when a Node changes in a way that matters. It never moves a Pod and never evicts one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from edgewright.local.controllers.node_fit import choose, waits_for_a_node
from edgewright.local.controllers.resources import Node, Pod
from edgewright.runtime import DONE, Change, Clock, Condition, For, Key, Manager, Maps, Result, SystemClock
from edgewright.runtime.errors import Conflict, NotFound
from edgewright.runtime.events import Recorder

SCHEDULED = "PodScheduled"
UNSCHEDULABLE = "Unschedulable"


def unschedulable(pod: Pod, why: str, *, clock: Clock) -> tuple[Condition, ...] | None:
    """The Pod's conditions with one that says why it has no Node; None where they say so already."""
    known = next((each for each in pod.status.conditions if each.type == SCHEDULED), None)
    told = known is not None and (known.status, known.reason, known.message) == ("False", UNSCHEDULABLE, why)
    if told and known is not None and known.observed_generation == pod.metadata.generation:
        return None
    since = known.last_transition_time if known is not None and known.status == "False" else None
    condition = Condition(
        type=SCHEDULED,
        status="False",
        reason=UNSCHEDULABLE,
        message=why,
        last_transition_time=since or clock.now().replace(microsecond=0),
        observed_generation=pod.metadata.generation,
    )
    return (*(each for each in pod.status.conditions if each.type != SCHEDULED), condition)


def matters(change: Change[Any]) -> bool:
    """Whether a change of a Node can change where Pods fit: its heartbeats cannot."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return bool(
        (old.ready, old.deleting, old.spec, old.metadata.labels)
        != (new.ready, new.deleting, new.spec, new.metadata.labels)
    )


def add(manager: Manager, *, recorder: Recorder, clock: Clock | None = None) -> None:
    """Registers the scheduler; `recorder` writes its Events."""
    _Scheduler(manager, recorder, clock or SystemClock()).add()


class _Scheduler:
    def __init__(self, manager: Manager, recorder: Recorder, clock: Clock) -> None:
        self._manager = manager
        self._client = manager.client
        self._recorder = recorder
        self._clock = clock
        self._pods = manager.cache(Pod)
        self._nodes = manager.cache(Node)
        self._load: Counter[str] = Counter()  # Pods by Node
        self._bound: dict[Key, tuple[str, str]] = {}  # what was bound and is not in the cache yet: uid and Node
        self._pods.add_index("waits for a node", lambda pod: (waits_for_a_node(pod),))
        self._pods.subscribe(self._seen)

    def add(self) -> None:
        self._manager.controller(
            "scheduler",
            self._reconcile,
            For(self._pods, when=lambda change: change.new is not None and waits_for_a_node(change.new)),
            Maps(self._nodes, self._waiting, when=matters),
        )

    def _waiting(self, _: Node) -> Iterable[Key]:
        return [pod.key for pod in self._pods.by("waits for a node", True)]

    def _seen(self, change: Change[Pod]) -> None:
        self._load[_occupied(change.old)] -= 1
        self._load[_occupied(change.new)] += 1
        if change.new is None or change.new.spec.node_name:
            self._bound.pop(change.latest.key, None)

    async def _reconcile(self, key: Key) -> Result:
        pod = self._pods.get(key)
        if pod is None or not waits_for_a_node(pod) or self._bound.get(key, ("",))[0] == pod.metadata.uid:
            return DONE
        choice = choose(pod, self._nodes, self._load + Counter(node for _, node in self._bound.values()))
        if choice.node:
            await self._bind(pod, choice.node)
        else:
            await self._explain(pod, choice.why)
        return DONE

    async def _bind(self, pod: Pod, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            # The uid is a condition: a Pod made again under the name is not the one that was looked at.
            "metadata": {"name": pod.key.name, "namespace": pod.key.namespace, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = Pod.kind.path(pod.key.namespace, pod.key.name, "binding")
        self._bound[pod.key] = (pod.metadata.uid, node)
        try:
            await self._client.transport.request("POST", path, body=msgspec.json.encode(body))
        except BaseException as error:
            self._bound.pop(pod.key, None)
            if isinstance(error, NotFound) or (isinstance(error, Conflict) and await self._settled(pod.key)):
                return
            raise
        self._recorder.record(pod, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {node}")

    async def _settled(self, key: Key) -> bool:
        """Whether the Pod, as the server has it now, needs no Node any more: somebody else was faster."""
        current = await self._pods.fetch(key)
        return current is None or not waits_for_a_node(current)

    async def _explain(self, pod: Pod, why: str) -> None:
        conditions = unschedulable(pod, why, clock=self._clock)
        if conditions is None:
            return
        self._recorder.record(pod, "Warning", "FailedScheduling", why)
        change = {"status": {"conditions": msgspec.to_builtins(conditions)}}
        await self._client.of(Pod).patch(
            pod.key, change, resource_version=pod.metadata.resource_version, subresource="status"
        )


def _occupied(pod: Pod | None) -> str:
    """The Node that counts this Pod as its load; empty for none."""
    if pod is None or pod.status.phase in {"Succeeded", "Failed"}:
        return ""
    return pod.spec.node_name
