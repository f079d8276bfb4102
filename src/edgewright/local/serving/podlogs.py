"""What the node that runs a Pod answers: the log of a container, or a session in it, as kube-apiserver asks a kubelet.

`server` calls it for `/log`, `/exec` and `/attach`. What the node answers is passed on as it comes; nothing is kept.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from edgewright.local import field_errors
from edgewright.local.access.authentication import User
from edgewright.local.errors import Cause, Refusal, bad_request, internal_error, invalid, not_found
from edgewright.local.go_format import quote
from edgewright.local.history import StoreKey
from edgewright.local.serving import bodies, options
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.podstreams import connect
from edgewright.local.serving.request_attributes import attributes
from edgewright.local.serving.target import Target
from edgewright.local.structs import values
from edgewright.runtime.objects import Kind, RawObject

_PODS = Kind(group="", version="v1", kind="Pod", plural="pods")
_OPTIONS = Kind(group="", version="v1", kind="PodLogOptions", plural="")
OF_THE_NODE: Final = frozenset({"log", "exec", "attach"})
"""The parts of a Pod that its node serves."""
_PASSED = ("follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes")
_PREFERRED = ("InternalIP", "Hostname", "ExternalIP")
_CONNECT_SECONDS = 5.0
_CHUNK = 64 * 1024
_HEADERS = {"Content-Type": "text/plain", "Cache-Control": "no-cache, private"}


_GENERIC = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", ""),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}
"""What is said of other answers of a node: its own words only where it forbids."""


class PodLogs:
    """Fetches logs from nodes; `tls` shows who we are to them."""

    def __init__(self, objects: Objects, tls: ssl.SSLContext | None) -> None:
        self._objects = objects
        self._tls = tls

    async def answer(self, request: web.BaseRequest, where: Target, user: User) -> web.StreamResponse:
        """What the node says; a session may do as much as one that is created, however it is asked for."""
        if where.subresource == "log":
            return await self.stream(request, where.namespace, where.name)
        self._objects.rights.check(attributes("POST", request.path, where, {}), user)
        query = request.query
        container, address = self._place(where.namespace, where.name, query.get("container", ""))
        if not address:
            raise bad_request(f"pod {where.name} does not have a host assigned")
        if not query.getall("command", []) and where.subresource == "exec":
            raise bad_request("you must specify at least 1 command for the container")
        path = f"{where.subresource}/{where.namespace}/{where.name}/{container}"
        return await connect(request, f"https://{address}/{path}?{request.rel_url.raw_query_string}", self._tls)

    async def stream(self, request: web.BaseRequest, namespace: str, name: str) -> web.StreamResponse:
        """Passes the log of one container on to the client."""
        url = self._url(namespace, name, request.query)
        if not url:
            return web.Response(status=204)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url, ssl=self._tls if self._tls is not None else True) as answer,
            ):
                if answer.status != 200:
                    text = (await answer.content.read(_CHUNK)).decode(errors="replace")
                    raise _refused(name, answer.status, text)
                response = web.StreamResponse(headers=_HEADERS)
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except (aiohttp.ClientConnectionError, TimeoutError) as error:
            raise internal_error(f"Get {quote(url)}: {error}") from None

    def _url(self, namespace: str, name: str, query: Mapping[str, str]) -> str:
        """Where the node has the log; empty while the Pod has no node, and so nothing has been said."""
        if found := _option_faults(query):
            raise invalid(_OPTIONS, name, found)
        container, address = self._place(namespace, name, query.get("container", ""))
        passed = urlencode({key: query[key] for key in _PASSED if key in query})
        return f"https://{address}/containerLogs/{namespace}/{name}/{container}?{passed}" if address else ""

    def _place(self, namespace: str, name: str, asked: str) -> tuple[str, str]:
        """Which container is meant, and where its node listens; empty while the Pod has no node."""
        pod = self._found(StoreKey("pods", namespace, name))
        if pod is None:
            raise not_found(_PODS, name)
        container = _container(pod, asked)
        node_name = pod.get("spec", {}).get("nodeName", "")
        node = self._found(StoreKey("nodes", "", node_name)) if node_name else None
        if not node_name:
            return container, ""
        if node is None:
            raise internal_error(f'node "{node_name}" not found')
        return container, "{}:{}".format(*_endpoint(node))

    def _found(self, key: StoreKey) -> RawObject | None:
        stored = self._objects.store.get(key)
        return None if stored is None else bodies.decode_stored(stored.body)


def _option_faults(query: Mapping[str, str]) -> list[Cause]:
    """What is wrong with what is asked for; one stream alone cannot be had, nor in Kubernetes by default."""
    found = []
    for name, least, why in (
        ("tailLines", 0, "must be greater than or equal to 0"),
        ("limitBytes", 1, "must be greater than 0"),
    ):
        if (value := options.integer(query, name)) is not None and value < least:
            found.append(field_errors.invalid(name, value, why))
    seconds = options.integer(query, "sinceSeconds")
    if _is_a_time(query.get("sinceTime", "")) and seconds is not None:
        found.append(field_errors.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        found.append(field_errors.invalid("sinceSeconds", seconds, "must be greater than 0"))
    if "stream" in query:
        found.append(field_errors.forbidden("stream", "may not be specified"))
    return found


def _is_a_time(text: str) -> bool:
    """Whether a time is given; one that cannot be read is refused."""
    try:
        return bool(text) and values.time(text) is not None
    except values.WrongValue as wrong:
        raise bad_request(wrong.why) from None


def _container(pod: RawObject, asked: str) -> str:
    spec = pod.get("spec", {})
    main = [each["name"] for each in spec.get("containers") or []]
    first = [each["name"] for each in spec.get("initContainers") or []]
    name = pod["metadata"]["name"]
    every = [*first, *main]
    if asked:
        if asked not in every:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(main) != 1:
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(every)}]")
    return str(main[0])


def _endpoint(node: RawObject) -> tuple[str, int]:
    status = node.get("status", {})
    port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port", 0)
    addresses: dict[str, Any] = {each["type"]: each["address"] for each in status.get("addresses") or []}
    for kind in _PREFERRED:
        if kind in addresses and port:
            return str(addresses[kind]), int(port)
    raise internal_error(f"node {node['metadata']['name']} serves no logs")


def _refused(name: str, status: int, text: str) -> Refusal:
    """What a client is told of a node that refuses: the node's words where they are about the request."""
    if status == 400:
        return bad_request(text)
    if status == 500:
        return internal_error(text)
    reason, message = _GENERIC.get(status, ("", ""))
    if status == 403:
        message = text
    elif status > 500 and not reason:
        reason = "InternalError"
        message = f"an error on the server ({quote(text)}) has prevented the request from succeeding"
    elif not reason:
        message = f"the server responded with the status code {status} but did not return more information"
    return Refusal(status, reason, f"{message} ( pods/log {name})", {"name": name, "kind": "pods/log"})
