"""What a request of an agent asks for, by its method, path and headers, and how its message is read; no I/O.

`server` asks for every request. `METHODS` and `DIRECTIVES` are the whole of the agents' API: tests go through them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from edgewright.api.edge_protocol import PREFIX, Directive, Message, MessageType
from edgewright.gateway.admission import Refused
from edgewright.gateway.identity import Operation

T = TypeVar("T")

METHODS: Final = {
    ("data", "in"): ("GET", Operation.READ_DATA),
    ("data", "out"): ("POST", Operation.OTHER),
    ("control", "in"): ("GET", Operation.READ_CONTROL),
    ("control", "out"): ("POST", Operation.WRITE_CONTROL),
}
"""The method of each path, and what it is; what a message on `data/out` is, its directive says."""
DIRECTIVES: Final = {
    Directive.ENROLMENT.value: Operation.ENROL,
    Directive.REGISTRATION.value: Operation.REGISTER,
    Directive.HEARTBEAT.value: Operation.HEARTBEAT,
}
"""What is done with a message on `data/out`."""
_MAX_DIGITS: Final = 6
_MAX_ROUTES: Final = 65_536
_TYPES: Final = frozenset(each.value for each in MessageType)


@dataclass(frozen=True)
class Route:
    """A request that is one of ours: `data` or `control`, `in` or `out`, of one device."""

    device: str
    operation: Operation


@lru_cache(maxsize=_MAX_ROUTES)
def route_of(method: str, path: str) -> Route:
    """What a request asks for; Refused where there is no such path or method."""
    parts = [each for each in path.split("/") if each]  # some agents write two slashes
    prefix = [each for each in PREFIX.split("/") if each]
    if len(parts) != len(prefix) + 3 or parts[: len(prefix)] != prefix:
        raise Refused(404, f"path {path[:200]} was not found")
    channel, device, direction = parts[len(prefix) :]
    found = METHODS.get((channel, direction))
    if found is None:
        raise Refused(404, f"path {path[:200]} was not found")
    wanted, operation = found
    if method != wanted:
        raise Refused(405, f"method {method} is not allowed, but [{wanted}] is", headers={"Allow": wanted})
    return Route(device.lower(), operation)


def wait_of(prefer: str) -> float:
    """How many seconds an agent would wait, by its header Prefer; 0 where it says nothing of use."""
    for part in prefer.split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "wait" and value.isdecimal() and len(value) <= _MAX_DIGITS:
            return float(value)
    return 0.0


def is_published(agent: str) -> bool:
    """Whether a User-Agent is that of the published gateway process."""
    return agent.lower().startswith("yggdrasil/")


def message_in(body: bytes) -> Message:
    """The message that a body is; Refused where it is none."""
    try:
        message = msgspec.json.decode(body, type=Message)
    except msgspec.ValidationError as error:
        raise Refused(422, f"the message does not have the published form: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Refused(400, "the body is not JSON") from None
    if message.type not in _TYPES:
        raise Refused(422, f"type in body should be one of {sorted(_TYPES)}")
    return message


def content_of(message: Message, kind: type[T]) -> T:
    """What a message says; Refused where that is not of this kind."""
    try:
        return msgspec.json.decode(message.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"the content of {message.directive} does not have the published form: {error}") from None
