"""What the tests of document 003's last part stand on: a console as a process, a Minimart kind, a portal's rights.

`tests/acceptance/test_003_console.py`, `tests/browser` and `tests/cluster/test_console.py` use it.
"""

from __future__ import annotations

import functools
import http.client
import http.server
import json
import re
import signal
import subprocess
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from edgewright.api import CUSTOM_KINDS, custom_resource_definitions
from tests.documents import ROOT
from tests.harness import ApiServer, wait_until
from tests.harness.web_server import Quiet, web_server
from tests.unit.cli.command import PROGRAM, environment

PORTAL = ROOT / "docs" / "examples" / "portal"
MINIMARTS = "minimarts.charts.samutup.com"
MINIMART_PATH = "/apis/charts.samutup.com/v1alpha1/namespaces/{}/minimarts"
JOB_PATH = "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/{}/flashjobs"
MINIMART: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": MINIMARTS},
    "spec": {
        "group": "charts.samutup.com",
        "scope": "Namespaced",
        "names": {"kind": "Minimart", "listKind": "MinimartList", "plural": "minimarts", "singular": "minimart"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "replicaCount": {"type": "integer", "minimum": 0, "maximum": 10},
                                    "nameOverride": {"type": "string", "nullable": True},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def install(server: ApiServer) -> None:
    """Installs our kinds and the Minimart kind, where they are missing."""
    for definition in (MINIMART, *custom_resource_definitions(CUSTOM_KINDS)):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        name = definition["metadata"]["name"]
        if not server.exists(f"{path}/{name}"):
            server.request("POST", path, definition)
        server.until_served(name)


def portal_token(server: ApiServer, namespace: str) -> str:
    """The token of a portal with the rights that the example gives it, once the API server knows of them."""
    server.kubectl("apply", "-n", namespace, "-f", str(PORTAL / "rbac.yaml"))
    right = {"group": "charts.samutup.com", "resource": "minimarts", "verb": "patch", "namespace": namespace}
    review = {"spec": {"user": f"system:serviceaccount:{namespace}:portal", "resourceAttributes": right}}

    def known() -> bool:
        answer = server.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"].get("allowed"))

    wait_until(known, what="the portal has its rights")
    return server.kubectl("create", "token", "portal", "-n", namespace).stdout.strip()


def bound(namespace: str) -> list[dict[str, Any]]:
    """The objects of the example's rbac.yaml, in this namespace."""
    documents = yaml.safe_load_all((PORTAL / "rbac.yaml").read_text())
    return [{**each, "metadata": {**each["metadata"], "namespace": namespace}} for each in documents]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: Any


class ConsoleProcess:
    """A running `edgewright console`, what it has said, and a caller of it."""

    def __init__(self, process: subprocess.Popen[str], out: Path, err: Path) -> None:
        self.process = process
        self._out, self._err = out, err
        self.killed = False

    def kill(self) -> None:
        """Ends it as a crash does."""
        self.process.kill()
        self.process.wait()
        self.killed = True

    @property
    def said(self) -> str:
        """What it has written so far, to both."""
        return self._out.read_text() + self._err.read_text()

    @functools.cached_property
    def url(self) -> str:
        """Where it serves, as it says once it does."""

        def serves() -> str | None:
            assert self.process.poll() is None, self.said
            found = re.search(r"at (https?://\S+)/api/v1,", self._out.read_text())
            return found[1] if found and "Ctrl-C" in self._out.read_text() else None

        return wait_until(serves, what="it says where it serves")

    @property
    def link(self) -> str:
        """The one-time link."""
        found = re.search(r"^  (http\S+/sign-in#\S+)$", self._out.read_text(), flags=re.MULTILINE)
        assert found, self.said
        return found[1]

    def __call__(
        self, method: str, path: str, body: Any = None, *, token: str = "", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request, sent again where the console asks for patience: its limits are the subject of other tests."""
        deadline = time.monotonic() + 60
        while True:
            answer = self._once(method, path, body, token=token, headers=headers or {})
            if answer.status != 429 or time.monotonic() > deadline:
                return answer
            time.sleep(float(answer.headers["Retry-After"]))

    def _once(self, method: str, path: str, body: Any, *, token: str, headers: Mapping[str, str]) -> Answer:
        address = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPConnection(address.netloc, timeout=240)
        given = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {**given, **headers})
            answer = connection.getresponse()
            text = answer.read().decode()
            shown = json.loads(text) if "json" in answer.headers.get("Content-Type", "") and text else text
            return Answer(answer.status, dict(answer.headers), shown)
        finally:
            connection.close()


@contextmanager
def console(server: ApiServer | Path, folder: Path, *arguments: str, port: int = 0) -> Iterator[ConsoleProcess]:
    """Runs the command on a free port until the end of the block; it must end well then. A Path is a kubeconfig."""
    kubeconfig = server if isinstance(server, Path) else server.kubeconfig
    folder.mkdir(exist_ok=True, parents=True)
    out, err = folder / "console.out", folder / "console.err"
    with out.open("w") as stdout, err.open("w") as stderr:
        process = subprocess.Popen(
            [PROGRAM, "console", "--listen", f"127.0.0.1:{port}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            env=environment(HOME=str(folder), KUBECONFIG=str(kubeconfig)),
        )
    running = ConsoleProcess(process, out, err)
    try:
        yield running
        if not running.killed:
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0, out.read_text() + err.read_text()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@contextmanager
def operator(server: ApiServer, folder: Path, *arguments: str, controllers: str = "flashjob") -> Iterator[None]:
    """Runs our operator against the API server, until the end of the block."""
    with (folder / "operator.log").open("w") as log:
        process = subprocess.Popen(
            [PROGRAM, "run", "--controllers", controllers, "--no-leader-elect", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(HOME=str(folder), KUBECONFIG=str(server.kubeconfig)),
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(120)
        finally:
            process.kill()
            process.wait()


class _Files(Quiet, http.server.SimpleHTTPRequestHandler):
    """The files of a folder."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The files of a folder on a loopback port, as a portal's own web server would; gives its origin."""
    with web_server(functools.partial(_Files, directory=str(folder))) as origin:
        yield origin
