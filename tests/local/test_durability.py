"""`edgewright up` is killed in the midst of twenty writers, time after time: nothing that it acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from edgewright.runtime import Client, Key, Kind, config
from edgewright.runtime.client import Page
from edgewright.runtime.errors import KubernetesError, Unreachable
from edgewright.runtime.objects import RawObject
from tests.harness import LocalPlane, repetition
from tests.harness.waiting import wait_until_async
from tests.local.ledger import Ledger, Write

CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")
NAMESPACE = "default"
LABEL = "suite=durability"
WRITERS = 20
NAMES = 4  # of each writer: few, so that updates and deletions are as frequent as creations


@pytest.mark.repeated
def test_what_was_acknowledged_survives_kill_9_in_the_midst_of_writers(own_plane: LocalPlane) -> None:
    print(f"seed {repetition.seed()} (repeat with EDGEWRIGHT_SEED={repetition.seed()})")
    asyncio.run(killed_again_and_again(own_plane, repetition.times(8, 500), random.Random(repetition.seed())))


async def killed_again_and_again(plane: LocalPlane, rounds: int, chance: random.Random) -> None:
    ledger, texts = Ledger(), itertools.count()
    where = config.load(kubeconfig=plane.kubeconfig)
    async with connected(where) as client:
        first = await client.raw(CONFIG_MAP).list(NAMESPACE, labels=LABEL)
    ledger.watched = int(first.resource_version)
    for _ in range(rounds):
        before = len(ledger.acknowledged)
        async with connected(where) as client:
            watch = asyncio.create_task(follow(client, ledger))
            writers = [asyncio.create_task(write(client, ledger, number, texts, chance)) for number in range(WRITERS)]
            enough = before + chance.randrange(20, 120)
            await wait_until_async(functools.partial(ledger.has, enough), what="it acknowledges writes", timeout=240)
            plane.api.kill()
            await asyncio.gather(watch, *writers)
        plane.api.start()
        async with connected(where) as client:
            asking = functools.partial(listed, plane, client)
            found: Page[RawObject] = await wait_until_async(asking, what="it answers again", timeout=240)
            ledger.settle({about(obj)[0]: about(obj)[1] for obj in found.items}, int(found.resource_version))
            watch = asyncio.create_task(follow(client, ledger))
            # The watch was cut somewhere: from there it must come to the same state.
            await wait_until_async(ledger.caught_up, what="the watch has caught up")
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
    assert ledger.caught_up()
    assert ledger.cut_off >= rounds, "hardly a write was under way when the server was killed"
    assert {each.type for each in ledger.acknowledged} == {"ADDED", "MODIFIED", "DELETED"}


@asynccontextmanager
async def connected(where: config.Config) -> AsyncIterator[Client]:
    async with Client(where, connections=WRITERS, retries=0) as client:
        yield client


async def write(client: Client, ledger: Ledger, writer: int, texts: Iterator[int], chance: random.Random) -> None:
    """One writer, of objects that are its own, until the server is gone."""
    api = client.raw(CONFIG_MAP)
    while True:
        name = f"writer-{writer}-{chance.randrange(NAMES)}"
        there = ledger.there.get(name)
        try:
            if there is not None and chance.random() < 0.3:
                asked = Write("DELETED", name, there)
                above = ledger.ask(asked)
                await api.delete(Key(NAMESPACE, name))
                ledger.acknowledge(asked, None, above)
                continue
            asked = Write("ADDED" if there is None else "MODIFIED", name, str(next(texts)))
            above = ledger.ask(asked)
            wanted = config_map(name, asked.text)
            written = await (api.create(wanted) if there is None else api.replace(wanted))
        except Unreachable:
            return
        assert about(written) == (name, asked.text)
        ledger.acknowledge(asked, int(written["metadata"]["resourceVersion"]), above)


async def follow(client: Client, ledger: Ledger) -> None:
    """A watch that resumes where the one before it ended, until the server is gone."""
    try:
        async for batch in client.raw(CONFIG_MAP).watch(
            NAMESPACE, resource_version=str(ledger.watched), labels=LABEL, seconds=600
        ):
            for event in batch:
                obj: RawObject = msgspec.json.decode(event.object)
                if event.type != "BOOKMARK":
                    ledger.see(Write(event.type, *about(obj)), int(obj["metadata"]["resourceVersion"]))
    except Unreachable:
        return


async def listed(plane: LocalPlane, client: Client) -> Page[RawObject] | None:
    """What there is, once the server answers."""
    assert plane.api.running, plane.api.output()
    try:
        return await client.raw(CONFIG_MAP).list(NAMESPACE, labels=LABEL)
    except KubernetesError:
        return None


def config_map(name: str, text: str) -> RawObject:
    label, value = LABEL.split("=")
    about = {"name": name, "namespace": NAMESPACE, "labels": {label: value}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"text": text}}


def about(obj: RawObject) -> tuple[str, str]:
    return obj["metadata"]["name"], obj["data"]["text"]
