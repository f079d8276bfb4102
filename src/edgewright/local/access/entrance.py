"""All that a control plane needs to let people, programs and its own node in, made or found in its data directory.

`control_plane` creates one `Entrance` at its start, before it listens. It joins the parts of this package and decides
nothing.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from edgewright.local.access import kubeconfig
from edgewright.local.access.accounts import Accounts, Find
from edgewright.local.access.authentication import ADMINISTRATOR, Authentication
from edgewright.local.access.authority import Authority, Identity, client_tls, serving_names, serving_tls
from edgewright.runtime.clock import Clock


class Entrance:
    """The certificates and the token of one data directory, in its folder `pki`."""

    def __init__(self, data: Path, *, host: str, names: Iterable[str] = (), clock: Clock) -> None:
        """For a server that listens on `host` and is also reached under `names`, such as the first Service address."""
        self._data = data
        self._clock = clock
        self.authority = Authority(data / "pki", clock=clock)
        self.token = self.authority.token()
        """What stands for the administrator in an Authorization header."""
        self.authentication = Authentication({self.token: ADMINISTRATOR})
        self._names = serving_names(host, *names)
        self.tls = serving_tls(self._serving(), self.authority.file)
        """TLS of the API server."""

    def renew(self) -> None:
        """Gives new connections a new serving certificate where the present one is near its end; call it daily."""
        self.tls.load_cert_chain(self._serving().file)

    @property
    def administrator(self) -> Identity:
        """The certificate of the administrator, for people."""
        groups = [group for group in ADMINISTRATOR.groups if group != "system:authenticated"]
        return self.authority.client("admin", user=ADMINISTRATOR.name, groups=groups)

    def accounts(self, find: Find) -> Accounts:
        """The tokens of ServiceAccounts, which are believed from now on; `find` reads the store."""
        accounts = Accounts(self._data / "pki" / "service-accounts.pem", find, clock=self._clock)
        self.authentication.reader = accounts
        return accounts

    def kubeconfig(self, server: str) -> dict[str, Any]:
        """The administrator's kubeconfig for a server under this URL."""
        return kubeconfig.document(server=server, authority=self.authority.certificate, identity=self.administrator)

    def component(self, name: str) -> ssl.SSLContext:
        """TLS with which a part of this process, such as its controllers, calls the API server as `system:NAME`."""
        return client_tls(self._component(name), self.authority.file)

    def component_kubeconfig(self, name: str, server: str) -> Path:
        """A file by which a program that such a part starts calls a server under this URL, as the part itself."""
        path = self._data / "pki" / f"{name}.kubeconfig"
        authority, identity = self.authority.certificate, self._component(name)
        kubeconfig.write(path, kubeconfig.document(server=server, authority=authority, identity=identity))
        return path

    def node(self, name: str) -> ssl.SSLContext:
        """TLS with which the node of this name calls the API server."""
        return client_tls(
            self.authority.client(f"node-{name}", user=f"system:node:{name}", groups=["system:nodes"]),
            self.authority.file,
        )

    def node_logs(self, name: str, *addresses: str) -> ssl.SSLContext:
        """TLS with which the node serves logs on these addresses; it talks to nobody without a certificate of ours."""
        identity = self.authority.server(
            f"node-{name}-logs",
            user=f"system:node:{name}",
            groups=["system:nodes"],
            names=["localhost", "127.0.0.1", "::1", name, *addresses],
        )
        context = serving_tls(identity, self.authority.file)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    @property
    def logs_client(self) -> ssl.SSLContext:
        """TLS with which the API server asks a node for logs."""
        identity = self.authority.client("logs-client", user="kube-apiserver-kubelet-client", groups=["system:masters"])
        return client_tls(identity, self.authority.file)

    def _component(self, name: str) -> Identity:
        return self.authority.client(name, user=f"system:{name}", groups=["system:masters"])

    def _serving(self) -> Identity:
        return self.authority.server("serving", user="kube-apiserver", names=self._names)
