"""The console's rights as a table, on both API servers: six identities, every operation, every sort of kind.

Whoever may, is answered; whoever may not, gets 403 with the API server's own words to that token, nothing is changed,
and no answer, list, stream or search holds a word of what the token may not see. One difference to kubectl is expected:
from the shared cache a list or a stream of ours over all namespaces has those in which the token may list or watch.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from edgewright.api.fleet import FLEET, Fleet, FleetSpec, switched
from edgewright.console import OPERATIONS, Settings
from edgewright.console.kinds import OURS
from edgewright.runtime import config
from tests.cluster.rights_stage import ALL, KINDS, MINE, ROLES, SECRET, Rights, rights_on
from tests.harness import ApiServer, wait_until_async
from tests.unit.console.consoles import HERE, PLENTY, Answer, Application, calling, in_front_of
from tests.unit.console.events import events, until

IDENTITIES = tuple(MINE)
OTHERS = tuple(who for who in IDENTITIES if who != "admin")
IN_PART = {"portal": 1, "viewer": 3, "approver": 3, "operator": 3}
"""How many kinds of ours each identity may read in its namespace, and not in all."""
CHANGE = {"metadata": {"labels": {"changed": "yes"}}}


class Need(NamedTuple):
    """A right."""

    verb: str
    kind: str
    namespace: str


@dataclass(frozen=True, eq=False)
class Case:
    """A request to the console, and the rights that it takes, in the order in which they are asked for."""

    operation: str
    needs: tuple[Need, ...]
    method: str
    path: str
    body: Any = None

    @property
    def trial(self) -> str:
        """The same path for a request that must change nothing where it is allowed."""
        return self.path if self.method == "GET" else f"{self.path}?dryRun=All"


def cases(rights: Rights) -> Iterator[Case]:
    """Every operation on objects, on every kind: where the identities have their rights, and where they have none."""
    for kind, of in KINDS.items():
        suffix = "InNamespace" if of.namespaced else ""
        for place in (rights.namespace, rights.hidden) if of.namespaced else ("",):
            path = f"/api/v1/namespaces/{place}/{kind}" if place else f"/api/v1/{kind}"
            one, new = f"{path}/{rights.name}", f"{path}/{rights.name}-new"
            body, other = rights.body(kind, rights.name), rights.body(kind, f"{rights.name}-new")
            get, lists, watch, create, patch, delete = (
                Need(verb, kind, place) for verb in ("get", "list", "watch", "create", "patch", "delete")
            )
            within = f"&namespace={place}" if place else ""
            yield Case(f"list{suffix}", (lists,), "GET", path)
            yield Case(f"get{suffix}", (get,), "GET", one)
            yield Case("watch", (watch,), "GET", f"/api/v1/stream?of={kind}{within}")
            yield Case("watch", (watch,), "GET", f"/api/v1/stream?of={kind}{within}&name={rights.name}")
            yield Case(f"create{suffix}", (create,), "POST", path, other)
            yield Case(f"apply{suffix}", (patch,), "PUT", one, body)
            yield Case(f"apply{suffix}", (patch, create), "PUT", new, other)
            yield Case(f"patch{suffix}", (patch,), "PATCH", one, CHANGE)
            yield Case(f"delete{suffix}", (delete,), "DELETE", one)
        if of.namespaced:
            yield Case("list", (Need("list", kind, ""),), "GET", f"/api/v1/{kind}")
            yield Case("watch", (Need("watch", kind, ""),), "GET", f"/api/v1/stream?of={kind}")


def questions(rights: Rights) -> Iterator[Case]:
    """The operations that are about the fleet, or about the API itself."""
    device = f"/api/v1/devices/{rights.name}"
    spec = {"spec": rights.body("rollouts", "")["spec"]}
    yield Case("fleet", (Need("list", "devices", ""),), "GET", "/api/v1/fleet?groupBy=rights")
    yield Case("deviceWhy", (Need("get", "devices", ""),), "GET", f"{device}/why")
    yield Case("deviceHistory", (Need("get", "devices", ""),), "GET", f"{device}/history")
    for place in (rights.namespace, rights.hidden):  # it is a question about devices, wherever the rollout would be
        path = f"/api/v1/namespaces/{place}/rollouts/plan"
        yield Case("planRollout", (Need("list", "devices", ""),), "POST", path, spec)
    yield Case("whoAmI", (), "GET", f"/api/v1/me?of=rollouts&namespace={rights.hidden}")
    yield Case("listKinds", (), "GET", "/api/v1/kinds")
    for kind in KINDS:
        yield Case("describeKind", (), "GET", f"/api/v1/kinds/{kind}/schema")
    yield Case("describe", (), "GET", "/api/v1/openapi.json")
    yield Case("explainProblem", (), "GET", "/api/v1/problems/forbidden")


def actions(path: str, place: str) -> Iterator[Case]:
    """The actions on a rollout, in an order in which each of them changes something."""
    get, patch, create = (Need(verb, "rollouts", place) for verb in ("get", "patch", "create"))
    for action in ("pause", "resume"):
        yield Case("actOnRollout", (get, patch), "POST", f"{path}/{action}", {})
    yield Case("recallRollout", (get, create, patch), "POST", f"{path}/recall", {})


SWITCH = "/api/v1/fleet/{}"
"""Who freezes the fleet changes the one object of a kind that has no other: it is asked for outside of the table."""


class Matrix:
    """A console in front of the API server, with each identity as a caller of both."""

    def __init__(self, rights: Rights, anyone: Application, known: set[str]) -> None:
        self.rights = rights
        self._known = known
        self._anyone = anyone
        self._tls = ssl.create_default_context(cafile=str(rights.server.ca_file))

    def application(self, who: str) -> Application:
        """The identity as a caller of the console."""
        return Application(self._anyone.url, self._anyone.session, self.rights.tokens[who])

    def missing(self, who: str, case: Case) -> Need | None:
        """The first of the rights that an identity lacks for a request."""
        return next((need for need in case.needs if need.verb not in self.rights.may(who, *need[1:])), None)

    def is_shown_in_part(self, who: str, need: Need) -> bool:
        """Whether a console with the shared cache shows a part where kubectl is refused: the one expected difference.

        What is refused is a kind of ours over all namespaces, to who may read it in one of them.
        """
        everywhere = KINDS[need.kind].namespaced and not need.namespace and need.verb in {"list", "watch"}
        return everywhere and need.kind in OURS and need.verb in self.rights.may(who, need.kind, self.rights.namespace)

    async def shown_by_kubectl(self, who: str, kind: str) -> list[dict[str, Any]]:
        """What the API server itself shows the identity of a kind, namespace by namespace, in the order of lists."""
        found: list[dict[str, Any]] = []
        refused = 0
        headers = {"Authorization": f"Bearer {self.rights.tokens[who]}"}
        namespaces = self.rights.server.request("GET", "/api/v1/namespaces")["items"]
        for place in sorted(each["metadata"]["name"] for each in namespaces):
            url = f"{self.rights.server.server}{self.rights.path(kind, place)}"
            async with self._anyone.session.get(url, headers=headers, ssl=self._tls) as answer:
                said = await answer.json()
                assert answer.status in {200, 403}, (who, kind, place, said)
                refused += answer.status == 403
                found += said.get("items", ())
        assert refused, (who, kind)  # or it would be no part
        for each in found:
            each["metadata"].pop("managedFields", None)
        return found

    async def check_shown_in_part(self, who: str, case: Case) -> None:
        """The answer has what kubectl shows in each namespace in which the identity may, and nothing else."""
        (need,) = case.needs
        caller = self.application(who)
        wanted = await self.shown_by_kubectl(who, need.kind)
        assert wanted, (who, case)
        if need.verb == "list":
            answer = await caller(case.method, case.path)
            assert (answer.status, answer.body.get("items")) == (200, wanted), (who, case, answer.body)
            return
        async with caller.stream(case.path.partition("?")[2]) as stream:
            assert stream.status == 200, (who, case)
            *told, _ = await until(events(stream), "synced")
            assert [(each.name, each.data) for each in told] == [("added", each) for each in wanted], (who, case)

    async def words(self, who: str, need: Need) -> str:
        """What the API server itself answers the identity who asks for what it may not."""
        path = self.rights.path(need.kind, need.namespace)
        one = f"{path}/{self.rights.name}"
        method, target, body = {
            "get": ("GET", one, None),
            "list": ("GET", path, None),
            "watch": ("GET", f"{path}?watch=1", None),
            "create": ("POST", path, self.rights.body(need.kind, f"{self.rights.name}-new")),
            "patch": ("PATCH", one, CHANGE),
            "delete": ("DELETE", one, None),
        }[need.verb]
        headers = {
            "Authorization": f"Bearer {self.rights.tokens[who]}",
            "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json",
        }
        url = f"{self.rights.server.server}{target}"
        async with self._anyone.session.request(method, url, json=body, headers=headers, ssl=self._tls) as answer:
            said = await answer.json()
            assert answer.status == 403, (who, need, said)
            return str(said["message"])

    async def check_refused(self, who: str, need: Need, answer: Answer) -> None:
        """The answer is a problem that says what is missing, in the API server's words."""
        about = (who, need, answer.body)
        assert (answer.status, answer.headers["Content-Type"]) == (403, "application/problem+json"), about
        assert _about_any(answer.body["detail"]) == _about_any(await self.words(who, need)), about
        told = {name: answer.body.get(name, "") for name in ("verb", "resource", "namespace", "user")}
        assert told == {
            "verb": need.verb,
            "resource": KINDS[need.kind].resource,
            "namespace": need.namespace,
            "user": f"system:serviceaccount:{self.rights.namespace}:{who}",
        }, about

    async def known(self, who: str) -> None:
        """Waits until the API server knows the identity's rights; the console says the same of them as the table.

        Once is enough for an API server, which forgets none of them, and for a way of reading.
        """
        if who in self._known:
            return
        caller = self.application(who)
        for kind in KINDS:
            for place in {self.rights.here(kind), ""}:
                wanted = self.rights.may(who, kind, place)

                async def agrees(kind: str = kind, place: str = place, wanted: frozenset[str] = wanted) -> bool:
                    told = await caller("GET", f"/api/v1/me?of={kind}&namespace={place}")
                    if told.status == 404:  # the API server lists a kind a moment after it serves it
                        return False
                    assert told.status == 200, (who, kind, told.body)
                    return {verb for verb, may in told.body["rights"]["verbs"].items() if may} & ALL == wanted

                await wait_until_async(agrees, what=f"{who} may {sorted(wanted)} {kind} in {place or 'all'}")
        self._known.add(who)


