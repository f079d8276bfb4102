"""The ConfigMaps, Secrets, fields and tokens that containers are given, read when they are needed.

`environment` and `volumes` ask; the answers are bytes or text, or `Missing` with a sentence that says what is not
there. The node may read only what its Pods name, so nothing is listed or watched here, and nothing but
tokens is kept.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from edgewright.local.node.pods import CONFIG_MAP, SECRET, SERVICE_ACCOUNT, Pod
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import Forbidden, NotFound
from edgewright.runtime.objects import Key, RawObject

_SUFFIXES: dict[str, float] = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_SUFFIXES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60, "m": 10**-3}


class Missing(Exception):
    """Something that a Pod refers to is not there; the message names it."""


class Tokens:
    """The tokens of all Pods; each is asked for again when four fifths of its life are over."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[tuple[str, str, int], tuple[bytes, float]] = {}

    async def get(self, pod: Pod, *, audience: str | None, seconds: int) -> bytes:
        """A token of the Pod's ServiceAccount that names this Pod and ends with it."""
        known = (pod.uid, audience or "", seconds)
        token, due = self._known.get(known, (b"", 0.0))
        if not token or self._clock.elapsed() >= due:
            token = await self._ask(pod, audience, seconds)
            self._known[known] = (token, self._clock.elapsed() + 0.8 * seconds)
        return token

    def forget(self, uid: str) -> None:
        """The Pod is gone."""
        for known in [known for known in self._known if known[0] == uid]:
            del self._known[known]

    async def _ask(self, pod: Pod, audience: str | None, seconds: int) -> bytes:
        name = pod.spec.get("serviceAccountName") or "default"
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.uid}
        spec: RawObject = {"expirationSeconds": seconds, "boundObjectRef": bound}
        if audience:
            spec["audiences"] = [audience]
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = SERVICE_ACCOUNT.path(pod.metadata.namespace, name, "token")
        try:
            answer = await self._client.transport.request("POST", path, body=msgspec.json.encode(request))
        except (Forbidden, NotFound) as error:
            raise Missing(f'no token for serviceaccount "{name}": {error}') from error
        return str(msgspec.json.decode(answer)["status"]["token"]).encode()


class Sources:
    """What one Pod may refer to, each object read at most once."""

    def __init__(self, client: Client, pod: Pod, *, fields: Mapping[str, str], tokens: Tokens) -> None:
        self._tokens = tokens
        self._client = client
        self._pod = pod
        self._fields = fields
        self._read: dict[tuple[str, str], RawObject | None] = {}

    async def config_map(self, name: str, *, optional: bool) -> dict[str, bytes] | None:
        """The content of a ConfigMap; None where there is none and that is allowed."""
        found = await self._get("configmap", name)
        if found is None:
            _demand(f'configmap "{name}" not found', optional=optional)
            return None
        texts = {key: value.encode() for key, value in (found.get("data") or {}).items()}
        return texts | {key: _decoded(value) for key, value in (found.get("binaryData") or {}).items()}

    async def secret(self, name: str, *, optional: bool) -> dict[str, bytes] | None:
        """The content of a Secret; None where there is none and that is allowed."""
        found = await self._get("secret", name)
        if found is None:
            _demand(f'secret "{name}" not found', optional=optional)
            return None
        return {key: _decoded(value) for key, value in (found.get("data") or {}).items()}

    def field(self, path: str) -> str:
        """A field of the Pod itself, as the downward API names it."""
        return pod_field(self._pod, path, self._fields)

    async def token(self, *, audience: str | None, seconds: int) -> bytes:
        """A token of the Pod's ServiceAccount, for this Pod only."""
        return await self._tokens.get(self._pod, audience=audience, seconds=seconds)

    async def _get(self, what: str, name: str) -> RawObject | None:
        known = (what, name)
        if known not in self._read:
            kind = CONFIG_MAP if what == "configmap" else SECRET
            try:
                self._read[known] = await self._client.raw(kind).get(Key(self._pod.metadata.namespace, name))
            except NotFound:
                self._read[known] = None
            except Forbidden as error:
                # A server lets a node read what its Pods name, and may learn of a Pod later than we do.
                raise Missing(str(error)) from error
        return self._read[known]


def _demand(message: str, *, optional: bool) -> None:
    if not optional:
        raise Missing(message)


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except binascii.Error:
        return value.encode()


def pod_field(pod: Pod, path: str, fields: Mapping[str, str]) -> str:
    """A field by its path; `fields` holds those that only the node knows (status.podIP, spec.nodeName …)."""
    if path in fields:
        return fields[path]
    for whole, values in (("metadata.labels", pod.metadata.labels), ("metadata.annotations", pod.metadata.annotations)):
        if path == whole:
            return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(values.items()))
        if path.startswith(f"{whole}['") and path.endswith("']"):
            return values.get(path[len(whole) + 2 : -2], "")
    known = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.uid,
        "spec.serviceAccountName": str(pod.spec.get("serviceAccountName") or ""),
    }
    if path not in known:
        raise Missing(f"fieldRef {path} is not supported by this node")
    return known[path]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'


def quantity(text: Any) -> float:
    """A quantity as a number: 500m, 64Mi, 2."""
    written = str(text)
    digits = written.rstrip("mkKMGTPEi")
    try:
        return float(digits) * _SUFFIXES[written[len(digits) :]]
    except (ValueError, KeyError):
        raise Missing(f"{written!r} is not a quantity") from None


def resource_field(container: RawObject, path: str, divisor: Any, capacity: Mapping[str, str]) -> str:
    """A request or limit of a container in units of the divisor, rounded up; a limit that is not set is the node's."""
    which, _, name = path.partition(".")
    resources = container.get("resources") or {}
    given = (resources.get(which) or {}).get(name)
    if given is None and which == "limits":
        given = capacity.get(name)
    unit = quantity(divisor) if divisor not in (None, "", "0") else 1.0
    return str(math.ceil(round(quantity(given if given is not None else 0) / unit, 9)))
