"""What tests of charts do on an API server: a chart with every weak point on demand, its kind, and the operator.

The operator is `edgewright run` as a process, with the real Helm. The chart is in the folder `weak`; a test asks for a
weak point by a value. It runs on the real API server and on `edgewright up` alike.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness import ApiServer, wait_until
from tests.unit.cli.command import PROGRAM, environment

CHART = Path(__file__).with_name("weak")
GROUP = "charts.example.com"
MERGE = "application/merge-patch+json"
LIMIT = 180.0
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(kind: str, scope: str = "Namespaced") -> dict[str, Any]:
    """A definition as operator-sdk makes it: spec and status are free."""
    plural = f"{kind.lower()}s"
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _FREE, "status": _FREE}}},
    }
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": scope, "versions": [version]},
    }


class ChartStage:
    """An API server that serves Weak and Heavy, and the folder of their operator."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        shutil.copytree(CHART, folder / "weak")
        heavy = folder / "heavy"
        (heavy / "templates").mkdir(parents=True)
        (heavy / "Chart.yaml").write_text("apiVersion: v2\nname: heavy\nversion: 0.1.0\n")
        (heavy / "blob.txt").write_text(secrets.token_hex(900_000))
        shutil.copy(CHART / "templates" / "main.yaml", heavy / "templates")
        (heavy / "values.yaml").write_text("port: 80\n")
        # What failed is tried again on request alone: how long a test takes must not decide how often it was. That it
        # is tried again by itself, and when, is in the unit tests.
        once = {"remediation": {"retries": 0}}
        entries = [
            {"group": GROUP, "version": "v1alpha1", "kind": kind, "chart": kind.lower(), **once}
            for kind in ("Weak", "Heavy")
        ]
        (folder / "watches.yaml").write_text(json.dumps(entries))
        for kind in ("Weak", "Heavy"):
            self.serve(kind)

    def serve(self, kind: str, scope: str = "Namespaced") -> None:
        """Has the API server serve a kind."""
        wanted, path = definition(kind, scope), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        if not self.server.exists(f"{path}/{wanted['metadata']['name']}"):
            self.server.request("POST", path, wanted)
        objects = f"/apis/{GROUP}/v1alpha1/{kind.lower()}s"
        wait_until(functools.partial(self.server.exists, objects), what=f"{kind} is served", timeout=LIMIT)

    @contextmanager
    def operator(self, *arguments: str, namespace: str = "", name: str = "operator") -> Iterator[Operator]:
        """`edgewright run` as a process, for one namespace where one is named."""
        operator = Operator(self, arguments, namespace, self.folder / f"{name}.log")
        try:
            yield operator
        finally:
            operator.kill()

    def in_namespace(self, namespace: str) -> Weaks:
        """What a test does in its namespace."""
        return Weaks(self.server, namespace)


