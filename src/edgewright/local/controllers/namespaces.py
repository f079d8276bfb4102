"""Empties a Namespace that is being deleted, and lets it go when nothing is left in it.

`add` registers the controller. Pods go first and everything else waits for them, so that a program that ends can still
read what it needs. What is in the way is written to the Namespace's conditions, in the words that Kubernetes uses;
`report` decides them. Of Pods that are in the way Kubernetes 1.36 says nothing there; we do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from edgewright.local.controllers.discovery import ServedKinds, one_version_each
from edgewright.local.controllers.resources import Namespace, Pod
from edgewright.runtime import (
    DONE,
    Api,
    Change,
    Clock,
    Condition,
    For,
    Key,
    Kind,
    Manager,
    Maps,
    Resource,
    Result,
    SystemClock,
    requeue_after,
)
from edgewright.runtime.errors import KubernetesError, MethodNotAllowed, NotFound

FINALIZER = "kubernetes"
TERMINATING = "Terminating"

# type: (reason, message) when all is well; in the order in which they are shown.
_WELL = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
_SOON, _LATE = 0.2, 5.0


class Content(Resource, frozen=True, gc=False, kw_only=True):
    """An object of any kind in a Namespace, of which only the metadata counts."""


@dataclass
class Findings:
    """What a pass over a Namespace's content found."""

    remaining: dict[Kind, int] = field(default_factory=dict)
    finalizers: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    undiscovered: str = ""

    @property
    def empty(self) -> bool:
        """Whether everything is known to be gone."""
        return not (self.remaining or self.faults or self.undiscovered)


def report(findings: Findings) -> dict[str, tuple[str, str]]:
    """The conditions that are True, by type: reason and message, as Kubernetes words them."""
    told: dict[str, tuple[str, str]] = {}
    if findings.undiscovered:
        told["NamespaceDeletionDiscoveryFailure"] = ("DiscoveryFailed", findings.undiscovered)
    if findings.faults:
        text = f"Failed to delete all resource types, {len(findings.faults)} remaining: "
        told["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text + ", ".join(sorted(findings.faults)))
    if findings.remaining:
        # The dot stands after kinds without a group too.
        counts = (f"{kind.plural}.{kind.group} has {n} resource instances" for kind, n in findings.remaining.items())
        told["NamespaceContentRemaining"] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(sorted(counts))}",
        )
    if findings.finalizers:
        counts = (f"{name} in {n} resource instances" for name, n in findings.finalizers.items())
        told["NamespaceFinalizersRemaining"] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {', '.join(sorted(counts))}",
        )
    return told


def updated(
    conditions: Sequence[Condition], told: Mapping[str, tuple[str, str]], now: datetime
) -> tuple[Condition, ...] | None:
    """The conditions with what is told, and "all is well" for the rest; None where that changes nothing."""
    result = list(conditions)
    for kind, well in _WELL.items():
        status = "True" if kind in told else "False"
        reason, message = told.get(kind, well)
        fresh = Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=now)
        place = next((index for index, each in enumerate(result) if each.type == kind), None)
        if place is None:
            result.append(fresh)
        elif (result[place].status, result[place].reason, result[place].message) != (status, reason, message):
            since = result[place].last_transition_time if result[place].status == status else now
            result[place] = msgspec.structs.replace(fresh, last_transition_time=since)
    return None if result == list(conditions) else tuple(result)


def begins(change: Change[Any]) -> bool:
    """Whether a change begins the deletion of a Namespace, or lets it go on; our own conditions do not."""
    old, new = change.old, change.new
    return bool(new is not None and new.deleting and (old is None or not old.deleting or old.spec != new.spec))


def add(manager: Manager, *, kinds: ServedKinds, clock: Clock | None = None) -> None:
    """Registers the controller; `kinds` says what may be in a Namespace."""
    _Deletion(manager, kinds, clock or SystemClock()).add()


