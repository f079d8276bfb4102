"""A real Kubernetes control plane for tests: etcd and kube-apiserver as processes, more parts where a test asks.

Fixtures in `tests/cluster` and the benchmarks start it; tests reach it by kubeconfig, by `kubectl` and by `request`,
and hurt its parts through the verbs of `Process`. All that it writes lies in a directory of its own under `build/`. It
is tied to no event loop and waits synchronously: a test whose loop must go on meanwhile uses `asyncio.to_thread`.
"""

from __future__ import annotations

import base64
import functools
import http.client
import ipaddress
import itertools
import json
import re
import secrets
import ssl
import subprocess
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from . import programs
from .certificates import Authority, TokenKey
from .processes import PortTakenError, Process, free_port
from .programs import HOST, ISSUER, NODE, SERVICE_RANGE
from .proxy import Proxy
from .waiting import wait_until
from .workspace import Workspace

_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)
_STEM_LENGTH = 50
_START_ATTEMPTS = 5
_REQUEST_TIMEOUT = 30
_PROBE_TIMEOUT = 2
# Else a new Node is tainted until the controller manager has seen it Ready, and there may be none.
_NODE_FLAGS = ("--disable-admission-plugins=TaintNodesByCondition",)
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class KubectlError(AssertionError):
    """kubectl ended with an error; the message is what it wrote."""


class RequestError(AssertionError):
    """The API server refused a request of the harness."""

    def __init__(self, method: str, path: str, code: int, answer: str) -> None:
        super().__init__(f"{method} {path}: {code} {answer}")
        self.code = code