def _about_any(words: str) -> str:
    """The API server's words without the name of the object, which is another one for a request that makes one."""
    return words.partition(" is forbidden: ")[2]


@pytest.fixture(scope="module")
def rights(api_server: ApiServer) -> Iterator[Rights]:
    """The identities and their objects, on each API server in turn."""
    with rights_on(api_server) as made:
        yield made


@pytest.fixture(params=[False, True], ids=["as-caller", "shared-cache"])
def cached(request: pytest.FixtureRequest) -> bool:
    """Whether the console reads our kinds once for all: whoever reads must notice no difference."""
    return bool(request.param)


@asynccontextmanager
async def matrix_of(rights: Rights, *, cached: bool = False) -> AsyncIterator[Matrix]:
    """A console in this process: with the administrator's kubeconfig, of which it must lend nobody anything."""
    settings = Settings(gate=HERE, limits=PLENTY, shared_cache=cached, page=Path("not built"))
    loaded = config.load(kubeconfig=rights.server.kubeconfig)
    async with in_front_of(loaded, settings) as (_, url), calling() as session:
        yield Matrix(rights, Application(url, session), rights.known[cached])


def test_no_operation_is_left_out_of_the_table() -> None:
    rights = Rights(server=None, namespace="here", hidden="there", tokens={})  # type: ignore[arg-type]
    told = {case.operation for source in (cases(rights), questions(rights), actions("", "here")) for case in source}
    # Each has a test of its own.
    apart = {"signIn", "signOut", "switchFleet", "undoRollout", "deviceLogs", "releaseDevice"}
    apart |= {"events", "eventsInNamespace"}
    assert told | apart == {each.name for each in OPERATIONS}


