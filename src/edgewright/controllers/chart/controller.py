"""The loop over the objects of one kind in the watches file: a release for each, of its name and in its namespace.

`add_charts` adds one loop per kind to a manager. A pass reads the stored revisions, takes one step that `decisions`
chose, and shows what came of it. The finalizer is written before the first effect; a pass over a settled object makes
one request, which reads. Only the child process behind `helm` changes releases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from edgewright.controllers.chart import adoption, definitions, values
from edgewright.controllers.chart import status as shown
from edgewright.controllers.chart.decisions import (
    Adopt,
    Hold,
    Install,
    Purge,
    Retract,
    Rollback,
    Settled,
    Step,
    Unlock,
    Upgrade,
    Wait,
    decide,
    retry_after,
)
from edgewright.controllers.chart.dependents import Dependents
from edgewright.controllers.chart.digests import values_digest
from edgewright.controllers.chart.discovery import Discovery
from edgewright.controllers.chart.helm import GRACE, TIMEOUT, Helm, HelmError, Order, Verb
from edgewright.controllers.chart.metrics import ChartMetrics
from edgewright.controllers.chart.objects import FINALIZER, ChartObject, chart_kind
from edgewright.controllers.chart.policy import Policy, PolicyError, of_object
from edgewright.controllers.chart.releases import FAILED, Lost, Revision, Stored, content_of, release_name
from edgewright.controllers.chart.removal import OURS, Removal
from edgewright.controllers.chart.reporting import SOON, Reporting
from edgewright.controllers.chart.states import Found, Wanted, failures, state_of
from edgewright.controllers.chart.storage import Storage
from edgewright.controllers.chart.task import Task
from edgewright.controllers.chart.values import Place, SourceError, Sources
from edgewright.controllers.chart.watches import Watch
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.controller import DONE, For, Result, requeue_after
from edgewright.runtime.errors import Forbidden, KubernetesError
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, Kind
from edgewright.runtime.yaml_loader import load

_DONE: Final = {"install": "Installed release", "upgrade": "Upgraded release"}
_BEGUN: Final = {"install": "Installing", "upgrade": "Upgrading"}
_log = logs.get("controllers.chart")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What all loops share."""

    helm: Helm
    dependents: Dependents
    discovery: Discovery
    sources: Sources
    metrics: ChartMetrics


