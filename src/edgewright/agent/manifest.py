"""Turns a workload of the configuration into what podman is given: a Pod manifest, its secrets, its host ports.

Pure: `workloads` hands the result to podman. The Pod carries the labels by which the agent knows its own, and a hash of
everything that makes it, so that a changed workload is told from an unchanged one without any other memory.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from edgewright.api.edge_protocol import WireSecret, Workload
from edgewright.containers import Pod
from edgewright.runtime.yaml_dumper import dump_all
from edgewright.runtime.yaml_loader import load

DEVICE_LABEL: Final = "edgewright.dev/device"
"""The label of every pod of ours: the id of the device."""
HASH_LABEL: Final = "edgewright.dev/hash"
"""The label with the hash of what made the pod."""
GRACE_LABEL: Final = "edgewright.dev/grace"
"""The label with the seconds that the pod has to end by itself: at its end nothing else of it may be known."""
GRACE: Final = 10
"""Seconds that a workload has to end by itself where it does not say."""
MAX_GRACE: Final = 600
"""The longest that is waited for a workload to end."""
SECRET_PREFIX: Final = "edgewright-"  # noqa: S105 - a prefix of names
"""What the name of every secret of ours begins with."""
EXPORT: Final = "/export"
"""Where a workload finds the directory whose files may be uploaded."""

_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_PROTOCOLS: Final = {"TCP": "tcp", "UDP": "udp"}


class BadWorkload(Exception):
    """A workload that cannot be turned into a Pod; the sentence names the field."""


@dataclass(frozen=True, order=True)
class Port:
    """A port of the device that a workload wants open."""

    protocol: str
    """tcp or udp."""
    number: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What podman is given for one workload."""

    name: str
    hash: str
    text: str = field(repr=False)
    containers: frozenset[str]
    """The names that podman gives to its containers."""
    images: Mapping[str, str] = field(default_factory=dict)
    """When each image is fetched (imagePullPolicy), by its name."""
    restart: str
    """Always, OnFailure or Never."""
    ports: tuple[Port, ...]
    secrets: Mapping[str, bytes] = field(repr=False)
    """Content by the name that podman has it under."""
    credentials: Mapping[str, Mapping[str, str]] = field(repr=False)
    """Username and password by registry."""


def manifest(workload: Workload, secrets: Sequence[WireSecret], *, device: str, export: Path) -> Manifest:
    """The manifest of a workload; BadWorkload where it cannot be made."""
    if not is_name(workload.name):
        raise BadWorkload(f"name: {workload.name!r} cannot be the name of a workload")
    spec = _pod_spec(workload.specification)
    needed = _Secrets(workload.name, {each.name: each for each in secrets})
    for container in (*_containers(spec, "containers"), *_containers(spec, "initContainers")):
        needed.rename(container)
        _add_env(container, "DEVICE_ID", device)
        mounts = _list(container, "volumeMounts")
        if not any(isinstance(each, dict) and each.get("mountPath") == EXPORT for each in mounts):
            mounts.append({"name": f"export-{workload.name}", "mountPath": EXPORT})
    _list(spec, "volumes").append(
        {"name": f"export-{workload.name}", "hostPath": {"path": str(export), "type": "DirectoryOrCreate"}}
    )
    documents = [*_config_maps(workload.configmaps or ())]
    labels = {**workload.labels, DEVICE_LABEL: device, GRACE_LABEL: str(_grace(spec))}
    metadata: dict[str, Any] = {"name": workload.name, "labels": labels}
    if workload.annotations:
        metadata["annotations"] = dict(workload.annotations)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    found = _hash([*documents, pod], needed.contents)
    labels[HASH_LABEL] = found
    return Manifest(
        name=workload.name,
        hash=found,
        text=dump_all([*documents, pod], sort_keys=True),
        containers=frozenset(f"{workload.name}-{each.get('name')}" for each in _containers(spec, "containers")),
        images={
            str(each.get("image")): str(each.get("imagePullPolicy") or "IfNotPresent")
            for each in (*_containers(spec, "initContainers"), *_containers(spec, "containers"))
        },
        restart=str(spec.get("restartPolicy") or "Always"),
        ports=tuple(sorted(set(_ports(spec)))),
        secrets=needed.contents,
        credentials=_credentials(workload),
    )


def secret_owner(name: str) -> str | None:
    """The workload that a secret of podman was made for; None where it is not ours."""
    if not name.startswith(SECRET_PREFIX):
        return None
    return name.removeprefix(SECRET_PREFIX).rpartition("_")[0].partition("_")[0] or None


def is_name(text: str) -> bool:
    """Whether a workload may be called so: files and pods have this name too."""
    return _NAME.fullmatch(text) is not None and ".." not in text


def grace_of(pod: Pod) -> int:
    """The seconds that a pod has to end by itself."""
    found = pod.label(GRACE_LABEL) or ""
    return int(found) if found.isdecimal() else GRACE


def _grace(spec: dict[str, Any]) -> int:
    found = spec.get("terminationGracePeriodSeconds")
    if found is None:
        return GRACE
    if not isinstance(found, int) or not 0 <= found <= MAX_GRACE:
        raise BadWorkload(f"specification.terminationGracePeriodSeconds: must be between 0 and {MAX_GRACE}")
    return found


