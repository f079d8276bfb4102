"""The Helm process from within: what it asks of the library, how it answers, and when the kernel ends it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgewright.controllers.chart import helm_program
from edgewright.controllers.chart.helm_program import Actions, HelmLibrary, answer_to, guard, serve

REQUEST = {
    "namespace": "default",
    "release": "shop",
    "chart": "charts/shop",
    "values": {"a": 1},
    "labels": {"l": "1"},
    "timeout": 300.0,
    "description": "",
    "max_history": 10,
    "target": 3,
    "force": False,
    "disable_hooks": False,
    "skip_crds": False,
    "replace": False,
    "keep_history": False,
}


class FakeLibrary:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def connect(self, options: Mapping[str, Any]) -> Any:
        self.asked.append(("connect", dict(options)))
        return options["namespace"]

    def install(self, connection: Any, request: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(("install", connection, dict(options)))
        return {"manifest": "kind: A", "notes": "n", "name": "shop"}

    def upgrade(self, connection: Any, request: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self.asked.append(("upgrade", connection, dict(options)))

    def uninstall(self, connection: Any, name: str, options: Mapping[str, Any]) -> None:
        raise RuntimeError("cannot reach it")

    def rollback(self, connection: Any, name: str, options: Mapping[str, Any]) -> None:
        self.asked.append(("rollback", name, dict(options)))

    def test(self, connection: Any, name: str, options: Mapping[str, Any]) -> None:
        self.asked.append(("test", name, dict(options)))

    def render(self, request: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, str]:
        return {"a.yaml": json.dumps(dict(options))}

    def fetch(self, request: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self.asked.append(("fetch", request["chart"], dict(options)))


def test_conflicts_are_forced_and_old_values_are_not_kept() -> None:
    library = FakeLibrary()
    actions = Actions(library, {"kube_context": "site"})
    assert answer_to(actions, {**REQUEST, "id": 1, "verb": "install"}) == {"id": 1}
    assert answer_to(actions, {**REQUEST, "id": 2, "verb": "upgrade", "description": "why"}) == {"id": 2}
    common = {
        "namespace": "default",
        "timeout_seconds": 300,
        "labels": {"l": "1"},
        "force_conflicts": True,
        "disable_hooks": False,
        "skip_crds": False,
    }
    more = {"reset_values": True, "server_side_apply": "true", "max_history": 10}
    assert library.asked == [
        ("connect", {"kube_context": "site", "namespace": "default"}),
        ("install", "default", {**common, "description": "", "replace": False}),
        ("upgrade", "default", {**common, **more, "description": "why"}),
    ]


def test_who_forces_an_upgrade_replaces_objects_instead_of_applying_them() -> None:
    library = FakeLibrary()
    answer_to(Actions(library, {}), {**REQUEST, "id": 1, "verb": "upgrade", "force": True})
    options = library.asked[1][2]
    assert (options["force_replace"], options["server_side_apply"]) == (True, "false")
    assert "force_conflicts" not in options


def test_a_rollback_a_test_and_a_trial_are_asked_for_by_name() -> None:
    library = FakeLibrary()
    actions = Actions(library, {})
    assert answer_to(actions, {**REQUEST, "id": 1, "verb": "rollback"}) == {"id": 1}
    assert answer_to(actions, {**REQUEST, "id": 2, "verb": "test"}) == {"id": 2}
    assert answer_to(actions, {**REQUEST, "id": 3, "verb": "trial"}) == {"id": 3, "manifest": "kind: A", "notes": "n"}
    asked = {each[0]: each[2] for each in library.asked[1:]}
    assert (asked["rollback"]["version"], asked["rollback"]["force_conflicts"]) == (3, True)
    assert asked["test"] == {"timeout_seconds": 300}
    assert asked["install"]["dry_run"] == "server"


def test_a_failure_is_answered_in_its_own_words() -> None:
    actions = Actions(FakeLibrary(), {})
    assert answer_to(actions, {**REQUEST, "id": 3, "verb": "uninstall"}) == {"id": 3, "error": "cannot reach it"}
    assert "is not one of install, upgrade" in answer_to(actions, {"id": 4, "verb": "dance"})["error"]


def test_a_connection_that_met_no_server_is_made_again() -> None:
    library = FakeLibrary()
    actions = Actions(library, {})
    words = iter(["cluster unreachable", "helm-c: recovered panic", "a hook failed"])

    def fails(connection: Any, request: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        raise RuntimeError(next(words))

    library.install = fails  # type: ignore[method-assign]
    for _ in range(3):
        answer_to(actions, {**REQUEST, "id": 1, "verb": "install"})
    answer_to(actions, {**REQUEST, "id": 1, "verb": "upgrade"})
    assert [each[0] for each in library.asked].count("connect") == 3


def test_only_so_many_connections_are_kept() -> None:
    library = FakeLibrary()
    actions = Actions(library, {})
    for number in (*range(65), 0):
        actions.carry_out({**REQUEST, "namespace": f"n{number}", "verb": "install"})
    assert sum(each[0] == "connect" for each in library.asked) == 66


def test_every_line_is_answered_and_a_renewed_lease_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    until: list[float | None] = []
    monkeypatch.setattr(helm_program, "guard", until.append)
    said: list[str] = []
    lines = [
        json.dumps({"until": 5.0}),
        json.dumps({**REQUEST, "id": 1, "verb": "render", "until": 7.0}),
        json.dumps({**REQUEST, "id": 2, "verb": "install"}),
    ]
    serve(lines, said.append, Actions(FakeLibrary(), {}))
    answers = {each["id"]: each for each in map(json.loads, said)}
    assert json.loads(answers[1]["templates"]["a.yaml"]) == {"name": "shop", "namespace": "default"}
    assert answers[2] == {"id": 2}
    assert until == [5.0, 7.0]


def test_the_kernel_ends_it_when_the_lease_does(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[float] = []
    monkeypatch.setattr(signal, "setitimer", lambda _which, seconds: timers.append(seconds))
    guard(12.0, now=lambda: 10.0)
    guard(9.0, now=lambda: 10.0)
    guard(None)
    assert timers == [2.0, 0.001, 0]
    guard(time.clock_gettime(time.CLOCK_BOOTTIME) + 100)
    assert 99 < timers[-1] <= 100


class FakeNative:
    """The C interface of Helm's library, as far as it is used."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    @staticmethod
    def HANDLE(number: int) -> int:  # noqa: N802 - its name there
        return number

    def call_string(self, *arguments: Any) -> str:
        self.calls.append(arguments)
        return "{}"

    def call_status(self, *arguments: Any) -> None:
        self.calls.append(arguments)


