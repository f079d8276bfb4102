"""A chart on disk and stored releases, for tests of the chart controllers; and a Helm that a test owns.

`FakeHelm` does what the real one does to the world, as far as we look at it: it stores revisions in Secrets with their
labels and applies the objects. It can be told to refuse, to fail, or to die in the middle.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from edgewright.controllers.chart.helm import HelmError, HelmGone, Order, Trial
from edgewright.controllers.chart.manifests import as_applied, parts
from edgewright.controllers.chart.releases import ReleaseSecret, read_content
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, Kind, RawObject

SECRET = ReleaseSecret.kind
CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")
POD = Kind(group="", version="v1", kind="Pod", plural="pods")
_KINDS = {"ConfigMap": CONFIG_MAP, "Pod": POD, "Secret": SECRET}


def write_chart(folder: Path, name: str = "shop") -> Path:
    """A folder with a Chart.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text("greeting: hello\n")
    return folder


def release_secret(
    name: str,
    version: int,
    status: str,
    *,
    labels: dict[str, str] | None = None,
    manifest: str = "",
    chart: str = "shop",
    notes: str = "",
    description: str = "",
    modified: int = 0,
    hooks: list[dict[str, Any]] | None = None,
    config: dict[str, Any] | None = None,
) -> RawObject:
    """What Helm stores of one revision."""
    content = {
        "name": name,
        "version": version,
        "info": {"status": status, "notes": notes, "description": description},
        "chart": {"metadata": {"name": chart, "version": "0.1.0"}},
        "config": config or {},
        "manifest": manifest,
        "hooks": hooks or [],
    }
    packed = base64.b64encode(gzip.compress(json.dumps(content).encode()))
    own = {"owner": "helm", "name": name, "version": str(version), "status": status, "modifiedAt": str(modified)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "helm.sh/release.v1",
        "metadata": {"name": f"sh.helm.release.v1.{name}.v{version}", "labels": {**own, **(labels or {})}},
        "data": {"release": base64.b64encode(packed).decode()},
    }


Mood = Literal["well", "refuses", "fails", "dies"]


