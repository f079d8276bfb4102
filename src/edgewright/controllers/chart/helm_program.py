"""The program of the child process: Helm as a library, asked by one JSON line each and answering in one.

`helm.HelmProcess` starts it as `…/bin/helm`, because Helm names its field manager after the program. It is outside the
fence of the lease, so it has one of its own: a kernel timer that ends it when the lease is over, unless it is told of a
renewal; and it dies with its parent. It never decides anything.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

WORKERS: Final = 4
"""How many actions run at once."""

_PR_SET_PDEATHSIG: Final = 1
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MAX_CONNECTIONS: Final = 64
_SOON: Final = 1e-3
_BROKEN: Final = ("unreachable", "recovered panic")

Request: TypeAlias = Mapping[str, Any]


class Library(Protocol):
    """What is used of Helm: a call by name with JSON options, as its C interface has it."""

    def connect(self, options: Mapping[str, Any]) -> Any:
        """A connection to the cluster for one namespace."""

    def install(self, connection: Any, request: Request, options: Mapping[str, Any]) -> dict[str, Any]:
        """Makes a release, or says what it would be."""

    def upgrade(self, connection: Any, request: Request, options: Mapping[str, Any]) -> None:
        """Makes a release's next revision."""

    def uninstall(self, connection: Any, name: str, options: Mapping[str, Any]) -> None:
        """Removes a release and what belongs to it."""

    def rollback(self, connection: Any, name: str, options: Mapping[str, Any]) -> None:
        """Makes a release what an earlier revision was."""

    def test(self, connection: Any, name: str, options: Mapping[str, Any]) -> None:
        """Runs a release's tests."""

    def render(self, request: Request, options: Mapping[str, Any]) -> dict[str, str]:
        """The chart's templates, by name, without a cluster."""

    def fetch(self, request: Request, options: Mapping[str, Any]) -> None:
        """Puts a chart into a folder: unpacked from an archive, which may have to be downloaded, or a new one."""


class HelmLibrary:
    """The real one. Options that its Python methods lack go through its C interface."""

    def __init__(self) -> None:
        self._helm = import_module("helm_python")
        self._native = import_module("helm_python._native")

    def connect(self, options: Mapping[str, Any]) -> Any:
        """A connection to the cluster for one namespace."""
        return self._helm.Config(**options)

    def install(self, connection: Any, request: Request, options: Mapping[str, Any]) -> dict[str, Any]:
        """Makes a release, or says what it would be."""
        return self._act("helm_install", connection, request, options)

    def upgrade(self, connection: Any, request: Request, options: Mapping[str, Any]) -> None:
        """Makes a release's next revision."""
        self._act("helm_upgrade", connection, request, options)

    def uninstall(self, connection: Any, name: str, options: Mapping[str, Any]) -> None:
        """Removes a release and what belongs to it."""
        self._native.call_string("helm_uninstall", connection._raw(), name, json.dumps(options))  # noqa: SLF001

    def rollback(self, connection: Any, name: str, options: Mapping[str, Any]) -> None:
        """Makes a release what an earlier revision was."""
        self._native.call_status("helm_rollback", connection._raw(), name, json.dumps(options))  # noqa: SLF001

    def test(self, connection: Any, name: str, options: Mapping[str, Any]) -> None:
        """Runs a release's tests."""
        self._native.call_string("helm_test_run", connection._raw(), name, json.dumps(options))  # noqa: SLF001

    def render(self, request: Request, options: Mapping[str, Any]) -> dict[str, str]:
        """The chart's templates, by name, without a cluster."""
        with self._helm.Chart.load(request["chart"]) as chart:
            text = self._native.call_string(
                "helm_render",
                chart._raw(),  # noqa: SLF001
                json.dumps(request["values"]),
                json.dumps(options),
            )
        rendered: dict[str, str] = json.loads(text)
        return rendered

    def fetch(self, request: Request, options: Mapping[str, Any]) -> None:
        """Puts a chart into a folder: unpacked from an archive, which may have to be downloaded, or a new one."""
        into, reference = Path(request["into"]), request["chart"]
        if request["new"]:
            self._helm.Chart.create(reference, into).close()
            return
        archives = [Path(reference)]
        if not archives[0].is_file():
            self._helm.pull(reference, destination=into, **options)
            archives = list(into.glob("*.tgz"))
        for archive in archives:
            self._helm.expand(into, archive)

    def _act(self, function: str, connection: Any, request: Request, options: Mapping[str, Any]) -> dict[str, Any]:
        # By its path, not as a loaded chart: a render changes what was loaded, and a subchart that was off stays off.
        none = self._native.HANDLE(0)
        answer: dict[str, Any] = json.loads(
            self._native.call_string(
                function,
                connection._raw(),  # noqa: SLF001
                none,
                none,
                request["chart"],
                request["release"],
                json.dumps(request["values"]),
                json.dumps(options),
            )
        )
        return answer


