"""The small program next to each container: it starts the process, keeps its output and notes how it ended.

The node starts it as `python -I -S shim.py FOLDER` and may die, restart or be replaced meanwhile: all that matters is
in the folder. `order.json` says what to run; `state.json` is made once, before the program is let go, and names both
processes by pid and start time, so whoever creates it first (the node creates one to call an order off) decides whether
it runs at all; `exit.json` tells the end; `log` holds the output as the container runtimes of Kubernetes write it. It
uses the standard library only and little of it, because there is one for every container. SIGTERM is passed on to the
program, SIGUSR1 kills all that it started. Its child is the program, or where the container has processes of its own
their init, which starts the program and tells how that ended. Where the order says so the shim is asked before the
program binds an address (`bind_supervisor`).
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module `typing` would cost every container most of a megabyte
    from typing import Any, NoReturn

MAX_LINE = 16 << 10
_CHUNK = 64 << 10
_LAST_WORDS_SECONDS = 5.0


def start_time(pid: int) -> int:
    """When a process began, in ticks since the boot: the 22nd field of its stat, counted behind its name."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib would cost each container a megabyte
        return int(file.read().rpartition(b")")[2].split()[19])


def write_once(folder: str, name: str, content: dict[str, Any], *, first: bool) -> bool:
    """Writes a file whole or not at all; with `first` it says False where the file is there already."""
    path, draft = f"{folder}/{name}", f"{folder}/.{name}.{os.getpid()}"
    with open(draft, "w") as file:  # noqa: PTH123
        json.dump(content, file)
    if not first:
        os.rename(draft, path)  # noqa: PTH104
        return True
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)  # noqa: PTH108
    return True