def _pod_spec(text: str) -> dict[str, Any]:
    try:
        spec = load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadWorkload(f"specification: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(spec, dict):
        raise BadWorkload("specification: is no PodSpec")
    if not _containers(spec, "containers"):
        raise BadWorkload("specification.containers: must name at least one container")
    return spec


def _containers(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found = spec.get(kind) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadWorkload(f"specification.{kind}: must be a list of containers")
    return found


def _list(holder: dict[str, Any], name: str) -> list[Any]:
    """The list of that name in a part of the specification, made where there is none."""
    if holder.get(name) is None:
        holder[name] = []
    found = holder[name]
    if not isinstance(found, list):
        raise BadWorkload(f"specification: {name}: must be a list")
    return found


def _add_env(container: dict[str, Any], name: str, value: str) -> None:
    env = _list(container, "env")
    if not any(isinstance(each, dict) and each.get("name") == name for each in env):
        env.append({"name": name, "value": value})


def _ports(spec: dict[str, Any]) -> Iterator[Port]:
    own_network = not spec.get("hostNetwork")
    for container in _containers(spec, "containers"):
        for each in container.get("ports") or []:
            if not isinstance(each, dict):
                raise BadWorkload("specification.containers.ports: must be a list of ports")
            number = each.get("hostPort") or (None if own_network else each.get("containerPort"))
            protocol = _PROTOCOLS.get(str(each.get("protocol") or "TCP").upper())
            if number is None:
                continue
            if protocol is None:
                raise BadWorkload("specification.containers.ports.protocol: must be TCP or UDP")
            if not isinstance(number, int) or not 0 < number < 65536:
                raise BadWorkload(f"specification.containers.ports.hostPort: {number!r} is no port")
            yield Port(protocol, number)


class _Secrets:
    """Gives the Secrets that a workload refers to names of their own, so that no secret of anybody else is touched."""

    def __init__(self, workload: str, known: Mapping[str, WireSecret]) -> None:
        self._workload = workload
        self._known = known
        self.contents: dict[str, bytes] = {}

    def rename(self, container: dict[str, Any]) -> None:
        """Rewrites the references of one container."""
        for each in _list(container, "env"):
            source = each.get("valueFrom") if isinstance(each, dict) else None
            if isinstance(source, dict) and isinstance(source.get("secretKeyRef"), dict):
                self._rewrite(source["secretKeyRef"], f"env {each.get('name')}")
        for each in container.get("envFrom") or []:
            if isinstance(each, dict) and isinstance(each.get("secretRef"), dict):
                self._rewrite(each["secretRef"], "envFrom")

    def _rewrite(self, reference: dict[str, Any], where: str) -> None:
        name = str(reference.get("name"))
        if name not in self._known:
            if reference.get("optional"):
                return
            raise BadWorkload(f"specification: {where}: the configuration has no Secret {name!r}")
        content = self._known[name].data.encode()
        # A changed Secret gets another name: podman has no way to replace the content of one.
        mark = hashlib.sha256(content).hexdigest()[:12]
        reference["name"] = f"{SECRET_PREFIX}{self._workload}_{name}_{mark}"
        self.contents[reference["name"]] = content


def _config_maps(texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    for text in texts:
        try:
            found = load(text)
        except (yaml.YAMLError, RecursionError) as error:
            raise BadWorkload(f"configmaps: is not YAML: {' '.join(str(error).split())}") from error
        if not isinstance(found, dict) or not isinstance(found.get("metadata"), dict):
            raise BadWorkload("configmaps: holds something that is no ConfigMap")
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": found["metadata"].get("name")},
            "data": found.get("data") or {},
        }


def _credentials(workload: Workload) -> dict[str, dict[str, str]]:
    if workload.image_registries is None or not workload.image_registries.auth_file.strip():
        return {}
    try:
        file = msgspec.json.decode(workload.image_registries.auth_file, type=_AuthFile)
        return {host: _login(each) for host, each in (file.auths or {}).items()}
    except (msgspec.MsgspecError, binascii.Error, UnicodeDecodeError) as error:
        raise BadWorkload(f"imageRegistries.authFile: cannot be read: {error}") from error


class _Auth(msgspec.Struct, frozen=True):
    auth: str = ""
    username: str = ""
    password: str = ""


class _AuthFile(msgspec.Struct, frozen=True):
    auths: dict[str, _Auth] | None = None


def _login(auth: _Auth) -> dict[str, str]:
    if auth.username or not auth.auth:
        return {"username": auth.username, "password": auth.password}
    username, _, password = base64.b64decode(auth.auth, validate=True).decode().partition(":")
    return {"username": username, "password": password}


def _hash(documents: Sequence[Mapping[str, Any]], secrets: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(msgspec.json.encode(documents, order="deterministic", enc_hook=str))
    for name in sorted(secrets):
        digest.update(name.encode() + b"\0" + secrets[name])
    return digest.hexdigest()[:32]
