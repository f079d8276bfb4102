"""Removes Pods whose Node is gone: nobody is left who could end them, and they would hold their namespace for ever.

`add` registers the controller. A Node that is missing is given some time to come (again) before anything happens, and
the API server is asked a last time; Pods that wait for a Node are never touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from edgewright.local.controllers.resources import Node, Pod
from edgewright.runtime import DONE, Clock, Condition, For, Key, Manager, Maps, Result, SystemClock, requeue_after
from edgewright.runtime.errors import NotFound

QUARANTINE = 40.0
"""Seconds for which a Node must have been missing, as in Kubernetes."""
_TARGET = "DisruptionTarget"


def add(manager: Manager, *, clock: Clock | None = None) -> None:
    """Registers the controller."""
    _Orphans(manager, clock or SystemClock()).add()


def _node_of(pod: Pod) -> Key:
    return Key("", pod.spec.node_name)


class _Orphans:
    def __init__(self, manager: Manager, clock: Clock) -> None:
        self._manager = manager
        self._client = manager.client
        self._clock = clock
        self._pods = manager.cache(Pod)
        self._nodes = manager.cache(Node)
        self._pods.add_index("node", lambda pod: (pod.spec.node_name,))
        self._alone: dict[Key, tuple[str, float]] = {}  # Pods without their Node: uid and since when

    def add(self) -> None:
        self._manager.controller(
            "orphaned-pods",
            self._reconcile,
            For(self._pods, when=lambda change: bool(change.latest.spec.node_name)),
            Maps(self._nodes, self._pods_of, when=lambda change: change.old is None or change.new is None),
        )

    def _pods_of(self, node: Node) -> Iterable[Key]:
        return [pod.key for pod in self._pods.by("node", node.metadata.name)]

    async def _reconcile(self, key: Key) -> Result:
        pod = self._pods.get(key)
        if pod is None or not pod.spec.node_name or self._nodes.get(_node_of(pod)) is not None:
            self._alone.pop(key, None)
            return DONE
        now = self._clock.elapsed()
        uid, since = self._alone.get(key, ("", now))
        if uid != pod.metadata.uid:  # the first time, or another Pod that was made again under the name
            self._alone[key] = pod.metadata.uid, now
            since = now
        if (left := since + QUARANTINE - now) > 0:
            return requeue_after(left)
        if await self._nodes.fetch(_node_of(pod)) is not None:
            return DONE
        # A finalizer may hold it: then it is tried again after as long a time, and not at every change of it.
        self._alone[key] = pod.metadata.uid, now
        with suppress(NotFound):
            await self._end(pod)
        return requeue_after(QUARANTINE)

    async def _end(self, pod: Pod) -> None:
        """Says that the Pod has failed, unless it has ended already, and removes it at once."""
        typed = self._client.of(Pod)
        if pod.status.phase not in {"Succeeded", "Failed"}:
            target = Condition(
                type=_TARGET,
                status="True",
                reason="DeletionByPodGC",
                message="PodGC: node no longer exists",
                last_transition_time=self._clock.now().replace(microsecond=0),
                observed_generation=pod.metadata.generation,
            )
            conditions = (*(each for each in pod.status.conditions if each.type != _TARGET), target)
            change = {"status": {"phase": "Failed", "conditions": msgspec.to_builtins(conditions)}}
            await typed.patch(pod.key, change, resource_version=pod.metadata.resource_version, subresource="status")
        await typed.delete(pod.key, uid=pod.metadata.uid, grace_seconds=0)
