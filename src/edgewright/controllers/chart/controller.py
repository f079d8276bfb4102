"""The loop over the objects of one kind in the watches file: a release for each, of its name and in its namespace.

`add_charts` adds one loop per kind to a manager. A pass reads the stored revisions, takes one step that `decisions`
chose, and shows what came of it. The finalizer is written before the first effect; a pass over a settled object makes
one request, which reads. Only the child process behind `helm` changes releases.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from edgewright.controllers.chart import status as shown
from edgewright.controllers.chart.decisions import (
    Install,
    Purge,
    Settled,
    Step,
    Unlock,
    Upgrade,
    Wait,
    Wanted,
    decide,
    retry_after,
)
from edgewright.controllers.chart.dependents import Dependents, Held
from edgewright.controllers.chart.digests import values_digest, with_overrides
from edgewright.controllers.chart.helm import GRACE, TIMEOUT, Helm, HelmError, Order, Verb
from edgewright.controllers.chart.manifests import parts
from edgewright.controllers.chart.objects import FINALIZER, OLD_FINALIZERS, ChartObject, ChartStatus, chart_kind
from edgewright.controllers.chart.releases import (
    FAILED,
    ReleaseSecret,
    Revision,
    Stored,
    history,
    labels_of,
    marked_failed,
    read_content,
    release_name,
    selector,
)
from edgewright.controllers.chart.watches import Watch
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.controller import DONE, For, Result, requeue_after
from edgewright.runtime.errors import Forbidden
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, Kind

SOON: Final = 1.0
"""What has not been seen yet is looked at again after so many seconds."""
_log = logs.get("controllers.chart")


@dataclass
class _Refused:
    """What Helm refused before it stored anything, how often, and until when it is not asked again."""

    wanted: Wanted
    message: str
    times: int
    until: float


class ChartLoop:
    """The objects of one kind and their releases."""

    def __init__(
        self, manager: Manager, watch: Watch, kind: Kind, *, helm: Helm, dependents: Dependents, clock: Clock
    ) -> None:
        self._watch = watch
        self._helm = helm
        self._dependents = dependents
        self._clock = clock
        self._recorder = manager.recorder
        resource = chart_kind(kind)
        self._cache = manager.cache(resource, labels=watch.labels)
        self._cache.add_index("release", lambda each: [Key(each.metadata.namespace, release_name(each.metadata.name))])
        self._api = manager.client.of(resource)
        self._secrets = manager.client.of(ReleaseSecret)
        self._raw_secrets = manager.client.raw(ReleaseSecret.kind)
        self._contents: dict[Key, tuple[str, Stored, Held]] = {}
        self._refused: dict[Key, _Refused] = {}
        controller = manager.controller(
            f"{watch.kind.lower()}-controller",
            self.reconcile,
            For(self._cache),
            workers=watch.workers,
            deadline=2 * (TIMEOUT + GRACE),
        )

        def heard(release: Key) -> None:
            for each in self._cache.by("release", release):
                controller.queue.add(each.key)

        dependents.on_change(heard)

    async def reconcile(self, key: Key) -> Result:
        """One pass over one object."""
        obj = self._cache.get(key)
        if obj is None:
            self._forget(key)
            return DONE
        if obj.deleting:
            return await self._remove(obj)
        if FINALIZER not in obj.metadata.finalizers:
            await self._set_finalizers(obj, (*obj.metadata.finalizers, FINALIZER))
            return DONE  # the change brings the next pass
        values = with_overrides(obj.values, self._watch.overrides)
        wanted = Wanted(self._watch.digest, values_digest(values))
        try:
            revisions = await self._history(obj)
        except Forbidden as error:
            return await self._show_refusal(obj, wanted, _missing_right(obj, error))
        if revisions and not revisions[-1].ours and (foreign := await self._foreign_chart(revisions[-1])):
            return await self._show_refusal(obj, wanted, foreign)
        step = decide(wanted, revisions, now=self._clock.now().timestamp())
        return await self._take(step, obj, wanted, values, revisions)

    async def _take(
        self, step: Step, obj: ChartObject, wanted: Wanted, values: dict[str, object], revisions: Collection[Revision]
    ) -> Result:
        match step:
            case Settled(revision):
                return await self._settle(obj, wanted, values, revision)
            case Install():
                return await self._act("install", obj, wanted, values, version=1)
            case Upgrade(version, why):
                return await self._act("upgrade", obj, wanted, values, version=version, why=why)
            case Unlock(revision):
                await self._unlock(revision)
                return requeue_after(0)
            case Purge():
                await self._helm.carry_out(self._order("uninstall", obj))
                return requeue_after(0)
            case Wait(seconds, why):
                newest = max(revisions, key=lambda each: each.version)
                await self._show_waiting(obj, newest, why)
                return requeue_after(seconds)

    # --- acting ----------------------------------------------------------------------------------------------------

    async def _act(
        self, verb: Verb, obj: ChartObject, wanted: Wanted, values: dict[str, object], *, version: int, why: str = ""
    ) -> Result:
        """Lets Helm make a revision; what came of it is read from what it stored."""
        known = self._refused.get(obj.key)
        if known is not None and known.wanted == wanted and known.until > self._clock.elapsed():
            return await self._show_refusal(obj, wanted, known.message, again=False)
        what = "Installing" if verb == "install" else "Upgrading"
        if known is None or known.wanted != wanted:
            begun = shown.begun(obj.status, what, generation=obj.metadata.generation, now=self._clock.now())
            obj = await self._write(obj, begun)
        labels = labels_of(version, chart=wanted.chart, values=wanted.values)
        problem = ""
        try:
            await self._helm.carry_out(self._order(verb, obj, values=values, labels=labels))
        except HelmError as error:
            problem = str(error)
        revisions = await self._history(obj)
        newest = revisions[-1] if revisions else None
        if newest is None or newest.version < version:
            return await self._show_refusal(obj, wanted, problem or f"Helm stored nothing after {verb}")
        self._refused.pop(obj.key, None)
        if problem:
            _log.warning("Release failed", release=release_name(obj.metadata.name), reason=problem)
            return await self._show_failure(obj, wanted, newest, problem)
        done = "Installed release" if verb == "install" else "Upgraded release"
        _log.info(done, release=release_name(obj.metadata.name), revision=newest.version, reason=why or None)
        return await self._settle(obj, wanted, values, newest)

    async def _unlock(self, revision: Revision) -> None:
        """Marks a revision failed that an action left pending; refused where it has changed meanwhile."""
        secret = await self._raw_secrets.get(revision.key)
        if secret["metadata"].get("resourceVersion") == revision.metadata.resource_version:
            await self._raw_secrets.replace(marked_failed(secret))
            _log.info("Recovered an interrupted action", release=revision.key, status=revision.status)

    async def _settle(self, obj: ChartObject, wanted: Wanted, values: dict[str, object], revision: Revision) -> Result:
        """The release is what is wanted: its objects are looked after, and what they are like is shown."""
        self._refused.pop(obj.key, None)
        stored, held = await self._content(obj.key, revision)
        health = await self._dependents.tend(held, obj, watched=self._watch.dependents)
        for each in health.corrected:
            self._recorder.record(obj, "Normal", "DriftCorrected", f"{each} was changed by somebody else, and is back")
        status = shown.deployed(
            obj.status,
            stored,
            health,
            release=release_name(obj.metadata.name),
            version=revision.version,
            generation=obj.metadata.generation,
            now=self._clock.now(),
        )
        obj = await self._write(obj, status)
        if health.missing:
            return await self._act(
                "upgrade", obj, wanted, values, version=revision.version + 1, why=f"{health.missing[0]} is missing"
            )
        waits = [each for each in (self._watch.period, health.wait, SOON if health.unknown else None) if each]
        return requeue_after(min(waits)) if waits else DONE

    async def _remove(self, obj: ChartObject) -> Result:
        """The object is to go: first its release, then our hold on it."""
        ours = {FINALIZER, *OLD_FINALIZERS}
        if not ours.intersection(obj.metadata.finalizers):
            return DONE
        revisions = await self._history(obj)
        if revisions and (revisions[-1].ours or not await self._foreign_chart(revisions[-1])):
            try:
                await self._helm.carry_out(self._order("uninstall", obj))
            except HelmError as error:
                now, generation = self._clock.now(), obj.metadata.generation
                status = shown.failed(obj.status, "UninstallError", str(error), generation=generation, now=now)
                await self._write(obj, status)
                return requeue_after(self._again(obj.key, Wanted("", ""), str(error)))
            _log.info("Uninstalled release", release=release_name(obj.metadata.name))
        self._forget(obj.key)
        await self._set_finalizers(obj, tuple(each for each in obj.metadata.finalizers if each not in ours))
        return DONE

    # --- reading ---------------------------------------------------------------------------------------------------

    async def _history(self, obj: ChartObject) -> tuple[Revision, ...]:
        found = await self._secrets.list(obj.metadata.namespace, labels=selector(release_name(obj.metadata.name)))
        return history(found.items)

    async def _content(self, key: Key, revision: Revision) -> tuple[Stored, Held]:
        """What a revision consists of, read once."""
        known = self._contents.get(key)
        mark = f"{revision.metadata.uid} {revision.metadata.resource_version}"
        if known is None or known[0] != mark:
            stored = read_content(await self._raw_secrets.get(revision.key))
            held = Held(key.namespace, release_name(key.name), revision.version, parts(stored.manifest))
            known = self._contents[key] = (mark, stored, held)
        return known[1], known[2]

    async def _foreign_chart(self, revision: Revision) -> str:
        """Why a release that somebody else made cannot be taken over; empty where it can."""
        stored = read_content(await self._raw_secrets.get(revision.key))
        if stored.chart_name in {"", self._watch.chart_name}:
            return ""
        return (
            f"the release {revision.metadata.labels.get('name')} exists and is one of chart {stored.chart_name}, "
            f"not of {self._watch.chart_name}: choose another name"
        )

    # --- showing ---------------------------------------------------------------------------------------------------

    async def _show_refusal(self, obj: ChartObject, wanted: Wanted, message: str, *, again: bool = True) -> Result:
        """Nothing was done, and nothing will be for a while, unless something changes."""
        now, generation = self._clock.now(), obj.metadata.generation
        if again:
            _log.warning("Release refused", release=release_name(obj.metadata.name), reason=message)
            self._again(obj.key, wanted, message)
        await self._write(obj, shown.irreconcilable(obj.status, message, generation=generation, now=now))
        return requeue_after(max(SOON, self._refused[obj.key].until - self._clock.elapsed()))

    async def _show_failure(self, obj: ChartObject, wanted: Wanted, newest: Revision, problem: str) -> Result:
        reason = "InstallError" if newest.version == 1 else "UpgradeError"
        now, generation = self._clock.now(), obj.metadata.generation
        await self._write(obj, shown.failed(obj.status, reason, problem, generation=generation, now=now))
        step = decide(wanted, await self._history(obj), now=now.timestamp())
        return requeue_after(step.seconds if isinstance(step, Wait) else SOON)

    async def _show_waiting(self, obj: ChartObject, newest: Revision, why: str) -> None:
        """What failed is told by the stored revision, also to a process that did not see it fail."""
        now, generation = self._clock.now(), obj.metadata.generation
        if newest.status == FAILED and newest.ours:
            stored, _ = await self._content(obj.key, newest)
            reason = "InstallError" if newest.version == 1 else "UpgradeError"
            known = next((each for each in obj.status.conditions if each.type == shown.RELEASE_FAILED), None)
            message = known.message if known is not None and known.reason == reason else stored.description
            status = shown.failed(obj.status, reason, message, generation=generation, now=now)
        else:
            status = shown.waiting(obj.status, why, generation=generation, now=now)
        await self._write(obj, status)

    async def _write(self, obj: ChartObject, status: ChartStatus) -> ChartObject:
        """Writes the status where it is another one, and tells of the conditions that changed."""
        if status == obj.status:
            return obj
        written = await self._api.write_status(obj, status)
        self._recorder.record_transitions(obj, obj.status.conditions, status.conditions, bad=shown.BAD)
        return written

    # --- inside ----------------------------------------------------------------------------------------------------

    def _order(
        self,
        verb: Verb,
        obj: ChartObject,
        *,
        values: dict[str, object] | None = None,
        labels: dict[str, str] | None = None,
    ) -> Order:
        return Order(
            verb=verb,
            namespace=obj.metadata.namespace,
            release=release_name(obj.metadata.name),
            chart=self._watch.chart,
            values=values or {},
            labels=labels or {},
        )

    async def _set_finalizers(self, obj: ChartObject, finalizers: tuple[str, ...]) -> None:
        await self._api.patch(
            obj.key,
            {"metadata": {"finalizers": list(finalizers)}},
            resource_version=obj.metadata.resource_version,
        )

    def _again(self, key: Key, wanted: Wanted, message: str) -> float:
        """Notes a refusal and says how long to wait before the next try."""
        known = self._refused.get(key)
        times = known.times + 1 if known is not None and known.wanted == wanted else 1
        wait = retry_after(times)
        self._refused[key] = _Refused(wanted, message, times, self._clock.elapsed() + wait)
        return wait

    def _forget(self, key: Key) -> None:
        self._contents.pop(key, None)
        self._refused.pop(key, None)


def _missing_right(obj: ChartObject, error: Forbidden) -> str:
    return (
        f"the operator may not read the releases in namespace {obj.metadata.namespace}: bind its ClusterRole for "
        f"releases there (docs/charts.md): {error}"
    )


def announce(watch: Watch) -> None:
    """The line by which people see that a kind is watched, in the words of controller-runtime."""
    api_version = f"{watch.group}/{watch.version}" if watch.group else watch.version
    name = f"controller-runtime.manager.controller.{watch.kind.lower()}-controller"
    logs.get(name).info("Starting EventSource", source=f"kind source: {api_version}, Kind={watch.kind}")
