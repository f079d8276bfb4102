"""A chart on disk and stored releases, for tests of the chart controllers; and a Helm that a test owns.

`FakeHelm` does what the real one does to the world, as far as we look at it: it stores revisions in Secrets with their
labels and applies the objects. It can be told to refuse, to fail, or to die in the middle.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from edgewright.controllers.chart.helm import HelmError, HelmGone, Order
from edgewright.controllers.chart.manifests import as_applied, parts
from edgewright.controllers.chart.releases import ReleaseSecret
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, Kind, RawObject

SECRET = ReleaseSecret.kind
CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")
POD = Kind(group="", version="v1", kind="Pod", plural="pods")
_KINDS = {"ConfigMap": CONFIG_MAP, "Pod": POD}


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
) -> RawObject:
    """What Helm stores of one revision."""
    content = {
        "name": name,
        "version": version,
        "info": {"status": status, "notes": notes, "description": description},
        "chart": {"metadata": {"name": chart, "version": "0.1.0"}},
        "config": {},
        "manifest": manifest,
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

    async def carry_out(self, order: Order) -> None:
        """Does it, as the mood of the moment has it."""
        self.orders.append(order)
        mood = self.moods.pop(0) if self.moods else "well"
        if mood == "refuses":
            raise HelmError("execution error at (shop/templates/a.yaml:1:1): greeting is required")
        if order.verb == "uninstall":
            if mood == "fails":
                raise HelmError("cannot delete")
            await self._uninstall(order)
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
            modified=4_000_000_000 if mood == "fails" else 0,
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
        for each in await self.stored(order):
            await self.client.raw(SECRET).delete(_key(order, each))


def _key(order: Order, secret: RawObject) -> Key:
    return Key(order.namespace, secret["metadata"]["name"])
