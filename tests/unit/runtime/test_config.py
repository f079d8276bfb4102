"""Which configuration is taken, and what its fields become: servers, credentials, and the TLS that is spoken."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from edgewright.runtime.config import Config, ConfigError, load
from edgewright.runtime.credentials import Anonymous, TokenFile
from tests.harness.certificates import Authority
from tests.unit.runtime.kubeconfigs import AUTHORITY, CHAIN, CLIENT, Document, document, encoded, headers, read, write
from tests.unit.runtime.tls_server import server_context, serving

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


def test_without_any_home_folder_one_sentence_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(ConfigError, match=r"without HOME ~/\.kube/config is nowhere; set KUBECONFIG or name"):
        load(environ={})


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
