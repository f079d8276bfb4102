"""The life of managers on both API servers: how they start, hand over, stop, and are quiet meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgewright.runtime import Event, For, Key, Lease, LeaseSettings, Manager, ObjectMeta
from edgewright.runtime.errors import LeaseLost
from tests.cluster.kinds import Late, Widget, WidgetSpec, WidgetStatus, install, widget
from tests.cluster.managers import allow, manager_for, no_traceback, quick_lease, warnings
from tests.cluster.support import connected, eventually, in_parallel, readiness, ready, requests, running
from tests.harness import ApiServer, ControlPlane
from tests.harness.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


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
        assert warnings(caplog, "watch failed; retrying") == 1
        await asyncio.sleep(1.2)
        assert requests(manager) <= 4, "a refusal is not asked about in a hot loop"
        assert not passes
        allow(cluster, user, groups=["test.edgewright.dev"], resources=["widgets"])
        await eventually(lambda: ready(manager), what="it is ready")
        await eventually(lambda: passes == [made.key], what="it works")
    assert warnings(caplog, "watch failed; retrying") == 1
    assert no_traceback(caplog)


async def test_a_manager_of_a_kind_that_is_not_installed_waits_for_it(
    api_server: ApiServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manager_for(api_server.kubeconfig, namespaces=[namespace])
    cache = manager.cache(Late)
    passes: list[Key] = []

    async def reconcile(key: Key) -> None:
        passes.append(key)

    manager.controller("late", reconcile, For(cache))
    async with running(manager), connected(api_server) as client:
        await eventually(lambda: "404" in str(cache.problem), what="it is known that the kind is missing")
        code, text = await readiness(manager)
        assert code == 503
        assert "cache of lates.test.edgewright.dev failed" in text
        assert warnings(caplog, "watch failed; retrying") == 1
        await install(client, Late)
        made = await client.of(Late).create(Late(metadata=ObjectMeta(name="one", namespace=namespace)))
        await eventually(lambda: passes == [made.key], what="it works")
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
        assert warnings(caplog, "cannot read the lease; retrying") == 1
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
        await eventually(task.done, what="it has stopped")


# Leading


async def test_of_two_managers_one_works_and_the_other_takes_over_when_it_stops(
    api_server: ApiServer, namespace: str
) -> None:
    workers: dict[str, set[str]] = {"first": set(), "second": set()}

    def make(identity: str) -> Manager:
        manager = manager_for(
            api_server.kubeconfig,
            namespaces=[namespace],
            # Only the wait between two looks is short: a lease that is not given back would outlast our patience.
            lease=LeaseSettings(
                name="test", namespace=namespace, identity=identity, duration=600, renew_within=400, retry_every=0.3
            ),
        )
        cache = manager.cache(Widget)

        async def reconcile(key: Key) -> None:
            obj = cache.get(key)
            if obj is not None and obj.status is None:
                await manager.client.of(Widget).write_status(obj, WidgetStatus(phase=identity))
                workers[identity].add(key.name)

        manager.controller("widget", reconcile, For(cache))
        return manager

    async with connected(api_server) as client:
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
                successor = first.leadership
                await eventually(
                    lambda: successor.leading, what="the other takes over before the lease would have ended"
                )
                await api.create(widget(namespace, "b"))  # not before: who stops may still do what it has heard of
                await eventually(lambda: workers["first"] == {"b"}, what="the other works")
                lease = await client.of(Lease).get(Key(namespace, "test"))
                assert lease.spec.holder_identity == "first"
                assert lease.spec.lease_transitions == 1
                assert not second.leadership.leading
        released = await client.of(Lease).get(Key(namespace, "test"))
        assert not released.spec.holder_identity
    assert workers == {"first": {"b"}, "second": {"a"}}


async def test_a_leader_whose_lease_is_taken_stops_at_once_and_sends_nothing_more(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        made = await client.of(Widget).create(widget(namespace, "one"))
        manager = manager_for(api_server.kubeconfig, namespaces=[namespace], lease=quick_lease(namespace))
        manager.cache(Widget)
        task = asyncio.create_task(manager.run())
        leadership = manager.leadership
        assert leadership is not None
        await eventually(lambda: leadership.leading, what="it leads")
        await client.of(Lease).patch(Key(namespace, "test"), {"spec": {"holderIdentity": "a thief"}})
        with pytest.raises(LeaseLost, match="held by a thief"):
            await asyncio.wait_for(task, 60)
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
    api_server: ApiServer, namespace: str, number: signal.Signals
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one"))
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _PROGRAM, str(api_server.kubeconfig), namespace),
            cwd=ROOT,
            stderr=subprocess.PIPE,
        )
        try:

            async def begun() -> bool:
                return (await api.get(made.key)).status == WidgetStatus(phase="begun")

            await eventually(begun, what="the pass is under way")
            program.send_signal(number)
            other = await api.create(widget(namespace, "two"))
            _, output = await asyncio.wait_for(program.communicate(), PATIENCE)
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
    api_server: ApiServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        await client.of(Widget).create(widget(namespace, "one"))
    manager = manager_for(
        api_server.kubeconfig, namespaces=[namespace], lease=quick_lease(namespace), drain_seconds=0.3
    )
    begun = asyncio.Event()

    async def reconcile(_: Key) -> None:
        begun.set()
        await asyncio.Event().wait()

    manager.controller("widget", reconcile, For(manager.cache(Widget)))
    async with running(manager) as task:
        await asyncio.wait_for(begun.wait(), PATIENCE)
        manager.stop()
        await eventually(task.done, what="it has stopped")
    assert warnings(caplog, "reconciles still running at shutdown were cancelled") == 1
    async with connected(api_server) as client:
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
