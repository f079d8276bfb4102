"""The Pods that this node runs, or ran and still has: their folders, their shims and what was last said of them.

`Runs` finds them again after a restart of the node, watches the shims, and the programs that podman runs (by pidfd, so
that somebody else's process is never taken for one of ours) and calls back when one ends. What should happen is decided
elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from edgewright.containers import ContainersError
from edgewright.local.node.addresses import PodAddresses
from edgewright.local.node.folders import (
    KEPT_ATTEMPTS,
    PODMAN,
    Attempt,
    AttemptFolder,
    Exit,
    NodeFolder,
    PodFolder,
    PodRecord,
    State,
)
from edgewright.local.node.logfiles import last_lines
from edgewright.local.node.podman_runtime import PodmanRuntime
from edgewright.local.node.pods import Pod
from edgewright.local.node.processes import kill_session, open_process, send
from edgewright.runtime import logs
from edgewright.runtime.objects import Key, RawObject

MAX_MESSAGE = 4096
_MAX_FROM_LOG = 2048
_LINES_FROM_LOG = 80
_ASK_AGAIN_SECONDS = 2.0

_log = logs.get("local.node.runs")


@dataclass
class Run:
    """One Pod of this node."""

    record: PodRecord
    folder: PodFolder
    lost: bool = False
    """Whether the machine was started again since: what ran is gone."""
    volumes_made: float | None = None
    written: Pod | None = None
    """The Pod as the API server answered our last write of its status."""
    wrote: RawObject | None = None
    """That status, as we meant it."""
    kill_at: float | None = None
    removed: bool = False
    """Whether podman has nothing of it any more."""
    problems: dict[str, tuple[str, str]] = field(default_factory=dict)
    asked: set[tuple[str, int, signal.Signals]] = field(default_factory=set)
    """Which signals each attempt was sent already."""
    stopped_at: dict[tuple[str, int], datetime] = field(default_factory=dict)
    messages: dict[tuple[str, int], str] = field(default_factory=dict)

    def forget_old(self, name: str, latest: int) -> None:
        """Forgets all attempts to run a container but the latest two."""
        self.folder.forget_old(name, latest)
        kept = range(latest - KEPT_ATTEMPTS + 1, latest + 1)
        self.asked = {each for each in self.asked if each[0] != name or each[1] in kept}
        for known in (self.stopped_at, self.messages):
            for place in [place for place in known if place[0] == name and place[1] not in kept]:
                known.pop(place)

    @property
    def uid(self) -> str:
        """The Pod's."""
        return self.record.uid

    @property
    def key(self) -> Key:
        """The Pod's name."""
        return Key(self.record.namespace, self.record.name)


