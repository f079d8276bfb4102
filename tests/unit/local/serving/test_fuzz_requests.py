"""Whatever a request asks for, by path, query or header, the answer is no fault of the server and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.local.serving import malformed
from tests.unit.local.serving.fuzzing import DEFINITIONS, WIDGETS, Fuzzed, fuzzed

BASE = "base"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JSON = "application/json"
STORED = [each for each in sorted(malformed.KINDS) if not each.endswith(("reviews", "bindings"))]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    for made in fuzzed(tmp_path_factory.mktemp("requests")):
        assert made.ask("POST", PODS, malformed.plain(PODS, BASE)).code == 201
        yield made


segments = st.one_of(
    st.sampled_from(
        [
            "api",
            "apis",
            "v1",
            "namespaces",
            "default",
            "pods",
            "base",
            "status",
            "log",
            "scale",
            "binding",
            "widgets",
            "probe.example.io",
            "events.k8s.io",
            "..",
            ".",
            "%00",
            "%2F",
            "%ff",
            "%",
            "%zz",
            "%e2%80%ae",
            "openapi",
            "v2",
            "v3",
            "version",
            "healthz",
            "readyz",
            "livez",
            "metrics",
            "finalize",
            ";a=b",
            "{ns}",
            "~",
        ]
    ),
    st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="?#"), max_size=12),
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW"]),
            st.lists(segments, max_size=8),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_no_path_is_answered_with_a_fault_of_the_server(server: Fuzzed, asked: list[tuple[str, list[str]]]) -> None:
    for method, parts in asked:
        path = "/" + "/".join(parts)
        if method == "DELETE" and path.rstrip("/").count("/") < 5:
            continue  # what is there is needed
        body = b"" if method in {"GET", "HEAD"} else b"{}"
        server.send(
            f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {JSON}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body,
            end=method != "HEAD",
        )


PARAMETERS = (
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "timeoutSeconds",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "pretty",
    "includeObject",
    "container",
    "follow",
    "previous",
    "tailLines",
    "limitBytes",
    "sinceSeconds",
    "sinceTime",
    "timestamps",
    "stream",
    "insecureSkipTLSVerifyBackend",
    "timeout",
)
SELECTORS = (
    "a=b",
    "a==b",
    "a!=b",
    "a in (b,c)",
    "a notin ()",
    "!a",
    "a",
    "a>1",
    "a<x",
    "a in",
    "a in (",
    "(",
    ",",
    "=",
    "a=b=c",
    "metadata.name=base",
    "metadata.name!=",
    "spec.nodeName=",
    "status.phase=Running,metadata.namespace=x",
    "spec.x=y",
    "spec.color=red",
    "spec.flag=true",
    "involvedObject.uid=",
    "metadata.name=a\\,b",
    "a=\\",
    "\\=",
    "a\x00b",
    "ü=ü",
)
values = st.one_of(
    st.sampled_from(
        [
            "",
            "0",
            "1",
            "-1",
            "true",
            "false",
            "All",
            "x",
            "9" * 30,
            "1_000",
            " 1",
            "1e3",
            "NaN",
            "Exact",
            "NotOlderThan",
            "Strict",
            "Orphan",
            "Foreground",
            "None",
            "2020-01-01T00:00:00Z",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
            "e30",
            "!",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vIn0",
            "a" * 200,
            "\u202e",
            "\x00",
        ]
    ),
    st.sampled_from(SELECTORS),
    st.text(max_size=20),
)
queries = st.lists(st.tuples(st.sampled_from(PARAMETERS), values), max_size=4)


@given(
    queries,
    st.lists(
        st.sampled_from(
            [("GET", each) for each in (*STORED, WIDGETS, f"{PODS}/{BASE}", f"{PODS}/{BASE}/log", f"{WIDGETS}/base")]
            + [("POST", PODS), ("PUT", f"{PODS}/{BASE}"), ("DELETE", f"{CONFIG_MAPS}/nobody"), ("POST", WIDGETS)]
        ),
        min_size=2,
        max_size=5,
    ),
)
def test_no_query_is_answered_with_a_fault_of_the_server(
    server: Fuzzed, query: list[tuple[str, str]], ways: list[tuple[str, str]]
) -> None:
    asked = urlencode([(name, value.encode("utf-8", "surrogatepass")) for name, value in query])
    for method, path in ways:
        body = {"kind": "Nothing"} if method in {"POST", "PUT"} else None
        answer = server.ask(method, f"{path}?{asked}", body)
        if method == "GET" and answer.code == 200 and "/log" not in path:
            assert answer.body


@given(queries, st.sampled_from([PODS, WIDGETS, "/api/v1/events", DEFINITIONS]))
def test_no_watch_is_answered_with_a_fault_of_the_server(
    server: Fuzzed, query: list[tuple[str, str]], path: str
) -> None:
    kept = [(name, value.encode("utf-8", "surrogatepass")) for name, value in query if name != "timeoutSeconds"]
    asked = urlencode([("watch", "true"), *kept])
    server.send(f"GET {path}?{asked} HTTP/1.1\r\nHost: a\r\n\r\n".encode(), end=False)


# Headers

headers = st.one_of(
    st.sampled_from(
        [
            "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,*/*;q=x",
            "Accept: application/json;as=Table;as=;;=;v=v9",
            "Accept: application/vnd.kubernetes.protobuf",
            "Accept: ,,,;q=1;q=",
            "Accept: application/yaml;q=nan, application/json;q=inf",
            "Accept: */*;q=-1",
            "Accept-Encoding: gzip, br;q=9, identity;q=0",
            "Content-Type: application/json; charset=utf-99",
            'Content-Type: application/json; a="',
            "Content-Type:",
            "Content-Encoding: gzip",
            'If-None-Match: "", W/"x", *',
            "If-Match: *",
            "Range: bytes=0-1",
            "Expect: 100-continue",
            "Expect: something",
            "Authorization: Bearer",
            "Authorization: Basic !!!",
            "Authorization: Bearer " + "a" * 4000,
            "Impersonate-User: nobody",
            "User-Agent: " + "/" * 2000,
            "User-Agent: \x7f\x80",
            "X-HTTP-Method-Override: DELETE",
            "Cookie: " + "a=b;" * 500,
            "Upgrade: websocket",
            "Upgrade: h2c",
            "Sec-WebSocket-Key: x",
            "TE: trailers",
            "X-Long: " + "a" * 20_000,
        ]
    ),
    st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=255), max_size=30).map(
        lambda text: f"Accept: {text}"
    ),
    st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=255), max_size=30).map(
        lambda text: f"Content-Type: {text}"
    ),
)


@given(
    st.lists(headers, max_size=4),
    st.sampled_from(
        [
            ("GET", PODS),
            ("GET", f"{WIDGETS}/base"),
            ("GET", "/openapi/v2"),
            ("GET", "/openapi/v3"),
            ("GET", "/apis"),
            ("POST", PODS),
            ("PATCH", f"{PODS}/{BASE}"),
            ("DELETE", f"{PODS}/nobody"),
        ]
    ),
)
def test_no_header_is_answered_with_a_fault_of_the_server(
    server: Fuzzed, given_headers: list[str], way: tuple[str, str]
) -> None:
    body = b"" if way[0] == "GET" else b"{}"
    lines = [
        f"{way[0]} {way[1]} HTTP/1.1",
        "Host: a",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *given_headers,
    ]
    server.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body, end=False)
