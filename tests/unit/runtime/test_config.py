"""What people's kubeconfigs hold becomes a Config, or one sentence that names the file and the field."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import json
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime.config import Config, ConfigError, load
from edgewright.runtime.credentials import Anonymous, TokenFile
from edgewright.runtime.exec_plugin import API_VERSIONS
from tests.harness.certificates import Authority
from tests.unit.runtime.tls_server import server_context, serving

AUTHORITY = Authority()
CLIENT = AUTHORITY.client("jane")
OTHER = AUTHORITY.client("other")
CHAIN = AUTHORITY.certificate.decode()

Document = dict[str, Any]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def document(
    *, cluster: Document | None = None, user: Document | None = None, context: Document | None = None
) -> Document:
    """A kubeconfig with one context `dev`; what is given is added to its entries."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kind", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [{"name": "dev", "context": {"cluster": "kind", "user": "me", **(context or {})}}],
        "current-context": "dev",
    }


def write(file: Path, content: Document | str | bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content) if isinstance(content, dict) else content
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def read(file: Path, **settings: Any) -> Config:
    return load(kubeconfig=file, environ={}, **settings)


def refusal(file: Path, **settings: Any) -> str:
    """What load says of the file; one line, and it starts with the file's name."""
    with pytest.raises(ConfigError) as caught:
        read(file, **settings)
    said = str(caught.value)
    assert "\n" not in said
    return said


def headers(config: Config) -> list[tuple[str, str]]:
    return sorted(asyncio.run(config.credentials.headers()).items())


# --- which configuration


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    folder = tmp_path / "serviceaccount"
    write(folder / "token", "pod-token\n")
    write(folder / "ca.crt", AUTHORITY.certificate)
    write(folder / "namespace", "edge\n")
    return folder


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_the_file_that_is_named_wins_over_all_others(tmp_path: Path, pod: Path) -> None:
    named = write(tmp_path / "named", document(cluster={"server": "http://named"}))
    other = write(tmp_path / "other", document(cluster={"server": "http://other"}))
    config = load(kubeconfig=named, environ={**IN_POD, "KUBECONFIG": str(other)}, service_account=pod, home=tmp_path)
    assert config.server == "http://named"
    assert config.source == f"context dev of {named}"


def test_kubeconfig_in_the_environment_wins_over_the_pod(tmp_path: Path, pod: Path) -> None:
    file = write(tmp_path / "file", document(cluster={"server": "http://file"}))
    environ = {**IN_POD, "KUBECONFIG": str(file)}
    assert load(environ=environ, service_account=pod, home=tmp_path).server == "http://file"


def test_the_pod_wins_over_the_home_folder(tmp_path: Path, pod: Path) -> None:
    write(tmp_path / ".kube" / "config", document())
    config = load(environ=IN_POD, service_account=pod, home=tmp_path)
    assert (config.source, config.server, config.namespace) == ("in-cluster", "https://10.0.0.1", "edge")
    assert isinstance(config.credentials, TokenFile)
    assert headers(config) == [("Authorization", "Bearer pod-token")]
    assert isinstance(config.tls, ssl.SSLContext)


def test_a_context_that_is_asked_for_is_not_looked_for_in_the_pod(tmp_path: Path, pod: Path) -> None:
    write(tmp_path / ".kube" / "config", document())
    config = load(environ=IN_POD, service_account=pod, home=tmp_path, context="dev")
    assert config.source == f"context dev of {tmp_path / '.kube' / 'config'}"


def test_a_pod_without_a_token_is_no_configuration(tmp_path: Path, pod: Path) -> None:
    (pod / "token").unlink()
    with pytest.raises(
        ConfigError, match=r"^no Kubernetes configuration was found: .*token does not exist and .*config"
    ):
        load(environ=IN_POD, service_account=pod, home=tmp_path)


