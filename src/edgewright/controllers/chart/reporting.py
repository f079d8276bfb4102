"""What is written on objects and told in events, and what is remembered of refusals: called after every step.

`status` makes what is shown; here it is written, where it differs. Refusals are kept in memory alone: a new process
asks Helm again, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from edgewright.controllers.chart import status as shown
from edgewright.controllers.chart.decisions import retry_after
from edgewright.controllers.chart.dependents import Health
from edgewright.controllers.chart.objects import ChartObject, ChartStatus
from edgewright.controllers.chart.releases import DEPLOYED, FAILED, Revision, Stored, release_name
from edgewright.controllers.chart.states import Wanted, failures, remedy, state_of
from edgewright.controllers.chart.task import Task
from edgewright.controllers.chart.watches import Watch
from edgewright.runtime import logs
from edgewright.runtime.client import Api
from edgewright.runtime.clock import Clock
from edgewright.runtime.conditions import find, remove
from edgewright.runtime.controller import Result, requeue_after
from edgewright.runtime.events import Recorder
from edgewright.runtime.objects import Key

_log = logs.get("controllers.chart")

SOON: Final = 1.0
"""What has not been seen yet is looked at again after so many seconds."""
_HIDDEN: Final = "****"


@dataclass
class Refused:
    """What was refused before anything was stored, how often, and until when it is not asked again."""

    wanted: Wanted
    message: str
    times: int
    until: float


class Reporting:
    """Writes what is shown of the objects of one kind."""

    def __init__(self, api: Api[ChartObject], recorder: Recorder, watch: Watch, *, clock: Clock) -> None:
        self._api = api
        self._recorder = recorder
        self._watch = watch
        self._clock = clock
        self._refused: dict[Key, Refused] = {}

    # --- refusals --------------------------------------------------------------------------------------------------

    def refused(self, key: Key, wanted: Wanted) -> Refused | None:
        """What was refused of what is wanted now."""
        known = self._refused.get(key)
        return known if known is not None and known.wanted == wanted else None

    def forget(self, key: Key) -> None:
        """What was refused is no longer of interest."""
        self._refused.pop(key, None)

    def note_refusal(self, key: Key, wanted: Wanted, message: str) -> float:
        """Notes a refusal and says how long to wait before the next try."""
        known = self.refused(key, wanted)
        times = known.times + 1 if known is not None else 1
        wait = retry_after(times)
        self._refused[key] = Refused(wanted, message, times, self._clock.elapsed() + wait)
        return wait

    async def refusal(self, obj: ChartObject, wanted: Wanted, message: str, *, known: bool = False) -> Result:
        """Nothing was done, and nothing will be for a while, unless something changes; `known`: it is noted already."""
        if not known:
            _log.warning("Release refused", release=release_name(obj.metadata.name), reason=message)
            self.note_refusal(obj.key, wanted, message)
        now, generation = self._clock.now(), obj.metadata.generation
        await self.write(obj, shown.irreconcilable(obj.status, message, generation=generation, now=now))
        return requeue_after(max(SOON, self._refused[obj.key].until - self._clock.elapsed()))

    # --- how a release stands --------------------------------------------------------------------------------------

    async def failure(self, task: Task, revisions: Sequence[Revision], problem: str) -> ChartObject:
        """An attempt failed, and that is stored."""
        status = shown.failed(
            self._standing(task, revisions),
            _failure_reason(revisions),
            problem,
            generation=task.generation,
            now=self._clock.now(),
        )
        return await self.write(task.obj, status)

    async def remediated(self, task: Task, revisions: Sequence[Revision]) -> None:
        """What failed was undone."""
        await self.write(task.obj, self._standing(task, revisions))

    async def waiting(self, task: Task, revisions: Sequence[Revision], failed: Stored | None, why: str) -> None:
        """Nothing can be done for a while; what failed is told by what is stored, also to who did not see it fail."""
        now, status = self._clock.now(), self._standing(task, revisions)
        if failed is None:
            status = shown.waiting(status, why, generation=task.generation, now=now)
        else:
            status = self._with_failure(task, revisions, failed, status)
        await self.write(task.obj, status)

    async def held(self, task: Task, revisions: Sequence[Revision], failed: Stored | None, count: int) -> None:
        """It failed as often as is allowed."""
        status = self._standing(task, revisions)
        if failed is not None:
            status = self._with_failure(task, revisions, failed, status)
        cause = find(status.conditions, shown.RELEASE_FAILED)
        times = "once" if count == 1 else f"{count} times"
        message = f"it failed {times}, which is as often as is allowed: change the spec, or `edgewright chart retry`"
        if cause is not None:
            message += f": {cause.message}"
        await self.write(task.obj, shown.held(status, message, generation=task.generation, now=self._clock.now()))

    def _standing(self, task: Task, revisions: Sequence[Revision]) -> ChartStatus:
        """The status with where the release stands, in a word and in numbers, and how what failed was undone."""
        status = msgspec.structs.replace(
            task.obj.status,
            state=state_of(task.wanted, revisions).value,
            revision=revisions[-1].version if revisions else 0,
            failures=failures(task.wanted, revisions),
        )
        undone = remedy(task.wanted, revisions)
        if undone is None:
            return status
        return shown.remediated(status, *undone, generation=task.generation, now=self._clock.now())

    def _with_failure(
        self, task: Task, revisions: Sequence[Revision], failed: Stored, status: ChartStatus
    ) -> ChartStatus:
        reason = _failure_reason(revisions)
        known = find(status.conditions, shown.RELEASE_FAILED)
        message = known.message if known is not None and known.reason == reason else failed.description
        return shown.failed(status, reason, message, generation=task.generation, now=self._clock.now())

    # --- events ----------------------------------------------------------------------------------------------------

    def corrections(self, obj: ChartObject, health: Health) -> None:
        """Tells what was put right."""
        for each in health.corrected:
            self._recorder.record(obj, "Normal", "DriftCorrected", f"{each} was changed by somebody else, and is back")

    def overrides(self, obj: ChartObject) -> None:
        """Tells which values come from the watches file and not from the object, as operator-sdk does."""
        for key, text in self._watch.overrides.items():
            told = _HIDDEN if self._watch.hide_overrides else text
            message = f'Chart value "{key}" overridden to "{told}" by operator\'s watches.yaml'
            self._recorder.record(obj, "Warning", "OverrideValuesInUse", message)

    def adopted(self, obj: ChartObject) -> None:
        """Tells that nothing was installed."""
        message = "the objects of the release were there, its stored revisions were not: they were taken over"
        self._recorder.record(obj, "Normal", "Adopted", message)

    async def write(self, obj: ChartObject, status: ChartStatus) -> ChartObject:
        """Writes the status where it is another one, and tells of the conditions that changed."""
        if status == obj.status:
            return obj
        written = await self._api.write_status(obj, status)
        told = remove(status.conditions, shown.INITIALIZED)  # which says nothing that the others do not
        self._recorder.record_transitions(obj, obj.status.conditions, told, bad=shown.BAD)
        return written


def _failure_reason(revisions: Sequence[Revision]) -> str:
    """Whether an install or an upgrade failed: an install where nothing has ever been deployed."""
    last = next((place for place in range(len(revisions), 0, -1) if revisions[place - 1].status == FAILED), 0)
    before = revisions[: last - 1] if last else ()
    return "UpgradeError" if any(each.status in {DEPLOYED, "superseded"} for each in before) else "InstallError"
