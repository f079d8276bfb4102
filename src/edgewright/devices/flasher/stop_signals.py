"""Hears that the run must end: SIGTERM from Kubernetes, or Ctrl-C.

The program creates a Stop before it imports anything large, so that no signal is lost while it starts: as the first
process of a container it would not even be ended by one. Only the first asking counts, and it never ends the process.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Whether somebody asked for the end, and who must be told."""

    def __init__(self) -> None:
        self.asked = False
        self._listener: Callable[[], None] | None = None

    def ask(self) -> None:
        """Asks for the end; to ask again changes nothing."""
        if self.asked:
            return
        self.asked = True
        if self._listener is not None:
            self._listener()

    def tell(self, listener: Callable[[], None]) -> None:
        """Names who is told, at once where it was asked already; there is one listener."""
        self._listener = listener
        if self.asked:
            listener()

    def hear_signals(self) -> None:
        """Makes the signals ask; an event loop that runs takes them over with `ask` of its own accord."""

        def heard(_number: int, _frame: FrameType | None) -> None:
            self.ask()

        for number in SIGNALS:
            signal.signal(number, heard)