def test_the_home_folder_is_taken_from_the_environment(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", document(cluster={"server": "http://home"}))
    assert load(environ={"HOME": str(tmp_path)}).server == "http://home"


def test_without_any_configuration_all_that_was_tried_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ={}, home=tmp_path)
    for part in ("KUBECONFIG is not set", "no Pod", str(tmp_path / ".kube" / "config"), "set KUBECONFIG or name"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("host", "port", "server"),
    [("10.0.0.1", "6443", "https://10.0.0.1:6443"), ("fd00::1", "6443", "https://[fd00::1]:6443")],
    ids=["IPv4", "IPv6"],
)
def test_the_address_in_a_pod(pod: Path, host: str, port: str, server: str) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    assert load(environ=environ, service_account=pod).server == server


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda pod: (pod / "token").write_text(""), "in-cluster: {pod}/token: is empty"),
        (lambda pod: (pod / "ca.crt").write_text("no"), "in-cluster: {pod}/ca.crt: holds no PEM certificate"),
        (
            lambda pod: (pod / "namespace").write_text("A B"),
            "in-cluster: {pod}/namespace: is not the name of a namespace",
        ),
    ],
    ids=["empty token", "bad ca", "bad namespace"],
)
def test_what_is_wrong_in_a_pod_is_said(pod: Path, spoil: Callable[[Path], object], said: str) -> None:
    spoil(pod)
    with pytest.raises(ConfigError) as caught:
        load(environ=IN_POD, service_account=pod)
    assert str(caught.value) == said.format(pod=pod)


def test_a_port_that_is_none_in_a_pod_is_said(pod: Path) -> None:
    with pytest.raises(ConfigError, match=r"^in-cluster: KUBERNETES_SERVICE_HOST and _PORT: is not a http"):
        load(environ={**IN_POD, "KUBERNETES_SERVICE_PORT": "tcp"}, service_account=pod)


def test_a_pod_without_authority_and_namespace_uses_the_defaults(pod: Path) -> None:
    (pod / "ca.crt").unlink()
    (pod / "namespace").unlink()
    config = load(environ=IN_POD, service_account=pod)
    assert config.namespace == "default"
    assert config.tls is not None
    assert config.tls.verify_mode is ssl.CERT_REQUIRED


# --- several files


def test_the_first_file_that_has_an_entry_wins_as_a_whole(tmp_path: Path) -> None:
    first = write(tmp_path / "a" / "first", {"users": [{"name": "me", "user": {"token": "first"}}]})
    second = document(user={"token": "second", "as": "somebody"})
    second["current-context"] = "dev"
    later = write(tmp_path / "b" / "second", second)
    third = write(tmp_path / "third", {"current-context": "other"})
    environ = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "missing"), str(first), "", str(later), str(third)])}
    config = load(environ=environ)
    assert headers(config) == [("Authorization", "Bearer first")]
    assert config.source == f"context dev of {later}"


def test_relative_names_count_from_the_folder_of_their_own_file(tmp_path: Path) -> None:
    write(tmp_path / "a" / "secret", "of-a")
    first = write(tmp_path / "a" / "users", {"users": [{"name": "me", "user": {"tokenFile": "secret"}}]})
    second = write(tmp_path / "b" / "rest", document(cluster={"certificate-authority": "ca.crt"}))
    write(tmp_path / "b" / "ca.crt", AUTHORITY.certificate)
    config = load(environ={"KUBECONFIG": f"{first}{os.pathsep}{second}"})
    assert headers(config) == [("Authorization", "Bearer of-a")]


def test_files_that_are_all_missing_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^KUBECONFIG: none of its files exists: .*x, .*y$"):
        load(environ={"KUBECONFIG": f"{tmp_path / 'x'}{os.pathsep}{tmp_path / 'y'}"}, home=tmp_path)


