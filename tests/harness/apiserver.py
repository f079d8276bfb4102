"""What tests do with an API server, whichever it is: reach it by kubeconfig, `kubectl` and `request`, and hurt it.

`ControlPlane` (the real Kubernetes) and `LocalPlane` (`edgewright up`) are both one, so that a test can run on either.
It is tied to no event loop and waits synchronously: a test whose loop must go on meanwhile uses `asyncio.to_thread`.
"""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import re
import secrets
import ssl
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from . import programs
from .certificates import Certificate
from .connections import Connections
from .processes import PortTakenError, Process
from .programs import HOST
from .proxy import Proxy
from .waiting import wait_until
from .workspace import Workspace

_STEM_LENGTH = 50
_START_ATTEMPTS = 5
_REQUEST_TIMEOUT = 180
_PROBE_TIMEOUT = 10


class KubectlError(AssertionError):
    """kubectl ended with an error; the message is what it wrote."""


class RequestError(AssertionError):
    """The API server refused a request of the harness."""

    def __init__(self, method: str, path: str, code: int, answer: str) -> None:
        super().__init__(f"{method} {path}: {code} {answer}")
        self.code = code
        self.answer = answer
        """The body, which is a Status where Kubernetes has written it."""


class ApiServer(ABC):
    """An API server with its own port, certificates and data; several can run side by side."""

    port: int
    """The API server's port on loopback; it stays the same over restarts."""
    kubeconfig: Path
    """The administrator's kubeconfig."""
    admin_tls: ssl.SSLContext
    """TLS as the administrator, for tests that open connections of their own."""

    def __init__(self, directory: Path | None) -> None:
        self._numbers = itertools.count(1)
        self._processes: dict[str, Process] = {}
        self._connections = Connections(lambda: self.admin_tls)
        self._workspace = Workspace(directory or programs.ROOT / "build" / "clusters")
        self.directory = self._workspace.path

    @abstractmethod
    def client_certificate(self, user: str, groups: Iterable[str] = ()) -> Certificate:
        """A certificate by which the server knows this user in these groups."""

    @property
    @abstractmethod
    def ca_file(self) -> Path:
        """The authority that signed the API server's certificate."""

    @property
    @abstractmethod
    def makes_accounts(self) -> bool:
        """Whether each new namespace gets its default ServiceAccount."""

    @abstractmethod
    def forget_history(self) -> None:
        """Guarantees that a watch from any resourceVersion that was seen before gets 410 Expired."""

    def announce_kinds(self) -> None:  # noqa: B027 - nothing to do, unless it learns of them late
        """Lets the garbage collector know at once of kinds that were just installed."""

    @abstractmethod
    def _choose_ports(self) -> None:
        """Takes ports that are free now, and writes the administrator's kubeconfig for them."""

    @abstractmethod
    def _start_parts(self) -> None:
        """Starts every part and waits until all are ready."""

    # How one gets in

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://{HOST}:{self.port}"

    def kubeconfig_for(self, user: str, groups: Iterable[str] = (), *, server: str | None = None) -> Path:
        """A kubeconfig with a client certificate for this user in these groups, for example through a proxy's `url`."""
        client = self.client_certificate(user, groups)
        return self.kubeconfig_with(
            {"client-certificate-data": encoded(client.certificate), "client-key-data": encoded(client.key)},
            server=server,
        )

    def kubeconfig_with(self, credentials: Mapping[str, Any], *, server: str | None = None) -> Path:
        """A kubeconfig with these fields as its user: a token, a token file, an exec plugin."""
        cluster = {
            "server": server or self.server,
            "certificate-authority-data": encoded(self.ca_file.read_bytes()),
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": dict(credentials)}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
            "current-context": "test",
        }
        path = self.directory / f"kubeconfig-{next(self._numbers)}.yaml"
        path.touch(mode=0o600)
        path.write_text(json.dumps(content, indent=2))  # JSON is YAML
        return path

    def proxy(self) -> Proxy:
        """A proxy in front of the API server, to be closed by the caller."""
        return Proxy(HOST, self.port)

    # Its life

    @property
    def processes(self) -> list[Process]:
        """All parts, in the order of their start."""
        return list(self._processes.values())

    @property
    def api(self) -> Process:
        """The API server."""
        return self._processes["api"]

    def start(self) -> None:
        """Starts every part and waits until all are ready; takes other ports where somebody was faster."""
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                self._start_parts()
            except PortTakenError:
                self._kill_parts()
                if attempt == _START_ATTEMPTS:
                    raise
                self._choose_ports()
            else:
                return

    def stop(self, *, keep: bool = False) -> None:
        """Ends every part at once; removes the directory, or keeps it with the logs in it."""
        self._connections.close()
        self._kill_parts()
        self._workspace.release(keep=keep)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop(keep=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(f"logs and data of the control plane are kept in {self.directory}")
        self.stop(keep=error is not None)

    def _launch(self, name: str, command: Sequence[str], ready: Callable[[], bool]) -> None:
        process = Process(name, command, log=self.directory / f"{name}.log", ready=ready)
        self._processes[name] = process
        process.start()

    def wait_ready(self) -> None:
        """Waits until every part that was started is ready."""
        for process in self.processes:
            process.wait_ready()

    def _kill_parts(self) -> None:
        for process in reversed(self.processes):
            process.kill()

    # What tests ask of it

    def kubectl(self, *args: str, input: str | None = None, timeout: float = 300) -> subprocess.CompletedProcess[str]:  # noqa: A002
        """Runs kubectl as the administrator; raises what it wrote when it fails."""
        cache = str(self.directory / "kubectl")
        command = [programs.program("kubectl"), "--kubeconfig", str(self.kubeconfig), "--cache-dir", cache, *args]
        done = subprocess.run(command, input=input, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(args)} ended with {done.returncode}: {done.stderr.strip()}")
        return done

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Any:
        """One request as the administrator: the decoded answer, or RequestError."""
        code, answer = self._ask_api(method, path, body, content_type=content_type)
        if code >= 400:
            raise RequestError(method, path, code, answer)
        return json.loads(answer)

    def answer(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """One request as the administrator, whatever the answer: its code and its text."""
        return self._ask(method, f"{self.server}{path}", body)

    def until_served(self, definition: str) -> None:
        """Waits until a custom resource definition is established; kubectl's own waiting fails on one that is new."""

        def established() -> bool:
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}"
            conditions = self.request("GET", path).get("status", {}).get("conditions") or ()
            return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

        wait_until(established, what=f"{definition} is served")

    def create_namespace(self, prefix: str = "test") -> str:
        """A fresh namespace whose name begins with what can be used of `prefix`; Pods can be created in it at once."""
        stem = re.sub(r"[^a-z0-9]+", "-", prefix.lower()).strip("-")[:_STEM_LENGTH].rstrip("-") or "test"
        name = f"{stem}-{secrets.token_hex(3)}"
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        if self.makes_accounts:
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            wait_until(lambda: self.exists(account), what=f"the controller manager has made {account}")
        return name

    def exists(self, path: str) -> bool:
        """Whether there is an object at this path."""
        code, answer = self._ask_api("GET", path)
        if code not in {200, 404}:
            raise RequestError("GET", path, code, answer)
        return code == 200

    def _ask_api(self, method: str, path: str, body: Any = None, **settings: Any) -> tuple[int, str]:
        def served() -> tuple[int, str] | None:
            code, answer = self._ask(method, f"{self.server}{path}", body, **settings)
            return None if code == 429 else (code, answer)  # a kind that has just been installed says so for a moment

        return wait_until(served, what=f"the API server has time for {method} {path}", interval=0.1)

    def _answers_ok(self, url: str) -> bool:
        try:
            return self._ask("GET", url, timeout=_PROBE_TIMEOUT)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def _ask(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        timeout: float = _REQUEST_TIMEOUT,
    ) -> tuple[int, str]:
        content = None if body is None else json.dumps(body)
        return self._connections.ask(method, url, content, {"Content-Type": content_type}, timeout=timeout)


def encoded(content: bytes) -> str:
    """Bytes as JSON documents hold them."""
    return base64.b64encode(content).decode()
