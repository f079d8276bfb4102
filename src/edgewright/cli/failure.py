"""How a command says that its work failed for a reason that is no answer of a server: a sentence, and an exit code."""

from __future__ import annotations

from typing import ClassVar


class Failed(Exception):
    """The work failed; the sentence says what the person who typed the command can do."""

    code: ClassVar[int] = 1


class WrongUsage(Failed):
    """What was typed cannot be meant."""

    code = 2


class RolloutFailed(Failed):
    """The rollout failed, or was aborted or recalled."""

    code = 4


class NeedsPerson(Failed):
    """It goes on only when somebody does something."""

    code = 5


class TimeIsUp(Failed):
    """The time limit that was given is over."""

    code = 124