class ControlPlane:
    """One control plane with its own ports, certificates and data; several can run side by side."""

    def __init__(
        self,
        *,
        parts: Iterable[str] = (),
        audit: bool = False,
        fsync: bool = False,
        api_flags: Sequence[str] = (),
        directory: Path | None = None,
    ) -> None:
        """Makes the directory and the certificates, and starts nothing.

        `parts` run beside etcd and the API server: controller-manager, scheduler, and kwok, which plays one Node;
        `audit` writes a line a request, for tests that count them; `fsync` makes etcd durable against a power cut, at
        the price of time; `api_flags` go to the API server after ours; `directory` is where our directory is made.
        """
        self.parts = frozenset(parts)
        if unknown := self.parts - programs.PARTS.keys():
            raise ValueError(f"unknown parts {sorted(unknown)}: choose from {', '.join(programs.PARTS)}")
        self._audit = audit
        self._fsync = fsync
        self._api_flags = tuple(api_flags)
        self._authority = Authority()
        self._token_key = TokenKey()
        self._numbers = itertools.count(1)
        self._processes: dict[str, Process] = {}
        programs.require(self.parts)
        self._workspace = Workspace(directory or programs.ROOT / "build" / "clusters")
        self.directory = self._workspace.path
        self._files = self._write_files()
        self._choose_ports()

    def _write_files(self) -> programs.Files:
        self.ca_file.write_bytes(self._authority.certificate)
        first_service = str(ipaddress.ip_network(SERVICE_RANGE)[1])
        serving = self._authority.server("kube-apiserver", names=_NAMES, addresses=[HOST, first_service])
        self.admin_tls = ssl.create_default_context(cafile=str(self.ca_file))
        """TLS as the administrator, for tests that open connections of their own."""
        admin = self._authority.client("admin", ["system:masters"])
        self.admin_tls.load_cert_chain(*admin.write(self.directory, "admin"))
        (self.directory / "audit-policy.yaml").write_text(json.dumps(_AUDIT_POLICY))
        return programs.Files(
            home=self.directory,
            authority=self.ca_file,
            serving=serving.write(self.directory, "serving"),
            service_accounts=self._token_key.write(self.directory, "service-accounts"),
        )

    def _choose_ports(self) -> None:
        self.port = free_port()
        """The API server's port on loopback; it stays the same over restarts."""
        self._etcd_port = free_port()
        self.kubeconfig = self.kubeconfig_for("admin", ["system:masters"])
        """The administrator's kubeconfig."""

    # How one gets in

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://{HOST}:{self.port}"

    @property
    def ca_file(self) -> Path:
        """The authority that signed the API server's certificate."""
        return self.directory / "ca.crt"

    def kubeconfig_for(self, user: str, groups: Iterable[str] = (), *, server: str | None = None) -> Path:
        """A kubeconfig with a client certificate for this user in these groups, for example through a proxy's `url`."""
        client = self._authority.client(user, groups)
        return self.kubeconfig_with(
            {"client-certificate-data": _base64(client.certificate), "client-key-data": _base64(client.key)},
            server=server,
        )

    def kubeconfig_with(self, credentials: Mapping[str, Any], *, server: str | None = None) -> Path:
        """A kubeconfig with these fields as its user: a token, a token file, an exec plugin."""
        cluster = {"server": server or self.server, "certificate-authority-data": _base64(self._authority.certificate)}
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

    def service_account_token(self, namespace: str, name: str, *, lifetime: float = 3600) -> str:
        """A token of an existing ServiceAccount.

        It is signed here with the control plane's own key, because a TokenRequest gives none that ends within ten
        minutes. The API server forgives a minute (`lifetime=-90` has ended for it) and remembers a good token for 10 s.
        """
        account = self.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
        bound = {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]}}
        claims = {"iss": ISSUER, "aud": [ISSUER], "sub": f"system:serviceaccount:{namespace}:{name}"}
        return self._token_key.sign({**claims, "kubernetes.io": bound}, lifetime=lifetime)

    def proxy(self) -> Proxy:
        """A proxy in front of the API server, to be closed by the caller."""
        return Proxy(HOST, self.port)

    # Its parts

    @property
    def etcd(self) -> Process:
        """The store."""
        return self._processes["etcd"]

    @property
    def api(self) -> Process:
        """The API server."""
        return self._processes["api"]

    @property
    def controller_manager(self) -> Process:
        """The controllers of Kubernetes itself."""
        return self._processes["controller-manager"]

    @property
    def scheduler(self) -> Process:
        """What gives Pods a Node."""
        return self._processes["scheduler"]

    @property
    def kwok(self) -> Process:
        """What plays the Node."""
        return self._processes["kwok"]

    @property
    def processes(self) -> list[Process]:
        """All parts, in the order of their start."""
        return list(self._processes.values())

    # Its life

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

    def _start_parts(self) -> None:
        etcd = programs.etcd(self._files, port=self._etcd_port, fsync=self._fsync)
        self._launch("etcd", etcd, lambda: self._answers_ok(f"http://{HOST}:{self._etcd_port}/readyz"))
        api = programs.api_server(
            self._files,
            port=self.port,
            etcd_port=self._etcd_port,
            audit_file=self.audit_file if self._audit else None,
            extra=(*(_NODE_FLAGS if "kwok" in self.parts else ()), *self._api_flags),
        )
        self._launch("api", api, lambda: self._answers_ok(f"{self.server}/readyz"))
        self.wait_ready()
        if "kwok" in self.parts:
            self._create_node()
        for part in sorted(self.parts):
            port = free_port()
            command = programs.PARTS[part](self._files, port=port, kubeconfig=self.kubeconfig)
            self._launch(part, command, functools.partial(self._answers_ok, f"https://{HOST}:{port}/healthz"))
        self.wait_ready()

    def _launch(self, name: str, command: list[str], ready: Callable[[], bool]) -> None:
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

    def _create_node(self) -> None:
        if not self.exists(f"/api/v1/nodes/{NODE}"):
            self.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})

    # What tests ask of it

    def kubectl(self, *args: str, input: str | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:  # noqa: A002
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

    def create_namespace(self, prefix: str = "test") -> str:
        """A fresh namespace whose name begins with what can be used of `prefix`; Pods can be created in it at once."""
        stem = re.sub(r"[^a-z0-9]+", "-", prefix.lower()).strip("-")[:_STEM_LENGTH].rstrip("-") or "test"
        name = f"{stem}-{secrets.token_hex(3)}"
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        if "controller-manager" in self.parts:
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            wait_until(lambda: self.exists(account), what=f"the controller manager has made {account}")
        return name

    def exists(self, path: str) -> bool:
        """Whether there is an object at this path."""
        code, answer = self._ask_api("GET", path)
        if code not in {200, 404}:
            raise RequestError("GET", path, code, answer)
        return code == 200

    @property
    def audit_file(self) -> Path:
        """The audit log: a JSON object a line."""
        return self.directory / "audit.log"

    def audit_events(self) -> list[dict[str, Any]]:
        """Every request that the API server has written down so far, as audit events."""
        lines = self.audit_file.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may be half written

    def compact_etcd(self) -> int:
        """Makes etcd forget every revision before the present one, which is returned."""
        revision = int(self._ask_etcd("/v3/kv/range", {"key": _base64(b"/")})["header"]["revision"])
        self._ask_etcd("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def forget_history(self) -> None:
        """Guarantees that a watch from any resourceVersion that was seen before gets 410 Expired.

        A compaction alone does not: the API server answers from its watch cache, which reaches back to the revision at
        which it started. So it takes a newer revision, a compaction up to it, and another API server.
        """
        self._ask_etcd("/v3/kv/put", {"key": _base64(b"/edgewright/harness"), "value": ""})
        self.compact_etcd()
        self.api.kill()
        self.api.restart()

    def _ask_api(self, method: str, path: str, body: Any = None, **settings: Any) -> tuple[int, str]:
        def served() -> tuple[int, str] | None:
            code, answer = self._ask(method, f"{self.server}{path}", body, **settings)
            return None if code == 429 else (code, answer)  # a kind that has just been installed says so for a moment

        return wait_until(served, what=f"the API server has time for {method} {path}", interval=0.1)

    def _ask_etcd(self, path: str, body: Mapping[str, Any]) -> Any:
        code, answer = self._ask("POST", f"http://{HOST}:{self._etcd_port}{path}", body)
        if code != 200:
            raise RequestError("POST", path, code, answer)
        return json.loads(answer)

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
        address = urllib.parse.urlsplit(url)
        connection = (
            http.client.HTTPSConnection(address.netloc, timeout=timeout, context=self.admin_tls)
            if address.scheme == "https"
            else http.client.HTTPConnection(address.netloc, timeout=timeout)
        )
        try:
            content = None if body is None else json.dumps(body)
            target = f"{address.path}?{address.query}" if address.query else address.path
            connection.request(method, target, content, {"Content-Type": content_type})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
