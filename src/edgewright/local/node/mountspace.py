"""A root of its own for one container: what the machine has, with the Pod's volumes at their mount paths.

There is no image with a root of its own here, so a private mount namespace gets a new root in a small tmpfs in which
every entry of the machine's root appears by a bind mount. Where a mount path does not exist, the folder that should
hold it is unfolded in the same way, entry by entry, and the path is made in the tmpfs: nothing is ever created on the
machine. Folders that a Pod must not see are covered; programs in folders that its user may not enter are shown alone.
Where the kernel allows it a container has a process table of its own too, and a /proc that shows nothing else. Ordinary
users get the same in a user namespace of their own. The shim calls `enter` in the child; it never undoes anything,
because the namespace goes with its last process. It imports little, because the init of each container keeps it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NEW_MOUNTS, _NEW_NAME, _NEW_USER, _NEW_PROCESSES = 0x00020000, 0x04000000, 0x10000000, 0x20000000
_NEW_NETWORK = 0x40000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_REMOUNT, _BIND, _MOVE, _RECURSIVE, _UNBINDABLE, _PRIVATE = 32, 4096, 8192, 16384, 1 << 17, 1 << 18
_DETACH = 2
_MAX_ENTRIES = 4096

_libc = ctypes.CDLL(None, use_errno=True)


class Unmountable(OSError):
    """Something could not be mounted; the message says what and where."""


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """The system call, with an error that names what was mounted where."""
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode() or None
    )
    if result != 0:
        number = ctypes.get_errno()
        raise Unmountable(number, f"cannot mount {source} at {target}: {os.strerror(number)}")


def leave_the_machines_processes() -> None:
    """Lets the next child be the first process of a new table; as an ordinary user, inside a user namespace."""
    _leave(_NEW_PROCESSES, "PID", user=os.getuid() != 0)


def join_network(path: str) -> None:
    """Leaves the machine's network for another, which a file of /proc stands for."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if _libc.setns(fd, _NEW_NETWORK) != 0:
        number = ctypes.get_errno()
        raise Unmountable(number, f"cannot join the network {path}: {os.strerror(number)}")
    os.close(fd)


def leave_the_machines_mounts(*, user: bool) -> None:
    """Gets a mount namespace whose changes nobody else sees; with `user`, inside a new user namespace."""
    _leave(_NEW_MOUNTS, "mount", user=user)
    mount("none", "/", "", _RECURSIVE | _PRIVATE)


def _leave(namespaces: int, name: str, *, user: bool) -> None:
    """Leaves namespaces of the machine; in a new user namespace one stays who one is."""
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(namespaces | (_NEW_USER if user else 0)) != 0:
        number = ctypes.get_errno()
        raise Unmountable(number, f"cannot make a {name} namespace: {os.strerror(number)}")
    if user:
        for file_name, content in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{file_name}", "w") as file:  # noqa: PTH123
                file.write(content)


def take_name(name: str) -> None:
    """Gives this process and all that it starts a host name of their own; the machine keeps its own."""
    if _libc.unshare(_NEW_NAME) != 0 or _libc.sethostname(os.fsencode(name), len(os.fsencode(name))) != 0:
        number = ctypes.get_errno()
        raise Unmountable(number, f"cannot have a host name of its own: {os.strerror(number)}")


