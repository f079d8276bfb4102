"""Who is offline, by when each device was last heard: pure functions, and the memory that they read.

The loop of `online_loop` asks for the devices whose condition should be another. While no gateway writes, nobody is
judged, and afterwards everybody gets the whole time again: that the gateway was away says nothing about a device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from edgewright.api.edge_matching import settings_of
from edgewright.api.edgedevice import ONLINE, EdgeDevice, EdgeDeviceStatus
from edgewright.api.edgedeviceset import EdgeDeviceSet
from edgewright.api.edgeheartbeatshard import EdgeHeartbeatShard, key_of_entry
from edgewright.runtime.conditions import condition, set_condition
from edgewright.runtime.objects import Key

OFFLINE_REASON: Final = "NotHeard"
_PERIODS: Final = 3
_PERIOD: Final = 60


@dataclass
class Heard:
    """What the shards have told of devices, and since when gateways have been writing without a pause."""

    times: dict[Key, int] = field(default_factory=dict)
    last_write: float = 0.0
    alive_since: float = 0.0

    def take(self, shard: EdgeHeartbeatShard) -> None:
        """Takes in what a shard tells; nothing older replaces something newer."""
        for entry, seconds in shard.spec.heard.items():
            key = key_of_entry(entry)
            if seconds > self.times.get(key, 0):
                self.times[key] = seconds
        if shard.spec.renew_time is not None:
            self.last_write = max(self.last_write, shard.spec.renew_time.timestamp())

    def look(self, now: float, *, pause: float) -> bool:
        """Whether devices can be judged now: some gateway has written lately."""
        if now - self.last_write > pause:
            self.alive_since = 0.0
            return False
        if not self.alive_since:
            self.alive_since = now
        return True

    def seen(self, device: EdgeDevice) -> int:
        """When a device was last heard, by shards and by its own status."""
        status = device.status.last_seen_time
        return max(self.times.get(device.key, 0), 0 if status is None else int(status.timestamp()))


def changes(
    devices: Iterable[EdgeDevice], heard: Heard, sets: Mapping[str, list[EdgeDeviceSet]], *, now: float, after: float
) -> Iterator[EdgeDevice]:
    """The devices that are shown as online and have not been heard for too long."""
    for device in devices:
        if device.deleting or online(device) != "True":
            continue
        late = max(after, _PERIODS * period_of(device, sets.get(device.metadata.namespace, [])))
        if now - max(heard.seen(device), heard.alive_since) > late:
            yield device


def period_of(device: EdgeDevice, sets: Iterable[EdgeDeviceSet]) -> int:
    """How many seconds there are between two heartbeats of a device."""
    heartbeat = settings_of(device, sets).heartbeat
    return _PERIOD if heartbeat is None or not heartbeat.period_seconds else heartbeat.period_seconds


def online(device: EdgeDevice) -> str:
    """The status of its condition Online; empty where it has none."""
    return next((each.status for each in device.status.conditions if each.type == ONLINE), "")


def offline(status: EdgeDeviceStatus, *, seen: int, generation: int, now: datetime) -> EdgeDeviceStatus:
    """The status of a device that is not heard any more."""
    since = datetime.fromtimestamp(seen, UTC) if seen else None
    text = f"not heard since {since:%Y-%m-%d %H:%M:%S} UTC" if since else "never heard"
    new = condition(ONLINE, "False", OFFLINE_REASON, text, generation=generation)
    return msgspec.structs.replace(
        status,
        conditions=set_condition(status.conditions, new, now=now),
        last_seen_time=since or status.last_seen_time,
    )
