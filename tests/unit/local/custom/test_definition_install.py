"""Definitions as operators install them: on the embedded server, with the runtime's own client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.custom import Definitions
from edgewright.runtime import definitions
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.definitions import install
from edgewright.runtime.errors import KubernetesError, NotFound
from edgewright.runtime.objects import Key, Kind
from tests.unit.local.custom.samples import GROUP, gadgets, widgets
from tests.unit.local.serving.inprocess import serving
from tests.unit.runtime.fakeserver import running

WIDGETS = Kind(group=GROUP, version="v1", kind="Widget", plural="widgets")


def as_written(document: dict[str, Any]) -> dict[str, Any]:
    """A definition as people write it."""
    spec = {**document["spec"], "names": {"plural": document["spec"]["names"]["plural"]}}
    spec["names"]["kind"] = document["spec"]["names"]["kind"]
    about = {"name": document["metadata"]["name"]}
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": about, "spec": spec}


@asynccontextmanager
async def following(directory: Path) -> AsyncIterator[Client]:
    """A client of a server that follows definitions."""
    clock = SystemClock()
    async with (
        serving(directory) as api,
        running(Definitions(api.store, api.kinds, clock=clock).run()),
        Client(Config(server=api.url, tls=api.tls), clock=clock) as client,
    ):
        yield client


async def test_an_installed_definition_is_served_at_once_and_installed_again_it_stays_as_it_is(tmp_path: Path) -> None:
    async with following(tmp_path) as client:
        assert await install(client, as_written(gadgets())) == "created"
        assert await install(client, as_written(widgets())) == "created"
        assert (await client.raw(WIDGETS).list("default")).items == []
        assert await install(client, as_written(widgets())) == "unchanged"
        changed = as_written(widgets())
        changed["spec"]["names"]["shortNames"] = ["wi"]
        assert await install(client, changed) == "configured"


async def test_a_dry_run_installs_nothing(tmp_path: Path) -> None:
    async with following(tmp_path) as client:
        assert await install(client, as_written(widgets()), dry_run=True) == "created"
        with pytest.raises(NotFound):
            await client.raw(definitions.DEFINITION).get(Key("", f"widgets.{GROUP}"))


async def test_names_that_are_taken_are_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "_REFUSED_SECONDS", 0.1)
    async with following(tmp_path) as client:
        await install(client, as_written(widgets()))
        second = as_written(gadgets())
        second["spec"]["names"]["kind"] = "Widget"
        with pytest.raises(KubernetesError, match=rf"gadgets\.{GROUP}: .*Widget.* is already in use"):
            await install(client, second)


async def test_a_server_that_never_serves_it_is_given_up(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, Client(Config(server=api.url, tls=api.tls), clock=SystemClock()) as client:
        with pytest.raises(KubernetesError, match=r"does not serve it after 0\.1 s"):
            await install(client, as_written(widgets()), within=0.1)
