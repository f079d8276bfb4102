"""Replaces the program of the agent on trial, and goes back where the new one does not reach the gateway in time.

`edgewright edge upgrade` uses it on the device. The program is a link that is switched in one rename; a trial that is
under way stands in the state directory, so that whoever finds it there can end it. The agent reads at its start that it
is on trial, says so as soon as the gateway has answered it, and ends a trial that nobody else ends, as after a power
cut.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from edgewright.agent.state import State
from edgewright.runtime.clock import Clock
from edgewright.runtime.files import sync_directory

_TRIAL: Final = "upgrade"
_CONNECTED: Final = "upgrade-connected"
_LOOK_EVERY: Final = 0.5
# The command, where it still runs, comes first: it can say what happened.
_COMMAND_FIRST: Final = 5.0
# A program on trial has its whole time again after a power cut, but one that never stays up for so long has not.
_NO_MORE_CHANCES: Final = 3600.0

Restart = Callable[[], None]
"""Starts the agent again; raises where that is not possible."""


class WentBack(Exception):
    """The program on trial has not reached the gateway: the one before it is what is started next."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A program that is tried."""

    id: str
    link: str
    """What is run."""
    old: str
    """Where the link pointed."""
    new: str
    """Where it points while the new program is tried."""
    until: float
    """When the new program must have reached the gateway, in seconds since 1970."""
    seconds: float = 300.0
    """How long it had for that."""


def under_way(state: State) -> Trial | None:
    """The trial that has not ended yet."""
    content = state.note(_TRIAL)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=Trial)
    except msgspec.MsgspecError:
        return None  # nobody can go back by it


def own(state: State) -> Trial | None:
    """The trial of the program that starts now; one that was cut off before the switch, or on the way back, is over."""
    trial = under_way(state)
    if trial is None or _is_switched(trial):
        return trial
    end(state)
    return None


def begin(state: State, link: Path, new: Path, *, seconds: float, clock: Clock) -> Trial:
    """Writes down what is tried, and lets the link point there."""
    trial = Trial(
        id=uuid.uuid4().hex,
        link=str(link),
        old=target_of(link),
        new=str(new),
        until=clock.now().timestamp() + seconds,
        seconds=seconds,
    )
    state.drop_note(_CONNECTED)
    state.keep_note(_TRIAL, msgspec.json.encode(trial))
    point(link, trial.new)
    return trial


async def settle(state: State, trial: Trial, *, clock: Clock, restart: Restart) -> bool:
    """Waits for the new program to reach the gateway, and goes back where it does not in time; whether it did."""
    link = Path(trial.link)
    if not _is_switched(trial):  # cut off before the link was switched, or after it was switched back
        end(state)
        return False
    # Both ends: a clock that jumps back must not make this wait for ever.
    begun, left = clock.elapsed(), trial.until - clock.now().timestamp()
    while not reached(state, trial):
        if under_way(state) != trial:
            return _is_switched(trial)  # the agent has ended it
        if clock.now().timestamp() >= trial.until or clock.elapsed() - begun >= left:
            point(link, trial.old)
            restart()
            end(state)
            return False
        await clock.sleep(_LOOK_EVERY)
    end(state)
    return True


async def watch(state: State, trial: Trial, *, clock: Clock) -> None:
    """Ends the trial where the command that began it does not; the program that is tried calls this.

    WentBack says that it has not reached the gateway: the link is switched back, and it must end.
    """
    late = clock.now().timestamp() - trial.until >= _NO_MORE_CHANCES
    begun, left = clock.elapsed(), _COMMAND_FIRST + (0 if late else trial.seconds)
    while clock.elapsed() - begun < left:
        if under_way(state) != trial:
            return  # the command has ended it
        await clock.sleep(_LOOK_EVERY)
    is_good = reached(state, trial)
    if not is_good:
        point(Path(trial.link), trial.old)
    end(state)
    if not is_good:
        raise WentBack(f"this agent did not reach the gateway: {trial.link} is {trial.old} again")


def reached(state: State, trial: Trial) -> bool:
    """Whether the program on trial has reached the gateway."""
    return state.note(_CONNECTED) == trial.id.encode()


def confirm(state: State, trial: Trial) -> None:
    """Says that the program on trial has reached the gateway; the agent that was started with it calls this."""
    state.keep_note(_CONNECTED, trial.id.encode())


def end(state: State) -> None:
    """Forgets the trial."""
    state.drop_note(_TRIAL)
    state.drop_note(_CONNECTED)


def _is_switched(trial: Trial) -> bool:
    return target_of(Path(trial.link)) == trial.new


def target_of(link: Path) -> str:
    """Where a link points."""
    return str(link.readlink())


def point(link: Path, target: str) -> None:
    """Lets a link point elsewhere: at any moment it points to one or the other."""
    made = link.with_name(f".{link.name}.{os.getpid()}")
    made.unlink(missing_ok=True)
    made.symlink_to(target)
    os.replace(made, link)  # noqa: PTH105 - replace, whatever is there
    sync_directory(link.parent)
