"""What is wrong in people's kubeconfigs is said in one sentence that names the file and the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewright.runtime.exec_plugin import API_VERSIONS
from tests.unit.runtime.kubeconfigs import (
    CERTIFICATE_DATA,
    CHAIN,
    CLIENT,
    EXEC,
    KEY_DATA,
    OTHER,
    Document,
    document,
    encoded,
    refusal,
    write,
)


def replaced(path: str, value: object) -> Document:
    """The usual document with the value at the path replaced."""
    content = document()
    *steps, last = path.split(".")
    place: Any = content
    for step in steps:
        place = place[int(step)] if step.isdigit() else place[step]
    place[last] = value
    return content


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


def test_a_date_is_a_text_as_it_is_for_kubectl(tmp_path: Path) -> None:
    file = write(tmp_path / "c", "current-context: 2026-01-01")
    assert "2026-01-01" in refusal(file)
    assert "there is no context" in refusal(file)


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
