"""The parts of document 004 on an API server: kinds, accounts with exactly their rights, a gateway and an operator.

Both run as processes of their own, so that a test can kill them, or in the test's process, so that it can count what
they write. `Provisioner` stands for whoever provides buckets: it fills each claim with a ConfigMap and a Secret.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from edgewright.api.capabilities import EDGE, GATEWAY_RULES, Rule
from edgewright.api.manifests import manifests
from edgewright.runtime.client import Client
from tests.harness import ApiServer, ControlPlane, wait_until_async
from tests.unit.gateway.stage import Device, registration_of

GROUP = "management.project-flotta.io"
CLAIMS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: objectbucketclaims.objectbucket.io
spec:
  group: objectbucket.io
  names: {kind: ObjectBucketClaim, plural: objectbucketclaims, singular: objectbucketclaim}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
_SHARED = (
    Rule(resources=("events",), verbs=("get", "create", "patch"), why="tells what happens"),
    Rule(
        groups=("coordination.k8s.io",),
        resources=("leases",),
        verbs=("get", "create", "update", "patch", "list", "watch"),
        why="leads",
    ),
)


def install(server: ApiServer, *, claims: bool = False) -> None:
    """The kinds of edge devices, and of claims where they are asked for; what another test has left there stays."""
    names = {f"{each.kind.group}_{each.kind.plural}.yaml": each.kind.resource for each in EDGE.kinds}
    documents = {names[name]: text for name, text in manifests().items() if name in names}
    if claims:
        documents["objectbucketclaims.objectbucket.io"] = CLAIMS
    missing = {
        name: text
        for name, text in documents.items()
        if not server.exists(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    }
    if missing:
        server.kubectl("apply", "--server-side", "-f", "-", input="---\n".join(missing.values()))
    for name in documents:
        server.until_served(name)


def account(server: ApiServer, namespace: str, name: str, rules: Iterable[Rule], *, everywhere: bool) -> Path:
    """A kubeconfig of a user that has these rights and no others, in its namespace or everywhere."""
    prefix = "Cluster" if everywhere else ""
    place = {} if everywhere else {"namespace": namespace}
    full = f"{namespace}-{name}"
    user = f"{name}-{namespace[-12:]}"  # in a certificate no name has more than 64 characters
    group = "rbac.authorization.k8s.io"
    stated = [
        {"apiGroups": list(each.groups), "resources": list(each.resources), "verbs": list(each.verbs)} for each in rules
    ]
    objects: list[dict[str, Any]] = [
        {"apiVersion": f"{group}/v1", "kind": f"{prefix}Role", "metadata": {"name": full, **place}, "rules": stated},
        {
            "apiVersion": f"{group}/v1",
            "kind": f"{prefix}RoleBinding",
            "metadata": {"name": full, **place},
            "roleRef": {"apiGroup": group, "kind": f"{prefix}Role", "name": full},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        },
    ]
    if not isinstance(server, ControlPlane):
        return server.kubeconfig  # the embedded control plane has no roles
    server.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    return server.kubeconfig_for(user)


class Program:
    """One `edgewright` process that can be killed and started again."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(Path(sys.executable).parent / "edgewright"), *self._arguments], stdout=log, stderr=log
            )

    def kill(self) -> None:
        """Ends it as a power cut would."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ends it in good order, where it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(120)

    @property
    def said(self) -> str:
        """What it has logged."""
        return self._log.read_text(errors="replace")


def gateway_program(server: ApiServer, namespace: str, directory: Path, *more: str) -> tuple[Program, int]:
    """A gateway with exactly its Role, and its port."""
    file = account(server, namespace, "gateway", GATEWAY_RULES, everywhere=False)
    port = free_port()
    options = ["--kubeconfig", str(file), "--namespace", namespace, "--host", "127.0.0.1", "--port", str(port)]
    return Program(directory / "gateway.log", "gateway", *options, *more), port


def operator_program(server: ApiServer, namespace: str, directory: Path) -> Program:
    """An operator that has the edge capability and exactly its rights."""
    file = account(server, namespace, "operator", (*EDGE.rules, *_SHARED), everywhere=True)
    options = ["--kubeconfig", str(file), "--controllers", "edge", "--lease-namespace", namespace]
    return Program(directory / "operator.log", "run", *options, "--no-leader-elect")


def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


async def until_listening(port: int) -> None:
    """Waits until somebody listens there."""

    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    await wait_until_async(listens, what=f"port {port} is open")


async def device_of(directory: Path, client: Client, namespace: str, port: int, name: str) -> Device:
    """A device that has what a bundle gives it."""
    ca, registration = await registration_of(client, namespace)
    return Device(directory, name, port, ca, registration)


class Provisioner:
    """Fills claims as a provider of buckets does."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server = server
        self._namespace = namespace

    def fill(self) -> list[str]:
        """Makes the ConfigMap and the Secret of every claim that has none; the names of all claims."""
        found = json.loads(
            self._server.kubectl(
                "get", "objectbucketclaims.objectbucket.io", "-n", self._namespace, "-o", "json"
            ).stdout
        )
        names = [each["metadata"]["name"] for each in found["items"]]
        for each in found["items"]:
            name = each["metadata"]["name"]
            if self._server.exists(f"/api/v1/namespaces/{self._namespace}/configmaps/{name}"):
                continue
            place = {"BUCKET_HOST": "s3.example", "BUCKET_PORT": "9000", "BUCKET_NAME": f"bucket-{name}"}
            keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "words"}
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in keys.items()}
            metadata = {"name": name, "namespace": self._namespace}
            objects = [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": place},
                {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded},
            ]
            self._server.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
        return names