class Root:
    """The new root while it is built, as a tree of bind mounts below `base`; `machine` is where the old one lies."""

    def __init__(self, base: str, *, machine: str = "") -> None:
        self._base = base
        self._machine = machine
        self._own: set[str] = set()  # folders that are our own, in the tmpfs
        self._volumes: list[str] = []  # where something of the Pod's is mounted already
        mount("tmpfs", base, "tmpfs", _NO_SUID, "mode=0755,size=4m")
        mount("none", base, "", _UNBINDABLE)  # else it would appear once more below each folder that holds it
        self._unfold("/")

    def at(self, path: str) -> str:
        """Where a path of the new root lies now."""
        return self._base + path if path != "/" else self._base

    def make_place(self, path: str, *, folder: bool) -> str:
        """Makes sure that something can be mounted at a path, and says where it lies now."""
        for volume in reversed(self._volumes):
            if path.startswith(f"{volume}/"):
                return _make_inside(self.at(volume), path.removeprefix(f"{volume}/"), folder=folder)
        parent, name = os.path.split(path)
        if name and not os.path.lexists(self.at(path)):
            self._make_own(parent)
            _create(self.at(path), folder=folder)
        return self.at(path)

    def bind(self, source: str, path: str, *, read_only: bool, inside: str = "") -> None:
        """Shows a file or folder of the machine at a path; `inside` names what is meant in a folder that Pods write."""
        source = _open_inside(source, inside) if inside else source
        mount(source, self.make_place(path, folder=os.path.isdir(source)), "", _BIND | _RECURSIVE)  # noqa: PTH112
        self._volumes.append(path)
        if read_only:
            flags = _BIND | _REMOUNT | _READ_ONLY | _NO_SUID
            try:
                mount("none", self.at(path), "", flags | _NO_DEVICES)
            except Unmountable:
                mount("none", self.at(path), "", _BIND | _REMOUNT | _READ_ONLY)

    def cover(self, path: str) -> None:
        """Puts an empty folder in the place of one that is not to be seen."""
        if os.path.isdir(self.at(path)):  # noqa: PTH112
            mount("tmpfs", self.at(path), "tmpfs", _READ_ONLY | _NO_SUID, "mode=0555,size=4k")

    def show_own_processes(self) -> None:
        """Shows a container the processes of its own namespace, which this process must be in."""
        mount("proc", self.at("/proc"), "proc", _NO_SUID | _NO_DEVICES | _NO_PROGRAMS)

    def hide_processes_of_others(self) -> None:
        """Shows a container those processes only that are its user's; where the kernel or an old one says no, all."""
        flags = _NO_SUID | _NO_DEVICES | _NO_PROGRAMS
        for options in ("hidepid=invisible", "hidepid=2"):
            try:
                mount("proc", self.at("/proc"), "proc", flags, options)
            except Unmountable:
                continue
            return

    def show_alone(self, path: str) -> None:
        """Shows a folder or file that lies in folders which strangers may not enter: those hold nothing else then."""
        closed = [at for at in _ancestors(path) if not os.stat(f"{self._machine}{at}").st_mode & stat.S_IXOTH]  # noqa: PTH116
        if not closed or closed[0] == "/":
            return
        outermost = closed[0]
        if outermost not in self._own:
            self._make_own(os.path.dirname(outermost))  # noqa: PTH120
            _libc.umount2(os.fsencode(self.at(outermost)), _DETACH)
            self._own.add(outermost)
        at = outermost
        for name in os.path.relpath(path, outermost).split("/"):
            at = f"{at}/{name}"
            if not os.path.lexists(self.at(at)):
                folder = at != path or os.path.isdir(f"{self._machine}{path}")  # noqa: PTH112
                _create(self.at(at), folder=folder)
                self._own.add(at)
        mount(f"{self._machine}{path}", self.at(path), "", _BIND | _RECURSIVE)

    def move_in(self) -> None:
        """Makes it the root of this process and of all that it starts."""
        os.chdir(self._base)
        mount(self._base, "/", "", _MOVE)
        os.chroot(".")
        os.chdir("/")

    def _make_own(self, path: str) -> None:
        """Makes a folder and all above it our own, with what the machine has in them."""
        for at in (*_ancestors(path), path):
            if at in self._own:
                continue
            if os.path.lexists(self.at(at)):
                _libc.umount2(os.fsencode(self.at(at)), _DETACH)
                self._unfold(at)
            else:
                _create(self.at(at), folder=True)
                self._own.add(at)

    def _unfold(self, path: str) -> None:
        names = os.listdir(f"{self._machine}{path}")  # noqa: PTH208
        if len(names) > _MAX_ENTRIES:
            raise Unmountable(0, f"cannot make a mount point in {path}: it has more than {_MAX_ENTRIES} entries")
        self._own.add(path)
        for name in names:
            place = f"{path.rstrip('/')}/{name}"
            source, target = f"{self._machine}{place}", self.at(place)
            try:
                mode = os.lstat(source).st_mode
                if stat.S_ISLNK(mode):
                    os.symlink(os.readlink(source), target)  # noqa: PTH115, PTH211
                    continue
                _create(target, folder=stat.S_ISDIR(mode))
                mount(source, target, "", _BIND | _RECURSIVE)
            except FileNotFoundError:
                continue  # it went meanwhile