class _Deletion:
    def __init__(self, manager: Manager, kinds: ServedKinds, clock: Clock) -> None:
        self._manager = manager
        self._client = manager.client
        self._kinds = kinds
        self._clock = clock
        self._namespaces = manager.cache(Namespace)
        self._pods = manager.cache(Pod)
        self._passes: Counter[str] = Counter()  # by uid

    def add(self) -> None:
        controller = self._manager.controller(
            "namespace-deletion",
            self._reconcile,
            For(self._namespaces, when=begins),
            Maps(self._pods, self._of_pod, when=_gone),
            workers=2,
        )
        self._kinds.subscribe(lambda: self._look_again(controller.queue.add))

    def _of_pod(self, pod: Pod) -> Iterable[Key]:
        key = Key("", pod.metadata.namespace)
        namespace = self._namespaces.get(key)
        return (key,) if namespace is not None and namespace.deleting else ()

    def _look_again(self, at: Callable[[Key], None]) -> None:
        for namespace in self._namespaces:
            if namespace.deleting:
                at(namespace.key)

    async def _reconcile(self, key: Key) -> Result:
        known = self._namespaces.get(key)
        if known is None or not known.deleting or FINALIZER not in known.spec.finalizers:
            return DONE
        namespace = await self._namespaces.fetch(key)
        if namespace is None or namespace.metadata.uid != known.metadata.uid:
            return DONE
        findings = await self._empty(namespace)
        namespace = await self._tell(namespace, findings)
        if findings.empty:
            self._passes.pop(namespace.metadata.uid, None)
            await self._finalize(namespace)
            return DONE
        passes = self._passes[namespace.metadata.uid] = self._passes[namespace.metadata.uid] + 1
        return requeue_after(min(_SOON * 2 ** min(passes - 1, 10), _LATE))

    async def _empty(self, namespace: Namespace) -> Findings:
        """Asks for the deletion of everything; Pods alone as long as there are any."""
        findings = Findings()
        if self._kinds.problem:
            findings.undiscovered = f"Discovery failed for some groups: {self._kinds.problem}"
        kinds = [kind for kind in one_version_each(self._kinds()) if kind.namespaced]
        await self._empty_of(Pod.kind, namespace.metadata.name, findings)
        if findings.remaining or findings.faults:
            return findings
        for kind in kinds:
            if (kind.group, kind.plural) != ("", Pod.kind.plural):
                await self._empty_of(kind, namespace.metadata.name, findings)
        return findings

    async def _empty_of(self, kind: Kind, namespace: str, findings: Findings) -> None:
        api: Api[Content] = Api(self._client.transport, kind, Content)
        try:
            found = (await api.list(namespace)).items
            if any(not each.deleting for each in found):
                await self._delete_collection(api, namespace, found)
                found = (await api.list(namespace)).items
        except (NotFound, MethodNotAllowed):
            return  # the kind went away meanwhile, or nothing of it can be kept
        except KubernetesError as error:
            findings.faults.append(str(error))
            return
        if found:
            findings.remaining[kind] = len(found)
            findings.finalizers.update(name for each in found for name in each.metadata.finalizers)

    async def _delete_collection(self, api: Api[Content], namespace: str, found: Iterable[Content]) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        try:
            await self._client.transport.request(
                "DELETE", api.kind.path(namespace), body=msgspec.json.encode(options), timeout=60.0
            )
        except MethodNotAllowed:
            for each in found:
                if not each.deleting:
                    await api.delete(each.key, uid=each.metadata.uid, propagation="Background")

    async def _tell(self, namespace: Namespace, findings: Findings) -> Namespace:
        conditions = updated(namespace.status.conditions, report(findings), self._clock.now().replace(microsecond=0))
        change: dict[str, object] = {}
        if conditions is not None:
            change["conditions"] = msgspec.to_builtins(conditions)
        if namespace.status.phase != TERMINATING:
            change["phase"] = TERMINATING
        if not change:
            return namespace
        return await self._client.of(Namespace).patch(
            namespace.key,
            {"status": change},
            resource_version=namespace.metadata.resource_version,
            subresource="status",
        )

    async def _finalize(self, namespace: Namespace) -> None:
        api = self._client.raw(Namespace.kind)
        try:
            whole = await api.get(namespace.key)
            if whole["metadata"]["uid"] != namespace.metadata.uid:
                return
            left = [name for name in whole["spec"].get("finalizers", ()) if name != FINALIZER]
            whole["spec"]["finalizers"] = left
            await api.replace(whole, subresource="finalize")
        except NotFound:
            return


def _gone(change: Change[Pod]) -> bool:
    return change.new is None
