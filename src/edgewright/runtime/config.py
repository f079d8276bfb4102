"""Finds out which API server to talk to and as whom: from kubeconfig files, or from what a Pod is given.

The first step of every program: the command line and the manager call `load` once, and `client` takes the `Config`. It
reads files only; it never talks to the server, and no plugin runs before the first request.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import msgspec
from yarl import URL

from edgewright.runtime import kubeconfig as files
from edgewright.runtime import logs
from edgewright.runtime.credentials import (
    Anonymous,
    Basic,
    CertificateFiles,
    Credentials,
    Impersonated,
    Token,
    TokenFile,
)
from edgewright.runtime.exec_plugin import API_VERSIONS, ExecEntry, ExecPlugin, InteractiveMode
from edgewright.runtime.kubeconfig import Fields, Kubeconfig
from edgewright.runtime.tls import ClientTls, ConfigError, Pem, PemFile, certificates_in, read_bytes

__all__ = ["Config", "ConfigError", "load"]

log = logs.get("runtime.config")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""What a namespace can be called."""
_SECRETS = ("token", "tokenFile", "username", "password", "exec")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Which API server to talk to, how to reach it and as whom."""

    server: str
    """`https://host:6443`, perhaps with a path, without a slash at the end."""
    namespace: str = "default"
    tls: ssl.SSLContext | None = None
    """None for a server that speaks plain HTTP."""
    tls_server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    """A http or https proxy; its URL may hold a password."""
    credentials: Credentials = field(default_factory=Anonymous)
    source: str = ""
    """Where this comes from, for messages: `context kind-dev of /home/me/.kube/config`, `in-cluster`."""


def load(
    *,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
    environ: Mapping[str, str] = os.environ,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Config:
    """The configuration from the first of: the file given, $KUBECONFIG, the Pod that we are in, ~/.kube/config.

    A context that is asked for by name is looked for in files only. Raises ConfigError.
    """
    if namespace and not NAMESPACE.fullmatch(namespace):
        raise ConfigError(f"namespace {namespace!r}: is not the name of a namespace")
    if kubeconfig is not None:
        return _from_files([Path(kubeconfig)], context=context, namespace=namespace, environ=environ)
    named = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        existing = [file for file in named if not _is_missing(file)]
        if not existing:
            raise ConfigError(f"KUBECONFIG: none of its files exists: {', '.join(map(str, named))}")
        return _from_files(existing, context=context, namespace=namespace, environ=environ)
    in_pod = bool(environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"))
    token = service_account / "token"
    if context is None and in_pod and not _is_missing(token):
        return _in_cluster(service_account, namespace=namespace, environ=environ)
    usual = _home(home, environ) / ".kube" / "config"
    if not _is_missing(usual):
        return _from_files([usual], context=context, namespace=namespace, environ=environ)
    pod = f"{token} does not exist" if in_pod else "this is no Pod (KUBERNETES_SERVICE_HOST and _PORT are not set)"
    raise ConfigError(
        f"no Kubernetes configuration was found: KUBECONFIG is not set, {pod} and {usual} does not exist; "
        "set KUBECONFIG or name a kubeconfig file"
    )


def _home(home: Path | None, environ: Mapping[str, str]) -> Path:
    if home or environ.get("HOME"):
        return home or Path(environ["HOME"])
    try:
        return Path("~").expanduser()
    except RuntimeError:  # a user without an account, as in many containers
        raise ConfigError(
            "no Kubernetes configuration was found: KUBECONFIG is not set, and without HOME ~/.kube/config is nowhere; "
            "set KUBECONFIG or name a kubeconfig file"
        ) from None


def _is_missing(file: Path) -> bool:
    try:
        file.stat()
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False  # it is there in some way: reading it tells what is wrong
    return False


def _in_cluster(folder: Path, *, namespace: str | None, environ: Mapping[str, str]) -> Config:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    origin = "in-cluster: KUBERNETES_SERVICE_HOST and _PORT"
    server = _url(f"https://{f'[{host}]' if ':' in host else host}:{port}", origin)
    authorities = folder / "ca.crt"
    trusted = None if _is_missing(authorities) else PemFile(origin="in-cluster", path=authorities).read()
    own = folder / "namespace"
    chosen = namespace or environ.get("POD_NAMESPACE")
    if not chosen and not _is_missing(own):
        chosen = read_bytes(own, origin="in-cluster").decode("utf-8", "replace").strip()
    if chosen and not NAMESPACE.fullmatch(chosen):
        raise ConfigError(f"in-cluster: {own}: is not the name of a namespace")
    return Config(
        server=server,
        namespace=chosen or "default",
        tls=ClientTls(authorities=trusted),
        credentials=TokenFile(folder / "token", origin="in-cluster"),
        source="in-cluster",
    )


def _from_files(paths: list[Path], *, context: str | None, namespace: str | None, environ: Mapping[str, str]) -> Config:
    merged = files.read(paths)
    name, chosen = _choose(merged, context)
    cluster = _named(merged.clusters, chosen, "cluster")
    if cluster is None:
        raise ConfigError(f"{chosen.at('cluster')}: is missing")
    user = _named(merged.users, chosen, "user") or Fields(chosen.file, "users", {})
    own_namespace = chosen.text("namespace")
    if own_namespace and not NAMESPACE.fullmatch(own_namespace):
        raise ConfigError(f"{chosen.at('namespace')}: is not the name of a namespace")
    if not cluster.has("server"):
        raise ConfigError(f"{cluster.at('server')}: is missing")
    server = _url(cluster.text("server"), cluster.at("server"))
    tls = _tls(cluster) if server.startswith("https:") else None
    server_name = cluster.text("tls-server-name")
    if tls and not tls.can_check(server_name or URL(server).host or ""):
        field_name = "tls-server-name" if server_name else "server"
        raise ConfigError(f"{cluster.at(field_name)}: has a host name that cannot be one")
    return Config(
        server=server,
        namespace=namespace or own_namespace or "default",
        tls=tls,
        tls_server_name=server_name or None,
        proxy=_proxy(cluster),
        credentials=_credentials(user, cluster, tls, environ),
        source=f"context {name} of {chosen.file}",
    )


def _choose(merged: Kubeconfig, context: str | None) -> tuple[str, Fields]:
    name = context or merged.current_context
    there_are = f"there are: {', '.join(sorted(merged.contexts)) or 'none'}"
    if not name:
        raise ConfigError(f"{merged.chosen_by}: is not set, so that a context must be named; {there_are}")
    if name not in merged.contexts:
        origin = f"{', '.join(map(str, merged.files))}: contexts" if context else merged.chosen_by
        raise ConfigError(f"{origin}: there is no context {name!r}; {there_are}")
    return name, merged.contexts[name]


def _named(entries: Mapping[str, Fields], context: Fields, what: str) -> Fields | None:
    name = context.text(what)
    if not name:
        return None
    if name not in entries:
        there_are = f"there are: {', '.join(sorted(entries)) or 'none'}"
        raise ConfigError(f"{context.at(what)}: there is no {what} {name!r}; {there_are}")
    return entries[name]


def _url(text: str, origin: str) -> str:
    try:
        url = URL(text)
        plain = url.scheme in {"http", "https"} and bool(url.host) and text.isprintable() and " " not in text
        overloaded = bool(url.user or url.password or url.query_string or url.fragment)
    except ValueError:
        plain = overloaded = False
    if not plain:
        raise ConfigError(f"{origin}: is not a http:// or https:// URL")
    if overloaded:
        raise ConfigError(f"{origin}: must be a URL without user, query and fragment")
    return str(url).rstrip("/")


def _proxy(cluster: Fields) -> str | None:
    text = cluster.text("proxy-url")
    if not text:
        return None
    try:
        url = URL(text)
        usable = bool(url.host) and text.isprintable() and " " not in text
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{cluster.at('proxy-url')}: is not a URL")
    if url.scheme not in {"http", "https"}:
        raise ConfigError(f"{cluster.at('proxy-url')}: is a {url.scheme} proxy, only http and https are supported")
    return text


def _tls(cluster: Fields) -> ClientTls:
    authorities = cluster.pem("certificate-authority")
    if cluster.flag("insecure-skip-tls-verify"):
        if authorities is not None:
            raise ConfigError(
                f"{cluster.at('insecure-skip-tls-verify')}: contradicts the certificate-authority that is also given"
            )
        return ClientTls(verify=False)
    return ClientTls(authorities=authorities.read() if authorities else None)


def _credentials(user: Fields, cluster: Fields, tls: ClientTls | None, environ: Mapping[str, str]) -> Credentials:
    if user.has("auth-provider"):
        raise ConfigError(f"{user.at('auth-provider')}: was removed from Kubernetes, use an exec plugin instead")
    found: Credentials = Anonymous()
    if tls is not None:
        found = _with_certificate(user, _in_headers(user) or _from_plugin(user, cluster, tls, environ) or found, tls)
    elif any(user.has(name) for name in _SECRETS):
        # As kubectl: anybody on the way could read and keep them.
        log.warning("credentials are not sent over plain HTTP", reason=f"{cluster.at('server')}: is a http:// URL")
    return _impersonating(user, found)


def _in_headers(user: Fields) -> Credentials | None:
    token, token_file = user.text("token"), user.path("tokenFile")
    username, password = user.text("username"), user.text("password")
    if username or password:
        if token or token_file:
            raise ConfigError(f"{user.at('username')}: contradicts the token that is also given, only one is allowed")
        if ":" in username:
            raise ConfigError(f"{user.at('username')}: must be without a colon")
        return Basic(username, password)
    if token_file:
        return TokenFile(token_file, origin=user.at("tokenFile"))
    return Token(token, origin=user.at("token")) if token else None


def _from_plugin(user: Fields, cluster: Fields, tls: ClientTls, environ: Mapping[str, str]) -> Credentials | None:
    if not user.has("exec"):
        return None
    return ExecPlugin(_exec(user.mapping("exec"), cluster), environ=environ, tls=tls)


def _with_certificate(user: Fields, inner: Credentials, tls: ClientTls) -> Credentials:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if certificate is None and key is None:
        return inner
    if key is None:
        raise ConfigError(f"{user.at('client-key')}: is missing, as there is a client-certificate")
    if certificate is None:
        raise ConfigError(f"{user.at('client-certificate')}: is missing, as there is a client-key")
    if isinstance(certificate, Pem) and isinstance(key, Pem):
        tls.present(certificate, key)
        return inner
    return CertificateFiles(inner, tls=tls, certificate=certificate, key=key)


def _impersonating(user: Fields, inner: Credentials) -> Credentials:
    name = user.header("as")
    uid, groups, extra = user.header("as-uid"), user.headers("as-groups"), user.mapping("as-user-extra")
    if not name:
        if uid or groups or extra.values:
            raise ConfigError(f"{user.at('as')}: is missing, as there is as-uid, as-groups or as-user-extra")
        return inner
    said: dict[str, list[str]] = {}
    for key in extra.values:
        if not isinstance(key, str) or not key:
            raise ConfigError(f"{user.at('as-user-extra')}: has a key that is not a string")
        said[key] = extra.headers(key)
    return Impersonated(inner=inner, user=name, uid=uid, groups=tuple(groups), extra=said)


def _exec(entry: Fields, cluster: Fields) -> ExecEntry:
    command = entry.text("command")
    if not command:
        raise ConfigError(f"{entry.at('command')}: is missing")
    if os.sep in command:  # not one that is looked for in PATH
        command = str(entry.file.parent.absolute() / command)
    version = entry.text("apiVersion")
    if version not in API_VERSIONS:
        raise ConfigError(f"{entry.at('apiVersion')}: must be one of {', '.join(API_VERSIONS)}")
    wanted = entry.text("interactiveMode") or ("IfAvailable" if version == API_VERSIONS[1] else "")
    modes: tuple[InteractiveMode, ...] = get_args(InteractiveMode)
    mode = next((mode for mode in modes if mode == wanted), None)
    if mode is None:
        raise ConfigError(f"{entry.at('interactiveMode')}: must be one of {', '.join(modes)}")
    env: dict[str, str] = {}
    for variable in entry.mappings("env"):
        name = variable.text("name")
        if not name or "=" in name:
            raise ConfigError(f"{variable.at('name')}: is missing or not the name of an environment variable")
        env[name] = variable.text("value")
    return ExecEntry(
        origin=f"{entry.file}: {entry.place}",
        command=command,
        args=tuple(entry.texts("args")),
        env=env,
        api_version=version,
        interactive_mode=mode,
        install_hint=entry.text("installHint"),
        cluster=_told_to_plugins(cluster) if entry.flag("provideClusterInfo") else None,
    )


def _told_to_plugins(cluster: Fields) -> dict[str, Any]:
    """What a plugin with provideClusterInfo is told of the cluster."""
    told: dict[str, Any] = {"server": cluster.text("server")}
    for name in ("tls-server-name", "proxy-url"):
        if cluster.has(name):
            told[name] = cluster.text(name)
    for name in ("insecure-skip-tls-verify", "disable-compression"):
        if cluster.flag(name):
            told[name] = True
    authorities = cluster.pem("certificate-authority")
    if authorities:
        pem = authorities.read()
        certificates_in(pem)
        told["certificate-authority-data"] = base64.b64encode(pem.data).decode("ascii")
    for extension in cluster.mappings("extensions"):
        if extension.text("name") == _EXEC_EXTENSION and extension.has("extension"):
            try:
                told["config"] = msgspec.json.decode(msgspec.json.encode(extension.values["extension"]))
            except (TypeError, ValueError, RecursionError) as error:
                raise ConfigError(f"{extension.at('extension')}: cannot be written as JSON") from error
    return told
