"""What happened on the device and the gateway has not heard yet: a short list that goes out with the next heartbeat.

`workloads`, `uploads` and `Agent` tell it what changed. The same thing twice is told once, until it is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from edgewright.api.edge_protocol import EventInfo
from edgewright.runtime import logs

_log = logs.get("agent.events")

MAX_WAITING: Final = 100
"""Events that wait while the gateway is unavailable; the oldest go first."""
MAX_SENT: Final = 32
_MAX_TEXT: Final = 1000


class Events:
    """The events that wait to be sent, and the problems that have been told of."""

    def __init__(self, on_news: Callable[[], object] = lambda: None) -> None:
        """`on_news` is called for each event that waits from now on."""
        self._on_news = on_news
        self._waiting: deque[EventInfo] = deque(maxlen=MAX_WAITING)
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong now, by what it concerns."""
        return dict(self._problems)

    def problem(self, concern: str, *, reason: str, message: str) -> bool:
        """Something is wrong; told, and True, only where it was not known in these words."""
        text = " ".join(message.split())[:_MAX_TEXT]
        if self._problems.get(concern) == text:
            return False
        self._problems[concern] = text
        _log.warning(text, concern=concern, reason=reason)
        self._add(EventInfo(type="warn", reason=reason, message=text))
        return True

    def solved(self, concern: str, *, reason: str = "", message: str = "") -> bool:
        """It is well; told, where there are words for it, and True, only where it was not before."""
        if self._problems.pop(concern, None) is None:
            return False
        if reason:
            self.info(reason=reason, message=message)
        return True

    def info(self, *, reason: str, message: str) -> None:
        """Something happened that is no problem."""
        text = " ".join(message.split())[:_MAX_TEXT]
        _log.info(text, reason=reason)
        self._add(EventInfo(type="info", reason=reason, message=text))

    def to_send(self) -> tuple[EventInfo, ...]:
        """The oldest that wait."""
        return tuple(list(self._waiting)[:MAX_SENT])

    def sent(self, events: tuple[EventInfo, ...]) -> None:
        """The gateway has these now."""
        for event in events:
            if self._waiting and self._waiting[0] == event:
                self._waiting.popleft()

    def _add(self, event: EventInfo) -> None:
        self._waiting.append(event)
        self._on_news()
