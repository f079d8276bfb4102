"""Who is offline: by shards, by the status, and not while no gateway writes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from edgewright.api.edgedevice import EdgeDevice, EdgeDeviceStatus
from edgewright.api.edgedeviceset import EdgeDeviceSet
from edgewright.api.edgeheartbeatshard import EdgeHeartbeatShard
from edgewright.controllers.edgedevice.decisions import ready
from edgewright.controllers.edgedevice.metrics import state_of
from edgewright.controllers.edgedevice.online import Heard, changes, offline

NOW = 1_800_000_000


def shard(renewed: int, **heard: int) -> EdgeHeartbeatShard:
    spec = {
        "renewTime": datetime.fromtimestamp(renewed, UTC).isoformat(),
        "heard": {f"d/{name}": at for name, at in heard.items()},
    }
    return msgspec.convert({"metadata": {"name": "s", "namespace": "d"}, "spec": spec}, EdgeHeartbeatShard)


def device(online: str = "True", *, seen: int | None = None, period: int = 0, **more: Any) -> EdgeDevice:
    conditions = [{"type": "Online", "status": online, "reason": "R"}] if online else []
    status: dict[str, Any] = {"conditions": conditions}
    if seen is not None:
        status["lastSeenTime"] = datetime.fromtimestamp(seen, UTC).isoformat()
    spec = {"heartbeat": {"periodSeconds": period}} if period else {}
    metadata = {"name": "one", "namespace": "d", **more}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, EdgeDevice)


@pytest.mark.parametrize(
    ("found", "heard", "late"),
    [
        pytest.param(device(), NOW - 299, False, id="heard a moment ago"),
        pytest.param(device(), NOW - 301, True, id="not heard for long"),
        pytest.param(device(seen=NOW - 10), NOW - 900, False, id="its status knows better"),
        pytest.param(device(period=600), NOW - 900, False, id="it speaks rarely"),
        pytest.param(device(period=600), NOW - 1801, True, id="it speaks rarely, and not even that"),
        pytest.param(device("False"), NOW - 900, False, id="offline already"),
        pytest.param(device(""), NOW - 900, False, id="never heard"),
        pytest.param(device(deletionTimestamp="2026-01-01T00:00:00Z"), NOW - 900, False, id="leaving"),
    ],
)
def test_a_device_is_late_after_five_minutes_and_three_of_its_heartbeats(
    found: EdgeDevice, heard: int, late: bool
) -> None:
    known = Heard(alive_since=NOW - 10_000)
    known.take(shard(NOW, one=heard))
    assert bool(list(changes([found], known, {}, now=NOW, after=300))) is late


def test_of_several_shards_the_newest_counts_in_whichever_order_they_come() -> None:
    for order in ((NOW - 900, NOW - 5), (NOW - 5, NOW - 900)):
        known = Heard(alive_since=1)
        for at in order:
            known.take(shard(NOW, one=at))
        assert known.seen(device()) == NOW - 5


def test_nobody_is_judged_while_no_gateway_writes_and_all_have_their_time_again_afterwards() -> None:
    known = Heard()
    known.take(shard(NOW - 1000, one=NOW - 1000))
    assert not known.look(NOW, pause=90)
    known.take(shard(NOW, two=NOW))
    assert known.look(NOW, pause=90)
    assert list(changes([device()], known, {}, now=NOW + 299, after=300)) == []
    assert list(changes([device()], known, {}, now=NOW + 301, after=300)) != []


def test_the_period_of_a_set_counts_for_its_members() -> None:
    member = device(labels={"flotta/member-of": "slow"})
    given = {"metadata": {"name": "slow", "namespace": "d"}, "spec": {"heartbeat": {"periodSeconds": 600}}}
    known = Heard(times={member.key: NOW - 900}, alive_since=1)
    sets = {"d": [msgspec.convert(given, EdgeDeviceSet)]}
    assert list(changes([member], known, sets, now=NOW, after=300)) == []


def test_an_offline_device_says_since_when_and_is_not_ready() -> None:
    found = device()
    status = offline(found.status, seen=NOW, generation=1, now=datetime.fromtimestamp(NOW + 400, UTC))
    (condition,) = status.conditions
    assert (condition.status, condition.reason, condition.message) == (
        "False",
        "NotHeard",
        "not heard since 2027-01-15 08:00:00 UTC",
    )
    assert status.last_seen_time == datetime.fromtimestamp(NOW, UTC)
    assert state_of(msgspec.structs.replace(found, status=status)) == "offline"
    assert offline(found.status, seen=0, generation=1, now=datetime.now(UTC)).conditions[0].message == "never heard"


@pytest.mark.parametrize(
    ("conditions", "workloads", "reason", "state"),
    [
        ([], [], "NotRegistered", "new"),
        ([("Registered", "True")], [], "NotOnline", "new"),
        ([("Registered", "True"), ("Online", "False")], [], "NotOnline", "offline"),
        ([("Registered", "True"), ("Online", "True"), ("Configured", "False")], [], "NotConfigured", "not-ready"),
        ([("Registered", "True"), ("Online", "True")], ["Exited"], "WorkloadsNotRunning", "not-ready"),
        ([("Registered", "True"), ("Online", "True"), ("Configured", "True")], ["Running"], "Ready", "ready"),
    ],
)
def test_ready_sums_up_in_the_order_of_causes(
    conditions: list[tuple[str, str]], workloads: list[str], reason: str, state: str
) -> None:
    given: dict[str, Any] = {
        "conditions": [{"type": kind, "status": status, "reason": "R", "message": "m"} for kind, status in conditions],
        "workloads": [{"name": f"w{number}", "phase": phase} for number, phase in enumerate(workloads)],
    }
    found = msgspec.convert({"metadata": {"name": "one", "namespace": "d"}, "status": given}, EdgeDevice)
    summed = ready(found.status, 1)
    assert (summed.reason, summed.status) == (reason, "True" if reason == "Ready" else "False")
    status = msgspec.structs.replace(found.status, conditions=(*found.status.conditions, summed))
    assert state_of(msgspec.structs.replace(found, status=status)) == state


def test_what_the_device_says_of_a_workload_is_in_its_condition() -> None:
    heard = [{"type": kind, "status": "True", "reason": "R"} for kind in ("Registered", "Online")]
    entry = {"name": "w", "phase": "Created", "told": "podman: no such image a:1"}
    found = msgspec.convert({"conditions": heard, "workloads": [entry]}, EdgeDeviceStatus)
    assert ready(found, 1).message == "w: Created: podman: no such image a:1"
