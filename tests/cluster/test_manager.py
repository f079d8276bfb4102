"""Managers on a real API server: how they start, work, speak, hand over and stop."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from edgewright.runtime import (
    Client,
    Condition,
    Event,
    For,
    Key,
    Lease,
    LeaseSettings,
    Manager,
    Maps,
    ObjectMeta,
    Owns,
    Result,
    again,
    config,
)
from edgewright.runtime.errors import LeaseLost, NotFound
from edgewright.runtime.objects import owner_reference
from tests.cluster.kinds import Late, Loose, Widget, WidgetSpec, WidgetStatus, install, widget
from tests.cluster.support import connected, eventually, in_parallel, readiness, ready, requests, running
from tests.harness import ControlPlane

ROOT = Path(__file__).resolve().parents[2]


def manager_for(kubeconfig: Path, **settings: Any) -> Manager:
    return Manager(Client(config.load(kubeconfig=kubeconfig)), health_port=0, **settings)


def quick_lease(namespace: str, identity: str | None = None) -> LeaseSettings:
    return LeaseSettings(
        name="test", namespace=namespace, identity=identity, duration=3, renew_within=2, retry_every=0.3
    )


def allow(cluster: ControlPlane, user: str, *, groups: list[str], resources: list[str]) -> None:
    """Lets a user do everything with these resources, everywhere."""
    role = {"rules": [{"apiGroups": groups, "resources": resources, "verbs": ["*"]}]}
    name = {"metadata": {"name": f"{user}-{'-'.join(resources)}"}}
    rbac = "rbac.authorization.k8s.io"
    cluster.request("POST", f"/apis/{rbac}/v1/clusterroles", {**name, **role})
    cluster.request(
        "POST",
        f"/apis/{rbac}/v1/clusterrolebindings",
        {
            **name,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name["metadata"]["name"]},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        },
    )


def no_traceback(caplog: pytest.LogCaptureFixture) -> bool:
    return not [record for record in caplog.records if record.exc_info]


def warnings(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)


# Starting


async def test_a_manager_without_rights_says_so_and_gets_going_when_it_has_them(
    cluster: ControlPlane, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    user = f"user-{namespace}"
    async with connected(cluster) as client:
        await install(client, Widget)
        made = await client.of(Widget).create(widget(namespace, "one"))
    manager = manager_for(cluster.kubeconfig_for(user), namespaces=[namespace])
    cache = manager.cache(Widget)
    passes: list[Key] = []

    async def reconcile(key: Key) -> None:
        passes.append(key)

    manager.controller("widget", reconcile, For(cache))
    async with running(manager):
        await eventually(lambda: "403" in str(cache.problem), what="the refusal is known")
        code, text = await readiness(manager)
        assert code == 503
        assert f'User "{user}" cannot' in text.replace('\\"', '"')
        assert warnings(caplog, "the watch is broken, trying again") == 1
        await asyncio.sleep(1.2)
        assert requests(manager) <= 4, "a refusal is not asked about in a hot loop"
        assert not passes
        allow(cluster, user, groups=["test.edgewright.dev"], resources=["widgets"])
        await eventually(lambda: ready(manager), timeout=10, what="it is ready")
        await eventually(lambda: passes == [made.key], what="it works")
    assert warnings(caplog, "the watch is broken, trying again") == 1
    assert no_traceback(caplog)


async def test_a_manager_of_a_kind_that_is_not_installed_waits_for_it(
    cluster: ControlPlane, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manager_for(cluster.kubeconfig, namespaces=[namespace])
    cache = manager.cache(Late)
    passes: list[Key] = []

    async def reconcile(key: Key) -> None:
        passes.append(key)

    manager.controller("late", reconcile, For(cache))
    async with running(manager), connected(cluster) as client:
        await eventually(lambda: "404" in str(cache.problem), what="it is known that the kind is missing")
        code, text = await readiness(manager)
        assert code == 503
        assert "cache of lates.test.edgewright.dev failed" in text
        assert warnings(caplog, "the watch is broken, trying again") == 1
        await install(client, Late)
        made = await client.of(Late).create(Late(metadata=ObjectMeta(name="one", namespace=namespace)))
        await eventually(lambda: passes == [made.key], timeout=10, what="it works")
        assert await ready(manager)
    assert no_traceback(caplog)


async def test_a_manager_that_may_not_ask_for_its_lease_is_not_ready_and_says_why(
    cluster: ControlPlane, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    user = f"user-{namespace}"
    manager = manager_for(cluster.kubeconfig_for(user), lease=quick_lease(namespace))
    async with running(manager):
        assert manager.leadership is not None

        async def refused() -> bool:
            code, text = await readiness(manager)
            return code == 503 and "lease" in text and "403" in text

        await eventually(refused, what="the refusal is shown")
        assert warnings(caplog, "cannot ask for the lease, trying again") == 1
        allow(cluster, user, groups=["coordination.k8s.io"], resources=["leases"])
        leadership = manager.leadership
        await eventually(lambda: leadership.leading, what="it leads")
        assert await ready(manager)
    assert no_traceback(caplog)


async def test_a_manager_can_be_stopped_while_it_waits_to_start(cluster: ControlPlane, namespace: str) -> None:
    manager = manager_for(cluster.kubeconfig_for("nobody"), namespaces=[namespace])
    manager.cache(Widget)
    async with running(manager) as task:
        manager.stop()
        await eventually(task.done, timeout=5, what="it has stopped")


# Working


async def test_a_manager_of_some_namespaces_works_on_those_only(cluster: ControlPlane, namespace: str) -> None:
    second, third = [await asyncio.to_thread(cluster.create_namespace, "other") for _ in range(2)]
    passes: set[Key] = set()

    async def reconcile(key: Key) -> None:
        passes.add(key)

    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        for each in (namespace, second, third):
            await api.create(widget(each, "before"))
        manager = manager_for(cluster.kubeconfig, namespaces=[namespace, second])
        manager.controller("widget", reconcile, For(manager.cache(Widget)))
        async with running(manager):
            await eventually(lambda: len(passes) == 2, what="what was there is reconciled")
            for each in (third, second, namespace):
                await api.create(widget(each, "after"))
            await eventually(lambda: len(passes) == 4, what="what came is reconciled")
        assert passes == {Key(each, name) for each in (namespace, second) for name in ("before", "after")}


async def test_a_pass_whose_object_changed_meanwhile_is_made_again_and_ends_right(
    cluster: ControlPlane, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one", count=1))
        manager = manager_for(cluster.kubeconfig, namespaces=[namespace])
        cache = manager.cache(Widget)
        passes = 0

        async def reconcile(key: Key) -> None:
            nonlocal passes
            passes += 1
            obj = cache.get(key)
            assert obj is not None
            if passes == 1:
                await api.patch(key, {"spec": {"count": 2}})  # somebody else is faster
            await manager.client.of(Widget).write_status(obj, WidgetStatus(count=obj.spec.count))

        manager.controller("widget", reconcile, For(cache))
        async with running(manager):

            async def right() -> bool:
                return (await api.get(made.key)).status == WidgetStatus(count=2)

            await eventually(right, what="the status shows the last count")
            assert requests(manager, "PATCH") >= 2
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING], "conflicts are ordinary"


async def test_two_controllers_that_write_the_same_object_both_end_right(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        await in_parallel(api.create(widget(namespace, f"w{index:02}", count=index)) for index in range(30))
        manager = manager_for(cluster.kubeconfig, namespaces=[namespace])
        cache = manager.cache(Widget)

        def writer(change: Callable[[Widget], WidgetStatus]) -> Callable[[Key], Awaitable[None]]:
            async def reconcile(key: Key) -> None:
                obj = cache.get(key)
                if obj is not None:
                    await manager.client.of(Widget).write_status(obj, change(obj))

            return reconcile

        def phased(obj: Widget) -> WidgetStatus:
            return WidgetStatus(phase="Done", count=obj.status.count if obj.status else 0)

        def counted(obj: Widget) -> WidgetStatus:
            return WidgetStatus(phase=obj.status.phase if obj.status else "", count=obj.spec.count)

        manager.controller("phase", writer(phased), For(cache), workers=4)
        manager.controller("count", writer(counted), For(cache), workers=4)
        async with running(manager):

            async def right() -> bool:
                items = (await api.list(namespace)).items
                return all(each.status == WidgetStatus(phase="Done", count=each.spec.count) for each in items)

            await eventually(right, what="every status is whole")


async def test_an_object_that_did_not_decode_is_reconciled_once_it_is_repaired(
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
        await install(client, Loose)
        raw = client.raw(Loose.kind)
        for name, count in (("bad", "three"), ("good", 1)):
            await raw.create(
                {
                    "apiVersion": Loose.kind.api_version,
                    "kind": "Loose",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {"count": count},
                }
            )
        manager = manager_for(cluster.kubeconfig, namespaces=[namespace])
        cache = manager.cache(Loose)
        counts: dict[str, int] = {}

        async def reconcile(key: Key) -> None:
            obj = cache.get(key)
            if obj is not None:
                counts[key.name] = obj.spec.count

        manager.controller("loose", reconcile, For(cache))
        async with running(manager):
            await eventually(lambda: counts == {"good": 1}, what="the readable one is reconciled")
            assert await ready(manager)
            page = manager.metrics.render().decode()
            assert f'edgewright_cache_undecodable_objects{{kind="{Loose.kind.resource}"}} 1.0' in page
            await raw.patch(Key(namespace, "good"), {"spec": {"count": 2}})
            await eventually(lambda: counts == {"good": 2}, what="the rest goes on")
            await raw.patch(Key(namespace, "bad"), {"spec": {"count": 3}})
            await eventually(lambda: counts == {"good": 2, "bad": 3}, what="the repaired one is reconciled")


async def test_a_controller_hears_of_what_its_objects_own_and_of_what_concerns_them(
    cluster: ControlPlane, namespace: str
) -> None:
    """Each `parent-…` has a child of its name; a widget called `wake` concerns them all."""
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        manager = manager_for(cluster.kubeconfig, namespaces=[namespace])
        widgets = manager.cache(Widget)
        children = manager.cache(Widget, labels="role=child")
        passes: list[str] = []

        async def reconcile(key: Key) -> Result | None:
            parent = widgets.get(key)
            if parent is None or not key.name.startswith("parent-"):
                return None
            passes.append(key.name)
            name = f"child-{key.name}"
            if children.get(Key(namespace, name)) is None:
                metadata = ObjectMeta(
                    name=name,
                    namespace=namespace,
                    labels={"role": "child"},
                    owner_references=(owner_reference(parent),),
                )
                await manager.client.of(Widget).create(Widget(metadata=metadata))
            return again(after=3600)

        def parents(obj: Widget) -> list[Key]:
            names = ("parent-a", "parent-b")
            return [Key(namespace, name) for name in names] if obj.metadata.name == "wake" else []

        manager.controller("parent", reconcile, For(widgets), Owns(children), Maps(widgets, parents))
        async with running(manager):
            for name in ("parent-a", "parent-b"):
                await api.create(widget(namespace, name))
            child = Key(namespace, "child-parent-a")
            await eventually(lambda: children.get(child), what="the child is there")
            first = children.get(child)
            assert first is not None
            await eventually(lambda: len(children) == 2, what="both children are there")
            await api.delete(child)

            async def anew() -> bool:
                try:
                    return (await api.get(child)).metadata.uid != first.metadata.uid
                except NotFound:
                    return False

            await eventually(anew, what="the child was made anew")
            before = len(passes)
            await api.create(widget(namespace, "wake"))
            await eventually(lambda: {"parent-a", "parent-b"} <= set(passes[before:]), what="both were woken")


# Events


async def events_about(client: Client, obj: Widget) -> list[Event]:
    found = (await client.of(Event).list(obj.metadata.namespace)).items
    return [each for each in found if each.involved_object.uid == obj.metadata.uid]


async def test_events_are_created_counted_up_and_made_of_transitions_only(
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        made = await client.of(Widget).create(widget(namespace, "one"))
        manager = manager_for(cluster.kubeconfig, name="tester", namespaces=[namespace])
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
        successor = manager_for(cluster.kubeconfig, name="tester", namespaces=[namespace])
        async with running(successor):
            successor.recorder.record(made, "Warning", "Slow", "it takes long")
            await successor.recorder.flush()
            assert {e.count for e in await events_about(client, made) if e.reason == "Slow"} == {6}
        described = await asyncio.to_thread(cluster.kubectl, "describe", "widget", "one", "-n", namespace)
        assert "it takes long" in described.stdout
        assert "(x6 over" in described.stdout


async def test_an_event_that_expired_is_made_anew_and_one_that_is_refused_holds_nobody_up(
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        made = await client.of(Widget).create(widget(namespace, "one"))
        manager = manager_for(cluster.kubeconfig, namespaces=[namespace])
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


# Leading


async def test_of_two_managers_one_works_and_the_other_takes_over_when_it_stops(
    cluster: ControlPlane, namespace: str
) -> None:
    workers: dict[str, set[str]] = {"first": set(), "second": set()}

    def make(identity: str) -> Manager:
        manager = manager_for(
            cluster.kubeconfig,
            namespaces=[namespace],
            # Only the wait between two looks is short: a lease that is not given back would last its 15 s.
            lease=LeaseSettings(name="test", namespace=namespace, identity=identity, retry_every=0.3),
        )
        cache = manager.cache(Widget)

        async def reconcile(key: Key) -> None:
            obj = cache.get(key)
            if obj is not None and obj.status is None:
                await manager.client.of(Widget).write_status(obj, WidgetStatus(phase=identity))
                workers[identity].add(key.name)

        manager.controller("widget", reconcile, For(cache))
        return manager

    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        first, second = make("first"), make("second")
        async with running(second):
            assert first.leadership is not None
            assert second.leadership is not None
            leader = second.leadership
            await eventually(lambda: leader.leading, what="the only one leads")
            async with running(first):
                await api.create(widget(namespace, "a"))
                await eventually(lambda: workers["second"] == {"a"}, what="the leader works")
                assert await ready(first), "one that waits for the lease is well"
                assert await ready(second)
                second.stop()
                stopped = asyncio.get_running_loop().time()
                await api.create(widget(namespace, "b"))
                await eventually(lambda: workers["first"] == {"b"}, timeout=5, what="the other takes over")
                assert asyncio.get_running_loop().time() - stopped < 5
                lease = await client.of(Lease).get(Key(namespace, "test"))
                assert lease.spec.holder_identity == "first"
                assert lease.spec.lease_transitions == 1
                assert not second.leadership.leading
        released = await client.of(Lease).get(Key(namespace, "test"))
        assert not released.spec.holder_identity
    assert workers == {"first": {"b"}, "second": {"a"}}


async def test_a_leader_whose_lease_is_taken_stops_at_once_and_sends_nothing_more(
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        made = await client.of(Widget).create(widget(namespace, "one"))
        manager = manager_for(cluster.kubeconfig, namespaces=[namespace], lease=quick_lease(namespace))
        manager.cache(Widget)
        task = asyncio.create_task(manager.run())
        leadership = manager.leadership
        assert leadership is not None
        await eventually(lambda: leadership.leading, what="it leads")
        await client.of(Lease).patch(Key(namespace, "test"), {"spec": {"holderIdentity": "a thief"}})
        with pytest.raises(LeaseLost, match="held by a thief"):
            await asyncio.wait_for(task, 5)
        with pytest.raises(LeaseLost):
            await manager.client.of(Widget).write_status(made, WidgetStatus(phase="late"))
        await manager.client.close()
        assert (await client.of(Widget).get(made.key)).status is None


# Stopping

_PROGRAM = """
import asyncio, sys
from edgewright.runtime import Client, For, Key, LeaseSettings, Manager, config, logs
from tests.cluster.kinds import Widget, WidgetStatus