@pytest.fixture
def fleet(rights: Rights) -> Iterator[None]:
    """The switch of the whole fleet, which is not frozen; it is gone afterwards, as others list what is there."""
    rights.server.request("POST", Fleet.kind.path(), switched(FleetSpec()))
    yield
    rights.server.request("DELETE", Fleet.kind.path(name=FLEET))


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("who", IDENTITIES)
async def test_the_fleet_is_frozen_by_who_may_patch_it_alone(rights: Rights, who: str) -> None:
    async with matrix_of(rights) as matrix:
        await matrix.known(who)
        caller = matrix.application(who)
        for action in ("freeze", "unfreeze", "unfreeze"):
            answer = await caller("POST", SWITCH.format(action), {})
            if who in {"operator", "admin"}:
                assert (answer.status, answer.body["spec"]["frozen"]) == (202, action == "freeze"), answer.body
            else:
                assert (answer.status, answer.body.get("resource")) == (403, "fleets.edgewright.dev"), answer.body
                assert answer.body["user"].endswith(f":{who}")


@pytest.mark.parametrize("who", IDENTITIES)
async def test_the_log_of_a_flash_under_way_takes_the_right_to_read_logs(
    rights: Rights, who: str, cached: bool
) -> None:
    name = f"logged-{who}"
    rights.server.request("POST", rights.path("devices", ""), rights.body("devices", name))
    path = f"{rights.path('devices', '', name)}/status"
    job = {"namespace": rights.namespace, "name": "job", "uid": "u"}
    try:
        async with matrix_of(rights, cached=cached) as matrix:
            for each in {who, "admin"}:
                await matrix.known(each)
            caller, admin = matrix.application(who), matrix.application("admin")
            may = "get" in rights.may(who, "devices", "")
            for status, found, resource in (
                ({"lastFlash": {"job": job, "outcome": "refused", "log": ["one"]}}, 200, ""),
                ({"claim": {"job": job, "uuid": name, "attempt": 1}}, 404 if who == "admin" else 403, "pods/log"),
            ):
                rights.server.request("PATCH", path, {"status": status}, content_type="application/merge-patch+json")

                async def shown(wanted: dict[str, Any] = status) -> bool:
                    """A cache may be older than a write that did not come through it."""
                    device = await admin("GET", f"/api/v1/devices/{name}")
                    return device.status == 200 and wanted.keys() <= device.body.get("status", {}).keys()

                await wait_until_async(shown, what="the console knows what was written past it")
                answer = await caller("GET", f"/api/v1/devices/{name}/logs")
                assert answer.status == (found if may else 403), answer.body
                if answer.status == 403:
                    assert answer.body["resource"] == (resource if may else KINDS["devices"].resource), answer.body
    finally:
        rights.server.request("DELETE", rights.path("devices", "", name))