def test_an_empty_kubeconfig_variable_counts_as_not_set(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", document(cluster={"server": "http://home"}))
    assert load(environ={"KUBECONFIG": os.pathsep}, home=tmp_path).server == "http://home"


def test_an_empty_file_adds_nothing(tmp_path: Path) -> None:
    empty, full = write(tmp_path / "empty", ""), write(tmp_path / "full", document())
    assert load(environ={"KUBECONFIG": f"{empty}{os.pathsep}{full}"}).source == f"context dev of {full}"
    assert refusal(empty) == f"{empty}: current-context: is not set, so that a context must be named; there are: none"


# --- contexts, namespaces, servers


def test_another_context_can_be_named(tmp_path: Path) -> None:
    content = document()
    content["clusters"].append({"name": "far", "cluster": {"server": "https://far:6443/prefix/"}})
    content["contexts"].append({"name": "prod", "context": {"cluster": "far", "namespace": "fleet"}})
    config = read(write(tmp_path / "config", content), context="prod")
    assert (config.server, config.namespace) == ("https://far:6443/prefix", "fleet")
    assert isinstance(config.credentials, Anonymous)


@pytest.mark.parametrize(
    ("context", "namespace", "wanted"),
    [({}, None, "default"), ({"namespace": "a"}, None, "a"), ({"namespace": "a"}, "b", "b")],
    ids=["none", "of the context", "of the caller"],
)
def test_the_namespace(tmp_path: Path, context: Document, namespace: str | None, wanted: str) -> None:
    assert read(write(tmp_path / "c", document(context=context)), namespace=namespace).namespace == wanted


def test_fields_that_are_passed_on(tmp_path: Path) -> None:
    cluster = {"tls-server-name": "api.example", "proxy-url": "http://me:proxy-secret@proxy:3128"}
    config = read(write(tmp_path / "c", document(cluster=cluster)))
    assert config.tls_server_name == "api.example"
    assert config.proxy == "http://me:proxy-secret@proxy:3128"
    assert "proxy-secret" not in repr(config)


def test_plain_http_has_no_tls(tmp_path: Path) -> None:
    user = {"client-certificate-data": encoded(CLIENT.certificate), "client-key-data": encoded(CLIENT.key)}
    assert read(write(tmp_path / "c", document(cluster={"server": "http://127.0.0.1:8080"}, user=user))).tls is None


@pytest.mark.parametrize(
    "user",
    [{"token": "t"}, {"tokenFile": "t"}, {"username": "u"}, {"exec": {"command": "c"}}],
    ids=["token", "token file", "password", "plugin"],
)
def test_secrets_are_not_sent_over_plain_http(tmp_path: Path, user: Document, caplog: pytest.LogCaptureFixture) -> None:
    content = document(cluster={"server": "http://127.0.0.1:8080"}, user={**user, "as": "bob"})
    assert headers(read(write(tmp_path / "c", content))) == [("Impersonate-User", "bob")]
    assert [record.message for record in caplog.records] == ["credentials are not sent over plain HTTP"]


def test_the_oldest_tls_is_1_2(tmp_path: Path) -> None:
    config = read(write(tmp_path / "c", document()))
    assert config.tls is not None
    assert config.tls.minimum_version is ssl.TLSVersion.TLSv1_2


def test_fields_that_are_null_count_as_absent(tmp_path: Path) -> None:
    empty = dict.fromkeys(["token", "tokenFile", "exec", "as", "as-groups", "client-key", "auth-provider"])
    content = document(user=empty, cluster={"proxy-url": None, "insecure-skip-tls-verify": None})
    assert isinstance(read(write(tmp_path / "c", content)).credentials, Anonymous)


# --- users


def test_a_token_file_wins_over_a_token(tmp_path: Path) -> None:
    write(tmp_path / "secret", "from-file\n")
    file = write(tmp_path / "c", document(user={"token": "inline", "tokenFile": "secret"}))
    assert headers(read(file)) == [("Authorization", "Bearer from-file")]


def test_user_name_and_password(tmp_path: Path) -> None:
    config = read(write(tmp_path / "c", document(user={"username": "jane", "password": "pa:ß"})))
    assert headers(config) == [("Authorization", "Basic " + encoded("jane:pa:ß".encode()))]


def test_impersonation(tmp_path: Path) -> None:
    user = {
        "token": "t",
        "as": "bob",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"example.org/scopes": ["x", "y"], "Ünit%": ["z"]},
    }
    assert headers(read(write(tmp_path / "c", document(user=user)))) == [
        ("Authorization", "Bearer t"),
        ("Impersonate-Extra-%C3%9Cnit%25", "z"),
        ("Impersonate-Extra-example.org%2Fscopes", "x"),
        ("Impersonate-Extra-example.org%2Fscopes", "y"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-User", "bob"),
    ]


def test_no_secret_is_in_the_repr(tmp_path: Path) -> None:
    write(tmp_path / "secret", "hush-1")
    entry: Document = {"apiVersion": "client.authentication.k8s.io/v1", "command": "c", "interactiveMode": "Never"}
    entry |= {"args": ["hush-2"], "env": [{"name": "E", "value": "hush-3"}]}
    for user in (
        {"tokenFile": "secret", "as": "x"},
        {"token": "hush-4"},
        {"username": "u", "password": "hush-5"},
        {"exec": entry},
    ):
        shown = repr(read(write(tmp_path / "c", document(user=user))))
        assert "hush" not in shown
        assert encoded(b"u:hush-5") not in shown


# --- handshakes: the context does what the fields say


async def ask(config: Config) -> Document:
    timeout = aiohttp.ClientTimeout(total=10)
    connector = aiohttp.TCPConnector(ssl=config.tls or False)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        url = f"{config.server}/who"
        async with session.get(
            url, headers=await config.credentials.headers(), server_hostname=config.tls_server_name
        ) as response:
            answer: Document = await response.json()
            return answer


@pytest.mark.parametrize("as_file", [False, True], ids=["data", "files"])
async def test_a_server_knows_us_by_our_certificate(tmp_path: Path, as_file: bool) -> None:
    parts = {"client-certificate": CLIENT.certificate, "client-key": CLIENT.key}
    if as_file:
        user = {name: write(tmp_path / name, data).name for name, data in parts.items()}
        cluster = {"certificate-authority": write(tmp_path / "ca", "a comment: ß\n" + CHAIN).name}
    else:
        user = {f"{name}-data": encoded(data) for name, data in parts.items()}
        cluster = {"certificate-authority-data": encoded(AUTHORITY.certificate)}
    async with serving(server_context(AUTHORITY)) as server:
        file = write(
            tmp_path / "c",
            document(cluster={"server": server, **cluster}, user=user | {"as": "x", "as-groups": ["a", "b"]}),
        )
        assert await ask(read(file)) == {"user": "jane", "authorization": None, "groups": ["a", "b"]}


async def test_data_wins_over_a_file(tmp_path: Path) -> None:
    cluster = {"certificate-authority": "missing", "certificate-authority-data": encoded(AUTHORITY.certificate)}
    async with serving(server_context(AUTHORITY)) as server:
        answer = await ask(read(write(tmp_path / "c", document(cluster={"server": server, **cluster}))))
        assert answer["user"] is None


async def test_a_server_of_another_authority_is_not_believed(tmp_path: Path) -> None:
    trusted = encoded(Authority().certificate)
    async with serving(server_context(AUTHORITY)) as server:
        for cluster in ({"certificate-authority-data": trusted}, {}):
            config = read(write(tmp_path / "c", document(cluster={"server": server, **cluster})))
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await ask(config)


async def test_insecure_skip_tls_verify_believes_anybody(tmp_path: Path) -> None:
    async with serving(server_context(AUTHORITY, names=("elsewhere",))) as server:
        cluster = {"server": server, "insecure-skip-tls-verify": True}
        config = read(write(tmp_path / "c", document(cluster=cluster, user={"token": "t"})))
        assert (await ask(config))["authorization"] == "Bearer t"


async def test_tls_server_name_is_the_name_that_is_checked(tmp_path: Path) -> None:
    async with serving(server_context(AUTHORITY, names=("api.internal",))) as server:
        trust = {"server": server, "certificate-authority-data": encoded(AUTHORITY.certificate)}
        good = read(write(tmp_path / "c", document(cluster={**trust, "tls-server-name": "api.internal"})))
        assert (await ask(good))["user"] is None
        bad = read(write(tmp_path / "c", document(cluster={**trust, "tls-server-name": "api.external"})))
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(bad)


# --- wrong input: one sentence with file and field


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [", "is not YAML at line 2, column 1: did not find expected node content"),
        ("a: b: c", "is not YAML at line 1, column 5: mapping values are not allowed in this context"),
        (b"\xff\xfe\xfa", "is not YAML"),
        ("when: 2026-99-99", "is not YAML"),
        ("[" * 100_000, "is nested more deeply than a kubeconfig can be"),
        ("- a", "is a list, must be a mapping with clusters, users and contexts"),
        ("hello", "is a string, must be a mapping with clusters, users and contexts"),
    ],
    ids=["unclosed", "bad mapping", "bytes", "bad date", "too deep", "list", "string"],
)
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, content: str | bytes, said: str) -> None:
    file = write(tmp_path / "c", content)
    assert refusal(file) == f"{file}: {said}"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none") == f"{tmp_path / 'none'}: cannot be read: No such file or directory"
    assert refusal(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


def replaced(path: str, value: object) -> Document:
    """The usual document with the value at the path replaced."""
    content = document()
    *steps, last = path.split(".")
    place: Any = content
    for step in steps:
        place = place[int(step)] if step.isdigit() else place[step]
    place[last] = value
    return content


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "plugin", "interactiveMode": "Never"}
CERTIFICATE_DATA = {"client-certificate-data": encoded(CLIENT.certificate)}
KEY_DATA = {"client-key-data": encoded(CLIENT.key)}


