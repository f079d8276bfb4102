"""Updates of the operating system, by a program of the device that knows how: a hook with two verbs.

`HOOK current` prints the version that runs; `HOOK upgrade VERSION URL` makes another one the next, and restarts the
machine where that is needed. `Agent` runs it where the settings name a hook and the configuration a version. What was
begun is on the disk before the hook runs, so that the next start can tell whether the machine came back with the new
version or fell back; one that failed is not tried again until another is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Final

import msgspec

from edgewright.agent.events import Events
from edgewright.agent.programs import ProgramError, run_program
from edgewright.agent.state import State
from edgewright.api.edge_protocol import DeviceConfigurationMessage, OsInformation, UpgradeStatus
from edgewright.runtime.clock import Clock

_NOTE: Final = "system"
_LOOK: Final = 60.0
_CURRENT_SECONDS: Final = 60.0
_UPGRADE_SECONDS: Final = 3600.0
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,255}")
_URL: Final = re.compile(r"(https?://[^\s]{1,2000})?")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The last update."""

    wanted: str = ""
    boot: str = ""
    """The boot in which the update was begun."""
    status: str = ""
    """begun, succeeded or failed."""
    time: str = ""


class Step(Enum):
    """What follows from where an update stands."""

    NOTHING = auto()
    UPGRADE = auto()
    SUCCEEDED = auto()
    FELL_BACK = auto()


def next_step(record: Record, *, current: str, boot: str, wanted: OsInformation | None) -> Step:
    """What to do about the system."""
    if record.status == "begun":
        if record.wanted == current:
            return Step.SUCCEEDED
        if record.boot != boot:
            return Step.FELL_BACK
        return Step.NOTHING  # the machine is about to restart
    if wanted is None or not wanted.commit_id or not wanted.automatically_upgrade or wanted.commit_id == current:
        return Step.NOTHING
    return Step.NOTHING if (record.wanted, record.status) == (wanted.commit_id, "failed") else Step.UPGRADE


class SystemUpdates:
    """The operating system of this device."""

    def __init__(
        self,
        hook: str,
        *,
        state: State,
        events: Events,
        clock: Clock,
        run: Callable[[Sequence[str], float], Awaitable[str]] | None = None,
        boot: Path = _BOOT,
    ) -> None:
        self._hook = hook
        self._state = state
        self._events = events
        self._clock = clock
        self._run = run or (lambda command, seconds: run_program(command, seconds=seconds))
        self._boot = boot
        self._record = _record(state.note(_NOTE))
        self._current = ""

    @property
    def status(self) -> UpgradeStatus:
        """What heartbeats tell of it."""
        told = self._record.status if self._record.status in {"succeeded", "failed"} else ""
        return UpgradeStatus(
            current_commit_id=self._current,
            last_upgrade_status=told,
            last_upgrade_time=self._record.time if told else "",
        )

    async def run(self, configuration: Callable[[], DeviceConfigurationMessage]) -> None:
        """Keeps the system as the configuration says, until it is cancelled; without a hook it does nothing."""
        while self._hook:
            device = configuration().configuration
            try:
                await self.look(None if device is None else device.os)
            except (ProgramError, OSError) as error:
                self._events.problem("system", reason="SystemUpdateFailed", message=f"system update: {error}")
            await self._clock.sleep(_LOOK)

    async def look(self, wanted: OsInformation | None) -> None:
        """Asks what runs, and does the next step."""
        self._current = (await self._run([self._hook, "current"], _CURRENT_SECONDS)).strip()[:256]
        boot = self._boot.read_text(encoding="ascii").strip()
        match next_step(self._record, current=self._current, boot=boot, wanted=wanted):
            case Step.SUCCEEDED:
                self._keep("succeeded")
                self._events.solved("system")
                self._events.info(reason="SystemUpdated", message=f"the system is {self._record.wanted} now")
            case Step.FELL_BACK:
                self._failed(f"the machine came back with {self._current or 'an unknown version'}")
            case Step.UPGRADE:
                await self._upgrade(wanted or OsInformation(), boot)
            case Step.NOTHING:
                pass

    async def _upgrade(self, wanted: OsInformation, boot: str) -> None:
        if not _VERSION.fullmatch(wanted.commit_id) or not _URL.fullmatch(wanted.hosted_objects_url):
            raise ProgramError("os: commitID or hostedObjectsURL cannot be used")
        self._record = Record(wanted=wanted.commit_id, boot=boot)
        self._keep("begun")
        self._events.info(reason="SystemUpdateBegun", message=f"the system is updated to {wanted.commit_id}")
        try:
            await self._run([self._hook, "upgrade", wanted.commit_id, wanted.hosted_objects_url], _UPGRADE_SECONDS)
        except ProgramError as error:
            self._failed(str(error))

    def _failed(self, why: str) -> None:
        self._keep("failed")
        message = f"the system could not be updated to {self._record.wanted}: {why}"
        self._events.problem("system", reason="SystemUpdateFailed", message=message)

    def _keep(self, status: str) -> None:
        time = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        record = msgspec.structs.replace(self._record, status=status, time=time)
        self._state.keep_note(_NOTE, msgspec.json.encode(record))
        self._record = record


def _record(content: bytes | None) -> Record:
    try:
        return msgspec.json.decode(content, type=Record) if content else Record()
    except msgspec.MsgspecError:
        return Record()
