"""EdgeHeartbeatShard: when some hundred edge devices were last heard, by one replica of the gateway.

Each replica writes its own every 30 seconds, the leading operator decides from all of them who is offline, and
`edgewright edge` shows them. A kind of its own, because a ConfigMap would take the right to list every ConfigMap of the
namespace, and a Lease has no room for it. Nobody needs to back it up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final

from edgewright.api.annotations import Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.runtime.objects import Key, Kind, Struct

SHARD_SIZE: Final = 500
"""How many devices are in one shard."""


class EdgeHeartbeatShardSpec(Struct, frozen=True, kw_only=True):
    """Who heard whom, and when."""

    replica: Annotated[str, Schema(max_length=253)] = ""
    """The replica of the gateway that writes it."""
    renew_time: datetime | None = None
    """When it was written."""
    heard: Annotated[dict[str, int], Schema(max_properties=2 * SHARD_SIZE)] = {}
    """When each device was last heard, in seconds since 1970, by its namespace and name."""


class EdgeHeartbeatShard(CustomResource, frozen=True, kw_only=True):
    """When some hundred edge devices were last heard, by one replica of the gateway."""

    kind: ClassVar[Kind] = Kind(
        group="edgewright.dev", version="v1alpha1", kind="EdgeHeartbeatShard", plural="edgeheartbeatshards"
    )
    definition: ClassVar[Definition] = Definition(
        short_names=("ehs",),
        columns=(
            Column(name="Replica", path=".spec.replica", description="The replica that writes it."),
            Column(name="Renewed", path=".spec.renewTime", type="date", description="How long ago it was written."),
            AGE,
        ),
    )

    spec: EdgeHeartbeatShardSpec = EdgeHeartbeatShardSpec()
    """Who heard whom, and when."""


def entry_of(key: Key) -> str:
    """The name of a device in a shard."""
    return f"{key.namespace}/{key.name}"


def key_of_entry(entry: str) -> Key:
    """The device that an entry is about."""
    namespace, _, name = entry.partition("/")
    return Key(namespace, name)


def last_heard(shards: Iterable[EdgeHeartbeatShard]) -> dict[Key, datetime]:
    """When each device was last heard by anybody."""
    found: dict[str, int] = {}
    for shard in shards:
        for entry, seconds in shard.spec.heard.items():
            if seconds > found.get(entry, -1):
                found[entry] = seconds
    return {key_of_entry(entry): datetime.fromtimestamp(seconds, UTC) for entry, seconds in found.items()}
