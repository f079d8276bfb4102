"""Mounts the block devices that the configuration names; what is mounted already, by whomever, is left as it is.

`Agent` calls `apply` in each pass, before workloads start. Which must be mounted is a pure function; each is checked
before the program mount gets it. Nothing is ever unmounted: workloads and people may use it.
"""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from edgewright.agent.events import Events
from edgewright.agent.programs import ProgramError, run_program
from edgewright.api.edge_hardware import Mount
from edgewright.api.edge_protocol import DeviceConfigurationMessage

_DEVICE: Final = re.compile(r"/dev/[A-Za-z0-9_./:+-]+")
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_OPTIONS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_=,.:/+-]*")
_SECONDS: Final = 60.0


def problem_of(mount: Mount) -> str:
    """What is wrong with a mount, with its field; empty where nothing is."""
    if not _DEVICE.fullmatch(mount.device) or ".." in mount.device:
        return f"mounts.device: {mount.device!r} is no block device"
    if not mount.directory.startswith("/") or ".." in mount.directory.split("/") or "\0" in mount.directory:
        return f"mounts.folder: {mount.directory!r} is no absolute path"
    if mount.type and not _TYPE.fullmatch(mount.type):
        return f"mounts.type: {mount.type!r} is no type of file system"
    if mount.options and not _OPTIONS.fullmatch(mount.options):
        return f"mounts.options: {mount.options!r} cannot be used"
    return ""


def missing(wanted: Iterable[Mount], mounted: Mapping[str, str]) -> list[Mount]:
    """The mounts that are not there; `mounted` has the device by directory."""
    return [each for each in wanted if each.directory.rstrip("/") not in mounted]


def mounted_now(table: str) -> dict[str, str]:
    """The device by directory, from the text of /proc/mounts."""
    rows = [line.split() for line in table.splitlines()]
    return {_unescaped(row[1]).rstrip("/"): row[0] for row in rows if len(row) > 1}


def command(mount: Mount) -> list[str]:
    """What mounts it."""
    kind = ["-t", mount.type] if mount.type else []
    options = ["-o", mount.options] if mount.options else []
    return ["mount", *kind, *options, "--", mount.device, mount.directory]


def prepare(mount: Mount) -> None:
    """Makes the directory; ProgramError where the device is none that can be mounted."""
    if not stat.S_ISBLK(Path(mount.device).stat().st_mode):
        raise ProgramError(f"{mount.device} is no block device")
    Path(mount.directory).mkdir(parents=True, exist_ok=True)


class Mounts:
    """The mounts of this device."""

    def __init__(
        self,
        events: Events,
        *,
        table: Path = Path("/proc/mounts"),
        run: Callable[[Sequence[str]], Awaitable[str]] | None = None,
    ) -> None:
        self._events = events
        self._table = table
        self._run = run or (lambda each: run_program(each, seconds=_SECONDS))

    async def apply(self, configuration: DeviceConfigurationMessage) -> None:
        """Mounts what is missing; what cannot be mounted is told, and tried again by the next pass."""
        device = configuration.configuration
        wanted = (device.mounts if device is not None else None) or ()
        if not wanted:
            self._events.solved("mounts")
            return
        problems = [text for text in map(problem_of, wanted) if text]
        usable = [each for each in wanted if not problem_of(each)]
        for each in missing(usable, mounted_now(self._table.read_text(encoding="utf-8", errors="replace"))):
            try:
                await asyncio.to_thread(prepare, each)  # a disk that is asleep may take seconds
                await self._run(command(each))
            except (ProgramError, OSError) as error:
                problems.append(f"{each.device} cannot be mounted at {each.directory}: {error}")
            else:
                self._events.info(reason="Mounted", message=f"{each.device} is mounted at {each.directory}")
        if problems:
            self._events.problem("mounts", reason="MountFailed", message="; ".join(problems))
        else:
            self._events.solved("mounts")


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