@dataclass
class FakeHelm:
    """Stores and applies at once; `moods` say how the next orders end."""

    client: Client
    orders: list[Order] = field(default_factory=list)
    moods: list[Mood] = field(default_factory=list)
    pods: bool = False
    modified: int = 4_000_000_000
    """When a failure was, as Helm writes it; by default in a future in which nothing is tried again yet."""
    tests: dict[str, str] = field(default_factory=dict)
    """The tests of the chart, and how each ends."""
    trials: list[Order] = field(default_factory=list)
    held: asyncio.Event | None = None
    """Orders end when this is set."""

    async def trial(self, order: Order) -> Trial:
        """What an install would make."""
        self.trials.append(order)
        if self.moods and self.moods[0] == "refuses":
            self.moods.pop(0)
            raise HelmError("execution error at (shop/templates/a.yaml:1:1): greeting is required")
        return Trial(self.manifest(order), "adopted notes")

    async def carry_out(self, order: Order) -> None:
        """Does it, as the mood of the moment has it."""
        self.orders.append(order)
        if self.held is not None:
            await self.held.wait()
        mood = self.moods.pop(0) if self.moods else "well"
        if mood == "refuses":
            raise HelmError("execution error at (shop/templates/a.yaml:1:1): greeting is required")
        if order.verb in {"uninstall", "rollback", "test"}:
            if mood == "fails":
                raise HelmError("cannot delete" if order.verb == "uninstall" else f"cannot {order.verb}")
            await {"uninstall": self._uninstall, "rollback": self._rollback, "test": self._test}[order.verb](order)
            return
        version = 1 + max((int(each["metadata"]["labels"]["version"]) for each in await self.stored(order)), default=0)
        status = {"well": "deployed", "fails": "failed", "dies": f"pending-{order.verb}"}[mood]
        if mood == "well":
            for each in await self.stored(order):
                if each["metadata"]["labels"]["status"] == "deployed":
                    change = {"metadata": {"labels": {"status": "superseded"}}}
                    await self.client.raw(SECRET).patch(_key(order, each), change)
        manifest = self.manifest(order)
        secret = release_secret(
            order.release,
            version,
            status,
            labels=dict(order.labels),
            manifest=manifest,
            notes=f"{order.release} says {order.values.get('greeting', 'nothing')}\n",
            description="Upgrade failed: no room" if mood == "fails" else "",
            modified=self.modified if mood == "fails" else 0,
            hooks=[{"name": name, "events": ["test"], "last_run": {"phase": ""}} for name in self.tests],
        )
        secret["metadata"]["namespace"] = order.namespace
        await self.client.raw(SECRET).create(secret)
        if mood == "dies":
            raise HelmGone("the Helm process ended")
        for part in parts(manifest):
            body = as_applied(part, release=order.release, namespace=order.namespace, target=order.namespace)
            await self.client.raw(_KINDS[part.type.kind]).apply(body, manager="helm", force=True)
        if mood == "fails":
            raise HelmError("no room")

    def manifest(self, order: Order) -> str:
        """What the chart renders: a ConfigMap, and a Pod where a test wants one."""
        bodies: list[Any] = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": order.release},
                "data": {"greeting": str(order.values.get("greeting", "nothing"))},
            }
        ]
        if order.values.get("password"):
            secret = {"name": f"{order.release}-password"}
            data = {"password": base64.b64encode(str(len(self.orders)).encode()).decode()}
            bodies.append({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "data": data})
        if self.pods:
            containers = [{"name": "main", "image": "shop"}]
            spec = {"containers": containers, "automountServiceAccountToken": False}
            bodies.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": order.release}, "spec": spec})
        return "".join(f"---\n{yaml.safe_dump(body)}" for body in bodies)

    async def stored(self, order: Order) -> list[RawObject]:
        """The stored revisions of a release."""
        page = await self.client.raw(SECRET).list(order.namespace, labels=f"owner=helm,name={order.release}")
        return page.items

    async def _uninstall(self, order: Order) -> None:
        for kind in _KINDS.values():
            try:
                await self.client.raw(kind).delete(Key(order.namespace, order.release))
            except NotFound:
                continue
        stored = await self.stored(order)
        for each in stored:
            if not order.keep_history:
                await self.client.raw(SECRET).delete(_key(order, each))
        if order.keep_history:
            newest = max(stored, key=lambda each: int(each["metadata"]["labels"]["version"]))
            change = {"metadata": {"labels": {"status": "uninstalled", "modifiedAt": str(self.modified)}}}
            await self.client.raw(SECRET).patch(_key(order, newest), change)

    async def _rollback(self, order: Order) -> None:
        stored = {int(each["metadata"]["labels"]["version"]): each for each in await self.stored(order)}
        target = stored[order.target]
        version = 1 + max(stored)
        await self.client.raw(SECRET).patch(_key(order, target), {"metadata": {"labels": {"status": "superseded"}}})
        labels = {**target["metadata"]["labels"], "version": str(version), "modifiedAt": str(self.modified)}
        names = {"name": f"sh.helm.release.v1.{order.release}.v{version}", "namespace": order.namespace}
        copied = {key: value for key, value in target.items() if key not in {"metadata", "status"}}
        await self.client.raw(SECRET).create(
            {**copied, "metadata": {**names, "labels": {**labels, "status": "deployed"}}}
        )
        for part in parts(read_content(target).manifest):
            body = as_applied(part, release=order.release, namespace=order.namespace, target=order.namespace)
            await self.client.raw(_KINDS[part.type.kind]).apply(body, manager="helm", force=True)

    async def _test(self, order: Order) -> None:
        newest = max(await self.stored(order), key=lambda each: int(each["metadata"]["labels"]["version"]))
        content = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(newest["data"]["release"]))))
        content["hooks"] = [{**each, "last_run": {"phase": self.tests[each["name"]]}} for each in content["hooks"]]
        packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(content).encode()))).decode()
        await self.client.raw(SECRET).patch(_key(order, newest), {"data": {"release": packed}})
        if "Failed" in self.tests.values():
            raise HelmError("a test failed")


def _key(order: Order, secret: RawObject) -> Key:
    return Key(order.namespace, secret["metadata"]["name"])
