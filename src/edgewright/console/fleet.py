"""The fleet at a glance: how many devices stand where, which versions they run, and the same for each group.

`summary` is pure. The handlers read Devices with the caller's rights, page by page or from the shared cache, and keep
none of them; nothing is sent to a client device by device.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import msgspec
from aiohttp import web

from edgewright.api.device import STALE, Device
from edgewright.api.flash_pod import Outcome
from edgewright.api.fleet import FLEET, Fleet
from edgewright.console.answers import DeviceHistory, Flash, FleetGroup, FleetSummary, Freeze, Why
from edgewright.console.call import Call, answer
from edgewright.console.kind_cache import Shown
from edgewright.console.shared_cache import kind_cache_for, selector
from edgewright.controllers.rollout import why_world
from edgewright.runtime.conditions import is_true
from edgewright.runtime.errors import UNFIT, Forbidden, NotFound
from edgewright.runtime.objects import Key

State: TypeAlias = Literal["updating", "quarantined", "failed", "unreachable", "ok"]
STATES: Final[tuple[State, ...]] = ("failed", "quarantined", "unreachable", "updating", "ok")
"""Where a device stands; trouble first."""
_VERSIONS: Final = 50
_GROUPS: Final = 1000
_AT_ONCE: Final = 500
OTHER: Final = "(other)"
NONE: Final = "(none)"
_device: Final = msgspec.json.Decoder(Device).decode


def state_of(device: Device) -> State:
    """Where one device stands: what somebody has to look at comes before what goes by itself."""
    status = device.status
    if status.claim is not None:
        return "updating"
    if status.quarantined:
        return "quarantined"
    last = status.last_flash
    if last is not None and last.outcome in set(Outcome) and not Outcome(last.outcome).good:
        return "failed"
    return "unreachable" if is_true(status.conditions, STALE) else "ok"


def summary(devices: Iterable[Device], *, group_by: str = "") -> FleetSummary:
    """The counts; groups by the value of a label, those with trouble first."""
    states: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    groups: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for device in devices:
        state, version = state_of(device), device.status.version or NONE
        states[state] += 1
        versions[version] += 1
        if group_by:
            name = device.metadata.labels.get(group_by, NONE)
            if name not in groups and len(groups) >= _GROUPS:
                name = OTHER
            of = groups.setdefault(name, (Counter(), Counter()))
            of[0][state] += 1
            of[1][version] += 1
    found = [
        FleetGroup(name=name, total=counts.total(), states=_states(counts), versions=_most(seen))
        for name, (counts, seen) in groups.items()
    ]
    return FleetSummary(
        total=states.total(),
        states=_states(states),
        versions=_most(versions),
        groups=tuple(sorted(found, key=lambda each: (-_trouble(each), each.name))),
    )


def _states(counts: Counter[str]) -> dict[str, int]:
    return {state: counts[state] for state in STATES}


def _most(versions: Counter[str]) -> dict[str, int]:
    """The versions that most devices run; the rest is added up."""
    found = dict(versions.most_common(_VERSIONS))
    rest = versions.total() - sum(found.values())
    return found | ({OTHER: rest} if rest else {})


def _trouble(group: FleetGroup) -> int:
    return group.total - group.states["ok"] - group.states["updating"]


async def all_devices(call: Call, *, labels: str = "") -> list[Device]:
    """Every Device that the caller may see; one that cannot be read is left out."""
    chosen = selector(labels)
    kept = None if chosen is None else await kind_cache_for(call, Device.kind, "list", "")
    if chosen is not None and kept is not None:
        return await _decoded(kept.select("", chosen.matches if chosen.requirements else None))
    return [each async for page in call.client.of(Device).pages(labels=labels) for each in page.items]


async def _decoded(found: list[Shown]) -> list[Device]:
    devices: list[Device] = []
    for number, each in enumerate(found):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)  # a fleet is large, and others wait
        with suppress(*UNFIT):
            devices.append(_device(each.body))
    return devices


async def fleet(call: Call) -> web.Response:
    """The fleet, and whether it is frozen."""
    devices = await all_devices(call, labels=call.query.get("labelSelector", ""))
    counted = summary(devices, group_by=call.query.get("groupBy", ""))
    return answer(msgspec.structs.replace(counted, freeze=await _freeze(call)))


async def _freeze(call: Call) -> Freeze | None:
    try:
        found = await call.client.of(Fleet).get(Key("", FLEET))
    except (NotFound, Forbidden):  # who may not see it is told by the waiting reasons
        return None
    spec = found.spec
    return Freeze(reason=spec.reason, by=spec.by, since=spec.since) if spec.frozen else None


async def explain(call: Call) -> web.Response:
    """Why a device is not updated, in one sentence, by what the caller may see."""
    name, namespace = call.part("name"), call.query.get("namespace")
    await call.client.of(Device).get(Key("", name))  # who may not see it, or asks for none, is told so
    return answer(Why(device=name, sentence=await why_world.sentence(call.client, name, namespace=namespace)))


async def history(call: Call) -> web.Response:
    """What came of every job that is remembered on a device, the latest first."""
    device = await call.client.of(Device).get(Key("", call.part("name")))
    records = sorted(device.status.records, key=lambda each: each.time.timestamp() if each.time else 0.0, reverse=True)
    flashes = tuple(
        Flash(
            job=f"{each.job.namespace}/{each.job.name}",
            outcome=each.outcome,
            message=each.message,
            version=each.version,
            before=each.before.version if each.before else "",
            attempts=each.attempts,
            started=each.started,
            ended=each.time,
        )
        for each in records
    )
    last = device.status.last_flash
    return answer(DeviceHistory(flashes=flashes, log=last.log if last else ()))