class Runs:
    """All Pods of this node by their uid."""

    def __init__(
        self,
        folder: NodeFolder,
        addresses: PodAddresses,
        *,
        boot: str,
        changed: Callable[[Key], None],
        podman: PodmanRuntime | None = None,
    ) -> None:
        self._folder = folder
        self._addresses = addresses
        self._boot = boot
        self._changed = changed
        self._runs: dict[str, Run] = {}
        self._watched: dict[tuple[str, str, int], int] = {}
        self._podman = podman
        self._asking: dict[tuple[str, str, int], asyncio.Task[None]] = {}
        """Where podman is asked how a container ended."""

    def find_again(self) -> None:
        """Reads the folders that an earlier node has left."""
        for folder in self._folder.pods():
            record = folder.record()
            if record is None:
                folder.remove()  # the node died while it made it: nothing was started
                continue
            if record.address:
                self._pool(record).keep(record.uid, record.address)
            run = self._runs[record.uid] = Run(record, folder, lost=record.boot != self._boot)
            _log.info("found a Pod started before the restart", pod=run.key, lost=run.lost)

    def __iter__(self) -> Iterator[Run]:
        """All of them, in a snapshot."""
        return iter(list(self._runs.values()))

    def get(self, uid: str) -> Run | None:
        """The run of a Pod, where it was taken in."""
        return self._runs.get(uid)

    def named(self, key: Key) -> list[Run]:
        """Those of this name: one, or an older one next to it that is on its way out."""
        return [run for run in self._runs.values() if run.key == key]

    def take_in(self, pod: Pod, record: PodRecord) -> Run:
        """Begins with a Pod: from now on its folder tells what became of it."""
        folder = self._folder.pod(pod.uid)
        folder.take_in(record)
        run = self._runs[pod.uid] = Run(record, folder)
        return run

    def forget(self, run: Run) -> None:
        """The Pod is gone for good, and so is its address; its folder is the caller's to remove."""
        for place in [place for place in self._watched if place[0] == run.uid]:
            self._unwatch(place)
        self._runs.pop(run.uid, None)
        self._pool(run.record).free(run.uid)

    def _pool(self, record: PodRecord) -> PodAddresses:
        if record.runtime == PODMAN and self._podman is not None:
            return self._podman.network.addresses
        return self._addresses

    def attempts(self, run: Run) -> dict[str, list[Attempt]]:
        """What has run, as the folders tell; one that ended without a word is written down as lost.

        An order that nobody has begun is called off: the node died before its shim began, or the shim did.
        """
        found = {name: run.folder.attempts(name) for name in run.folder.containers()}
        for name, attempts in found.items():
            while attempts and not attempts[0].begun:
                if not _call_off(run.folder.attempt(name, attempts[0].number)):
                    break
                del attempts[0]
            if attempts:
                attempts[0] = run.folder.attempt(name, attempts[0].number).read() or attempts[0]
            if attempts and attempts[0].running:
                attempts[0] = self._look_after(run, name, attempts[0])
        return found

    def _look_after(self, run: Run, name: str, attempt: Attempt) -> Attempt:
        """Makes sure that the end of an attempt will be heard; where it cannot be, writes down that it ended."""
        place = (run.uid, name, attempt.number)
        if place in self._watched:
            return attempt
        state = attempt.state
        assert state is not None  # noqa: S101 - it runs
        known = state.boot == self._boot and state.shim is not None
        watched = state.main if state.container else state.shim
        fd = open_process(watched) if known and watched else None
        if fd is not None:
            self._watched[place] = fd
            asyncio.get_running_loop().add_reader(fd, self._ended, place, run.key, state.shim.pid if state.shim else 0)
            return attempt
        folder = run.folder.attempt(name, attempt.number)
        again = folder.read()
        if again is not None and again.end is not None:
            return again  # it was written between the two looks
        if known and state.container and self._podman is not None:
            if place not in self._asking:
                asking = self._ask_for_end(self._podman, place, run.key, folder, state)
                self._asking[place] = asyncio.create_task(asking, name=f"end of {run.key} {name}")
            return attempt
        if known and state.main is not None and kill_session(state.main):
            _log.warning("container without its shim was killed", pod=run.key, container=name)
        folder.write_end(Exit(code=137, finished=time.time_ns(), started=state.started, lost=True))
        return folder.read() or attempt

    async def _ask_for_end(
        self, podman: PodmanRuntime, place: tuple[str, str, int], key: Key, folder: AttemptFolder, state: State
    ) -> None:
        """Writes down how a container of podman's ended, and lets podman forget it."""
        try:
            end = await podman.end_of(state)
            if folder.path.exists():
                folder.write_end(end)
            self._changed(key)
            await podman.remove_container(state)
        except (ContainersError, OSError) as error:
            _log.warning("podman does not say how a container ended", pod=key, error=str(error))
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
        finally:
            del self._asking[place]
        self._changed(key)  # only now: a pass that finds somebody asking would leave it to them

    def _ended(self, place: tuple[str, str, int], key: Key, shim: int) -> None:
        self._unwatch(place)
        with suppress(ChildProcessError):  # not our child: an earlier node's
            os.waitpid(shim, os.WNOHANG)
        self._changed(key)

    def _unwatch(self, place: tuple[str, str, int]) -> None:
        fd = self._watched.pop(place, None)
        if fd is not None:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)

    def signal(self, run: Run, name: str, attempt: Attempt, number: signal.Signals) -> bool:
        """Asks a container's shim to pass a signal on; once an attempt and signal. False where it was done before."""
        asked = (name, attempt.number, number)
        fd = self._watched.get((run.uid, name, attempt.number))
        if asked in run.asked or fd is None:
            return False
        run.asked.add(asked)
        state = attempt.state
        if state is not None and state.container:  # what is watched is the program itself
            number = signal.SIGKILL if number == signal.SIGUSR1 else signal.Signals(state.stop)
        send(fd, number)
        return True

    def reap(self, pid: int) -> None:
        """Takes note of a shim that ended before anybody watched it."""
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

    def close(self) -> None:
        """Stops watching; what runs goes on running."""
        for place in list(self._watched):
            self._unwatch(place)
        for task in self._asking.values():
            task.cancel()


def _call_off(place: AttemptFolder) -> bool:
    """Makes sure that an attempt never begins, and removes it; False where it has begun after all."""
    attempt = place.read()
    if attempt is not None and attempt.begun:
        return False
    if not place.call_off() and (attempt is None or attempt.state is None):
        return False  # its shim was faster, just now
    place.remove()
    return True


def read_message(run: Run, container: RawObject, attempt: Attempt) -> str:
    """What a container said at its end: in its file, or in the last lines of its log where it asked for that."""
    known = (container["name"], attempt.number)
    if known not in run.messages:
        folder = run.folder.attempt(*known)
        text = ""
        with suppress(OSError), folder.message_file.open("rb") as file:
            text = file.read(MAX_MESSAGE).decode("utf-8", "replace")
        failed = attempt.end is not None and attempt.end.code != 0 and not attempt.end.error
        if not text and failed and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = last_lines(folder.log, lines=_LINES_FROM_LOG, limit=_MAX_FROM_LOG)
        run.messages[known] = text
    return run.messages[known]