def _open_inside(volume: str, path: str) -> str:
    """What is at a path in a volume, by a descriptor: a Pod that changes the path meanwhile changes nothing here."""
    fd = os.open(volume, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in path.split("/"):
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=fd)
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    except OSError as error:
        raise Unmountable(error.errno, f"cannot mount {path} of a volume: {error.strerror}") from None
    return f"/proc/self/fd/{fd}"  # it is closed with the others when the program begins


def _make_inside(volume: str, path: str, *, folder: bool) -> str:
    """Makes a place inside a volume, as a path by which the kernel finds it again.

    A Pod can put links into its volumes: none is followed, or they would lead the node anywhere on the machine.
    """
    fd = os.open(volume, os.O_RDONLY | os.O_DIRECTORY)
    *above, last = path.split("/")
    try:
        for name in (*above, *([last] if folder else [])):
            try:  # noqa: SIM105 - contextlib would cost each container its size
                os.mkdir(name, 0o755, dir_fd=fd)
            except FileExistsError:
                pass
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        if not folder:
            fd = os.open(last, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644, dir_fd=fd)
    except OSError as error:
        raise Unmountable(error.errno, f"cannot make {path} in a volume: {error.strerror}") from None
    return f"/proc/self/fd/{fd}"  # it is closed with the others when the program begins


def _ancestors(path: str) -> list[str]:
    """Every folder above a path, the root first."""
    found = []
    while path != "/":
        path = os.path.dirname(path)  # noqa: PTH120
        found.append(path)
    return found[::-1]


def _create(path: str, *, folder: bool) -> None:
    if folder:
        os.mkdir(path, 0o755)  # noqa: PTH102
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def enter(wanted: dict[str, Any]) -> None:
    """Leaves the machine's mounts for a root with what is wanted in it.

    `base` is an empty folder to build in; `hostname` is what the machine is to be called, where it is given;
    `processes` says that this process is the first of a new table, and an ordinary user's in a new user namespace;
    `shown` are programs' folders and files, `covered` what must not be seen, and `mounts` are what goes where: source,
    path, readOnly. Mounts come in the order of their paths' length, so that one may lie inside another.
    """
    own_processes = wanted.get("processes", False)
    leave_the_machines_mounts(user=os.getuid() != 0 and not own_processes)
    if wanted.get("hostname"):
        take_name(wanted["hostname"])
    root = Root(wanted["base"])
    for path in wanted.get("shown", ()):
        root.show_alone(path)
    for each in sorted(wanted["mounts"], key=lambda each: len(each["path"])):
        # Symbolic links of the machine (/var/run, say) count in mount paths, as they do in a container's image.
        target = os.path.realpath(each["path"])
        root.bind(each["source"], target, read_only=each["readOnly"], inside=each.get("inside", ""))
    for path in wanted.get("covered", ()):
        root.cover(path)  # last: to unfold what lies around it would uncover it
    if own_processes:
        root.show_own_processes()
    else:
        root.hide_processes_of_others()
    root.move_in()