async def main(kubeconfig: str, namespace: str) -> None:
    lease = LeaseSettings(name="test", namespace=namespace)
    manager = Manager(Client(config.load(kubeconfig=kubeconfig)), namespaces=[namespace], lease=lease)
    cache = manager.cache(Widget)

    async def reconcile(key: Key) -> None:
        obj = cache.get(key)
        if obj is not None and obj.status is None:
            api = manager.client.of(Widget)
            obj = await api.write_status(obj, WidgetStatus(phase="begun"))
            await asyncio.sleep(1)
            await api.write_status(obj, WidgetStatus(phase="ended"))

    manager.controller("widget", reconcile, For(cache))
    await manager.run(signals=True)

logs.setup(format="json")
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_program_that_is_told_to_end_finishes_what_it_has_begun_and_gives_the_lease_back(
    cluster: ControlPlane, namespace: str, number: signal.Signals
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one"))
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _PROGRAM, str(cluster.kubeconfig), namespace),
            cwd=ROOT,
            stderr=subprocess.PIPE,
        )
        try:

            async def begun() -> bool:
                return (await api.get(made.key)).status == WidgetStatus(phase="begun")

            await eventually(begun, what="the pass is under way")
            program.send_signal(number)
            other = await api.create(widget(namespace, "two"))
            _, output = await asyncio.wait_for(program.communicate(), 20)
        finally:
            if program.returncode is None:
                program.kill()
                await program.communicate()
        said = output.decode()
        assert program.returncode == 0, said
        assert (await api.get(made.key)).status == WidgetStatus(phase="ended")
        assert (await api.get(other.key)).status is None, "nothing new is begun"
        assert not (await client.of(Lease).get(Key(namespace, "test"))).spec.holder_identity
        lines = [json.loads(line) for line in said.splitlines()]
        assert {line["level"] for line in lines} == {"info"}, said


