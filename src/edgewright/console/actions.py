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
from edgewright.console.operation import MERGE_PATCH
from edgewright.console.problems import Refusal
from edgewright.console.reviews import user_of
from edgewright.runtime.errors import UNFIT, KubernetesError
from edgewright.runtime.events import Event, event_of, reference_to
from edgewright.runtime.objects import Key, Kind, ObjectMeta, Resource

ACTION_ANNOTATION: Final = "edgewright.dev/last-action"
"""Annotation of an object: what was asked last over the REST API, by whom, when and why, as JSON."""
ON_BEHALF_OF: Final = "X-On-Behalf-Of"
"""The header in which an application says whom it acts for: a remark that gives nobody any right."""
MAX_REMARK: Final = 253
_COMPONENT: Final = "edgewright-console"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Who asked for what, when and why."""

    action: str
    by: str
    reason: str
    at: datetime
    on_behalf_of: str = ""
    """Whom the caller says to act for; nobody has checked that."""

    @property
    def annotation(self) -> dict[str, str]:
        """The same on the object."""
        said = {"action": self.action, "by": self.by, "reason": self.reason, "at": self.at.isoformat()}
        if self.on_behalf_of:
            said["onBehalfOf"] = self.on_behalf_of
        return {ACTION_ANNOTATION: msgspec.json.encode(said).decode()}

    @property
    def sentence(self) -> str:
        """The same for people."""
        remark = f" (on behalf of {self.on_behalf_of}, as it says)" if self.on_behalf_of else ""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.by}{remark} asked for {self.action}{why}"


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
    remark = call.request.headers.get(ON_BEHALF_OF, "").strip()
    if not remark.isprintable() or len(remark) > MAX_REMARK:
        raise Refusal("bad-request", f"the header {ON_BEHALF_OF} must be one name of at most {MAX_REMARK} characters")
    who = (await user_of(call)).name
    return Asked(action=action, by=who, reason=request.reason, at=call.shared.clock.now(), on_behalf_of=remark)


async def try_to_change(call: Call, kind: Kind, key: Key, part: str | None = None) -> None:
    """A patch of nothing that is not carried out: the API server refuses who may not change the object, or the part."""
    path = kind.path(key.namespace, key.name, part)
    await call.exchange("PATCH", path, query={"dryRun": "All"}, body=b"{}", content_type=MERGE_PATCH)


async def tell(call: Call, of: Resource, asked: Asked) -> None:
    """Leaves an Event where the caller may: the annotation has it in any case."""
    about = of.metadata
    event = event_of(
        reference_to(of),
        "Normal",
        f"{asked.action.capitalize()}Requested",
        asked.sentence,
        metadata=ObjectMeta(generate_name=f"{about.name[:200]}.", namespace=about.namespace or "default"),
        component=_COMPONENT,
        at=asked.at,
    )
    with suppress(KubernetesError):
        await call.client.of(Event).create(event)