@pytest.mark.parametrize("who", IDENTITIES)
async def test_events_take_the_rights_to_get_the_object_and_to_list_them(
    rights: Rights, who: str, cached: bool
) -> None:
    async with matrix_of(rights, cached=cached) as matrix:
        await matrix.known(who)
        caller = matrix.application(who)
        for kind, of in KINDS.items():
            for place in (rights.namespace, rights.hidden) if of.namespaced else ("",):
                path = f"/api/v1/namespaces/{place}/{kind}" if place else f"/api/v1/{kind}"
                answer = await caller("GET", f"{path}/{rights.name}/events")
                if "get" not in rights.may(who, kind, place):
                    await matrix.check_refused(who, Need("get", kind, place), answer)
                elif who == "admin" or (who in ROLES and place == rights.namespace):
                    assert (answer.status, list(answer.body)) == (200, ["items"]), (kind, answer.body)
                else:
                    told = {name: answer.body.get(name) for name in ("status", "verb", "resource", "namespace")}
                    wanted = {"status": 403, "verb": "list", "resource": "events", "namespace": place or "default"}
                    assert told == wanted, (kind, answer.body)


@pytest.mark.parametrize("who", IDENTITIES)
async def test_a_release_takes_the_rights_on_the_device_and_its_status_and_does_nothing_by_halves(
    rights: Rights, who: str
) -> None:
    name = f"held-{who}"
    rights.server.request("POST", rights.path("devices", ""), rights.body("devices", name))
    path = rights.path("devices", "", name)
    status = {"status": {"failures": 3}}
    before = rights.server.request("PATCH", f"{path}/status", status, content_type="application/merge-patch+json")
    try:
        async with matrix_of(rights) as matrix:
            await matrix.known(who)
            answer = await matrix.application(who)("POST", f"/api/v1/devices/{name}/release", {})
            after = rights.server.request("GET", path)
            if who == "admin":
                assert (answer.status, after["status"]["failures"]) == (202, 0), answer.body
            else:
                missing = next((each for each in ("get", "patch") if each not in rights.may(who, "devices", "")), "")
                resource = "devices.edgewright.dev" if missing else "devices/status.edgewright.dev"
                told = (answer.status, answer.body.get("verb"), answer.body.get("resource"))
                assert told == (403, missing or "patch", resource), answer.body
                assert after == before
    finally:
        rights.server.request("DELETE", path)


