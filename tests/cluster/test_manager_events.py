"""The events that managers record on both API servers."""

from __future__ import annotations

import asyncio

from edgewright.runtime import Client, Condition, Event, ObjectMeta
from tests.cluster.kinds import Widget, install, widget
from tests.cluster.managers import manager_for
from tests.cluster.support import connected, running
from tests.harness import ApiServer


async def events_about(client: Client, obj: Widget) -> list[Event]:
    found = (await client.of(Event).list(obj.metadata.namespace)).items
    return [each for each in found if each.involved_object.uid == obj.metadata.uid]


async def test_events_are_created_counted_up_and_made_of_transitions_only(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        made = await client.of(Widget).create(widget(namespace, "one"))
        manager = manager_for(api_server.kubeconfig, name="tester", namespaces=[namespace])
        async with running(manager):
            recorder = manager.recorder
            recorder.record(made, "Normal", "Started", "it has begun")
            recorder.record(made, "Warning", "Slow", "it takes long")
            await recorder.flush()
            for _ in range(3):
                recorder.record(made, "Warning", "Slow", "it takes long")
            await recorder.flush()
            recorder.record(made, "Warning", "Slow", "it takes long")
            await recorder.flush()
            found = {each.reason: each for each in await events_about(client, made)}
            assert {reason: each.count for reason, each in found.items()} == {"Started": 1, "Slow": 5}
            slow = found["Slow"]
            assert (slow.type, slow.message, slow.source.component) == ("Warning", "it takes long", "tester")
            assert slow.involved_object.name == "one"

            def conditions(status: str, reason: str) -> tuple[Condition, ...]:
                return (Condition(type="Ready", status=status, reason=reason, message=f"{reason} now"),)

            recorder.record_transitions(made, (), conditions("False", "Waiting"))
            recorder.record_transitions(made, conditions("False", "Waiting"), conditions("False", "Waiting"))
            recorder.record_transitions(made, conditions("False", "Waiting"), conditions("True", "Settled"))
            for _ in range(5):
                recorder.record_transitions(made, conditions("True", "Settled"), conditions("True", "Settled"))
            await recorder.flush()
            counts = {each.reason: each.count for each in await events_about(client, made)}
            assert counts == {"Started": 1, "Slow": 5, "Waiting": 1, "Settled": 1}
        # Another process goes on counting where this one ended.
        successor = manager_for(api_server.kubeconfig, name="tester", namespaces=[namespace])
        async with running(successor):
            successor.recorder.record(made, "Warning", "Slow", "it takes long")
            await successor.recorder.flush()
            assert {e.count for e in await events_about(client, made) if e.reason == "Slow"} == {6}
        described = await asyncio.to_thread(api_server.kubectl, "describe", "widget", "one", "-n", namespace)
        assert "it takes long" in described.stdout
        assert "(x6 over" in described.stdout


async def test_an_event_that_expired_is_made_again_and_one_that_is_refused_holds_nobody_up(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        made = await client.of(Widget).create(widget(namespace, "one"))
        manager = manager_for(api_server.kubeconfig, namespaces=[namespace])
        async with running(manager):
            manager.recorder.record(made, "Normal", "Started", "it has begun")
            await manager.recorder.flush()
            (first,) = await events_about(client, made)
            await client.of(Event).delete(first.key)
            nowhere = Widget(metadata=ObjectMeta(name="x", namespace="no-such-namespace", uid="1"))
            manager.recorder.record(nowhere, "Normal", "Lost", "nobody reads this")
            manager.recorder.record(made, "Normal", "Started", "it has begun")
            await manager.recorder.flush()
            (second,) = await events_about(client, made)
            assert second.count == 1
            assert b'edgewright_events_dropped_total{reason="refused"} 1.0' in manager.metrics.render()
