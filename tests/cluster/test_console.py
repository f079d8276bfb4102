"""`edgewright console` on both API servers; with roles on the real one: a token gets the answer that kubectl gets."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import MINIMART_PATH, MINIMARTS, ConsoleProcess
from tests.harness import ApiServer, ControlPlane, programs, wait_until
from tests.harness.waiting import PATIENCE

GROUP = "charts.samutup.com"
SHOP = {"spec": {"replicaCount": 2}}
READ = ("get", "list", "watch")
IDENTITIES: dict[str, tuple[str, ...]] = {
    "nobody": (),
    "viewer": READ,
    "watcher": ("watch",),
    "leaver": ("watch",),
    "creator": ("create",),
    "portal": (*READ, "create", "patch"),
    "owner": (*READ, "create", "patch", "update", "delete"),
}


@pytest.fixture(scope="module")
def console(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console in front of each API server in turn, with our kinds and a foreign one."""
    stage.install(api_server)
    with stage.console(api_server, tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def token(api_server: ApiServer, namespace: str) -> str:
    """The token of a portal."""
    return stage.portal_token(api_server, namespace)


def shop(namespace: str, name: str = "minimart-sample") -> str:
    """The path of a Minimart."""
    return f"/api/v1/namespaces/{namespace}/{MINIMARTS}/{name}"


def test_a_foreign_kind_is_applied_changed_and_read(console: ConsoleProcess, namespace: str, token: str) -> None:
    made = console("PUT", shop(namespace), SHOP, token=token)
    assert (made.status, made.body["spec"]) == (201, {"replicaCount": 2}), made.body
    again = console("PUT", shop(namespace), SHOP, token=token)
    assert (again.status, again.body["metadata"]["resourceVersion"]) == (200, made.body["metadata"]["resourceVersion"])
    patched = console("PATCH", shop(namespace), {"spec": {"replicaCount": 3}}, token=token)
    assert (patched.status, patched.body["spec"]["replicaCount"]) == (200, 3)
    applied = console("PUT", shop(namespace), {"spec": {"replicaCount": 4}}, token=token)
    assert (applied.status, applied.body["spec"]["replicaCount"]) == (200, 4), applied.body
    listed = console("GET", f"/api/v1/namespaces/{namespace}/{MINIMARTS}", token=token)
    assert [each["metadata"]["name"] for each in listed.body["items"]] == ["minimart-sample"]


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({"spec": {"replicas": 2}}, "#/spec/replicas", "FieldValueUnknown"),
        ({"spec": {"replicaCount": 11}}, "#/spec/replicaCount", "FieldValueInvalid"),
        ({"spec": {"replicaCount": "two"}}, "#/spec/replicaCount", "FieldValueTypeInvalid"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH"])
def test_a_field_that_is_wrong_is_named(
    console: ConsoleProcess, namespace: str, token: str, method: str, body: Any, pointer: str, code: str
) -> None:
    path = shop(namespace)
    if method == "PATCH":
        console("PUT", path, SHOP, token=token)
    elif method == "POST":
        path, body = path.rpartition("/")[0], {"metadata": {"name": "other"}, **body}
    answer = console(method, path, body, token=token)
    assert (answer.status, [each["pointer"] for each in answer.body["errors"]]) == (422, [pointer]), answer.body
    assert answer.body["errors"][0]["code"] == code
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_stale_etag_is_412_and_a_lost_race_409(console: ConsoleProcess, namespace: str, token: str) -> None:
    first = console("PUT", shop(namespace), SHOP, token=token)
    stale = {"If-Match": first.headers["ETag"]}
    assert console("PATCH", shop(namespace), {"spec": {"replicaCount": 5}}, token=token, headers=stale).status == 200
    for method in ("PUT", "PATCH"):
        answer = console(method, shop(namespace), {"spec": {"replicaCount": 6}}, token=token, headers=stale)
        assert answer.status == 412, (method, answer.body)
    body = {"spec": {"replicaCount": 6}, "metadata": {"resourceVersion": first.body["metadata"]["resourceVersion"]}}
    assert console("PATCH", shop(namespace), body, token=token).status == 409
    gone = console("PUT", shop(namespace, "none"), SHOP, token=token, headers={"If-Match": '"1"'})
    assert gone.status == 412, gone.body
    assert console("PUT", shop(namespace, "none"), SHOP, token=token, headers={"If-Match": "*"}).status == 412


def test_two_who_press_at_once_do_no_harm(
    console: ConsoleProcess, api_server: ApiServer, namespace: str, token: str
) -> None:
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(console("PUT", shop(namespace), SHOP, token=token).status))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 201, 409}
    assert console("PUT", shop(namespace), SHOP, token=token).status == 200
    made = api_server.request("GET", f"{MINIMART_PATH.format(namespace)}/minimart-sample")
    assert (made["spec"], made["metadata"]["generation"]) == (SHOP["spec"], 1)