@pytest.mark.parametrize("who", IDENTITIES)
async def test_an_undo_takes_the_rights_of_what_it_reads_and_makes(rights: Rights, who: str) -> None:
    names = [f"undo-{number}-{who}" for number in (1, 2)]
    for number, name in enumerate(names):
        body = rights.body("rollouts", name)
        body["spec"] = {**body["spec"], "version": f"1.1.{number}", "selector": {"names": [who]}, "paused": True}
        rights.server.request("POST", rights.path("rollouts", rights.namespace), body)
    async with matrix_of(rights) as matrix:
        await matrix.known(who)
        path = f"/api/v1/namespaces/{rights.namespace}/rollouts/{names[1]}/undo"
        answer = await matrix.application(who)("POST", path, {})
        may = rights.may(who, "rollouts", rights.namespace) >= {"get", "list", "create", "patch"}
        assert answer.status == (202 if may else 403), answer.body
    there = rights.server.request("GET", rights.path("rollouts", rights.namespace, names[1]))
    assert bool(there["spec"].get("aborted")) is may
    for name in (*names, *([f"{names[1]}-undo"] if may else [])):
        rights.server.request("DELETE", rights.path("rollouts", rights.namespace, name))


@pytest.mark.parametrize("who", IDENTITIES)
async def test_each_identity_may_do_what_the_table_says_and_the_rest_is_refused(
    rights: Rights, who: str, cached: bool
) -> None:
    before = rights.state()
    parts: set[Case] = set()
    async with matrix_of(rights, cached=cached) as matrix:
        await matrix.known(who)
        caller = matrix.application(who)
        for case in (*cases(rights), *questions(rights)):
            need = matrix.missing(who, case)
            if need is not None and cached and matrix.is_shown_in_part(who, need):
                await matrix.check_shown_in_part(who, case)
                parts.add(case)
            elif need is not None:
                await matrix.check_refused(who, need, await caller(case.method, case.path, case.body))
            elif case.operation == "watch":
                async with caller.stream(case.path.partition("?")[2]) as stream:
                    assert stream.status == 200, (who, case)
                    await until(events(stream), "synced")
            else:
                path = case.path if case.operation == "planRollout" else case.trial
                answer = await caller(case.method, path, case.body)
                assert answer.status in {200, 201, 202, 204}, (who, case, answer.body)
    assert rights.state() == before
    # The difference to kubectl is there where it is meant to be, and nowhere else: a list and a stream of each kind.
    assert len(parts) == (2 * IN_PART.get(who, 0) if cached else 0), parts


@pytest.mark.parametrize("who", IDENTITIES)
async def test_an_action_takes_the_rights_of_what_it_changes_and_does_nothing_by_halves(
    rights: Rights, who: str
) -> None:
    name = f"acted-{who}"
    places = (rights.namespace, rights.hidden)
    for place in places:
        body = rights.body("rollouts", name, secret=SECRET if place == rights.hidden else "")
        rights.server.request("POST", rights.path("rollouts", place), body)
    async with matrix_of(rights) as matrix:
        await matrix.known(who)
        caller = matrix.application(who)
        for place in places:
            for case in actions(f"/api/v1/namespaces/{place}/rollouts/{name}", place):
                before = rights.server.request("GET", rights.path("rollouts", place, name))
                answer = await caller(case.method, case.path, case.body)
                after = rights.server.request("GET", rights.path("rollouts", place, name))
                if (need := matrix.missing(who, case)) is None:
                    assert answer.status == 202, (who, case, answer.body)
                    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"], (who, case)
                else:
                    await matrix.check_refused(who, need, answer)
                    assert after == before, (who, case)


@pytest.mark.parametrize("who", IDENTITIES)
async def test_the_kinds_of_kubernetes_are_served_to_nobody(rights: Rights, who: str) -> None:
    async with matrix_of(rights) as matrix:
        caller = matrix.application(who)
        for kind in ("secrets", "pods", "secrets.core", "roles.rbac.authorization.k8s.io", "deployments.apps"):
            for path in (kind, f"namespaces/{rights.namespace}/{kind}", f"stream?of={kind}", f"kinds/{kind}/schema"):
                answer = await caller("GET", f"/api/v1/{path}")
                assert answer.status == 404, (who, path, answer.body)


# --- what may not be seen -------------------------------------------------------------------------------------------