def test_the_library_is_called_by_its_c_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    class Chart:
        @classmethod
        def load(cls, path: str) -> Chart:
            assert path == "charts/shop"
            return cls()

        def __enter__(self) -> Chart:
            return self

        def __exit__(self, *_: object) -> None: ...

        def _raw(self) -> str:
            return "chart"

    native = FakeNative()
    module = SimpleNamespace(Config=lambda **options: SimpleNamespace(_raw=lambda: options["namespace"]), Chart=Chart)
    monkeypatch.setattr(helm_program, "import_module", {"helm_python": module, "helm_python._native": native}.get)
    library = HelmLibrary()
    connection = library.connect({"namespace": "default"})
    library.install(connection, REQUEST, {"o": 1})
    library.upgrade(connection, REQUEST, {"o": 2})
    library.uninstall(connection, "shop", {"o": 3})
    library.rollback(connection, "shop", {"o": 5})
    library.test(connection, "shop", {"o": 6})
    assert library.render(REQUEST, {"o": 4}) == {}
    order = (0, 0, "charts/shop", "shop", '{"a": 1}')
    assert native.calls == [
        ("helm_install", "default", *order, '{"o": 1}'),
        ("helm_upgrade", "default", *order, '{"o": 2}'),
        ("helm_uninstall", "default", "shop", '{"o": 3}'),
        ("helm_rollback", "default", "shop", '{"o": 5}'),
        ("helm_test_run", "default", "shop", '{"o": 6}'),
        ("helm_render", "chart", '{"a": 1}', '{"o": 4}'),
    ]


def test_a_chart_is_fetched_with_what_was_said_of_it() -> None:
    library = FakeLibrary()
    request = {"id": 1, "verb": "fetch", "chart": "shop", "repo": "https://x", "version": "", "plain_http": False}
    assert answer_to(Actions(library, {}), request) == {"id": 1}
    assert library.asked == [("fetch", "shop", {"repo_url": "https://x", "plain_http": False})]


def test_what_is_fetched_is_unpacked_and_an_archive_is_not_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def pull(reference: str, *, destination: Path, **options: Any) -> None:
        asked.append(("pull", reference, options))
        (destination / "shop-1.tgz").touch()

    def create(name: str, into: Path) -> Any:
        asked.append(("create", name))
        return SimpleNamespace(close=lambda: None)

    module = SimpleNamespace(
        pull=pull,
        expand=lambda into, archive: asked.append(("expand", into.name, archive.name)),
        Chart=SimpleNamespace(create=create),
    )
    monkeypatch.setattr(helm_program, "import_module", {"helm_python": module, "helm_python._native": None}.get)
    archive, into = tmp_path / "own.tgz", tmp_path / "into"
    archive.touch()
    into.mkdir()
    library = HelmLibrary()
    for chart, new in ((str(archive), False), ("oci://x/shop", False), ("stall", True)):
        library.fetch({"chart": chart, "into": str(into), "new": new}, {"version": "1"})
    assert asked == [
        ("expand", "into", "own.tgz"),
        ("pull", "oci://x/shop", {"version": "1"}),
        ("expand", "into", "shop-1.tgz"),
        ("create", "stall"),
    ]


STUB = """
import types
class Config:
    def __init__(self, **options): print("noise of the library", flush=True)
    def _raw(self): return 1
"""
NATIVE = """
def HANDLE(number): return number
def call_string(*arguments):
    raise RuntimeError(arguments[0])
"""


def test_the_program_answers_on_a_clean_channel_and_ends_when_nobody_asks_any_more(tmp_path: Path) -> None:
    package = tmp_path / "helm_python"
    package.mkdir()
    (package / "__init__.py").write_text(STUB)
    (package / "_native.py").write_text(NATIVE)
    command = [sys.executable, "-m", "edgewright.controllers.chart.helm_program", str(os.getpid()), "{}"]
    done = subprocess.run(
        command,
        input=json.dumps({**REQUEST, "id": 1, "verb": "install"}) + "\n",
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"ready": True},
        {"id": 1, "error": "helm_install"},
    ]
    assert "noise of the library" in done.stderr


def test_the_program_ends_where_its_parent_is_another_one() -> None:
    command = [sys.executable, "-m", "edgewright.controllers.chart.helm_program", "1", "{}"]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, timeout=60, check=False).returncode == 1


def test_it_asks_the_kernel_to_die_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    libc = SimpleNamespace(prctl=lambda *given: asked.append(given))
    monkeypatch.setattr(ctypes, "CDLL", lambda *_args, **_more: libc)
    helm_program.die_with(os.getppid())
    assert asked == [(1, signal.SIGKILL, 0, 0, 0)]
