"""The fleet at a glance: how many devices stand where, which versions they run, and the same for each group.

`summary` and `cells_of` are pure. The handlers read Devices with the caller's rights, from the shared cache or page by
page, and keep none of them; of a big fleet nothing is sent to a client device by device.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Final

import msgspec
from aiohttp import web

from edgewright.api.device import Device
from edgewright.api.fleet import FLEET, FREEZE_MANAGER, Fleet, FleetSpec, switched
from edgewright.console.actions import asked_for, request_of, tell
from edgewright.console.answers import DeviceHistory, Flash, FleetCell, FleetGroup, FleetSummary, Freeze, Why
from edgewright.console.call import Call, answer, etag
from edgewright.console.fleet_index import NONE, Row, State, row_of
from edgewright.console.problems import Refusal
from edgewright.console.reads import Reads
from edgewright.console.shared_cache import note_write, selector
from edgewright.console.views import view_for
from edgewright.controllers.rollout import why_world
from edgewright.runtime.errors import Forbidden, NotFound
from edgewright.runtime.objects import Key

STATES: Final[tuple[State, ...]] = ("failed", "quarantined", "unreachable", "updating", "ok")
"""Where a device stands; trouble first."""
SWITCHES: Final = {"freeze": True, "unfreeze": False}
"""What can be done to the whole fleet, and whether nothing starts afterwards."""
_VERSIONS: Final = 50
_GROUPS: Final = 1000
MAX_CELLS: Final = 2000
"""So many devices are named one by one; of more there are counts alone."""
OTHER: Final = "(other)"


def counted(rows: Iterable[Row], *, group_by: str = "") -> Counter[tuple[str, str, str]]:
    """How many devices share state, version and the value of a label: few numbers, however many devices there are."""
    return Counter((each.state, each.version, each.labels.get(group_by, NONE)) for each in rows)


def summary(counts: Counter[tuple[str, str, str]], *, group_by: str = "") -> FleetSummary:
    """The counts; groups by the value of a label, those with trouble first."""
    states: Counter[str] = Counter()
    versions: Counter[str] = Counter()
    groups: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for (state, version, name), number in counts.items():
        states[state] += number
        versions[version] += number
        if group_by:
            known = name in groups or len(groups) < _GROUPS
            of = groups.setdefault(name if known else OTHER, (Counter(), Counter()))
            of[0][state] += number
            of[1][version] += number
    found = [
        FleetGroup(name=name, total=total.total(), states=_states(total), versions=_most(seen))
        for name, (total, seen) in groups.items()
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


def cells_of(rows: Collection[Row], *, group_by: str = "") -> tuple[FleetCell, ...] | None:
    """A cell for each device, trouble first; None where there are too many to be looked at one by one."""
    if len(rows) > MAX_CELLS:
        return None
    ordered = sorted(rows, key=lambda each: (STATES.index(each.state), each.name))
    return tuple(
        FleetCell(name=each.name, state=each.state, version=each.version, group=each.labels.get(group_by, NONE))
        for each in ordered
    )


async def fleet(call: Call) -> web.Response:
    """The fleet, and whether it is frozen; with a cell for each device where they are asked for and few enough."""
    group_by = call.query.get("groupBy", "")
    counts: Counter[tuple[str, str, str]] = Counter()
    few: list[Row] = []
    async for rows in _rows(call, call.query.get("labelSelector", "")):
        counts.update(counted(rows, group_by=group_by))
        few += itertools.islice(rows, MAX_CELLS + 1 - len(few))
    cells = cells_of(few, group_by=group_by) if call.query.get("cells") == "true" else None
    found = summary(counts, group_by=group_by)
    return answer(msgspec.structs.replace(found, cells=cells, freeze=await _freeze(call)))


async def _rows(call: Call, labels: str) -> AsyncIterator[Collection[Row]]:
    """The devices as they are counted: all at once from the shared cache, or page by page."""
    chosen = selector(labels)
    patience = call.shared.limits.whole_kind_seconds
    view = None if chosen is None else await view_for(call, Device.kind, "list", "", patience=patience)
    if chosen is not None and view is not None:
        rows = await call.shared.fleet.rows(view.kept)  # Devices are in no namespace: all or none may be seen
        yield [each for each in rows if chosen.matches(each.labels)] if chosen.requirements else rows
        return
    async for page in call.client.of(Device).pages(labels=labels):  # one that cannot be read is left out
        yield [row_of(each) for each in page.items]


async def _freeze(call: Call) -> Freeze | None:
    try:
        found = await Reads(call).get(Fleet, Key("", FLEET))
    except (NotFound, Forbidden):  # who may not see it is told by the waiting reasons
        return None
    spec = found.spec
    return Freeze(reason=spec.reason, by=spec.by, since=spec.since) if spec.frozen else None


async def switch(call: Call) -> web.Response:
    """Freezes the fleet, or ends that, as the caller; what is so already stays as it is, with who did it and why."""
    action = call.part("action")
    if action not in SWITCHES:
        raise Refusal("not-found", f"a fleet has no action {action}: it has {', '.join(SWITCHES)}")
    asked = await asked_for(call, action, await request_of(call))
    frozen = SWITCHES[action]
    try:
        there = await call.client.raw(Fleet.kind).get(Key("", FLEET))
    except NotFound:
        there = {}
    already = bool(there) and bool(there.get("spec", {}).get("frozen")) is frozen
    since = asked.at.replace(microsecond=0)
    why = FleetSpec(frozen=True, reason=asked.reason[:1024], by=asked.by[:253], since=since)
    wanted = switched(why if frozen else FleetSpec())
    wanted["metadata"]["annotations"] = asked.annotation
    # Tried where nothing is to be done: who may not turn the switch is told so then, too.
    made = await call.client.raw(Fleet.kind).apply(wanted, manager=FREEZE_MANAGER, force=True, dry_run=already)
    if not already:
        there = made
        note_write(call, Fleet.kind, there["metadata"]["resourceVersion"])
        await tell(call, msgspec.convert(there, Fleet), asked)
    there["metadata"].pop("managedFields", None)
    return answer(there, status=202, headers=etag(there))


async def explain(call: Call) -> web.Response:
    """Why a device is not updated, in one sentence, by what the caller may see."""
    name, namespace = call.part("name"), call.query.get("namespace")
    reads = Reads(call)
    await reads.get(Device, Key("", name))  # who may not see it, or asks for none, is told so
    return answer(Why(device=name, sentence=await why_world.sentence(reads, name, namespace=namespace)))


async def history(call: Call) -> web.Response:
    """What came of every job that is remembered on a device, the latest first."""
    device = await Reads(call).get(Device, Key("", call.part("name")))
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
