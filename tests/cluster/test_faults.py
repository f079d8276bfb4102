"""The whole runtime while the real server is killed, stopped, loses its memory, its tokens and its kinds."""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from edgewright.runtime import Api, Cache, Client, For, Key, Manager, ObjectMeta, config
from edgewright.runtime.errors import AlreadyExists, Expired, KubernetesError, NotFound
from tests.cluster.kinds import Gizmo, Widget, WidgetSpec, WidgetStatus, install, remove, widget
from tests.cluster.support import (
    Seen,
    connected,
    eventually,
    following,
    in_parallel,
    readiness,
    ready,
    requests,
    running,
)
from tests.harness import ApiServer, ControlPlane, LocalPlane
from tests.harness.fixtures import run


@pytest.fixture(scope="module")
def audited(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The real control plane that this module's tests hurt; each leaves it running. It writes every request down."""
    yield from run(request, functools.partial(ControlPlane, audit=True))


@pytest.fixture(scope="module")
def mortal(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """The `edgewright up` that this module's tests hurt; each leaves it running."""
    yield from run(request, LocalPlane)


@pytest.fixture
def victim(audited: ControlPlane) -> Iterator[ControlPlane]:
    """The real control plane, running at the start of the test, whatever the test before has left of it."""
    yield audited
    revive(audited)


@pytest.fixture(params=["audited", "mortal"], ids=["real", "local"])
def either(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """Each control plane in turn."""
    server: ApiServer = request.getfixturevalue(request.param)
    yield server
    revive(server)


def revive(server: ApiServer) -> None:
    """Ends what a test has done to it."""
    for process in server.processes:
        process.resume()
        if not process.running:
            process.restart()
    server.wait_ready()


def same(cache: Cache[Widget], items: list[Widget]) -> bool:
    return {each.key: each for each in cache} == {each.key: each for each in items}


def asked_by(control_plane: ControlPlane, user: str) -> list[str]:
    """Every request of this user that the server has written down, once each, as verb and resource."""
    seen = {
        event["auditID"]: f"{event['verb']} {event['objectRef']['resource']}"
        for event in control_plane.audit_events()
        if event["user"].get("username") == user and "objectRef" in event
    }
    return list(seen.values())


# The server forgets


async def test_deletions_in_a_gap_that_the_server_has_forgotten_are_seen_once_each(victim: ControlPlane) -> None:
    namespace = victim.create_namespace()
    with victim.proxy() as proxy:
        kubeconfig = victim.kubeconfig_for("gap-watcher", ["system:masters"], server=proxy.url)
        async with connected(victim) as direct, connected(kubeconfig) as client:
            await install(direct, Widget)
            api = direct.of(Widget)
            made = await in_parallel(api.create(widget(namespace, f"w{index:02}")) for index in range(30))
            cache = Cache(client.of(Widget), namespaces=[namespace])
            seen = Seen(cache)
            async with following(cache):
                assert same(cache, made)
                proxy.refuse()
                proxy.cut()
                for each in made[:10]:
                    await api.delete(each.key)
                recreated = [await api.create(widget(namespace, each.metadata.name)) for each in made[5:10]]
                changed = [await api.patch(each.key, {"spec": {"count": 1}}) for each in made[10:15]]
                new = await api.create(widget(namespace, "new"))
                await asyncio.to_thread(victim.forget_history)
                before = len(asked_by(victim, "gap-watcher"))
                proxy.accept()
                fresh = (await api.list(namespace)).items
                assert len(fresh) == 26
                await eventually(lambda: same(cache, fresh), what="the cache is what a fresh list says")
                assert seen.deleted == {each.key: 1 for each in made[:10]}
                for old, again in zip(made[5:10], recreated, strict=True):
                    versions = [old.metadata.resource_version, "gone", again.metadata.resource_version]
                    assert seen.versions(old.key) == versions
                assert seen.versions(changed[0].key)[1:] == [changed[0].metadata.resource_version]
                assert seen.versions(new.key) == [new.metadata.resource_version]
                assert seen.versions(made[20].key) == [made[20].metadata.resource_version]
                assert cache.relists == 1
                # The refused watch, then the list that streams and goes on as a watch; and no more after that.
                await asyncio.sleep(1)
                asked = asked_by(victim, "gap-watcher")[before:]
                assert len(asked) <= 3, asked
                last = await api.create(widget(namespace, "last"))
                await eventually(lambda: cache.get(last.key) == last, what="it watches on")


async def test_pages_that_the_server_has_forgotten_are_expired(victim: ControlPlane) -> None:
    namespace = victim.create_namespace()
    async with connected(victim) as client:
        await install(client, Widget)
        api = client.of(Widget)
        await in_parallel(api.create(widget(namespace, f"w{index}")) for index in range(6))
        pages = api.pages(namespace, size=2)
        assert len((await anext(pages)).items) == 2
        await api.delete(Key(namespace, "w5"))
        await asyncio.to_thread(victim.forget_history)
        with pytest.raises(Expired):
            await anext(pages)
        assert len((await api.list(namespace)).items) == 5


# The server goes away, with writes going on


class Writer:
    """Creates, changes and deletes widgets, and knows what must be there when everything was acknowledged.

    What was not acknowledged is tried again until it is, so a write may happen twice but never not at all.
    """

    def __init__(self, api: Api[Widget], namespace: str, *, objects: int) -> None:
        self._api = api
        self._namespace = namespace
        self._random = random.Random(7)
        self._unused = (f"x{index:04}" for index in range(10_000))
        self.counts: dict[str, int] = {f"w{index:04}": 0 for index in range(objects)}
        self.deleted: set[Key] = set()
        self.written = 0
        self._stopped = asyncio.Event()

    async def fill(self) -> None:
        await in_parallel(self._api.create(widget(self._namespace, name)) for name in self.counts)

    async def run(self, *, hands: int = 4) -> None:
        await asyncio.gather(*(self._hand() for _ in range(hands)))

    def stop(self) -> None:
        self._stopped.set()

    async def _hand(self) -> None:
        while not self._stopped.is_set():
            action = self._random.choices((self._create, self._change, self._delete), (1, 6, 1))[0]
            await action()
            self.written += 1

    async def _create(self) -> None:
        name = next(self._unused)
        await self._insist(lambda: self._api.create(widget(self._namespace, name)), AlreadyExists)
        self.counts[name] = 0

    async def _change(self) -> None:
        name = self._take()
        count = self._random.randrange(1, 1_000_000)
        await self._insist(lambda: self._api.patch(Key(self._namespace, name), {"spec": {"count": count}}))
        self.counts[name] = count

    async def _delete(self) -> None:
        key = Key(self._namespace, self._take())
        await self._insist(lambda: self._api.delete(key), NotFound)
        self.deleted.add(key)

    def _take(self) -> str:
        """One object out of the book while it is written, so that no two hands write the same."""
        name = self._random.choice(list(self.counts))
        del self.counts[name]
        return name

    async def _insist(self, write: Callable[[], Awaitable[object]], *done: type[KubernetesError]) -> None:
        while True:
            try:
                await write()
            except done:
                return
            except KubernetesError:
                await asyncio.sleep(0.1)
            else:
                return


# So long that whoever tries again and again has come to his longest wait; there is nothing to wait for meanwhile.
_AWAY_SECONDS = 3.0


def _kill_the_api_server(victim: ApiServer) -> None:
    victim.api.kill()
    time.sleep(_AWAY_SECONDS)
    victim.api.restart()


def _kill_the_store(victim: ApiServer) -> None:
    assert isinstance(victim, ControlPlane)
    victim.etcd.kill()
    time.sleep(_AWAY_SECONDS)
    victim.etcd.restart()
    victim.wait_ready()


def _freeze_the_api_server(victim: ApiServer) -> None:
    victim.api.stop()
    time.sleep(_AWAY_SECONDS)
    victim.api.resume()
    victim.wait_ready()


@pytest.mark.parametrize(
    ("either", "fault"),
    [
        ("audited", _kill_the_api_server),
        ("audited", _kill_the_store),
        ("audited", _freeze_the_api_server),
        ("mortal", _kill_the_api_server),
        ("mortal", _freeze_the_api_server),
    ],
    ids=["real-API server killed", "real-etcd killed", "real-API server frozen", "local-killed", "local-frozen"],
    indirect=["either"],
)
async def test_nothing_is_lost_when_the_server_goes_away_under_five_hundred_objects(
    either: ApiServer, fault: Callable[[ApiServer], None]
) -> None:
    namespace = either.create_namespace()
    loop = asyncio.get_running_loop()
    async with connected(either, retries=0) as direct:
        await install(direct, Widget)
        writer = Writer(direct.of(Widget), namespace, objects=500)
        await writer.fill()
        manager = Manager(Client(config.load(kubeconfig=either.kubeconfig)), namespaces=[namespace], health_port=0)
        cache = manager.cache(Widget)
        seen = Seen(cache)
        gone: set[Key] = set()

        async def reconcile(key: Key) -> None:
            obj = cache.get(key)
            if obj is None:
                gone.add(key)
                return
            status = WidgetStatus(phase="Done", count=obj.spec.count, observed_generation=obj.metadata.generation)
            await manager.client.of(Widget).write_status(obj, status)

        manager.controller("widget", reconcile, For(cache), workers=4)
        async with running(manager):
            await eventually(lambda: sum(each.status is not None for each in cache) == 500, what="all are reconciled")
            writing = asyncio.create_task(writer.run())
            try:
                await eventually(lambda: writer.written > 50, what="writes go on")
                before = writer.written
                await asyncio.to_thread(fault, either)
                returned = loop.time()
                await eventually(lambda: writer.written > before + 50, what="writes go on again")
            finally:
                writer.stop()
                await writing

            async def true() -> bool:
                # The reconciler's own writes go on, so it is the spec that is compared, and which objects there are.
                fresh = (await direct.of(Widget).list(namespace)).items
                return {each.key: each.spec for each in fresh} == {each.key: each.spec for each in cache}

            await eventually(true, what="the cache is true again")
            print(f"the cache was true again {loop.time() - returned:.2f} s after the server's return")
            assert {each.metadata.name: each.spec.count for each in cache} == writer.counts
            # What was created and deleted while nobody watched was never there; everything else is seen to go.
            assert set(seen.deleted) == writer.deleted & set(seen.added)
            assert set(seen.deleted) >= {key for key in writer.deleted if key.name.startswith("w")} > set()
            assert set(seen.deleted.values()) == {1}

            async def reconciled() -> bool:
                fresh = (await direct.of(Widget).list(namespace)).items
                return all(each.status and each.status.count == each.spec.count for each in fresh)

            await eventually(reconciled, what="every object's last state is reconciled")
            await eventually(lambda: gone == set(seen.deleted), what="every deletion is reconciled")
            fresh = (await direct.of(Widget).list(namespace)).items
            await eventually(lambda: same(cache, fresh), what="the cache is what a fresh list says")
            assert await ready(manager)


async def test_a_manager_that_starts_before_its_server_waits_for_it(
    either: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(either) as client:
        await install(client, Widget)
    either.api.kill()
    manager = Manager(Client(config.load(kubeconfig=either.kubeconfig)), namespaces=["default"], health_port=0)
    cache = manager.cache(Widget)
    async with running(manager):
        await eventually(lambda: either.server in str(cache.problem), what="the reason is known")
        code, text = await readiness(manager)
        assert code == 503
        assert "cache of widgets.test.edgewright.dev failed" in text
        assert either.server in text
        await asyncio.to_thread(either.api.restart)
        await eventually(lambda: ready(manager), what="it is ready")
    assert [each for each in caplog.records if each.exc_info] == []
    assert any("watch failed" in each.getMessage() for each in caplog.records)


# The token changes


@pytest.fixture
def accounts(victim: ControlPlane) -> str:
    """A namespace with two service accounts, `old` and `new`, that may do everything."""
    namespace = victim.create_namespace()
    for name in ("old", "new"):
        victim.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    victim.request(
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    "name": f"system:serviceaccounts:{namespace}",
                }
            ],
        },
    )
    return namespace


def replace_token(file: Path, token: str) -> None:
    """As the kubelet does it: another file takes the place of the old one."""
    written = file.with_suffix(".new")
    written.write_text(token)
    written.replace(file)


async def test_a_refused_token_is_read_again_and_the_request_succeeds(
    victim: ControlPlane, accounts: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(victim.service_account_token(accounts, "old", lifetime=-90))
    kubeconfig = victim.kubeconfig_with({"tokenFile": str(file)})
    async with connected(victim) as direct, connected(kubeconfig) as client:
        await install(direct, Widget)
        codes: list[str] = []
        client.transport.on_answer = lambda method, code: codes.append(f"{method} {code}")
        replace_token(file, victim.service_account_token(accounts, "new"))
        await client.of(Widget).create(widget(accounts, "one"))
        assert codes == ["POST 401", "POST 201"]


async def test_a_watch_whose_token_is_refused_goes_on_with_the_new_one(
    victim: ControlPlane, accounts: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(victim.service_account_token(accounts, "old", lifetime=-90))
    kubeconfig = victim.kubeconfig_with({"tokenFile": str(file)})
    async with connected(victim) as direct, connected(kubeconfig) as client:
        await install(direct, Widget)
        cache = Cache(client.of(Widget), namespaces=[accounts])
        async with following(cache, synced=False):
            await eventually(lambda: "401" in str(cache.problem), what="the refusal is known")
            replace_token(file, victim.service_account_token(accounts, "new"))
            await eventually(lambda: cache.synced, what="the watch stands")
            assert cache.problem is None


async def test_requests_and_watches_go_on_when_the_token_is_rotated_and_the_old_one_ends(
    victim: ControlPlane, accounts: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(victim.service_account_token(accounts, "old"))
    kubeconfig = victim.kubeconfig_with({"tokenFile": str(file)})
    async with connected(victim) as direct, connected(kubeconfig) as client:
        await install(direct, Widget)
        api = client.of(Widget)
        cache = Cache(api, namespaces=[accounts])
        seen = Seen(cache)
        async with following(cache):
            first = await api.create(widget(accounts, "first"))
            await eventually(lambda: cache.get(first.key), what="the first token works")
            replace_token(file, victim.service_account_token(accounts, "new"))
            victim.request("DELETE", f"/api/v1/namespaces/{accounts}/serviceaccounts/old")
            # The server remembers a good token for 10 s; a new one does not.
            victim.api.kill()
            await asyncio.to_thread(victim.api.restart)
            second = await api.create(widget(accounts, "second"))
            await eventually(lambda: cache.get(second.key) == second, what="requests and watches go on")
            assert seen.added == {first.key: 1, second.key: 1}
            assert not seen.deleted
    users = {each["user"].get("username", "") for each in victim.audit_events()}
    assert {user for user in users if f"{accounts}:" in user} == {
        f"system:serviceaccount:{accounts}:old",
        f"system:serviceaccount:{accounts}:new",
    }


# The kind goes away


async def test_a_kind_that_is_removed_and_installed_again_is_followed(
    api_server: ApiServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    def gizmo(name: str) -> Gizmo:
        return Gizmo(metadata=ObjectMeta(name=name, namespace=namespace), spec=WidgetSpec(count=1))

    async with connected(api_server) as client:
        await install(client, Gizmo, Widget)
        api = client.of(Gizmo)
        made = [await api.create(gizmo(f"g{index}")) for index in range(5)]
        manager = Manager(Client(config.load(kubeconfig=api_server.kubeconfig)), namespaces=[namespace], health_port=0)
        gizmos, widgets = manager.cache(Gizmo), manager.cache(Widget)
        seen = Seen(gizmos)
        present: dict[Key, bool] = {}

        async def reconcile(key: Key) -> None:
            present[key] = gizmos.get(key) is not None

        manager.controller("gizmo", reconcile, For(gizmos))
        async with running(manager):
            await eventually(lambda: len(present) == 5, what="the objects are reconciled")
            assert await ready(manager)
            await remove(client, Gizmo)
            await eventually(lambda: gizmos.problem, what="it is known that the kind is gone")
            code, text = await readiness(manager)
            assert code == 503
            assert "gizmos.test.edgewright.dev failed" in text
            assert "404" in text
            await eventually(lambda: not any(present.values()), what="every deletion is reconciled")
            assert seen.deleted == {each.key: 1 for each in made}
            # No hot loop: 0.5 s, 1 s, 2 s … between the tries.
            before = requests(manager)
            await asyncio.sleep(2)
            assert requests(manager) - before <= 5
            # The others go on meanwhile.
            other = await client.of(Widget).create(widget(namespace, "one"))
            await eventually(lambda: widgets.get(other.key), what="another kind is followed as before")
            await install(client, Gizmo)
            new = await api.create(gizmo("g1"))
            await eventually(lambda: present.get(new.key), what="a new object is reconciled")
            await eventually(lambda: ready(manager), what="it is ready again")
            assert list(gizmos) == [new]
    assert [each for each in caplog.records if each.exc_info] == []