def searches(rights: Rights) -> Iterator[str]:
    """Ways to look for what is in the hidden namespace, of which none names it by the secret word in its answer."""
    for kind, of in KINDS.items():
        if not of.namespaced:
            continue
        hidden = f"/api/v1/namespaces/{rights.hidden}/{kind}"
        for path in (hidden, f"/api/v1/{kind}", f"/api/v1/namespaces/{rights.namespace}/{kind}"):
            yield from (path, f"{path}?labelSelector=secret", f"{path}?limit=1")
            yield f"{path}?fieldSelector=metadata.name%21%3D{rights.name}"
        yield f"{hidden}/{rights.name}"
        for place in ("", f"&namespace={rights.hidden}", f"&namespace={rights.namespace}"):
            stream = f"/api/v1/stream?of={kind}{place}"
            yield from (stream, f"{stream}&labelSelector=secret", f"{stream}&name={rights.name}")
    yield from ("/api/v1/fleet", "/api/v1/fleet?groupBy=secret", "/api/v1/kinds", "/api/v1/openapi.json")
    for place in ("", f"?namespace={rights.hidden}"):
        yield f"/api/v1/devices/{rights.name}/why{place}"
    yield f"/api/v1/devices/{rights.name}/history"


async def read(caller: Application, path: str) -> str:
    """All that comes back: of a stream whatever there is until it has told the present state."""
    given = {"Authorization": f"Bearer {caller.token}"}
    async with caller.session.get(caller.url + path, headers=given) as answer:
        if answer.headers["Content-Type"] == "text/event-stream":
            return repr(await until(events(answer), "synced"))
        return f"{dict(answer.headers)} {await answer.text()}"


async def test_who_may_see_it_finds_the_secret_word(rights: Rights, cached: bool) -> None:
    async with matrix_of(rights, cached=cached) as matrix:
        await matrix.known("admin")
        caller = matrix.application("admin")
        finds = {path for path in searches(rights) if SECRET in await read(caller, path)}
        assert finds >= {path for path in searches(rights) if rights.hidden in path}
        assert finds >= {f"/api/v1/{kind}" for kind, of in KINDS.items() if of.namespaced}
        assert finds >= {f"/api/v1/stream?of={kind}" for kind, of in KINDS.items() if of.namespaced}
        assert f"/api/v1/devices/{rights.name}/why" in finds


@pytest.mark.parametrize("who", OTHERS)
async def test_nothing_that_an_identity_may_not_see_is_in_any_answer(rights: Rights, who: str, cached: bool) -> None:
    async with matrix_of(rights, cached=cached) as matrix:
        await matrix.known(who)
        caller = matrix.application(who)
        for path in searches(rights):
            assert SECRET not in await read(caller, path), (who, path)


@pytest.mark.parametrize("who", OTHERS)
async def test_whether_a_hidden_object_exists_makes_no_difference(rights: Rights, who: str, cached: bool) -> None:
    async with matrix_of(rights, cached=cached) as matrix:
        await matrix.known(who)
        caller = matrix.application(who)
        for kind, of in KINDS.items():
            if of.namespaced:
                path = f"/api/v1/namespaces/{rights.hidden}/{kind}"
                for method, body in (("GET", None), ("PATCH", CHANGE), ("DELETE", None)):
                    there = await caller(method, f"{path}/{rights.name}", body)
                    absent = await caller(method, f"{path}/never-was", body)
                    same = {**absent.body, "detail": absent.body["detail"].replace("never-was", rights.name)}
                    assert (there.status, there.body) == (absent.status, same) == (403, same), (who, kind, method)


@pytest.mark.parametrize("who", ["viewer", "portal"])
async def test_a_stream_of_ones_own_namespace_tells_nothing_of_another(rights: Rights, who: str, cached: bool) -> None:
    async with matrix_of(rights, cached=cached) as matrix:
        await matrix.known(who)
        caller, boss = matrix.application(who), matrix.application("admin")
        query = f"of=flashjobs&namespace={rights.namespace}"
        async with caller.stream(query) as stream:
            source = events(stream)
            last = (await until(source, "synced"))[-1].id
            for place, name in ((rights.hidden, f"{SECRET}-1"), (rights.namespace, rights.name)):
                change = {"metadata": {"annotations": {"changed-for": who}}}
                done = await boss("PATCH", f"/api/v1/namespaces/{place}/flashjobs/{name}", change)
                assert done.status == 200, done.body
            seen = await until(source, "modified")
            assert [each.what for each in seen] == [("modified", rights.name)]
        # The same where the stream goes on after a cut.
        async with caller.stream(query, Last_Event_ID=last) as stream:
            assert [each.what for each in await until(events(stream), "modified")] == [("modified", rights.name)]
