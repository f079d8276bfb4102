"""What the node keeps on disk of each Pod: a folder per Pod, in it one per container, in it one per attempt to run it.

The folder is the truth about what has run: it is written before anything is started, read when the node starts, and
survives both the node and the API server. Files are replaced whole, never changed. Reading and writing of folders only:
processes are `processes`, and what to do is decided in `lifecycle`.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from edgewright.local.directory_lock import Taken, lock
from edgewright.local.node.processes import Identity
from edgewright.runtime.objects import Struct

S = TypeVar("S", bound=msgspec.Struct)

PROCESS, PODMAN = "process", "podman"
"""Who runs the containers of a Pod: this machine itself, or podman."""
KEPT_ATTEMPTS = 2
"""The one that runs and the one before it, whose log `kubectl logs --previous` shows."""


class PodRecord(Struct, frozen=True, gc=False, kw_only=True):
    """What was decided about a Pod when it was taken in, for ever the same."""

    uid: str
    namespace: str
    name: str
    boot: str
    taken_in: datetime
    address: str = ""
    grace: int = 30
    user: int = 0
    """The id of the user and the group that are this Pod's own; 0: it runs as the node itself."""
    runtime: str = PROCESS
    """Who runs its containers."""


class State(Struct, frozen=True, gc=False, kw_only=True):
    """That an attempt began: who runs it. Without processes it was called off before it did."""

    boot: str = ""
    shim: Identity | None = None
    main: Identity | None = None
    started: int = 0
    container: str = ""
    """What podman calls it, where podman runs it: `shim` is the process that podman has next to it."""
    stop: int = 15
    """The signal by which podman's container is asked to end."""


class Exit(Struct, frozen=True, gc=False, kw_only=True):
    """How an attempt ended."""

    code: int
    finished: int
    started: int = 0
    signal: int = 0
    error: str = ""
    lost: bool = False
    out_of_memory: bool = False


class Attempt(Struct, frozen=True, gc=False, kw_only=True):
    """One attempt to run a container, as its folder tells: it waits for its state, runs, or has an end."""

    number: int
    step: int = 0
    image: str = ""
    state: State | None = None
    end: Exit | None = None

    @property
    def begun(self) -> bool:
        """Whether a shim has taken the order, so that nobody else can call it off."""
        return self.end is not None or (self.state is not None and self.state.main is not None)

    @property
    def running(self) -> bool:
        """Whether it began and nobody has written down its end."""
        return self.begun and self.end is None

    @property
    def started_at(self) -> datetime | None:
        """When it began."""
        begun = self.state.started if self.state and self.state.started else self.end.started if self.end else 0
        return moment(begun) if begun else None

    @property
    def finished_at(self) -> datetime | None:
        """When it ended."""
        return moment(self.end.finished) if self.end else None


def moment(nanoseconds: int) -> datetime:
    """A time as the shim writes it."""
    return datetime.fromtimestamp(nanoseconds / 1_000_000_000, UTC)


def write_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Puts a file in its place, whole."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.chmod(mode)
    draft.rename(path)


def _read(path: Path, kind: type[S]) -> S | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


class AttemptFolder:
    """The folder of one attempt to run a container."""

    scratch = {"tmp": "/tmp", "var-tmp": "/var/tmp"}  # noqa: S108 - where a container sees folders of its own
    """Folders for what a program writes next to its volumes, each new for every attempt, and where it finds them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def log(self) -> Path:
        """The output of the container."""
        return self.path / "log"

    @property
    def message_file(self) -> Path:
        """What the program finds at its terminationMessagePath."""
        return self.path / "message"

    def prepare(self, order: dict[str, Any]) -> None:
        """Writes the order that the shim carries out, and all that it needs: there as a whole, or not at all."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for draft in self.path.parent.glob(".*"):
            shutil.rmtree(draft, ignore_errors=True)  # a node that died here has left it
        draft = self.path.with_name(f".{self.path.name}")
        draft.mkdir(mode=0o700)
        (draft / "base").mkdir(mode=0o700)
        for name in self.scratch:
            (draft / name).mkdir()
            (draft / name).chmod(0o1777)
        message = draft / self.message_file.name
        message.touch()
        message.chmod(0o666)
        write_file(draft / "order.json", msgspec.json.encode(order))
        draft.rename(self.path)

    def begin(self, state: State) -> None:
        """Writes down who runs it, before that is let go."""
        write_file(self.path / "state.json", msgspec.json.encode(state))

    def call_off(self) -> bool:
        """Makes sure that an order which has not begun never will; False where it has begun."""
        draft = self.path / f".off.{os.getpid()}"
        draft.write_bytes(b"{}")
        try:
            os.link(draft, self.path / "state.json")
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def said(self) -> str:
        """The last line of what the shim itself complained of."""
        try:
            lines = (self.path / "shim.err").read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""

    def remove(self) -> None:
        """Removes everything of the attempt: for those who look it is gone at once."""
        gone = self.path.with_name(f".{self.path.name}.gone")
        shutil.rmtree(gone, ignore_errors=True)
        with suppress(FileNotFoundError):
            self.path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def write_end(self, end: Exit) -> None:
        """Writes down an end that the shim could not write any more."""
        write_file(self.path / "exit.json", msgspec.json.encode(end))

    def read(self) -> Attempt | None:
        """What the folder tells; None where it was not even prepared."""
        order = _read(self.path / "order.json", _Order)
        if order is None:
            return None
        return Attempt(
            number=int(self.path.name),
            step=order.step,
            image=order.image,
            state=_read(self.path / "state.json", State),
            end=_read(self.path / "exit.json", Exit),
        )