class Actions:
    """What can be asked for, on connections that are kept, one per namespace."""

    def __init__(self, library: Library, access: Mapping[str, Any]) -> None:
        self._library = library
        self._access = access
        self._connections: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def carry_out(self, request: Request) -> dict[str, Any]:
        """Does what a request asks for; what it returns is the answer."""
        verbs: dict[str, Callable[[Request], dict[str, Any]]] = {
            "install": self._install,
            "upgrade": self._upgrade,
            "uninstall": self._uninstall,
            "rollback": self._rollback,
            "test": self._test,
            "trial": self._trial,
            "render": self._render,
            "fetch": self._fetch,
        }
        verb = request.get("verb")
        if verb not in verbs:
            raise ValueError(f"{verb!r} is not one of {', '.join(verbs)}")
        try:
            return verbs[verb](request)
        except Exception as error:
            # A connection whose first use met no server is half made for ever: the library then panics at each use.
            if any(word in str(error) for word in _BROKEN):
                with self._lock:
                    self._connections.pop(request.get("namespace", ""), None)
            raise

    def _install(self, request: Request) -> dict[str, Any]:
        options = {
            **_common(request),
            "force_conflicts": True,
            "skip_crds": request["skip_crds"],
            "replace": request["replace"],
        }
        self._library.install(self._connection(request["namespace"]), request, options)
        return {}

    def _trial(self, request: Request) -> dict[str, Any]:
        options = {**_common(request), "force_conflicts": True, "skip_crds": True, "dry_run": "server"}
        found = self._library.install(self._connection(request["namespace"]), request, options)
        return {"manifest": found.get("manifest", ""), "notes": found.get("notes", "")}

    def _upgrade(self, request: Request) -> dict[str, Any]:
        # Values that were taken away must go: without this, Helm keeps the old ones where there are no new ones.
        options = {
            **_common(request),
            **_applied(request),
            "reset_values": True,
            "max_history": request["max_history"],
            "skip_crds": request["skip_crds"],
        }
        self._library.upgrade(self._connection(request["namespace"]), request, options)
        return {}

    def _rollback(self, request: Request) -> dict[str, Any]:
        options = {
            **_applied(request),
            "timeout_seconds": int(request["timeout"]),
            "version": request["target"],
            "max_history": request["max_history"],
            "disable_hooks": request["disable_hooks"],
        }
        self._library.rollback(self._connection(request["namespace"]), request["release"], options)
        return {}

    def _test(self, request: Request) -> dict[str, Any]:
        options = {"timeout_seconds": int(request["timeout"])}
        self._library.test(self._connection(request["namespace"]), request["release"], options)
        return {}

    def _uninstall(self, request: Request) -> dict[str, Any]:
        options = {
            "timeout_seconds": int(request["timeout"]),
            "ignore_not_found": True,
            "keep_history": request["keep_history"],
            "disable_hooks": request["disable_hooks"],
            "description": request["description"],
        }
        self._library.uninstall(self._connection(request["namespace"]), request["release"], options)
        return {}

    def _render(self, request: Request) -> dict[str, Any]:
        options = {"name": request["release"], "namespace": request["namespace"]}
        return {"templates": self._library.render(request, options)}

    def _fetch(self, request: Request) -> dict[str, Any]:
        given = {"version": request["version"], "repo_url": request["repo"]}
        options = {name: text for name, text in given.items() if text}
        self._library.fetch(request, {**options, "plain_http": request["plain_http"]})
        return {}

    def _connection(self, namespace: str) -> Any:
        with self._lock:
            known = self._connections.get(namespace)
            if known is None:
                known = self._connections[namespace] = self._library.connect({**self._access, "namespace": namespace})
                if len(self._connections) > _MAX_CONNECTIONS:
                    self._connections.popitem(last=False)  # closed when nobody uses it any more
            self._connections.move_to_end(namespace)
            return known


def _common(request: Request) -> dict[str, Any]:
    return {
        "namespace": request["namespace"],
        "timeout_seconds": int(request["timeout"]),
        "labels": dict(request["labels"]),
        "description": request["description"],
        "disable_hooks": request["disable_hooks"],
    }


def _applied(request: Request) -> dict[str, Any]:
    """How objects are changed: applied by the server, or replaced by force, which the server cannot do."""
    if request["force"]:
        return {"force_replace": True, "server_side_apply": "false"}
    return {"force_conflicts": True, "server_side_apply": "true"}


def answer_to(actions: Actions, request: Request) -> dict[str, Any]:
    """The line that goes back: what was asked for, or Helm's own words for why not."""
    try:
        return {"id": request.get("id"), **actions.carry_out(request)}
    except Exception as error:  # whatever one request does must not end the others
        return {"id": request.get("id"), "error": str(error) or type(error).__name__}


def guard(until: float | None, *, now: Callable[[], float] | None = None) -> None:
    """Lets the kernel end this process at `until`, a time of the clock that the parent has too; None: never.

    By a signal that nobody handles: a process that was stopped and is continued too late ends before its next
    instruction.
    """
    if until is None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return
    left = until - (now or _elapsed)()
    signal.setitimer(signal.ITIMER_REAL, max(left, _SOON))


def _elapsed() -> float:
    return time.clock_gettime(_CLOCK)


def serve(lines: Iterable[str], say: Callable[[str], None], actions: Actions, *, workers: int = WORKERS) -> None:
    """Answers requests until there are no more; a line with `until` alone tells of a renewed lease."""
    lock = threading.Lock()

    def work(request: Request) -> None:
        line = json.dumps(answer_to(actions, request))
        with lock:
            say(line)

    with ThreadPoolExecutor(workers) as pool:
        for line in lines:
            request = json.loads(line)
            if "until" in request:
                guard(request["until"])
            if "verb" in request:
                pool.submit(work, request)


def die_with(parent: int) -> None:
    """Asks the kernel to end this process with the one that started it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Answers on standard output as it was; what Helm prints goes to standard error."""
    parent, access = int(sys.argv[1]), json.loads(sys.argv[2])
    die_with(parent)
    # Ctrl-C goes to the whole group: the parent says when this process is to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(line: str) -> None:
        answers.write(line + "\n")

    actions = Actions(HelmLibrary(), access)
    say(json.dumps({"ready": True}))
    try:
        serve(sys.stdin, say, actions)
    finally:
        os._exit(0)  # whatever is under way: nobody hears the answer any more


if __name__ == "__main__":
    main()
