"""`edgewright up` as a process for tests, with the same verbs as the real control plane.

Fixtures in `tests/cluster` and `tests/local` start it. The process dies with the test; what its node has started is
ended by `stop`. Its authority is made here, before the first start, so that one can get in at any time.
"""

from __future__ import annotations

import asyncio
import ssl
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from edgewright.local.access import Authority
from edgewright.local.store import Store
from edgewright.runtime.clock import SystemClock

from .apiserver import ApiServer, RequestError
from .certificates import Certificate
from .processes import free_port
from .programs import HOST
from .waiting import wait_until

PROGRAM = Path(sysconfig.get_path("scripts")) / "edgewright"
"""What people type."""


class LocalPlane(ApiServer):
    """One `edgewright up` with its own port and data directory."""

    def __init__(
        self,
        *,
        node: bool = False,
        operator: bool = False,
        arguments: Sequence[str] = (),
        program: Sequence[str] = (str(PROGRAM),),
        directory: Path | None = None,
    ) -> None:
        """Makes the directory and the certificates, and starts nothing.

        `node` lets it run Pods, `operator` adds our kinds and controllers; `arguments` go to the command after ours;
        `program` is run in place of `edgewright`; `directory` is where our directory is made.
        """
        super().__init__(directory)
        self._node = node
        self._operator = operator
        self._arguments = tuple(arguments)
        self._program = tuple(program)
        self.data = self.directory / "data"
        """Its data directory."""
        self._authority = Authority(self.data / "pki", clock=SystemClock())
        admin = self._authority.client("test-admin", user="admin", groups=["system:masters"])
        self.admin_tls = ssl.create_default_context(cafile=str(self.ca_file))
        self.admin_tls.load_cert_chain(admin.file)
        self._choose_ports()

    @property
    def ca_file(self) -> Path:
        """The authority that signed the API server's certificate."""
        return self._authority.file

    @property
    def makes_accounts(self) -> bool:
        """One of its own controllers does that."""
        return True

    def client_certificate(self, user: str, groups: Iterable[str] = ()) -> Certificate:
        """A certificate by which it knows this user in these groups."""
        made = self._authority.client(f"test-{next(self._numbers)}", user=user, groups=list(groups))
        return Certificate(made.certificate.encode(), made.key.encode())

    def stop(self, *, keep: bool = False) -> None:
        """Ends its Pods and then the process; removes the directory, or keeps it with the logs in it."""
        if self._node and self._processes and self.api.running:
            self._end_pods()
        super().stop(keep=keep)

    def forget_history(self) -> None:
        """Guarantees that a watch from any resourceVersion that was seen before gets 410 Expired."""
        self.api.kill()
        asyncio.run(self._compact())
        self.api.restart()

    async def _compact(self) -> None:
        store = await Store.open(self.data, clock=SystemClock())
        try:
            await store.compact(store.revision)
        finally:
            await store.close()

    def _choose_ports(self) -> None:
        self.port = free_port()
        self.kubeconfig = self.kubeconfig_for("admin", ["system:masters"])

    def _start_parts(self) -> None:
        command = [*self._program, "up", "--data", str(self.data), "--listen", f"{HOST}:{self.port}"]
        if not self._node:
            command.append("--no-node")
        elif "--runtime" not in self._arguments:  # an image that nobody has is not looked for anywhere
            command += ["--runtime", "process"]
        if not self._operator:
            command.append("--no-operator")
        self._launch("api", [*command, *self._arguments], lambda: self._answers_ok(f"{self.server}/readyz"))
        self.wait_ready()

    def _end_pods(self) -> None:
        """A Pod outlives `edgewright up` and would outlive the test."""

        def gone() -> bool:
            pods = self.request("GET", "/api/v1/pods")["items"]
            for pod in pods:
                path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
                try:
                    self.request("DELETE", f"{path}?gracePeriodSeconds=1")
                except RequestError as error:
                    if error.code != 404:
                        raise
            return not pods

        wait_until(gone, what="its Pods are gone", interval=0.2)