class Log:
    """The output of one container in a file of bounded size; the one before it is kept as `log.1`."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._rest = {"stdout": b"", "stderr": b""}
        self._file = self._open()
        self._size = os.fstat(self._file).st_size

    def take(self, stream: str, data: bytes) -> None:
        """Writes the lines that are complete, and a line that is too long in parts."""
        stamp = _stamp()
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        out = [entry for line in lines for entry in _entries(stamp, stream, line)]
        while len(rest) >= MAX_LINE:
            out.append(_entry(stamp, stream, "P", rest[:MAX_LINE]))
            rest = rest[MAX_LINE:]
        self._rest[stream] = rest
        self._write(b"".join(out))

    def close(self) -> None:
        """Writes what had no newline at its end."""
        for stream, rest in self._rest.items():
            if rest:
                self._write(_entry(_stamp(), stream, "F", rest))
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        try:
            if self._size and self._size + len(data) > self._limit:
                os.rename(self._path, f"{self._path}.1")  # noqa: PTH104
                os.close(self._file)
                self._file, self._size = self._open(), 0
            while data:
                written = os.write(self._file, data)
                self._size += written
                data = data[written:]
        except OSError:
            return  # a full disk costs the log some lines, never the program its life

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _entries(stamp: str, stream: str, line: bytes) -> list[bytes]:
    parts = [line[at : at + MAX_LINE] for at in range(0, len(line), MAX_LINE)] or [b""]
    return [_entry(stamp, stream, "P" if part is not parts[-1] else "F", part) for part in parts]


def _entry(stamp: str, stream: str, tag: str, line: bytes) -> bytes:
    return f"{stamp} {stream} {tag} ".encode() + line + b"\n"


def _stamp() -> str:
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


class Container:
    """One program and everything that it starts."""

    def __init__(self, folder: str, order: dict[str, Any]) -> None:
        self._folder = folder
        self._order = order
        self._main = 0
        self._asked: set[int] = set()
        self._started = 0
        self._pipes: dict[int, str] = {}
        self._wake = -1
        self._binds: tuple[int, Any] | None = None
        """Where the program asks before it binds an address, and who answers."""

    def run(self) -> None:
        """Starts the program, follows it to its end and writes that down."""
        self._wake = self._listen_to_signals()
        _adopt_orphans()
        go_reader, go = os.pipe()
        problem_reader, problem = os.pipe()
        out_reader, out = os.pipe()
        err_reader, err = os.pipe()
        ended_reader, ended = os.pipe()
        if _has_processes_of_its_own(self._order):
            _find_neighbours()
            import mountspace  # type: ignore[import-not-found]  # noqa: PLC0415 - by its file's name: no package here

            mountspace.leave_the_machines_processes()
        ours, theirs = _bind_channel(self._order)
        self._main = os.fork()
        if not self._main:
            os.close(go)
            _run_program(self._order, go_reader, problem, stdout=out, stderr=err, ended=ended, binds=theirs)
        for each in (go_reader, problem, out, err, ended):
            os.close(each)
        if theirs is not None:
            theirs.close()
        self._pipes = {out_reader: "stdout", err_reader: "stderr"}
        self._started = time.time_ns()
        if not write_once(self._folder, "state.json", self._state(), first=True):
            os.close(go)  # called off: the child ends without having run anything
            os.waitpid(self._main, 0)
            return
        os.write(go, b"g")
        os.close(go)
        failure = _read_all(problem_reader)
        self._binds = _supervised(self._order, ours)
        # Tells the node, where it is still there to hear it, that the program runs or could not be run.
        os.dup2(0, 1)
        log = Log(f"{self._folder}/log", int(self._order.get("logLimit", 10 << 20)))
        status = self._follow(log)
        log.close()
        told = _read_all(ended_reader)  # by an init, of the program; without one the child was the program itself
        status = int(told) if told else status
        end: dict[str, Any] = {"started": self._started, "finished": time.time_ns()}
        if failure:
            end.update(code=128, error=failure.decode("utf-8", "replace"))
        elif os.WIFSIGNALED(status):
            end.update(code=128 + os.WTERMSIG(status), signal=os.WTERMSIG(status))
        else:
            end.update(code=os.WEXITSTATUS(status))
        write_once(self._folder, "exit.json", end, first=False)

    def _listen_to_signals(self) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda given, _frame: self._asked.add(given))
        signal.signal(signal.SIGCHLD, lambda _given, _frame: None)
        return reader

    def _state(self) -> dict[str, Any]:
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
            boot = file.read().strip()
        shim, main = os.getpid(), self._main
        return {
            "boot": boot,
            "shim": {"pid": shim, "start": start_time(shim)},
            "main": {"pid": main, "start": start_time(main)},
            "started": self._started,
        }

    def _follow(self, log: Log) -> int:
        """Copies the output until the program has ended; then ends what it left behind, and takes the last lines."""
        poll = select.poll()
        for end in (*self._pipes, self._wake):
            os.set_blocking(end, False)
            poll.register(end, select.POLLIN)
        if self._binds is not None:
            poll.register(self._binds[0], select.POLLIN)
        while True:
            status = self._reap()
            if status is not None:
                break
            self._pass_on()
            for end, events in poll.poll():
                if end == self._wake:
                    os.read(end, 4096)
                elif self._binds is not None and end == self._binds[0]:
                    if events & select.POLLIN:
                        self._binds[1].answer()
                    else:
                        poll.unregister(end)  # nobody is left who could ask
                elif not self._copy(end, log):
                    poll.unregister(end)
                    del self._pipes[end]
                    os.close(end)
        self._end_the_rest()
        for end in self._pipes:
            while self._copy(end, log):
                pass
        return status

    def _copy(self, end: int, log: Log) -> bool:
        try:
            data = os.read(end, _CHUNK)
        except BlockingIOError:
            return self._main != 0
        log.take(self._pipes[end], data)
        return bool(data)

    def _pass_on(self) -> None:
        # The program has not been reaped, so its pid is its own still and cannot be anybody else's.
        if signal.SIGTERM in self._asked:
            self._asked.discard(signal.SIGTERM)
            os.kill(self._main, int(self._order.get("stopSignal", signal.SIGTERM)))
        if signal.SIGUSR1 in self._asked:
            self._asked.discard(signal.SIGUSR1)
            _kill_group(self._main)
            os.kill(self._main, signal.SIGKILL)

    def _reap(self) -> int | None:
        """Takes note of every process that ended; how the program itself ended, once it has."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return 0
            if ended is None:
                return None
            if ended.si_pid == self._main:
                _kill_group(self._main)  # before its pid is given back
                status = os.waitpid(self._main, 0)[1]
                self._main = 0
                return status
            os.waitpid(ended.si_pid, 0)

    def _end_the_rest(self) -> None:
        """Kills what has left the program's process group: a subreaper inherits it, generation by generation."""
        until = time.monotonic() + _LAST_WORDS_SECONDS
        while time.monotonic() < until:
            left = _children()
            if not left:
                return
            for pid in left:
                os.kill(pid, signal.SIGKILL)  # ours, and not reaped: the pid is its own
            for pid in left:
                os.waitpid(pid, 0)


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []  # a kernel without this file: what left the group lives on


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # it had not made the group yet, or nobody of it is left


