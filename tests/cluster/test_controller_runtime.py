"""A controller in Go, on controller-runtime and client-go, works unchanged on both API servers.

`go/note-keeper` is built into the user's cache folder when it is first needed. Its kind is a Note, for each of which it
keeps a ConfigMap; client-go sends it, the Leases and the Events as protobuf.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hack.kubernetes import build
from tests.harness import ApiServer, wait_until
from tests.harness.processes import Process

SOURCE = Path(__file__).with_name("go") / "note-keeper"
GROUP = "notes.example.io"
FINALIZER = f"{GROUP}/farewell"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"notes.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "notes", "kind": "Note"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["text"],
                                "properties": {"text": {"type": "string"}},
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "configMap": {"type": "string"},
                                    "observedGeneration": {"type": "integer", "format": "int64"},
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def program() -> Path:
    """The controller, built."""
    return build.build_module(SOURCE, among="tests")


@pytest.mark.parametrize("change", ["another digest", "a line less"])
def test_a_changed_go_sum_fails_the_build(change: str, tmp_path: Path) -> None:
    go, source = build.find_go(), tmp_path / "note-keeper"
    shutil.copytree(SOURCE, source)
    lines = (source / "go.sum").read_text().splitlines(keepends=True)
    number = next(each for each, line in enumerate(lines) if line.startswith("sigs.k8s.io/controller-runtime v"))
    module, version, _ = lines[number].split()
    lines[number] = f"{module} {version} h1:{'A' * 43}=\n" if change == "another digest" else ""
    (source / "go.sum").write_text("".join(lines))
    command = [go, "build", "-o", str(tmp_path / "program"), "."]
    done = subprocess.run(
        command, cwd=source, env=build.go_environment(go), capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert ("checksum mismatch" if change == "another digest" else "missing go.sum entry") in done.stderr
    assert "".join(lines) == (source / "go.sum").read_text()


@pytest.fixture(scope="module")
def notes(api_server: ApiServer) -> Iterator[None]:
    """The kind, served."""
    api_server.request("POST", DEFINITIONS, DEFINITION)
    wait_until(lambda: api_server.exists(f"/apis/{GROUP}/v1/notes"), what="notes are served")
    api_server.announce_kinds()
    yield
    api_server.request("DELETE", f"{DEFINITIONS}/notes.{GROUP}")


class World:
    """A namespace in which controllers keep Notes."""

    def __init__(self, server: ApiServer, namespace: str, program: Path, folder: Path) -> None:
        self.server = server
        self._namespace = namespace
        self._program = program
        self._folder = folder
        self._keepers: list[Process] = []

    @contextmanager
    def keeper(self, name: str) -> Iterator[Process]:
        """One controller, which runs for the length of the block and ends well."""
        command = [self._program, "--kubeconfig", self.server.kubeconfig, "--namespace", self._namespace]
        process = Process(name, [str(each) for each in command], log=self._folder / f"{name}.log", ready=lambda: True)
        process.start()
        self._keepers.append(process)
        try:
            yield process
            if process.running:
                process.terminate()
                assert process.returncode == 0, process.output()
        finally:
            self._keepers.remove(process)
            process.kill()

    def path(self, plural: str, name: str = "") -> str:
        """Where something of this namespace is."""
        roots = {"notes": f"/apis/{GROUP}/v1", "leases": "/apis/coordination.k8s.io/v1"}
        collection = f"{roots.get(plural, '/api/v1')}/namespaces/{self._namespace}/{plural}"
        return f"{collection}/{name}" if name else collection

    def write(self, name: str, text: str) -> None:
        """A Note, or a new text for it."""
        if self.server.exists(self.path("notes", name)):
            change = {"spec": {"text": text}}
            self.server.request("PATCH", self.path("notes", name), change, content_type="application/merge-patch+json")
            return
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Note", "metadata": {"name": name}, "spec": {"text": text}}
        self.server.request("POST", self.path("notes"), body)

    def until(self, plural: str, name: str, condition: Callable[[Any], bool], what: str) -> Any:
        """Waits until an object is there and as it should be."""

        def found() -> Any:
            for keeper in self._keepers:
                assert keeper.returncode in {None, 0}, keeper.output()
            if not self.server.exists(self.path(plural, name)):
                return None
            obj = self.server.request("GET", self.path(plural, name))
            return obj if condition(obj) else None

        return wait_until(found, what=what, interval=0.1)

    def gone(self, plural: str, name: str) -> bool:
        """Whether an object is not there."""
        return not self.server.exists(self.path(plural, name))

    def kept(self, name: str, text: str) -> Any:
        """The ConfigMap of a Note, once it has this text."""
        return self.until("configmaps", name, lambda obj: obj.get("data") == {"text": text}, f"{name} says {text!r}")

    def holder(self) -> str:
        """Who holds the Lease."""
        if not self.server.exists(self.path("leases", "note-keeper")):
            return ""
        return str(self.server.request("GET", self.path("leases", "note-keeper"))["spec"].get("holderIdentity") or "")

    def reasons(self) -> set[tuple[str, str]]:
        """The reasons and texts of the Events of Notes."""
        events = self.server.request("GET", self.path("events"))["items"]
        return {(each["reason"], each["message"]) for each in events if each["involvedObject"]["kind"] == "Note"}


@pytest.fixture
def world(api_server: ApiServer, namespace: str, notes: None, program: Path, tmp_path: Path) -> World:
    """An empty one."""
    return World(api_server, namespace, program, tmp_path)


def test_a_controller_in_go_keeps_what_belongs_to_its_objects(world: World) -> None:
    world.write("a", "one")
    with world.keeper("keeper"):
        made = world.kept("a", "one")
        note = world.until("notes", "a", lambda obj: "status" in obj, "the status is written")
        assert note["metadata"]["finalizers"] == [FINALIZER]
        assert note["status"] == {"configMap": "a", "observedGeneration": 1}
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Note", note["metadata"]["uid"], True)
        (fields,) = made["metadata"]["managedFields"]
        assert (fields["manager"], fields["operation"]) == ("note-keeper", "Apply")
        wait_until(lambda: ("Kept", "generation 1 is kept") in world.reasons(), what="the Event is written")

        world.write("a", "two")
        world.kept("a", "two")
        world.until("notes", "a", lambda obj: obj["status"]["observedGeneration"] == 2, "the status follows")

        theirs = {"data": {"text": "vandalism"}}
        path = world.path("configmaps", "a")
        world.server.request("PATCH", path, theirs, content_type="application/merge-patch+json")
        world.kept("a", "two")

        world.server.request("DELETE", path)
        again = world.kept("a", "two")
        assert again["metadata"]["uid"] != made["metadata"]["uid"]

        world.server.request("DELETE", world.path("notes", "a"))
        for plural in ("notes", "configmaps"):
            wait_until(functools.partial(world.gone, plural, "a"), what=f"{plural}/a is gone")
        wait_until(lambda: ("Released", "farewell, a") in world.reasons(), what="it has said farewell")


def test_the_second_controller_works_when_the_first_has_let_go_of_its_lease(world: World) -> None:
    with world.keeper("first") as first:
        leader = wait_until(world.holder, what="the first one leads")
        world.write("a", "one")
        world.kept("a", "one")
        with world.keeper("second") as second:
            wait_until(lambda: "Attempting to acquire" in second.output(), what="the second one waits")
            first.terminate()
            assert first.returncode == 0, first.output()
            successor = wait_until(lambda: world.holder() not in {"", leader} and world.holder(), what="it leads now")
            assert successor != leader
            world.write("a", "two")
            world.kept("a", "two")