class _Order(Struct, frozen=True, gc=False, kw_only=True):
    step: int = 0
    image: str = ""


class PodFolder:
    """The folder of one Pod."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def take_in(self, record: PodRecord) -> None:
        """Makes the folder of a Pod that this node will run."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self.path / "pod.json", msgspec.json.encode(record))

    def record(self) -> PodRecord | None:
        """What was decided when the Pod was taken in."""
        return _read(self.path / "pod.json", PodRecord)

    @property
    def volumes(self) -> Path:
        """Where its volumes lie."""
        return self.path / "volumes"

    @property
    def hosts(self) -> Path:
        """Its hosts file."""
        return self.path / "hosts"

    def attempt(self, container: str, number: int) -> AttemptFolder:
        """The folder of an attempt, there or not."""
        return AttemptFolder(self.path / "containers" / container / str(number))

    def attempts(self, container: str) -> list[Attempt]:
        """All that is kept of a container's attempts, the latest first."""
        folder = self.path / "containers" / container
        try:
            numbers = sorted((int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()), reverse=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = (AttemptFolder(folder / str(number)).read() for number in numbers)
        return [attempt for attempt in found if attempt is not None]

    def containers(self) -> list[str]:
        """The containers of which anything has run."""
        with suppress(FileNotFoundError):
            return sorted(entry.name for entry in (self.path / "containers").iterdir())
        return []

    def forget_old(self, container: str, latest: int) -> None:
        """Removes all attempts but the latest two."""
        folder = self.path / "containers" / container
        with suppress(FileNotFoundError):
            for entry in folder.iterdir():
                if entry.name.isdigit() and int(entry.name) <= latest - KEPT_ATTEMPTS:
                    AttemptFolder(entry).remove()

    def remove(self) -> None:
        """Removes everything; what a Pod wrote into its volumes goes with it."""
        # First a rename: a folder without its record is no Pod any more, however far the removal gets.
        gone = self.path.with_name(f".{self.path.name}.gone")
        with suppress(FileNotFoundError):
            self.path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


class FolderTaken(Exception):
    """Another node is at work in the folder."""


class NodeFolder:
    """The folder of the node: closed to everybody else."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._lock: int | None = None

    def open(self) -> None:
        """Makes it, closes it to others, and removes what an earlier node did not get to remove."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        try:
            self._lock = lock(self.path / "lock")
        except Taken:
            raise FolderTaken(
                f"another node works with {self.path}: stop it, or give this one another folder"
            ) from None
        (self.path / "pods").mkdir(mode=0o700, exist_ok=True)
        for entry in (self.path / "pods").iterdir():
            if entry.name.endswith(".gone"):
                shutil.rmtree(entry, ignore_errors=True)

    def close(self) -> None:
        """Lets another node have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def pod(self, uid: str) -> PodFolder:
        """The folder of a Pod, there or not."""
        if not uid or "/" in uid or uid.startswith("."):
            raise ValueError(f"{uid!r} is not the uid of a Pod")
        return PodFolder(self.path / "pods" / uid)

    def pods(self) -> list[PodFolder]:
        """The folders of all Pods."""
        return [
            PodFolder(entry)
            for entry in sorted((self.path / "pods").iterdir())
            if entry.is_dir() and not entry.name.startswith(".")
        ]