async def test_a_pass_that_does_not_end_is_cut_off_when_the_time_to_drain_is_over(
    cluster: ControlPlane, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        await client.of(Widget).create(widget(namespace, "one"))
    manager = manager_for(cluster.kubeconfig, namespaces=[namespace], lease=quick_lease(namespace), drain_seconds=0.3)
    begun = asyncio.Event()

    async def reconcile(_: Key) -> None:
        begun.set()
        await asyncio.Event().wait()

    manager.controller("widget", reconcile, For(manager.cache(Widget)))
    async with running(manager) as task:
        await asyncio.wait_for(begun.wait(), 10)
        manager.stop()
        await eventually(task.done, timeout=5, what="it has stopped")
    assert warnings(caplog, "passes under way were cut off") == 1
    async with connected(cluster) as client:
        kept = await client.of(Lease).get(Key(namespace, "test"))
        assert kept.spec.holder_identity, "what was sent last may still take effect: the lease runs out by itself"


# Being quiet


@pytest.mark.parametrize("own_cluster", [{"audit": True}], indirect=True, ids=["audited"])
async def test_a_settled_manager_asks_for_nothing_but_its_lease(own_cluster: ControlPlane) -> None:
    user = "quiet"

    def asked() -> list[str]:
        return [
            f"{event['verb']} {event['objectRef']['resource']}"
            for event in own_cluster.audit_events()
            if event["user"].get("username") == user and event["stage"] == "ResponseComplete"
        ]

    async with connected(own_cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        await in_parallel(api.create(widget("default", f"w{index:03}", count=index)) for index in range(100))
        manager = manager_for(
            own_cluster.kubeconfig_for(user, ["system:masters"]),
            lease=LeaseSettings(name="test", namespace="default"),
        )
        cache = manager.cache(Widget)
        manager.cache(Event)

        async def reconcile(key: Key) -> None:
            obj = cache.get(key)
            if obj is not None:
                status = WidgetStatus(count=obj.spec.count, observed_generation=obj.metadata.generation)
                await manager.client.of(Widget).write_status(obj, status)

        manager.controller("widget", reconcile, For(cache), workers=4)
        async with running(manager):
            await eventually(
                lambda: all(each.status and each.status.count == each.spec.count for each in cache) and len(cache),
                what="everything is settled",
            )
            assert asked().count("patch widgets") == 100, "one request an object"
            before = len(asked())
            await asyncio.sleep(5)
            since = asked()[before:]
            assert set(since) == {"patch leases"}
            assert len(since) <= 4
            assert cache.get(Key("default", "w042")) == await api.get(Key("default", "w042"))
            assert WidgetSpec(count=42) == (await api.get(Key("default", "w042"))).spec
