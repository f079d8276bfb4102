"""A chart controller against an API server of ours in the test's own process, with a Helm that the test owns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from edgewright.controllers.chart.digests import chart_digest
from edgewright.controllers.chart.operator import add_charts
from edgewright.controllers.chart.policy import Policy
from edgewright.controllers.chart.settings import ChartSettings
from edgewright.controllers.chart.watches import Watch
from edgewright.local import custom
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, Kind, RawObject
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.chart.charts import CONFIG_MAP, SECRET, FakeHelm, write_chart
from tests.unit.controllers.flashjob.harness import Mortal
from tests.unit.local.serving.inprocess import serving
from tests.unit.runtime.fakeserver import running

SHOP = Kind(group="charts.example.com", version="v1alpha1", kind="Shop", plural="shops")
FREE: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": SHOP.resource},
    "spec": {
        "group": SHOP.group,
        "names": {"kind": "Shop", "listKind": "ShopList", "plural": "shops", "singular": "shop"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": SHOP.version,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": FREE, "status": FREE}}},
            }
        ],
    },
}


class Stage:
    """What a test sees: the server, Helm, and the objects."""

    def __init__(self, client: Client, helm: FakeHelm, watch: Watch) -> None:
        self.client = client
        self.helm = helm
        self.watch = watch
        self.shops = client.raw(SHOP)

    async def create(self, name: str = "a", **values: Any) -> RawObject:
        """A Shop with these values."""
        metadata = {"name": name, "namespace": "default"}
        body = {"apiVersion": SHOP.api_version, "kind": "Shop", "metadata": metadata, "spec": values}
        return await self.shops.create(body)

    async def annotate(self, name: str = "a", **annotations: str | None) -> None:
        """Puts annotations of ours on a Shop; None takes one away."""
        marks = {f"edgewright.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
        await self.shops.patch(Key("default", name), {"metadata": {"annotations": marks}})

    async def change(self, name: str = "a", **values: Any) -> None:
        """Puts values over those that a Shop has."""
        await self.shops.patch(Key("default", name), {"spec": values})

    async def conditions(self, name: str = "a") -> dict[str, RawObject]:
        """The conditions of a Shop, by type."""
        found = await self.shops.get(Key("default", name))
        return {each["type"]: each for each in found.get("status", {}).get("conditions", ())}

    async def until(self, holds: Callable[[dict[str, RawObject]], bool], *, what: str, name: str = "a") -> None:
        """Waits until the conditions of a Shop are so."""

        async def true() -> bool:
            return holds(await self.conditions(name))

        await wait_until_async(true, what=what)

    async def until_condition(self, type_: str, status: str, *, reason: str = "", name: str = "a") -> RawObject:
        """The condition once it has this status, and this reason where one is given, for the Shop as it is."""

        async def true() -> RawObject | None:
            found = (await self.shops.get(Key("default", name)))["metadata"]["generation"]
            each = (await self.conditions(name)).get(type_, {})
            current = each.get("observedGeneration") == found and each.get("status") == status
            return each if current and reason in {"", each.get("reason")} else None

        return await wait_until_async(true, what=f"{name} is {type_}={status} {reason}")

    async def until_gone(self, name: str = "a") -> None:
        """Waits until a Shop is gone."""

        async def gone() -> bool:
            try:
                await self.shops.get(Key("default", name))
            except NotFound:
                return True
            return False

        await wait_until_async(gone, what=f"{name} is gone")

    async def greeting(self, name: str = "a") -> str | None:
        """What the ConfigMap of a release says."""
        try:
            found = await self.client.raw(CONFIG_MAP).get(Key("default", name))
        except NotFound:
            return None
        return str(found["data"]["greeting"])

    async def until_greeting(self, text: str, name: str = "a") -> None:
        """Waits until the ConfigMap says so."""

        async def says() -> bool:
            return await self.greeting(name) == text

        await wait_until_async(says, what=f"the ConfigMap of {name} says {text}")

    async def statuses(self, name: str = "a") -> list[str]:
        """The status of every stored revision, oldest first."""
        page = await self.client.raw(SECRET).list("default", labels=f"owner=helm,name={name}")
        found = sorted(page.items, key=lambda each: int(each["metadata"]["labels"]["version"]))
        return [each["metadata"]["labels"]["status"] for each in found]

    async def store(self, secret: RawObject) -> None:
        """Puts a revision there that somebody else made."""
        secret["metadata"]["namespace"] = "default"
        await self.client.raw(SECRET).create(secret)

    @asynccontextmanager
    async def operating(self, **changes: Any) -> AsyncIterator[Mortal]:
        """Runs a controller with fresh caches; what it writes itself is noted."""
        from dataclasses import replace

        manager = Manager(Client(self.client.config))
        mortal = Mortal(manager.client)
        policy = {name: changes.pop(name) for name in list(changes) if hasattr(Policy, name) or name == "values_from"}
        watch = replace(self.watch, policy=replace(self.watch.policy, **policy), **changes)
        add_charts(manager, ChartSettings(served=((watch, SHOP),)), SystemClock(), helm=self.helm)
        async with running(manager.run()):
            yield mortal


@asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    """A server that serves Shops, and a chart for them."""
    chart = write_chart(folder / "shop")
    watch = Watch(
        group=SHOP.group, version=SHOP.version, kind="Shop", chart=chart, chart_name="shop", digest=chart_digest(chart)
    )
    async with serving(folder / "data") as api:
        api.kinds.set_custom(list(custom.served(DEFINITION)))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await api.made("/api/v1/namespaces/default/serviceaccounts", account)
        async with Client(Config(server=api.url, tls=api.tls)) as client:
            yield Stage(client, FakeHelm(client), watch)