def test_a_dry_run_has_the_server_s_own_verdict_and_changes_nothing(
    console: ConsoleProcess, api_server: ApiServer, namespace: str, token: str
) -> None:
    assert console("PUT", f"{shop(namespace)}?dryRun=All", SHOP, token=token).status == 201
    bad = console("PUT", f"{shop(namespace)}?dryRun=All", {"spec": {"replicaCount": 99}}, token=token)
    assert bad.status == 422
    assert not api_server.exists(f"{MINIMART_PATH.format(namespace)}/minimart-sample")


def test_the_description_has_the_schema_of_the_foreign_kind(console: ConsoleProcess, token: str) -> None:
    document = console("GET", "/api/v1/openapi.json", token=token).body
    assert document["openapi"] == "3.1.0"
    put = document["paths"][f"/api/v1/namespaces/{{namespace}}/{MINIMARTS}/{{name}}"]["put"]
    reference = put["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    schema = document["components"]["schemas"][reference.rpartition("/")[2]]
    spec = schema["properties"]["spec"]["properties"]
    assert (spec["replicaCount"]["maximum"], spec["nameOverride"]["type"]) == (10, ["string", "null"])
    names = {each["name"] for each in console("GET", "/api/v1/kinds", token=token).body["items"]}
    assert {"flashjobs", "devices", MINIMARTS} <= names


# --- streams --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def stream(console: ConsoleProcess, query: str, token: str, last: str = "") -> Iterator[Iterator[dict[str, str]]]:
    """The events of a stream."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(console.url).netloc, timeout=240)
    headers = {"Authorization": f"Bearer {token}", **({"Last-Event-ID": last} if last else {})}
    try:
        connection.request("GET", f"/api/v1/stream?{query}", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        yield _events(answer)
    finally:
        connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    deadline = time.monotonic() + 2 * PATIENCE
    while line := answer.readline().decode():
        assert time.monotonic() < deadline, "nothing but comments comes"
        if line == "\n":
            if fields.get("event"):
                yield fields
            fields = {}
        else:
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = value


def until(events: Iterator[dict[str, str]], name: str) -> list[dict[str, str]]:
    """The events up to and with the first of this name."""
    seen = []
    for event in events:
        seen.append(event)
        if event["event"] == name:
            return seen
    raise AssertionError(f"the stream ended before {name}: {seen}")


def test_a_stream_goes_on_where_it_was_cut(console: ConsoleProcess, namespace: str, token: str) -> None:
    query = f"of={MINIMARTS}&namespace={namespace}"
    console("PUT", shop(namespace, "one"), SHOP, token=token)
    with stream(console, query, token) as events:
        begin = until(events, "synced")
        assert [each["event"] for each in begin] == ["added", "synced"]
        console("PATCH", shop(namespace, "one"), {"spec": {"replicaCount": 7}}, token=token)
        seen = until(events, "modified")[-1]
        assert json.loads(seen["data"])["spec"]["replicaCount"] == 7
    console("PUT", shop(namespace, "two"), SHOP, token=token)
    console("PUT", shop(namespace, "three"), SHOP, token=token)
    with stream(console, query, token, last=seen["id"]) as events:
        names = [json.loads(next(events)["data"])["metadata"]["name"] for _ in range(2)]
        assert names == ["two", "three"]


def test_a_place_ahead_of_the_server_begins_again(console: ConsoleProcess, namespace: str, token: str) -> None:
    console("PUT", shop(namespace, "one"), SHOP, token=token)
    with stream(console, f"of={MINIMARTS}&namespace={namespace}", token, last="99999999999") as events:
        assert [each["event"] for each in until(events, "synced")] == ["reset", "added", "synced"]


@pytest.mark.usefixtures("leaving")
def test_a_place_that_the_server_has_forgotten_begins_again(own_cluster: ControlPlane, tmp_path: Path) -> None:
    stage.install(own_cluster)
    namespace = own_cluster.create_namespace("console")
    token = stage.portal_token(own_cluster, namespace)
    query = f"of={MINIMARTS}&namespace={namespace}"
    with stage.console(own_cluster, tmp_path) as console:
        console("PUT", shop(namespace, "one"), SHOP, token=token)
        with stream(console, query, token) as events:
            last = until(events, "synced")[-1]["id"]
        own_cluster.forget_history()

        def back() -> bool:
            return console("PUT", shop(namespace, "two"), SHOP, token=token).status in {200, 201}

        wait_until(back, what="the API server is back, as the console sees it", interval=0.5)
        with stream(console, query, token, last=last) as events:
            assert [each["event"] for each in until(events, "synced")] == ["reset", "added", "added", "synced"]


def test_an_api_server_that_is_unavailable_is_503_with_the_time_to_come_again(
    own_cluster: ControlPlane, tmp_path: Path
) -> None:
    stage.install(own_cluster)
    namespace = own_cluster.create_namespace("console")
    token = stage.portal_token(own_cluster, namespace)
    with stage.console(own_cluster, tmp_path) as console:
        assert console("PUT", shop(namespace), SHOP, token=token).status == 201
        own_cluster.api.kill()
        away = console("GET", shop(namespace), token=token)
        assert (away.status, away.body["type"]) == (503, "/api/v1/problems/unavailable")
        assert int(away.headers["Retry-After"]) >= 1
        own_cluster.api.restart()
        wait_until(lambda: console("GET", shop(namespace), token=token).status == 200, what="it is back", interval=0.5)


# --- rights ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokens(cluster: ControlPlane) -> Iterator[tuple[str, dict[str, str]]]:
    """A namespace, and a token for each identity in it."""
    stage.install(cluster)
    namespace = cluster.create_namespace("rights")
    found: dict[str, str] = {}
    for name, verbs in IDENTITIES.items():
        role = {"name": name, "namespace": namespace}
        rules = [{"apiGroups": [GROUP], "resources": ["minimarts"], "verbs": list(verbs)}] if verbs else []
        binding = {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        cluster.request("POST", f"{base}/roles", {"metadata": role, "rules": rules})
        cluster.request("POST", f"{base}/rolebindings", {"metadata": role, **binding})
        found[name] = cluster.kubectl("create", "token", name, "-n", namespace).stdout.strip()
    yield namespace, found
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture(scope="module")
def real_console(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console in front of the real API server, started with the administrator's kubeconfig."""
    with stage.console(cluster, tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture(scope="module")
def leaving(
    cluster: ControlPlane, real_console: ConsoleProcess, tokens: tuple[str, dict[str, str]]
) -> Iterator[Iterator[dict[str, str]]]:
    """A stream whose caller has just lost the right to it; the console asks again in half a minute, so it is early."""
    namespace, every = tokens
    cluster.request("GET", MINIMART_PATH.format(namespace))  # which waits where the kind is quite new
    with stream(real_console, f"of={MINIMARTS}&namespace={namespace}", every["leaver"]) as events:
        until(events, "synced")
        role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/leaver"
        merge = "application/merge-patch+json"
        rules = cluster.request("GET", role)["rules"]
        cluster.request("PATCH", role, {"rules": []}, content_type=merge)
        yield events
        cluster.request("PATCH", role, {"rules": rules}, content_type=merge)


def kubectl(cluster: ControlPlane, token: str, *arguments: str, body: Any = None) -> str:
    """`ok`, or what kubectl was refused with, as the holder of a token."""
    file = cluster.kubeconfig_with({"token": token})
    done = subprocess.run(
        [programs.program("kubectl"), "--kubeconfig", str(file), *arguments],
        input=None if body is None else json.dumps(body),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode == 0:
        return "ok"
    return "forbidden" if "Forbidden" in done.stderr or "forbidden" in done.stderr else done.stderr


@pytest.mark.parametrize("who", [each for each in IDENTITIES if each != "leaver"])
def test_the_same_token_has_the_same_rights_as_with_kubectl(
    cluster: ControlPlane, real_console: ConsoleProcess, tokens: tuple[str, dict[str, str]], who: str
) -> None:
    namespace, every = tokens
    token = every[who]
    name = f"{who}-shop"
    whole = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "Minimart",
        "metadata": {"name": name, "namespace": namespace},
        **SHOP,
    }

    def fresh() -> None:
        if not cluster.exists(f"{MINIMART_PATH.format(namespace)}/{name}"):
            cluster.request("POST", MINIMART_PATH.format(namespace), whole)

    def absent() -> None:
        if cluster.exists(f"{MINIMART_PATH.format(namespace)}/{name}"):
            cluster.request("DELETE", f"{MINIMART_PATH.format(namespace)}/{name}")

    inside = ("-n", namespace)
    collection = shop(namespace, name).rpartition("/")[0]
    change = '{"spec":{"replicaCount":3}}'
    matrix: list[tuple[Any, tuple[str, ...], Any, tuple[str, str, Any]]] = [
        (fresh, ("get", MINIMARTS, name, *inside), None, ("GET", shop(namespace, name), None)),
        (fresh, ("get", MINIMARTS, *inside), None, ("GET", collection, None)),
        (fresh, ("get", MINIMARTS, "-A"), None, ("GET", f"/api/v1/{MINIMARTS}", None)),
        (absent, ("create", "-f", "-", *inside), whole, ("POST", collection, whole)),
        (absent, ("apply", "--server-side", "-f", "-"), whole, ("PUT", shop(namespace, name), whole)),
        (
            fresh,
            ("patch", MINIMARTS, name, *inside, "--type=merge", "-p", change),
            None,
            ("PATCH", shop(namespace, name), json.loads(change)),
        ),
        (fresh, ("delete", MINIMARTS, name, *inside), None, ("DELETE", shop(namespace, name), None)),
        (
            fresh,
            ("get", "flashjobs.application.flashjob.nbfc.io", *inside),
            None,
            ("GET", f"/api/v1/namespaces/{namespace}/flashjobs", None),
        ),
    ]
    for prepare, words, body, (method, path, content) in matrix:
        prepare()
        said = kubectl(cluster, token, *words, body=body)
        prepare()
        answer = real_console(method, path, content, token=token)
        ours = (
            "forbidden" if answer.status == 403 else "ok" if answer.status < 300 else f"{answer.status} {answer.body}"
        )
        if words[0] == "patch" and "get" not in IDENTITIES[who]:
            continue  # kubectl reads before it patches, and needs that right too
        assert ours == said, (who, words)
        if ours == "forbidden":
            assert answer.body["user"] == f"system:serviceaccount:{namespace}:{who}"
            assert answer.body["verb"] in {*READ, "create", "patch", "delete"}
            assert answer.body["resource"] in {MINIMARTS, "flashjobs.application.flashjob.nbfc.io"}
    me = real_console("GET", f"/api/v1/me?of={MINIMARTS}&namespace={namespace}", token=token).body
    assert me["user"]["name"] == f"system:serviceaccount:{namespace}:{who}"
    assert {verb for verb, may in me["rights"]["verbs"].items() if may} == set(IDENTITIES[who])


@pytest.mark.parametrize("who", [each for each in IDENTITIES if each != "leaver"])
def test_only_who_may_watch_gets_a_stream(
    real_console: ConsoleProcess, tokens: tuple[str, dict[str, str]], who: str
) -> None:
    namespace, every = tokens
    query = f"of={MINIMARTS}&namespace={namespace}"
    if "watch" in IDENTITIES[who]:
        with stream(real_console, query, every[who]) as events:
            last = until(events, "synced")[-1]["id"]
        with stream(real_console, query, every[who], last=last):
            return
    answer = real_console("GET", f"/api/v1/stream?{query}", token=every[who])
    assert (answer.status, answer.body["verb"]) == (403, "watch")


def test_the_console_lends_nobody_its_own_rights(
    real_console: ConsoleProcess, tokens: tuple[str, dict[str, str]]
) -> None:
    namespace, _ = tokens
    for token in ("", "wrong"):
        answer = real_console("GET", shop(namespace), token=token)
        assert answer.status == 401, answer.body


def test_a_right_that_is_taken_away_ends_open_streams(leaving: Iterator[dict[str, str]]) -> None:
    problem = json.loads(until(leaving, "problem")[-1]["data"])
    assert (problem["status"], problem["verb"]) == (403, "watch")


def test_no_token_is_in_what_the_console_says(real_console: ConsoleProcess, tokens: tuple[str, dict[str, str]]) -> None:
    namespace, every = tokens
    real_console("GET", f"{shop(namespace)}?access_token={every['owner']}", token=every["owner"])
    for token in every.values():
        assert token not in real_console.said
