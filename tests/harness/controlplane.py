"""A real Kubernetes control plane for tests: etcd and kube-apiserver as processes, more parts where a test asks.

Fixtures in `tests/cluster` and the benchmarks start it; tests reach it by kubeconfig, by `kubectl` and by `request`,
and hurt its parts through the verbs of `Process`. All that it writes lies in a directory of its own under `build/`.
"""

from __future__ import annotations

import base64
import functools
import ipaddress
import itertools
import json
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import programs
from .apiserver import ApiServer, RequestError, encoded
from .certificates import Authority, Certificate, TokenKey
from .processes import Process, free_port
from .programs import HOST, ISSUER, NODE, SERVICE_RANGE

_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)
_AT_ONCE = 128
"""So many writes has a transaction of etcd at most."""
# Else a new Node is tainted until the controller manager has seen it Ready, and there may be none.
_NODE_FLAGS = ("--disable-admission-plugins=TaintNodesByCondition",)
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class ControlPlane(ApiServer):
    """One control plane with its own ports, certificates and data; several can run side by side."""

    def __init__(
        self,
        *,
        parts: Iterable[str] = (),
        audit: bool = False,
        fsync: bool = False,
        api_flags: Sequence[str] = (),
        controllers: Sequence[str] = ("*",),
        addresses: Sequence[str] = (),
        directory: Path | None = None,
    ) -> None:
        """Makes the directory and the certificates, and starts nothing.

        `parts` run next to etcd and the API server: controller-manager, scheduler, and kwok, which plays one Node;
        `audit` writes a line per request, for tests that count them; `fsync` makes etcd durable against a power cut, at
        the price of time; `api_flags` go to the API server after ours; `controllers` are those that the controller
        manager runs; `addresses` are further ones at which the API server is reached, and stand in its certificate;
        `directory` is where our directory is made.
        """
        self.parts = frozenset(parts)
        if unknown := self.parts - programs.PARTS.keys():
            raise ValueError(f"unknown parts {sorted(unknown)}: choose from {', '.join(programs.PARTS)}")
        self._audit = audit
        self._fsync = fsync
        self._api_flags = tuple(api_flags)
        self._controllers = tuple(controllers)
        self._addresses = tuple(addresses)
        self._authority = Authority()
        self._token_key = TokenKey()
        programs.require(self.parts)
        super().__init__(directory)
        self._files = self._write_files()
        self._choose_ports()

    def _write_files(self) -> programs.Files:
        self.ca_file.write_bytes(self._authority.certificate)
        first_service = str(ipaddress.ip_network(SERVICE_RANGE)[1])
        serving = self._authority.server(
            "kube-apiserver", names=_NAMES, addresses=[HOST, first_service, *self._addresses]
        )
        self.admin_tls = ssl.create_default_context(cafile=str(self.ca_file))
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
        self._etcd_port = free_port()
        self.kubeconfig = self.kubeconfig_for("admin", ["system:masters"])

    # How one gets in

    @property
    def ca_file(self) -> Path:
        """The authority that signed the API server's certificate."""
        return self.directory / "ca.crt"

    def client_certificate(self, user: str, groups: Iterable[str] = ()) -> Certificate:
        """A certificate by which Kubernetes knows this user in these groups."""
        return self._authority.client(user, groups)

    def service_account_token(self, namespace: str, name: str, *, lifetime: float = 3600) -> str:
        """A token of an existing ServiceAccount.

        It is signed here with the control plane's own key, because a TokenRequest gives none that ends within ten
        minutes. The API server forgives a minute (`lifetime=-90` has ended for it) and remembers a good token for 10 s.
        """
        account = self.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
        bound = {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]}}
        claims = {"iss": ISSUER, "aud": [ISSUER], "sub": f"system:serviceaccount:{namespace}:{name}"}
        return self._token_key.sign({**claims, "kubernetes.io": bound}, lifetime=lifetime)

    # Its parts

    @property
    def makes_accounts(self) -> bool:
        """The controller manager does that."""
        return "controller-manager" in self.parts

    @property
    def etcd(self) -> Process:
        """The store."""
        return self._processes["etcd"]

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

    # Its life

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
            make = programs.PARTS[part]
            if part == "controller-manager":
                make = functools.partial(programs.controller_manager, controllers=self._controllers)
            command = make(self._files, port=port, kubeconfig=self.kubeconfig)
            self._launch(part, command, functools.partial(self._answers_ok, f"https://{HOST}:{port}/healthz"))
        self.wait_ready()

    def _create_node(self) -> None:
        if not self.exists(f"/api/v1/nodes/{NODE}"):
            self.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})

    # What tests ask of it

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
        revision = int(self._ask_etcd("/v3/kv/range", {"key": encoded(b"/")})["header"]["revision"])
        self._ask_etcd("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def multiply(self, key: str, copies: Iterable[tuple[str, Callable[[bytes], bytes]]]) -> None:
        """Copies what etcd holds under a key to other keys, each changed on the way, past the API server.

        So a benchmark has 100,000 objects in seconds, stored as the API server stored the first.
        """
        held = self._ask_etcd("/v3/kv/range", {"key": encoded(key.encode())})["kvs"][0]["value"]
        stored = base64.b64decode(held)
        puts = ({"requestPut": {"key": encoded(to.encode()), "value": encoded(made(stored))}} for to, made in copies)
        while group := list(itertools.islice(puts, _AT_ONCE)):
            self._ask_etcd("/v3/kv/txn", {"success": group})

    def forget_history(self) -> None:
        """Guarantees that a watch from any resourceVersion that was seen before gets 410 Expired.

        A compaction alone does not: the API server answers from its watch cache, which reaches back to the revision at
        which it started. So it takes a newer revision, a compaction up to it, and another API server.
        """
        self._ask_etcd("/v3/kv/put", {"key": encoded(b"/edgewright/harness"), "value": ""})
        self.compact_etcd()
        self.api.kill()
        self.api.restart()

    def announce_kinds(self) -> None:
        """Lets the garbage collector know at once of kinds that were just installed.

        That of Kubernetes looks for new kinds when it starts and every 30 s, so it is started again.
        """
        self.controller_manager.kill()
        self.controller_manager.restart()

    def _ask_etcd(self, path: str, body: Mapping[str, Any]) -> Any:
        code, answer = self._ask("POST", f"http://{HOST}:{self._etcd_port}{path}", body)
        if code != 200:
            raise RequestError("POST", path, code, answer)
        return json.loads(answer)