WRONG: list[tuple[Document, str]] = [
    (replaced("current-context", "x"), "current-context: there is no context 'x'; there are: dev"),
    (replaced("current-context", ""), "current-context: is not set, so that a context must be named; there are: dev"),
    (replaced("current-context", 5), "current-context: is a number, must be a string"),
    (document(context={"cluster": "x"}), "contexts[dev].context.cluster: there is no cluster 'x'; there are: kind"),
    (document(context={"cluster": None}), "contexts[dev].context.cluster: is missing"),
    (document(context={"user": "x"}), "contexts[dev].context.user: there is no user 'x'; there are: me"),
    (document(context={"namespace": True}), "contexts[dev].context.namespace: is true or false, must be a string"),
    (document(context={"namespace": "A_B"}), "contexts[dev].context.namespace: is not the name of a namespace"),
    (replaced("contexts", {}), "contexts: is a mapping, must be a list"),
    (replaced("contexts.0.context", "x"), "contexts[dev].context: is a string, must be a mapping"),
    (replaced("clusters", [5]), "clusters[0]: is a number, must be a mapping"),
    (replaced("clusters.0.name", None), "clusters[0].name: is missing"),
    (replaced("users", [{"name": "me"}, {"name": "me"}]), "users[me]: is there more than once"),
    (document(cluster={"server": None}), "clusters[kind].cluster.server: is missing"),
    (document(cluster={"server": 5}), "clusters[kind].cluster.server: is a number, must be a string"),
    (document(cluster={"server": "h:1"}), "clusters[kind].cluster.server: is not a http:// or https:// URL"),
    (document(cluster={"server": "https://"}), "clusters[kind].cluster.server: is not a http:// or https:// URL"),
    (document(cluster={"server": "https://h:x"}), "clusters[kind].cluster.server: is not a http:// or https:// URL"),
    (
        document(cluster={"server": "https://a:b@h"}),
        "clusters[kind].cluster.server: must be a URL without user, query and fragment",
    ),
    (
        document(cluster={"proxy-url": "socks5://p:1"}),
        "clusters[kind].cluster.proxy-url: is a socks5 proxy, only http and https are supported",
    ),
    (document(cluster={"proxy-url": "p"}), "clusters[kind].cluster.proxy-url: is not a URL"),
    (document(cluster={"proxy-url": "http://[p"}), "clusters[kind].cluster.proxy-url: is not a URL"),
    (
        document(cluster={"server": f"https://{'a' * 64}.b"}),
        "clusters[kind].cluster.server: has a host name that cannot be one",
    ),
    (
        document(cluster={"tls-server-name": "a..b"}),
        "clusters[kind].cluster.tls-server-name: has a host name that cannot be one",
    ),
    (
        document(cluster={"insecure-skip-tls-verify": "yes"}),
        "clusters[kind].cluster.insecure-skip-tls-verify: is a string, must be true or false",
    ),
    (
        document(cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": encoded(CHAIN.encode())}),
        "clusters[kind].cluster.insecure-skip-tls-verify: contradicts the certificate-authority that is also given",
    ),
    (
        document(cluster={"certificate-authority-data": "*"}),
        "clusters[kind].cluster.certificate-authority-data: is not base64",
    ),
    (
        document(cluster={"certificate-authority-data": encoded(b"x")}),
        "clusters[kind].cluster.certificate-authority-data: holds no PEM certificate",
    ),
    (
        document(cluster={"certificate-authority-data": encoded(CHAIN.replace("MII", "AAA").encode())}),
        "clusters[kind].cluster.certificate-authority-data: holds a PEM certificate that is damaged",
    ),
    (
        document(cluster={"certificate-authority": "ca"}),
        "clusters[kind].cluster.certificate-authority: {folder}/ca: cannot be read: No such file or directory",
    ),
    (
        document(user=CERTIFICATE_DATA),
        "users[me].user.client-key: is missing, as there is a client-certificate",
    ),
    (document(user=KEY_DATA), "users[me].user.client-certificate: is missing, as there is a client-key"),
    (
        document(user={**CERTIFICATE_DATA, "client-key-data": encoded(OTHER.key)}),
        "users[me].user.client-key-data: is not the key of the certificate in {certificate}",
    ),
    (
        document(user={**CERTIFICATE_DATA, "client-key-data": encoded(b"x")}),
        "users[me].user.client-key-data: holds no PEM private key",
    ),
    (
        document(user={**CERTIFICATE_DATA, "client-key-data": encoded(CLIENT.key.replace(b"M", b"N"))}),
        "users[me].user.client-key-data: holds a PEM private key that is damaged or cannot be used",
    ),
    (
        document(user={"client-certificate-data": encoded(b"x"), **KEY_DATA}),
        "users[me].user.client-certificate-data: holds no PEM certificate",
    ),
    (
        document(user={"client-certificate": "crt", **KEY_DATA}),
        "users[me].user.client-certificate: {folder}/crt: cannot be read: No such file or directory",
    ),
    (document(user={"token": 5}), "users[me].user.token: is a number, must be a string"),
    (
        document(user={"token": "a\nb"}),
        "users[me].user.token: is not a token: it has characters that cannot stand in a header",
    ),
    (
        document(user={"tokenFile": "t"}),
        "users[me].user.tokenFile: {folder}/t: cannot be read: No such file or directory",
    ),
    (document(user={"tokenFile": "/dev/null"}), "users[me].user.tokenFile: /dev/null: is empty"),
    (document(user={"tokenFile": "\0"}), "users[me].user.tokenFile: is not the name of a file"),
    (
        document(user={"username": "u", "token": "t"}),
        "users[me].user.username: contradicts the token that is also given, only one is allowed",
    ),
    (document(user={"username": "a:b"}), "users[me].user.username: must be without a colon"),
    (
        document(user={"auth-provider": {"name": "gcp"}}),
        "users[me].user.auth-provider: was removed from Kubernetes, use an exec plugin instead",
    ),
    (
        document(user={"as-groups": ["a"]}),
        "users[me].user.as: is missing, as there is as-uid, as-groups or as-user-extra",
    ),
    (
        document(user={"as": "a", "as-groups": [1]}),
        "users[me].user.as-groups[0]: is a number, must be a string",
    ),
    (document(user={"as": "a", "as-groups": "g"}), "users[me].user.as-groups: is a string, must be a list"),
    (document(user={"as": "a\r\nb"}), "users[me].user.as: has characters that cannot stand in a header"),
    (
        document(user={"as": "a", "as-user-extra": {"k": "v"}}),
        "users[me].user.as-user-extra.k: is a string, must be a list",
    ),
    (
        document(user={"as": "a", "as-user-extra": {"": ["v"]}}),
        "users[me].user.as-user-extra: has a key that is not a string",
    ),
    (document(user={"exec": {**EXEC, "command": ""}}), "users[me].user.exec.command: is missing"),
    (
        document(user={"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
        f"users[me].user.exec.apiVersion: must be one of {', '.join(API_VERSIONS)}",
    ),
    (
        document(user={"exec": {**EXEC, "interactiveMode": ""}}),
        "users[me].user.exec.interactiveMode: must be one of Never, IfAvailable, Always",
    ),
    (
        document(user={"exec": {**EXEC, "env": [{"value": "v"}]}}),
        "users[me].user.exec.env[0].name: is missing or not the name of an environment variable",
    ),
    (document(user={"exec": [1]}), "users[me].user.exec: is a list, must be a mapping"),
]


@pytest.mark.parametrize(("content", "said"), WRONG, ids=[said.split("; ")[0] for _, said in WRONG])
def test_what_is_wrong_is_said_with_file_and_field(tmp_path: Path, content: Document, said: str) -> None:
    file = write(tmp_path / "config", content)
    certificate = f"{file}: users[me].user.client-certificate-data"
    assert refusal(file) == f"{file}: {said.format(certificate=certificate, folder=tmp_path)}"


def test_a_context_that_is_asked_for_and_missing_is_said_with_all_names(tmp_path: Path) -> None:
    content = document()
    content["contexts"].append({"name": "a", "context": {}})
    file = write(tmp_path / "c", content)
    assert refusal(file, context="x") == f"{file}: contexts: there is no context 'x'; there are: a, dev"


def test_an_extension_for_plugins_that_json_cannot_hold(tmp_path: Path) -> None:
    text = """
clusters:
- name: kind
  cluster:
    server: https://h
    insecure-skip-tls-verify: true
    extensions:
    - {name: client.authentication.k8s.io/exec, extension: &loop [*loop]}
users:
- name: me
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: c, provideClusterInfo: true}
contexts:
- {name: dev, context: {cluster: kind, user: me}}
current-context: dev
"""
    file = write(tmp_path / "c", text)
    assert refusal(file) == f"{file}: clusters[kind].cluster.extensions[0].extension: cannot be written as JSON"


def test_a_file_in_kubeconfig_that_is_there_but_cannot_be_reached_is_said(tmp_path: Path) -> None:
    blocked = write(tmp_path / "file", "") / "config"
    with pytest.raises(ConfigError, match=r"/file/config: cannot be read: Not a directory$"):
        load(environ={"KUBECONFIG": str(blocked)})


def test_a_date_is_no_string(tmp_path: Path) -> None:
    file = write(tmp_path / "c", "current-context: 2026-01-01")
    assert refusal(file) == f"{file}: current-context: is of type date, must be a string"


def test_a_namespace_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    assert refusal(write(tmp_path / "c", document()), namespace="../x") == (
        "namespace '../x': is not the name of a namespace"
    )


def test_an_encrypted_key_is_refused_without_asking_for_a_password(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as forms

    key = forms.load_pem_private_key(CLIENT.key, None)
    sealed = key.private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.BestAvailableEncryption(b"password")
    )
    file = write(tmp_path / "c", document(user={**CERTIFICATE_DATA, "client-key-data": encoded(sealed)}))
    assert refusal(file) == (
        f"{file}: users[me].user.client-key-data: is encrypted with a password, which is not supported"
    )


def test_a_broken_entry_that_is_not_used_does_no_harm(tmp_path: Path) -> None:
    content = document()
    content["clusters"].append({"name": "broken", "cluster": {"server": 5}})
    assert read(write(tmp_path / "c", content)).server == "https://127.0.0.1:6443"


# --- any kubeconfig gives a Config or a ConfigError


FULL = document(
    cluster={
        "certificate-authority-data": encoded(AUTHORITY.certificate),
        "tls-server-name": "api",
        "proxy-url": "http://proxy:3128",
        "insecure-skip-tls-verify": False,
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
    },
    user={
        **CERTIFICATE_DATA,
        **KEY_DATA,
        "exec": {**EXEC, "args": ["a"], "env": [{"name": "A", "value": "b"}], "provideClusterInfo": True},
        "as": "bob",
        "as-uid": "1",
        "as-groups": ["g"],
        "as-user-extra": {"k": ["v"]},
    },
    context={"namespace": "edge"},
)
FULL["users"][0]["user"] |= {"client-certificate": "crt", "client-key": "key"}


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found += places(inner, (*path, key))
    return found


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["http://h", "\0", "x:y"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.sampled_from(["name"]), inner),
    max_leaves=5,
)
MUTATIONS = st.lists(
    st.tuples(st.sampled_from(places(FULL)), st.sampled_from(["drop", "rename", "replace"]), VALUES),
    min_size=1,
    max_size=4,
)


def mutated(mutations: list[tuple[tuple[str | int, ...], str, Any]]) -> Document:
    content: Any = copy.deepcopy(FULL)
    for path, how, value in mutations:
        place = content
        try:
            for step in path[:-1]:
                place = place[step]
            old = place.pop(path[-1])
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier mutation took it away
        if how == "replace" and isinstance(place, list):
            place.insert(int(path[-1]), value)
        elif how == "replace":
            place[path[-1]] = value
        elif how == "rename" and isinstance(place, dict):
            place[f"{path[-1]}-x"] = old
    result: Document = content
    return result


def test_the_kubeconfig_that_is_changed_below_is_good(tmp_path: Path) -> None:
    assert read(write(tmp_path / "c", FULL)).namespace == "edge"


@given(mutations=MUTATIONS)
def test_any_change_of_a_kubeconfig_gives_a_config_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, mutations: list[tuple[tuple[str | int, ...], str, Any]]
) -> None:
    file = write(tmp_path_factory.getbasetemp() / "mutated", json.dumps(mutated(mutations)))
    with contextlib.suppress(ConfigError):
        assert load(kubeconfig=file, environ={}).server.startswith("http")


@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_give_a_config_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = write(tmp_path_factory.getbasetemp() / "bytes", content)
    with pytest.raises(ConfigError):
        load(kubeconfig=file, environ={})
