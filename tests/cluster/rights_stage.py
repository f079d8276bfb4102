"""What the matrix of the console's rights stands on: six identities, what each may do, objects of every sort of kind.

`tests/cluster/test_console_rights.py` uses it, on each API server in turn. The rights are written down here once more,
by hand: what `edgewright token` grants, and what an API server makes of it, is held to this table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from edgewright.api import Device, FlashJob
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.runtime.objects import Kind
from tests.acceptance import console_stage as stage
from tests.harness import ApiServer
from tests.unit.cli.command import edgewright

SECRET = "zephyrine"
"""A word that only objects in the hidden namespace have: whoever reads it has seen one of them."""

GROUP = "charts.samutup.com"
KINDS: dict[str, Kind] = {
    "rollouts": FirmwareRollout.kind,
    "flashjobs": FlashJob.kind,
    "edgedevicesignedrequest": EdgeDeviceSignedRequest.kind,
    "devices": Device.kind,
    f"minimarts.{GROUP}": Kind(group=GROUP, version="v1alpha1", kind="Minimart", plural="minimarts"),
    f"depots.{GROUP}": Kind(group=GROUP, version="v1", kind="Depot", plural="depots", namespaced=False),
}
"""Sorts of kinds, by the name that each has in paths: ours and foreign ones, with and without a namespace, and ours
that one makes and another decides about."""

DEPOTS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"depots.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {"kind": "Depot", "listKind": "DepotList", "plural": "depots", "singular": "depot"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}

READ = frozenset({"get", "list", "watch"})
WRITE = frozenset({"create", "patch", "delete"})
ALL = READ | WRITE
MINE: dict[str, dict[str, frozenset[str]]] = {
    "nobody": {},
    "portal": {"flashjobs": READ | {"create", "patch"}, f"minimarts.{GROUP}": READ | {"create", "patch"}},
    "viewer": dict.fromkeys(("rollouts", "flashjobs", "edgedevicesignedrequest", "devices"), READ),
    "approver": {
        "rollouts": READ | {"patch"},
        "flashjobs": READ,
        "edgedevicesignedrequest": READ | {"patch"},
        "devices": READ,
    },
    "operator": {
        "rollouts": ALL,
        "flashjobs": ALL,
        "edgedevicesignedrequest": READ | {"create", "delete"},
        "devices": ALL,
    },
    "admin": dict.fromkeys(KINDS, ALL),
}
"""What each identity may do: with kinds that have namespaces in one of them, except for the administrator."""
ROLES = ("viewer", "approver", "operator", "admin")
"""The identities that `edgewright token --role` makes."""

_FIRMWARE = {"firmware": "registry.example/firmware:1.1.0", "version": "1.1.0"}
SPECS: dict[str, dict[str, Any]] = {
    "rollouts": {"selector": {"labels": {"matchLabels": {"rights": "none"}}}, **_FIRMWARE},
    "flashjobs": {"uuid": ["esp32-nobody-has"], **_FIRMWARE},
    "edgedevicesignedrequest": {"targetNamespace": "default"},
    "devices": {},
    f"minimarts.{GROUP}": {"replicaCount": 2},
    f"depots.{GROUP}": {},
}


@dataclass(frozen=True)
class Rights:
    """One API server with everything in it."""

    server: ApiServer
    namespace: str
    """Where the identities have their rights."""
    hidden: str
    """Where only the administrator has any."""
    tokens: dict[str, str]
    known: dict[bool, set[str]] = field(default_factory=lambda: {False: set(), True: set()})
    """The identities whose rights this API server was seen to know: through a console without and with its cache."""

    @property
    def name(self) -> str:
        """The name of one object of each kind, in both namespaces."""
        return self.namespace

    def here(self, kind: str) -> str:
        """Where a kind is looked at: in the namespace, or nowhere in particular."""
        return self.namespace if KINDS[kind].namespaced else ""

    def may(self, who: str, kind: str, namespace: str) -> frozenset[str]:
        """What an identity may do with a kind, in a namespace or (empty) everywhere."""
        narrow = KINDS[kind].namespaced and namespace != self.namespace
        return frozenset() if narrow and who != "admin" else MINE[who].get(kind, frozenset())

    def path(self, kind: str, namespace: str, name: str = "") -> str:
        """Where the API server has it."""
        return KINDS[kind].path(namespace or None, name or None)

    def body(self, kind: str, name: str, *, secret: str = "") -> dict[str, Any]:
        """An object; a secret is in whatever of it could be shown or searched for."""
        labels = {"rights": "matrix", **({"secret": secret} if secret else {})}
        of = {"apiVersion": KINDS[kind].api_version, "kind": KINDS[kind].kind}
        # What a device waits for is a rollout that nobody but the administrator may see.
        about = {"selector": {"labels": {"matchLabels": {"rights": "matrix"}}}} if name.startswith(SECRET) else {}
        spec = SPECS[kind] | (about if kind == "rollouts" else {})
        return {**of, "metadata": {"name": name, "labels": labels}, "spec": spec}

    def state(self) -> dict[str, str]:
        """Every object of the matrix, in both namespaces and in none, with its version."""
        found = {}
        for kind, of in KINDS.items():
            for where in (self.namespace, self.hidden) if of.namespaced else ("",):
                for each in self.server.request("GET", f"{self.path(kind, where)}?labelSelector=rights")["items"]:
                    found[self.path(kind, where, each["metadata"]["name"])] = each["metadata"]["resourceVersion"]
        return found


@contextmanager
def rights_on(server: ApiServer) -> Iterator[Rights]:
    """Installs the kinds, makes the objects and the identities; all of them go afterwards."""
    stage.install(server)
    with ExitStack() as stack:

        def made(path: str, body: dict[str, Any]) -> None:
            server.request("POST", path, body)
            stack.callback(server.request, "DELETE", f"{path}/{body['metadata']['name']}")

        made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEPOTS)
        server.until_served(DEPOTS["metadata"]["name"])
        namespace, hidden = server.create_namespace("rights"), server.create_namespace("hidden")
        for each in (namespace, hidden):
            stack.callback(server.request, "DELETE", f"/api/v1/namespaces/{each}")
        found = Rights(server, namespace, hidden, {})
        for kind, of in KINDS.items():
            made(found.path(kind, found.here(kind)), found.body(kind, found.name))
            for name in (found.name, f"{SECRET}-1") if of.namespaced else ():
                made(found.path(kind, hidden), found.body(kind, name, secret=SECRET))
        for who in MINE:
            if who in ROLES:
                words = ("token", who, "--revoke", "-n", namespace, "--kubeconfig", server.kubeconfig)
                stack.callback(functools.partial(edgewright, *words, timeout=180))
            found.tokens[who] = _token(found, who)
        yield found


def _token(made: Rights, who: str) -> str:
    """The identity's token: of `edgewright token`, of the docs' portal, or of somebody with no right at all."""
    server, namespace = made.server, made.namespace
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    if who not in ROLES:
        if who == "portal":
            for each in stage.bound(namespace):
                base = "/api/v1" if each["apiVersion"] == "v1" else f"/apis/{each['apiVersion']}"
                server.request("POST", f"{base}/namespaces/{namespace}/{each['kind'].lower()}s", each)
        else:
            server.request("POST", accounts, {"metadata": {"name": who}})
        return str(server.request("POST", f"{accounts}/{who}/token", {"spec": {}})["status"]["token"])
    where = ("-A",) if who == "admin" else ()
    words = ("token", who, "--role", who, *where, "-n", namespace, "--kubeconfig", server.kubeconfig)
    done = edgewright(*words, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