class ChartLoop:
    """The objects of one kind and their releases."""

    def __init__(self, manager: Manager, watch: Watch, kind: Kind, parts: Parts, *, clock: Clock) -> None:
        self._watch = watch
        self._parts = parts
        self._clock = clock
        self._client = manager.client
        resource = chart_kind(kind)
        self._cache = manager.cache(resource, labels=watch.labels)
        self._cache.add_index("release", lambda each: [Key(each.metadata.namespace, release_name(each.metadata.name))])
        self._cache.add_index("sources", self._places)
        self._api = manager.client.of(resource)
        self._storage = Storage(manager.client)
        self._removal = Removal(manager.client, parts.discovery, self._storage, self._uninstall)
        self._reporting = Reporting(self._api, manager.recorder, watch, clock=clock)
        self._begun_here: set[Key] = set()
        self._acting: set[Key] = set()
        parts.metrics.serve(kind, self._cache)
        controller = manager.controller(
            f"{watch.kind.lower()}-controller",
            self.reconcile,
            For(self._cache),
            workers=watch.workers,
            deadline=2 * (TIMEOUT + GRACE),
        )

        def heard_of(index: str, value: Key | Place) -> None:
            for each in self._cache.by(index, value):
                controller.queue.add(each.key)

        def changed(release: Key) -> None:
            if release not in self._acting:  # what Helm changes for us is looked at when it has ended
                heard_of("release", release)

        parts.dependents.on_change(changed)
        parts.sources.on_change(lambda place: heard_of("sources", place))

    async def reconcile(self, key: Key) -> Result:
        """One pass over one object."""
        obj = self._cache.get(key)
        if obj is None:
            self._forget(key)
            return DONE
        if obj.deleting:
            return await self._remove(obj)
        try:
            policy = of_object(self._watch.policy, obj.metadata.annotations)
        except PolicyError as error:
            return await self._reporting.refusal(obj, Wanted("", ""), f"{error}")
        if policy.suspended:
            now, generation = self._clock.now(), obj.metadata.generation
            await self._reporting.write(obj, shown.suspended(obj.status, generation=generation, now=now))
            return DONE
        if FINALIZER not in obj.metadata.finalizers:
            self._begun_here.add(key)
            await self._set_finalizers(obj, (*obj.metadata.finalizers, FINALIZER))
            return DONE  # the change brings the next pass
        return await self._care_for(obj, policy)

    async def _care_for(self, obj: ChartObject, policy: Policy) -> Result:
        """Reads what is wanted and what is stored, and takes the step that follows."""
        obj = await self._reporting.write(obj, shown.resumed(obj.status))
        try:
            given = await self._parts.sources.read(obj.metadata.namespace, policy.values_from)
        except (SourceError, Forbidden) as error:
            return await self._reporting.refusal(obj, Wanted("", ""), f"valuesFrom: {error}")
        merged = values.merged(obj.values, given, self._watch.overrides)
        wanted = Wanted(self._watch.digest, values_digest(merged))
        task = Task(obj=obj, policy=policy, values=merged, wanted=wanted)
        try:
            revisions = await self._storage.history(obj.key)
        except Forbidden as error:
            return await self._reporting.refusal(obj, wanted, _missing_right(obj, error))
        if revisions and not revisions[-1].ours and (foreign := self._foreign_chart(revisions[-1])):
            return await self._reporting.refusal(obj, wanted, foreign)
        step = decide(
            wanted,
            revisions,
            now=self._clock.now().timestamp(),
            policy=policy,
            marked=not revisions and self._had_release(obj),
            requested=_requested(task, revisions),
        )
        return await self._take(step, task, revisions)

    async def _take(self, step: Step, task: Task, revisions: Sequence[Revision]) -> Result:
        result = requeue_after(0)
        match step:
            case Settled(revision):
                result = await self._settle(task, revision, revisions)
            case Install(version):
                result = await self._act("install", task, version=version)
            case Adopt():
                result = await self._adopt(task)
            case Upgrade(version, why):
                result = await self._act("upgrade", task, version=version, why=why)
            case Rollback() | Retract():
                result = await self._remediate(step, task, revisions)
            case Unlock(revision):
                await self._storage.unlock(revision)
            case Purge():
                await self._carry_out(self._order("uninstall", task.obj))
            case Wait(seconds, why):
                await self._reporting.waiting(task, revisions, _failed(revisions), why)
                result = requeue_after(seconds)
            case Hold(count):
                await self._reporting.held(task, revisions, _failed(revisions), count)
                result = DONE
        return result

    # --- acting ----------------------------------------------------------------------------------------------------

    async def _act(self, verb: Verb, task: Task, *, version: int, why: str = "") -> Result:
        """Lets Helm make a revision; what came of it is read from what it stored."""
        obj, wanted = task.obj, task.wanted
        if refused := await self._still_refused(task):
            return refused
        self._reporting.overrides(obj)
        obj, problem = await self._watched(verb, task, version=version)
        revisions = await self._storage.history(obj.key)
        newest = revisions[-1] if revisions else None
        if newest is None or newest.version < version:
            return await self._reporting.refusal(obj, wanted, problem or f"Helm stored nothing after {verb}")
        self._reporting.forget(obj.key)
        task = task.on(obj)
        if problem:
            _log.warning("Release failed", release=task.release, reason=problem)
            await self._reporting.failure(task, revisions, problem)
            return requeue_after(0)  # what follows is decided from what is stored
        _log.info(_DONE[verb], release=task.release, revision=newest.version, reason=why or None)
        return await self._settle(task, newest, revisions)

    async def _watched(self, verb: Verb, task: Task, *, version: int) -> tuple[ChartObject, str]:
        """Has Helm make a revision, and says so on the object where that takes a while.

        What is done in a moment is shown once it is done: until then kstatus takes the object for one in progress.
        """
        obj = task.obj
        trying = asyncio.create_task(self._tried(verb, task, version=version))
        try:
            try:
                async with self._clock.timeout(SOON):
                    return obj, await asyncio.shield(trying)
            except TimeoutError:
                pass
            if self._reporting.refused(obj.key, task.wanted) is None:
                begun = shown.begun(obj.status, _BEGUN[verb], generation=task.generation, now=self._clock.now())
                with suppress(KubernetesError):  # the action is under way: how it ended is told whatever happens here
                    obj = await self._reporting.write(obj, begun)
            return obj, await trying
        finally:
            trying.cancel()
            await asyncio.gather(trying, return_exceptions=True)

    async def _still_refused(self, task: Task) -> Result | None:
        """What was refused a moment ago is not asked again yet."""
        known = self._reporting.refused(task.obj.key, task.wanted)
        if known is None or known.until <= self._clock.elapsed():
            return None
        return await self._reporting.refusal(task.obj, task.wanted, known.message, known=True)

    async def _tried(self, verb: Verb, task: Task, *, version: int) -> str:
        """Has Helm make a revision; what it says where it could not."""
        obj, policy = task.obj, task.policy
        labels = task.labels(version)
        try:
            if policy.crds == "replace":
                await definitions.replaced(self._client, self._watch.chart)
            await self._carry_out(
                self._order(
                    verb,
                    obj,
                    values=task.values,
                    labels=labels,
                    description=(policy.descriptions or {}).get(verb, ""),
                    max_history=policy.max_history,
                    force=verb == "upgrade" and policy.force_upgrade,
                    disable_hooks=verb in policy.disabled_hooks,
                    skip_crds=policy.crds != "create",
                    replace=verb == "install" and version > 1,
                )
            )
        except (HelmError, Forbidden) as error:
            return _plain(str(error))
        return ""

    async def _remediate(self, step: Rollback | Retract, task: Task, revisions: Sequence[Revision]) -> Result:
        """Undoes what failed: the release goes back to what worked, or what the first install left is removed."""
        obj, policy = task.obj, task.policy
        failed = revisions[-1]
        if isinstance(step, Rollback):
            order = self._order(
                "rollback",
                obj,
                target=step.target,
                force=policy.force_rollback,
                max_history=policy.max_history,
            )
        else:
            order = self._order("uninstall", obj, keep_history=True, description=f"revision {failed.version} failed")
        try:
            await self._carry_out(order)
        except HelmError as error:
            now = self._clock.now()
            reason = "RollbackError" if isinstance(step, Rollback) else "UninstallError"
            status = shown.failed(obj.status, reason, _plain(str(error)), generation=task.generation, now=now)
            await self._reporting.write(obj, status)
            return requeue_after(retry_after(max(1, failures(task.wanted, revisions))))
        _log.info("Remediated release", release=task.release, how=order.verb)
        revisions = await self._storage.history(obj.key)
        await self._reporting.remediated(task, revisions)
        await self._storage.trim(revisions, keep=policy.max_history)
        return requeue_after(0)

    async def _adopt(self, task: Task) -> Result:
        """Takes over what is there of a release whose stored revisions are gone; installs where nothing is."""
        obj = task.obj
        if refused := await self._still_refused(task):
            return refused
        try:
            trial = await self._parts.helm.trial(self._order("install", obj, values=task.values, skip_crds=True))
        except HelmError as error:
            return await self._reporting.refusal(obj, task.wanted, _plain(str(error)))
        manifest = await adoption.adoptable(
            self._client,
            self._parts.discovery,
            trial.manifest,
            namespace=obj.metadata.namespace,
            release=task.release,
        )
        if manifest is None:
            return await self._act("install", task, version=1)
        lost = Lost(
            namespace=obj.metadata.namespace,
            name=task.release,
            chart=load((self._watch.chart / "Chart.yaml").read_text(encoding="utf-8")),
            values=task.values,
            manifest=manifest,
            notes=trial.notes,
            labels=task.labels(1),
        )
        await self._storage.write_again(lost, now=self._clock.now())
        self._reporting.adopted(obj)
        return requeue_after(0)

    async def _settle(self, task: Task, revision: Revision, revisions: Sequence[Revision]) -> Result:
        """The release is what is wanted: its objects are looked after, and what they are like is shown."""
        obj, policy = task.obj, task.policy
        self._reporting.forget(obj.key)
        stored, held = self._storage.content(obj.key, revision)
        health = await self._parts.dependents.tend(held, obj, watched=self._watch.dependents, policy=policy)
        self._reporting.corrections(obj, health)
        self._parts.metrics.corrected(self._watch.kind, len(health.corrected))
        untested = policy.test and stored.untested
        found = Found(drifted=bool(health.missing or health.drifted), untested=untested)
        status = shown.deployed(
            msgspec.structs.replace(
                obj.status, state=state_of(task.wanted, revisions, found).value, revision=revision.version
            ),
            stored,
            health,
            release=task.release,
            version=revision.version,
            generation=task.generation,
            now=self._clock.now(),
        )
        obj = await self._reporting.write(obj, status)
        if health.missing and policy.drift == "correct":
            why = f"{health.missing[0]} is missing"
            return await self._act("upgrade", task.on(obj), version=revision.version + 1, why=why)
        if untested and not health.unready and not health.unknown and not health.missing:
            return await self._test(obj)
        waits = [each for each in (policy.period, health.wait, SOON if health.unknown else None) if each]
        return requeue_after(min(waits)) if waits else DONE

    async def _test(self, obj: ChartObject) -> Result:
        """Runs the release's tests; how they ended is read from what Helm stored."""
        try:
            await self._carry_out(self._order("test", obj))
        except HelmError as error:
            _log.warning("Tests failed", release=release_name(obj.metadata.name), reason=_plain(str(error)))
            return requeue_after(SOON)
        return requeue_after(0)

    async def _remove(self, obj: ChartObject) -> Result:
        """The object is to go: first its release, then our hold on it."""
        if not OURS.intersection(obj.metadata.finalizers):
            return DONE
        revisions = await self._storage.history(obj.key)
        if revisions and (revisions[-1].ours or not self._foreign_chart(revisions[-1])):
            now, generation = self._clock.now(), obj.metadata.generation
            try:
                wait = _last_policy(self._watch, obj).wait_uninstalled
                left = await self._removal.remove(obj, revisions, wait=wait)
            except HelmError as error:
                message = _plain(str(error))
                status = shown.failed(obj.status, "UninstallError", message, generation=generation, now=now)
                await self._reporting.write(obj, status)
                return requeue_after(self._reporting.note_refusal(obj.key, Wanted("", ""), message))
            if left:
                await self._reporting.write(obj, shown.removing(obj.status, left, generation=generation, now=now))
                return requeue_after(SOON)
        self._forget(obj.key)
        _log.info("Removing finalizer", release=release_name(obj.metadata.name))
        await self._set_finalizers(obj, tuple(each for each in obj.metadata.finalizers if each not in OURS))
        return DONE

    async def _uninstall(self, obj: ChartObject, keep: bool) -> None:
        policy = _last_policy(self._watch, obj)
        order = self._order(
            "uninstall",
            obj,
            keep_history=keep,
            disable_hooks="uninstall" in policy.disabled_hooks,
            description=(policy.descriptions or {}).get("uninstall", ""),
        )
        await self._carry_out(order)

    async def _carry_out(self, order: Order) -> None:
        """Asks Helm, and counts what came of it."""
        began, kind = self._clock.elapsed(), self._watch.kind
        result, key = "gone", Key(order.namespace, order.release)
        self._acting.add(key)
        try:
            await self._parts.helm.carry_out(order)
            result = "succeeded"
        except HelmError:
            result = "failed"
            raise
        finally:
            self._acting.discard(key)
            self._parts.metrics.acted(kind, order.verb, result, seconds=self._clock.elapsed() - began)

    # --- reading ---------------------------------------------------------------------------------------------------

    def _foreign_chart(self, revision: Revision) -> str:
        """Why a release that somebody else made cannot be taken over; empty where it can."""
        stored = content_of(revision)
        if stored.chart_name in {"", self._watch.chart_name}:
            return ""
        return (
            f"the release {revision.metadata.labels.get('name')} exists and is one of chart {stored.chart_name}, "
            f"not of {self._watch.chart_name}: choose another name"
        )

    def _had_release(self, obj: ChartObject) -> bool:
        """Whether an object without a stored revision may have had one: then its objects may be there."""
        known = self._parts.dependents.knows(Key(obj.metadata.namespace, release_name(obj.metadata.name)))
        return known or obj.status.deployed_release is not None or obj.key not in self._begun_here

    def _places(self, obj: ChartObject) -> Iterable[Place]:
        """The ConfigMaps and Secrets that an object takes values from."""
        try:
            policy = of_object(self._watch.policy, obj.metadata.annotations)
        except PolicyError:
            return ()
        return [(each.kind, Key(obj.metadata.namespace, each.name)) for each in policy.values_from]

    # --- inside ----------------------------------------------------------------------------------------------------

    def _order(self, verb: Verb, obj: ChartObject, **more: Any) -> Order:
        return Order(
            verb=verb,
            namespace=obj.metadata.namespace,
            release=release_name(obj.metadata.name),
            chart=self._watch.chart,
            **more,
        )

    async def _set_finalizers(self, obj: ChartObject, finalizers: tuple[str, ...]) -> None:
        await self._api.change(obj, {"metadata": {"finalizers": list(finalizers)}})

    def _forget(self, key: Key) -> None:
        self._storage.forget(key)
        self._reporting.forget(key)
        self._begun_here.discard(key)


def _requested(task: Task, revisions: Sequence[Revision]) -> bool:
    """Whether somebody asked for another attempt since the last one."""
    last = next((each for each in reversed(revisions) if each.ours), None)
    return bool(task.retry) and (last is None or last.retry != task.retry)


def _failed(revisions: Sequence[Revision]) -> Stored | None:
    """The last attempt of ours that failed; None where none did."""
    found = next((each for each in reversed(revisions) if each.ours and each.status in {FAILED, "uninstalled"}), None)
    return None if found is None else content_of(found)


def _last_policy(watch: Watch, obj: ChartObject) -> Policy:
    """The policy of an object that is to go: an annotation that cannot be read does not hold it."""
    try:
        return of_object(watch.policy, obj.metadata.annotations)
    except PolicyError:
        return watch.policy


def _plain(message: str) -> str:
    """What Helm said, and what can be done about it where Helm does not say."""
    if "Too long" in message and "1048576" in message:
        return f"{message}: a release must fit in a Secret of 1 MiB: leave big files out of the chart (.helmignore)"
    return message


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