def _read_all(reader: int) -> bytes:
    parts = []
    while part := os.read(reader, _CHUNK):
        parts.append(part)
    os.close(reader)
    return b"".join(parts)


def _adopt_orphans() -> None:
    import ctypes  # noqa: PLC0415 - loaded by those two that need it

    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _has_processes_of_its_own(order: dict[str, Any]) -> bool:
    return bool((order.get("root") or {}).get("processes"))


def _find_neighbours() -> None:
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    if here not in sys.path:
        sys.path.append(here)


def _bind_channel(order: dict[str, Any]) -> tuple[Any, Any]:
    """The two ends over which a program lets the shim answer its binds, where it is to."""
    if not order.get("binds"):
        return None, None
    _find_neighbours()
    import bind_supervisor  # type: ignore[import-not-found]  # noqa: PLC0415

    ends: tuple[Any, Any] = bind_supervisor.channel()
    return ends


def _supervised(order: dict[str, Any], channel: Any) -> tuple[int, Any] | None:
    if channel is None:
        return None
    import bind_supervisor  # noqa: PLC0415

    listener = bind_supervisor.receive(channel)
    if listener is None:
        return None
    return listener, bind_supervisor.BindSupervisor(listener, order["binds"]["address"], order["binds"]["ports"])


def _run_program(
    order: dict[str, Any], go: int, problem: int, *, stdout: int, stderr: int, ended: int, binds: Any = None
) -> NoReturn:
    """The child: waits until it may, becomes what was ordered, and never returns."""
    code = 128
    try:
        if os.read(go, 1) == b"g":
            become(order, stdout=stdout, stderr=stderr, ended=ended, binds=binds)
        else:
            code = 0
    except BaseException as error:  # whatever it is, the container could not be started and the node is told why
        os.write(problem, str(error).encode("utf-8", "replace")[:4096])
    os._exit(code)


def become(order: dict[str, Any], *, stdout: int, stderr: int, ended: int, binds: Any = None) -> None:
    """Turns this process into the ordered program: session, signals, root, user, folder, environment.

    Where the container has processes of its own this one becomes their init, and a child of it the program. With
    `binds`, an end of a channel, whoever has the other end is asked before the program binds an address.
    """
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and a new program would inherit it
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    if order.get("network"):
        _find_neighbours()
        import mountspace  # noqa: PLC0415

        mountspace.join_network(order["network"])
    if order.get("root") is not None:
        _find_neighbours()
        import container_init  # type: ignore[import-not-found]  # noqa: PLC0415 - now: the Pod's user may not read it
        import mountspace  # noqa: PLC0415

        mountspace.enter(order["root"])
    environment = order["environment"] | _handed_over(order.get("told", {}))
    user = order.get("user")
    if user is not None:
        os.setgroups(user["groups"])
        os.setgid(user["gid"])
        os.setuid(user["uid"])
    _forbid_new_privileges()
    if binds is not None:
        import bind_supervisor  # noqa: PLC0415 - it is there since before the fork

        bind_supervisor.submit(binds)
    if _has_processes_of_its_own(order):
        container_init.fork_program(int(order.get("stopSignal", signal.SIGTERM)), ended)
    os.chdir(order["folder"])
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.execvpe(order["command"][0], order["command"], environment)  # noqa: S606 - that is what it is for


def _handed_over(places: dict[str, str]) -> dict[str, str]:
    """Opens files and folders for the program, and says by their variables where it finds them.

    By descriptors, because whoever it runs as may not enter the folders that they lie in.
    """
    opened = {path: os.open(path, os.O_PATH) for path in set(places.values())}
    for fd in opened.values():
        os.set_inheritable(fd, True)
    return {variable: f"/proc/self/fd/{opened[path]}" for variable, path in places.items()}


def _forbid_new_privileges() -> None:
    import ctypes  # noqa: PLC0415

    set_no_new_privileges = 38
    ctypes.CDLL(None).prctl(set_no_new_privileges, 1, 0, 0, 0)


def main(folder: str) -> None:
    """Carries out the order in a folder."""
    os.setsid()
    with open(f"{folder}/order.json") as file:  # noqa: PTH123
        order = json.load(file)
    Container(folder, order).run()


if __name__ == "__main__":
    main(sys.argv[1])