class Operator:
    """One process of the operator."""

    def __init__(self, stage: ChartStage, arguments: tuple[str, ...], namespace: str, log: Path) -> None:
        self._log = log
        self.arguments = ("run", "--controllers", "charts", "--watches-file", "watches.yaml", "--no-leader-elect")
        with log.open("a") as out:
            self._start = out.tell()
            self.process = subprocess.Popen(
                [PROGRAM, *self.arguments, *arguments],
                cwd=stage.folder,
                env=environment(KUBECONFIG=str(stage.server.kubeconfig), WATCH_NAMESPACE=namespace),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def said(self, message: str) -> list[dict[str, Any]]:
        """The lines with this message since its start."""
        text = self._log.read_text()[self._start :]
        lines = [line for line in text.splitlines(keepends=True) if line.startswith("{") and line.endswith("\n")]
        return [each for each in map(json.loads, lines) if each["msg"] == message]

    def until_said(self, message: str) -> dict[str, Any]:
        """The first line with this message."""
        return wait_until(lambda: self.said(message), what=f"{self._log}: {message}", timeout=LIMIT)[0]

    def kill(self) -> None:
        """Ends it as a power cut would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Weaks:
    """The objects of one namespace."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.server = server
        self.namespace = namespace
        self.core = f"/api/v1/namespaces/{namespace}"

    def path(self, name: str, kind: str = "Weak") -> str:
        """Where an object is."""
        return f"/apis/{GROUP}/v1alpha1/namespaces/{self.namespace}/{kind.lower()}s/{name}".rstrip("/")

    def create(self, name: str, kind: str = "Weak", annotations: dict[str, str] | None = None, **values: Any) -> None:
        """An object with these values."""
        metadata = {"name": name, "annotations": annotations or {}}
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": metadata, "spec": values}
        self.server.request("POST", self.path("", kind), body)

    def change(self, name: str, **values: Any) -> None:
        """Puts these values over those that it has; None takes one away."""
        self.server.request("PATCH", self.path(name), {"spec": values}, content_type=MERGE)

    def annotate(self, name: str, **annotations: str | None) -> None:
        """Puts annotations of ours on it; None takes one away."""
        marks = {f"edgewright.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
        self.server.request("PATCH", self.path(name), {"metadata": {"annotations": marks}}, content_type=MERGE)

    def delete(self, name: str) -> None:
        """Deletes it and waits until it is gone."""
        self.server.request("DELETE", self.path(name))
        wait_until(lambda: not self.server.exists(self.path(name)), what=f"{name} is gone", timeout=LIMIT)

    def get(self, name: str, kind: str = "Weak") -> dict[str, Any]:
        """The object as it is."""
        found: dict[str, Any] = self.server.request("GET", self.path(name, kind))
        return found

    def conditions(self, name: str, kind: str = "Weak") -> dict[str, dict[str, Any]]:
        """Its conditions by type."""
        return _conditions(self.get(name, kind))

    def until(
        self, name: str, type_: str, status: str, *, reason: str = "", kind: str = "Weak", timeout: float = LIMIT
    ) -> dict[str, Any]:
        """The condition once it has this status for the object as it is now."""

        def holds() -> dict[str, Any] | None:
            is_now = self.get(name, kind)
            found = _conditions(is_now).get(type_, {})
            current = found.get("observedGeneration") == is_now["metadata"]["generation"] and found["status"] == status
            return found if current and reason in {"", found.get("reason")} else None

        try:
            return wait_until(holds, what=f"{name} is {type_}={status} {reason}", timeout=timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(self.conditions(name, kind))}") from None

    def revisions(self, name: str) -> list[tuple[int, str]]:
        """Version and status of every stored revision, oldest first."""
        found = self.server.request("GET", f"{self.core}/secrets?labelSelector=owner=helm,name={name}")["items"]
        labels = [each["metadata"]["labels"] for each in found]
        return sorted((int(each["version"]), each["status"]) for each in labels)

    def stored(self, name: str, version: int) -> dict[str, Any]:
        """What Helm stored of one revision."""
        secret = self.server.request("GET", f"{self.core}/secrets/sh.helm.release.v1.{name}.v{version}")
        packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
        found: dict[str, Any] = json.loads(gzip.decompress(packed))
        return found

    def config_map(self, name: str) -> dict[str, str]:
        """What a ConfigMap holds."""
        found: dict[str, str] = self.server.request("GET", f"{self.core}/configmaps/{name}")["data"]
        return found

    def edit(self, name: str, **data: str) -> None:
        """Changes a ConfigMap as a person would."""
        self.server.request("PATCH", f"{self.core}/configmaps/{name}", {"data": data}, content_type=MERGE)

    def until_greeting(self, name: str, text: str) -> None:
        """Waits until the ConfigMap of a release says so."""
        wait_until(lambda: self.config_map(name)["greeting"] == text, what=f"{name} says {text}", timeout=LIMIT)


def _conditions(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["type"]: each for each in found.get("status", {}).get("conditions", ())}
