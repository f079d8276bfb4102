"""What people do with a rollout over HTTP: pause, resume, approve, abort, retry, recall, undo; and the plan before.

An action is a patch of the spec with the caller's rights, on the state that was read, with the caller and the reason in
an annotation: kubectl, GitOps and the audit log see it. A plan is the operator's own, and changes nothing.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
from aiohttp import web

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import ROLLOUT_UID_LABEL, FirmwareRollout, FirmwareRolloutSpec
from edgewright.api.flashjob import FlashJob
from edgewright.console.actions import Asked, asked_for, request_of, tell, try_to_change
from edgewright.console.answers import BatchPlan, PlanRequest, RolloutPlan
from edgewright.console.call import Call, answer, etag, shown
from edgewright.console.operation import field_error
from edgewright.console.problems import FieldError, Refusal, pointer
from edgewright.console.reads import Reads
from edgewright.console.shared_cache import note_write
from edgewright.controllers.rollout.changes import CHANGES, Change, NotPossible, Wish, abort, refuse_recall, refused_as
from edgewright.controllers.rollout.plan import Plan, plan
from edgewright.controllers.rollout.recall import recall_names, recall_of
from edgewright.controllers.rollout.undo import previous, undo_name
from edgewright.controllers.rollout.validation import problems
from edgewright.runtime.errors import UNFIT, AlreadyExists, Conflict
from edgewright.runtime.objects import Key, ObjectMeta

_TRIES: Final = 5
_conflict: Final = functools.partial(Refusal, "conflict")
_NAMED: Final = 1000
"""So many devices of a batch are named in a plan; their count is always whole."""
_REASONS: Final = 100
"""So many reasons for leaving devices out are counted in a plan, the most frequent ones."""


async def act(call: Call) -> web.Response:
    """Carries one action out, for who may change the rollout; what is so already is answered with it as it is."""
    action, key = call.part("action"), _key(call)
    change = CHANGES.get(action)
    if change is None:
        raise Refusal(
            "not-found", f"a rollout has no action {action}: it has {', '.join([*CHANGES, 'recall', 'undo'])}"
        )
    request = await request_of(call)
    asked = await asked_for(call, action, request)
    wish = Wish(batch=request.batch, request=asked.at.isoformat())

    def wanted(rollout: FirmwareRollout) -> Change | None:
        if request.revision and rollout.status.revision != request.revision:
            raise Refusal("conflict", f"revision {request.revision} is not the present one, {rollout.status.revision}")
        with refused_as(_conflict):
            spec = change(rollout, wish)
        return None if spec is None else {"metadata": {"annotations": asked.annotation}, "spec": spec}

    rollout = await call.client.of(FirmwareRollout).get(key)
    await try_to_change(call, FirmwareRollout.kind, key)
    if await _changed(call, rollout, wanted):
        await tell(call, rollout, asked)
    return await _as_it_is(call, key)


async def _changed(call: Call, rollout: FirmwareRollout, change: Callable[[FirmwareRollout], Change | None]) -> bool:
    """Patches the rollout, whatever its operator writes meanwhile; False where there is nothing to change."""
    api = call.client.of(FirmwareRollout)
    for _ in range(_TRIES):
        patch = change(rollout)
        if patch is None:
            return False
        try:
            made = await api.patch(rollout.key, patch, resource_version=rollout.metadata.resource_version)
        except Conflict:
            rollout = await api.get(rollout.key)
        else:
            _note(call, made)
            return True
    raise Refusal("conflict", "others keep changing the rollout: try again")


async def recall(call: Call) -> web.Response:
    """Aborts it, and creates the rollout that takes devices back to what each ran before; to repeat it does no harm."""
    key = _key(call)
    asked = await asked_for(call, "recall", await request_of(call))
    rollout = await call.client.of(FirmwareRollout).get(key)
    with refused_as(_conflict):
        refuse_recall(rollout, "recall")
    wanted = [_recall(rollout, name, asked) for name in recall_names(rollout)]
    with suppress(AlreadyExists):  # nothing by halves: who may not make the recall must not abort the rollout either
        await call.client.of(FirmwareRollout).create(wanted[0], dry_run=True)
    if rollout.status.recall:
        return await _as_it_is(call, Key(key.namespace, rollout.status.recall))
    await _end(call, rollout)
    for each in wanted:
        try:
            _note(call, await call.client.of(FirmwareRollout).create(each))
        except AlreadyExists:
            there = await call.client.of(FirmwareRollout).get(each.key)
            if there.spec.recall is None or there.spec.recall.uid != rollout.metadata.uid:
                continue
        else:
            await tell(call, rollout, asked)
        return await _as_it_is(call, each.key)
    raise Refusal("conflict", f"the names {' and '.join(recall_names(rollout))} are taken: delete one of them")


async def undo(call: Call) -> web.Response:
    """Aborts it, and creates the rollout that brings what came before to its devices; to repeat it does no harm.

    With `dryRun` the rollout is only shown: a plan of its spec tells the numbers.
    """
    key = _key(call)
    asked = await asked_for(call, "undo", await request_of(call))
    api = call.client.of(FirmwareRollout)
    rollout = await api.get(key)
    jobs = (
        await call.client.of(FlashJob).list(key.namespace, labels=f"{ROLLOUT_UID_LABEL}={rollout.metadata.uid}")
    ).items
    others = (await api.list(key.namespace)).items
    with refused_as(_conflict):
        spec = previous(rollout, jobs, others)
    if spec is None:
        raise Refusal("conflict", f"nothing is known of what came before rollout {key.name}: recall it instead")
    name = undo_name(key.name)
    metadata = ObjectMeta(name=name, namespace=key.namespace, annotations=asked.annotation)
    wanted = FirmwareRollout(metadata=metadata, spec=spec)
    checked = wanted
    with suppress(AlreadyExists):  # nothing by halves, as with a recall
        checked = await api.create(wanted, dry_run=True)
    if "dryRun" in call.query:
        return answer(checked.to_raw(), status=202, headers=etag(checked.to_raw()))
    await _end(call, rollout)
    try:
        _note(call, await api.create(wanted))
        await tell(call, rollout, asked)
    except AlreadyExists:
        there = (await api.get(wanted.key)).spec
        if (there.firmware, there.version, there.firmwares) != (spec.firmware, spec.version, spec.firmwares):
            raise Refusal("conflict", f"the name {name} is taken: delete that rollout first") from None
    return await _as_it_is(call, wanted.key)


async def _end(call: Call, rollout: FirmwareRollout) -> None:
    """Aborts a rollout that has not ended by itself."""

    def aborted(rollout: FirmwareRollout) -> Change | None:
        with suppress(NotPossible):
            spec = abort(rollout, Wish())
            return None if spec is None else {"spec": spec}
        return None

    await _changed(call, rollout, aborted)


def _note(call: Call, made: FirmwareRollout) -> None:
    """Remembers what was written: no read after it is older."""
    note_write(call, FirmwareRollout.kind, made.metadata.resource_version)


def _recall(rollout: FirmwareRollout, name: str, asked: Asked) -> FirmwareRollout:
    """The rollout of this name that takes another one back, with who asked for it."""
    made = recall_of(rollout, name)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=asked.annotation))


async def make_plan(call: Call) -> web.Response:
    """What a rollout with this spec would do to the fleet as it is now; it changes nothing."""
    try:
        request = msgspec.json.decode(await call.body(), type=PlanRequest)
    except UNFIT as error:
        raise Refusal(
            "invalid", f"the body is no spec of a rollout: {error}", field_error("#/spec", str(error))
        ) from error
    try:
        spec = msgspec.convert(request.spec, FirmwareRolloutSpec)
    except UNFIT as error:
        raise Refusal("invalid", f"the body is no spec of a rollout: {error}", _misfit(str(error))) from error
    if wrong := problems(spec):
        errors = (field_error(pointer(each.field), each.message) for each in wrong)
        raise Refusal("invalid", str(wrong[0]), *errors)
    devices = await Reads(call).list(Device)
    return answer(_plan(plan(spec, devices, call.shared.clock.now(), namespace=call.part("namespace"))))


_MISFIT: Final = re.compile(r"(?P<said>.*) - at `\$(?P<path>.*)`", re.DOTALL)


def _misfit(told: str) -> FieldError:
    """The field of a spec that is of another type, as the decoder names it: `Expected … - at `$.batches[0].size``."""
    found = _MISFIT.fullmatch(told)
    if found is None:
        return field_error("#/spec", told)
    known = found["path"].partition("[...]")[0]  # which entry of a map it is is not told
    return field_error(pointer(f"spec{known}"), found["said"])


def _plan(found: Plan) -> RolloutPlan:
    batches = tuple(
        BatchPlan(
            number=each.number,
            name=each.name,
            size=len(each.devices),
            devices=each.devices[:_NAMED],
            soak_seconds=each.soak_seconds,
            success_percent=each.success_percent,
            manual=each.manual,
        )
        for each in found.batches
    )
    return RolloutPlan(
        total=found.total,
        batches=batches,
        excluded=dict(sorted(found.excluded.items())[:_NAMED]),
        excluded_count=len(found.excluded),
        reasons=dict(Counter(found.excluded.values()).most_common(_REASONS)),
        current=len(found.current),
        opens=found.opens,
    )


def _key(call: Call) -> Key:
    return Key(call.part("namespace"), call.part("name"))


async def _as_it_is(call: Call, key: Key) -> web.Response:
    got = await call.exchange("GET", FirmwareRollout.kind.path(key.namespace, key.name))
    found = shown(got.body)
    return answer(found, status=202, headers=etag(found))
