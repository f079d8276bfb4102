"""What all controllers of workloads do with Pods: make more, delete some, adopt orphans, let others go.

Each has a `PodWork` of its own. It remembers what it has asked for until the cache shows it, so that a stale cache
never leads to too many Pods or to too few; it decides nothing about how many there are to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import names
from edgewright.local.controllers.workloads.dependents import Dependents, W, reference
from edgewright.runtime import Change, Clock, For, Key, Manager, Maps, Owns, RawObject, Recorder, Resource
from edgewright.runtime.controller import Source
from edgewright.runtime.errors import ApiError, NotFound
from edgewright.runtime.predicates import anything

_PATIENCE: Final = 300.0
"""Seconds after which something that was asked for and is not seen is not waited for any more, as in Kubernetes."""


def generated(owner: Resource, template: RawObject) -> RawObject:
    """A Pod of a template with a name that is another one each time."""
    prefix = f"{owner.metadata.name}-"
    return made_of(owner, template, names.generated(prefix, names.suffix()), generateName=prefix)


def made_of(owner: Resource, template: RawObject, name: str, **metadata: Any) -> RawObject:
    """A Pod of a template that belongs to `owner`."""
    about = template.get("metadata") or {}
    wanted = {
        "name": name,
        "namespace": owner.metadata.namespace,
        "ownerReferences": [reference(owner)],
        **{part: about[part] for part in ("labels", "annotations", "finalizers") if about.get(part)},
        **metadata,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": wanted, "spec": template.get("spec") or {}}


class Asked:
    """What was asked for and is not seen in the cache yet: Pods to make by key, Pods to delete by uid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[Key | str, tuple[str, float]] = {}

    def seen(self, change: Change[Pod]) -> None:
        """Takes notice of a change in the cache."""
        pod = change.latest
        self.drop(pod.key)
        if change.new is None or pod.deleting:
            self.drop(pod.metadata.uid)

    def settled(self, owner: str) -> bool:
        """Whether the cache shows everything that was asked for, or it has not for so long that it never will."""
        latest = self._clock.elapsed() - _PATIENCE
        self._since = {what: asked for what, asked in self._since.items() if asked[1] >= latest}
        return all(whose != owner for whose, _ in self._since.values())

    def note(self, owner: str, what: Key | str) -> None:
        """It is about to be asked for, for the object with this uid."""
        self._since[what] = owner, self._clock.elapsed()

    def drop(self, what: Key | str) -> None:
        """It was refused, or is seen."""
        self._since.pop(what, None)


class PodWork(Dependents[W, Pod]):
    """The Pods of the workloads of one kind; `made` and `deleted` are what their Events say."""

    def __init__(
        self,
        manager: Manager,
        owners: type[W],
        recorder: Recorder,
        clock: Clock,
        *,
        made: str = "Created pod: {pod}",
        deleted: str = "Deleted pod: {pod}",
        finalizer: str = "",
        member: Callable[[W, Pod], bool] = lambda _owner, _pod: True,
    ) -> None:
        super().__init__(manager, owners, Pod, finalizer=finalizer, member=member)
        self._client = manager.client
        self._recorder = recorder
        self._words = made, deleted
        self._asked = Asked(clock)
        self.cache.subscribe(self._asked.seen)

    def sources(self) -> tuple[Source, ...]:
        """What a controller of these workloads looks at: the workloads, their Pods, and Pods that they could adopt."""
        return For(self.owners.cache, when=anything), Owns(self.cache), Maps(self.cache, self.adopters)

    def settled(self, owner: Resource) -> bool:
        """Whether the cache shows all that was done for this object."""
        return self._asked.settled(owner.metadata.uid)

    async def make(self, owner: Resource, bodies: Sequence[RawObject]) -> None:
        """Makes Pods, one first and then more at once each time, so that a refusal is not met many times."""
        at, size = 0, 1
        while at < len(bodies):
            batch = bodies[at : at + size]
            outcomes = await asyncio.gather(*(self._make(owner, body) for body in batch), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
            at, size = at + len(batch), size * 2

    async def _make(self, owner: Resource, body: RawObject) -> None:
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        with self._asking(owner, key, "FailedCreate", "Error creating"):
            await self._client.raw(Pod.kind).create(body)
        self._tell(owner, "SuccessfulCreate", self._words[0], key.name)

    async def delete(self, owner: Resource, pods: Iterable[Pod]) -> None:
        """Deletes Pods; one that is gone already is no error."""
        await asyncio.gather(*(self._delete(owner, pod) for pod in pods))

    async def _delete(self, owner: Resource, pod: Pod) -> None:
        with suppress(NotFound):
            with self._asking(owner, pod.metadata.uid, "FailedDelete", "Error deleting"):
                await self._client.of(Pod).delete(pod.key, uid=pod.metadata.uid)
            self._tell(owner, "SuccessfulDelete", self._words[1], pod.key.name)

    @contextmanager
    def _asking(self, owner: Resource, what: Key | str, reason: str, words: str) -> Iterator[None]:
        """Remembers what is asked for, unless it is refused; then it tells why, where that can still be read."""
        self._asked.note(owner.metadata.uid, what)
        try:
            yield
        except BaseException as error:
            self._asked.drop(what)
            if isinstance(error, ApiError) and not (isinstance(error, NotFound) or _namespace_is_going(error)):
                self._recorder.record(owner, "Warning", reason, f"{words}: {error}")
            raise

    def _tell(self, owner: Resource, reason: str, words: str, pod: str) -> None:
        self._recorder.record(owner, "Normal", reason, words.format(pod=pod, owner=owner.metadata.name))


def _namespace_is_going(error: ApiError) -> bool:
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)
