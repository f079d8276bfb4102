"""Who asked for an action, when and why: read from the request, and left where others find it.

`rollouts` and `fleet` carry actions out; the annotation and the Event are the same for all of them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from edgewright.console.answers import ActionRequest
from edgewright.console.call import Call
from edgewright.console.problems import Refusal
from edgewright.console.reviews import user_of
from edgewright.runtime.errors import UNFIT, KubernetesError
from edgewright.runtime.events import Event, EventSource, ObjectReference
from edgewright.runtime.objects import ObjectMeta, Resource

ACTION_ANNOTATION: Final = "edgewright.dev/last-action"
"""Annotation of an object: what was asked last over the REST API, by whom, when and why, as JSON."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Who asked for what, when and why."""

    action: str
    by: str
    reason: str
    at: datetime

    @property
    def annotation(self) -> dict[str, str]:
        """The same on the object."""
        said = {"action": self.action, "by": self.by, "reason": self.reason, "at": self.at.isoformat()}
        return {ACTION_ANNOTATION: msgspec.json.encode(said).decode()}


async def request_of(call: Call) -> ActionRequest:
    """What goes with an action."""
    if not call.request.can_read_body:
        return ActionRequest()
    try:
        return msgspec.json.decode(await call.body() or b"{}", type=ActionRequest)
    except UNFIT as error:
        raise Refusal("invalid", f"the body must have batch, revision and reason only: {error}") from error


async def asked_for(call: Call, action: str, request: ActionRequest) -> Asked:
    """The action, by the name that the API server knows the caller under."""
    who = (await user_of(call)).name
    return Asked(action=action, by=who, reason=request.reason, at=call.shared.clock.now())


async def tell(call: Call, of: Resource, asked: Asked) -> None:
    """Leaves an Event where the caller may: the annotation has it in any case."""
    why = f": {asked.reason}" if asked.reason else ""
    at = asked.at.replace(microsecond=0)
    about = ObjectReference(
        api_version=of.kind.api_version,
        kind=of.kind.kind,
        namespace=of.metadata.namespace,
        name=of.metadata.name,
        uid=of.metadata.uid,
    )
    event = Event(
        metadata=ObjectMeta(generate_name=f"{of.metadata.name[:200]}.", namespace=of.metadata.namespace or "default"),
        involved_object=about,
        type="Normal",
        reason=f"{asked.action.capitalize()}Requested",
        message=f"{asked.by} asked for {asked.action}{why}"[:1024],
        count=1,
        first_timestamp=at,
        last_timestamp=at,
        source=EventSource(component="edgewright-console"),
        reporting_component="edgewright-console",
    )
    with suppress(KubernetesError):
        await call.client.of(Event).create(event)
