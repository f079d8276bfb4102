"""A notice as a receiver gets it: a CloudEvent 1.0 in structured JSON. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.controllers.notifications.transitions import Notice, notice_id

CONTENT_TYPE: Final = "application/cloudevents+json"
TYPE_PREFIX: Final = "dev.edgewright.rollout."
"""What the types of our events begin with: dev.edgewright.rollout.paused."""


def cloud_event(rollout: FirmwareRollout, notice: Notice) -> bytes:
    """The body of the request; who it is about comes from the object itself, never from what stands in it."""
    metadata = rollout.metadata
    data: dict[str, Any] = {
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
        "generation": notice.generation,
        "revision": notice.state.revision,
        "phase": notice.phase,
        "reason": notice.reason,
        "message": notice.message,
        "batch": {"number": notice.state.batch, "name": notice.batch_name} if notice.state.batch else None,
        "progress": notice.progress,
        "counts": notice.counts,
        "ended": notice.ended,
    }
    event = {
        "specversion": "1.0",
        "id": notice_id(metadata.uid, notice),
        "source": f"{rollout.kind.path(metadata.namespace)}/{metadata.name}",
        "type": TYPE_PREFIX + notice.state.type.value,
        "subject": f"{metadata.namespace}/{metadata.name}",
        "time": notice.time,
        "datacontenttype": "application/json",
        "data": {name: value for name, value in data.items() if value is not None},
    }
    return msgspec.json.encode(event)
