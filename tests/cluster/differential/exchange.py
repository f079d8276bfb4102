"""What an exchange is: a few requests that are sent alike to both API servers, and how one server is made to answer.

The tables next to this module are dicts of exchanges by title; `tests/cluster/test_differential.py` runs all. Every
exchange has a namespace of its own with the same name on both servers, so exchanges do not see each other.

In paths, headers and bodies `{ns}` stands for that namespace (also good as a name of one's own for objects without a
namespace), `{rv}` and others for what earlier steps have kept. A body is JSON as Python has it, a text or bytes that
are sent as they are, or a function of the answers so far.
"""

from __future__ import annotations

import copy
import http.client
import json
import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.harness import ApiServer

AGENT = "differential"
"""The user agent, which is the manager of the fields that are written."""
JSON, MERGE = "application/json", "application/merge-patch+json"
JSON_PATCH, STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_PATIENCE = 180.0
_HELD_HEADERS = ("Content-Type", "Retry-After", "Deprecation", "Allow", "Location")
_WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a server said to one step: `body` is decoded JSON or YAML, or text; of a watch it is the list of events."""

    title: str
    code: int
    body: Any
    warnings: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    stored: bool = False
    """Whether this is the object as it is stored afterwards, which no known difference may touch."""

    def __getitem__(self, path: str) -> Any:
        return picked(self.body, path)


Body = Callable[[list[Answer]], Any] | Mapping[str, Any] | list[Any] | str | bytes | None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One request."""

    method: str
    path: str
    body: Body = None
    headers: Mapping[str, str] = field(default_factory=dict)
    keep: Mapping[str, str] = field(default_factory=dict)
    """What later steps call a value of this answer: a name, and where it is (`metadata.uid`, `items.0.metadata`)."""
    watch: bool = False
    """A stream: it is opened at this step and read after the last, `events` events of it, or all until it ends."""
    events: int | None = None
    until: Callable[[Answer], bool] | None = None
    """Asked again until the answer is so (what a controller does takes a moment)."""
    compared: bool = True
    """False for what only prepares the next steps."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Steps, whose answers must be the same on both servers; then every object that they wrote is read and compared."""

    steps: Sequence[Step]
    stored: bool = True
    """Whether the objects that the steps wrote are read again; not where a controller may be at them."""
    early: bool = False
    """Whether it is begun with the first test, because it waits long for a controller and needs nothing else."""
    select: Callable[[Any], Any] | None = None
    """Takes from every body the part that is compared; only for documents about everything that is served."""


# Steps, as the tables write them


def exchange(
    *steps: Step, stored: bool = True, early: bool = False, select: Callable[[Any], Any] | None = None
) -> Exchange:
    """An exchange of these steps."""
    return Exchange(steps=steps, stored=stored, early=early, select=select)


FORGET = Step(method="FORGET", path="", compared=False)
"""No request: the server is made to forget all that was before, and to answer again."""


def get(path: str, accept: str = "", **settings: Any) -> Step:
    """A read."""
    return Step(method="GET", path=path, headers={"Accept": accept} if accept else {}, **settings)


def cached(path: str, count: int) -> Step:
    """Waits until so many objects are in the cache from which the real server answers where any version will do."""
    return get(f"{path}?resourceVersion=0", until=lambda answer: len(answer["items"] or ()) >= count, compared=False)


def watch(path: str, events: int | None = None, accept: str = "", **settings: Any) -> Step:
    """A watch, of so many events, or until the server ends it (give timeoutSeconds then)."""
    settings["headers"] = {"Accept": accept} if accept else {}
    return Step(method="GET", path=path, watch=True, events=events, **settings)


def post(path: str, body: Body, content_type: str = JSON, *, accept: str = "", **settings: Any) -> Step:
    """A creation."""
    return Step(method="POST", path=path, body=body, headers=_kinds(content_type, accept), **settings)


def put(path: str, body: Body, content_type: str = JSON, *, accept: str = "", **settings: Any) -> Step:
    """An update."""
    return Step(method="PUT", path=path, body=body, headers=_kinds(content_type, accept), **settings)


def patch(path: str, body: Body, content_type: str = MERGE, *, accept: str = "", **settings: Any) -> Step:
    """A patch, by default a merge patch."""
    return Step(method="PATCH", path=path, body=body, headers=_kinds(content_type, accept), **settings)


def delete(path: str, body: Body = None, **settings: Any) -> Step:
    """A deletion, or one of a collection."""
    return Step(method="DELETE", path=path, body=body, headers={"Content-Type": JSON} if body else {}, **settings)


def made(path: str, body: Body, **settings: Any) -> Step:
    """A creation that only prepares what comes."""
    return post(path, body, compared=False, **settings)


def _kinds(content_type: str, accept: str) -> dict[str, str]:
    return {"Content-Type": content_type, "Accept": accept} if accept else {"Content-Type": content_type}


def edited(index: int, **changes: Any) -> Callable[[list[Answer]], Any]:
    """A body: that of an earlier answer with some fields changed (`metadata__labels={}`), or removed by None."""

    def body(seen: list[Answer]) -> Any:
        obj = copy.deepcopy(seen[index].body)
        for name, value in changes.items():
            *where, last = name.split("__")
            place = obj
            for part in where:
                place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
            if value is None:
                place.pop(last, None)
            else:
                place[last] = value
        return obj

    return body


# How one server is asked


def namespace_of(title: str) -> str:
    """The namespace of an exchange."""
    stem = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
    return f"{stem}-{zlib.crc32(title.encode()):08x}"


class Asker:
    """Sends exchanges to one server, over a connection that stays open."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._connection = self._connect()

    def close(self) -> None:
        self._connection.close()

    def hold(self, title: str, wanted: Exchange) -> list[Answer]:
        """All answers of an exchange, and then the objects that it has left."""
        place = namespace_of(title)
        self._prepare(place, accounts=any(_needs_account(step.path) for step in wanted.steps))
        names = {"ns": place}
        seen: list[Answer] = []
        streams: list[tuple[int, Step, http.client.HTTPSConnection, http.client.HTTPResponse, str]] = []
        written: dict[str, None] = {}
        try:
            for step in wanted.steps:
                if step is FORGET:
                    self._server.forget_history()
                    seen.append(Answer(title=step.method, code=0, body=None))
                    continue
                path = filled(step.path, names)
                body = filled(step.body(seen) if callable(step.body) else step.body, names)
                headers = {name: filled(value, names) for name, value in step.headers.items()}
                label = f"{step.method} {step.path}"
                if step.watch:
                    connection = self._connect()
                    response = _sent(connection, step.method, path, body, headers)
                    streams.append((len(seen), step, connection, response, label))
                    seen.append(Answer(title=label, code=response.status, body=None))
                    continue
                answer = self._ask(label, step.method, path, body, headers)
                waiting = time.monotonic() + _PATIENCE
                while step.until is not None and not step.until(answer) and time.monotonic() < waiting:
                    time.sleep(0.05)
                    answer = self._ask(label, step.method, path, body, headers)
                seen.append(answer)
                for name, where in step.keep.items():
                    names[name] = str(answer[where])
                if step.method in _WRITES and (at := _object_path(path, answer)):
                    written[at] = None
            for index, step, _, response, label in streams:
                seen[index] = _read_events(label, response, step.events)
        finally:
            for _, _, connection, response, _ in streams:
                response.close()
                connection.close()
        compared = [answer for answer, step in zip(seen, wanted.steps, strict=True) if step.compared]
        if wanted.stored:
            for path in written:
                answer = self._ask(f"stored {path}", "GET", path, None, {})
                compared.append(Answer(title=answer.title, code=answer.code, body=answer.body, stored=True))
        return compared

    def _prepare(self, place: str, *, accounts: bool) -> None:
        """The namespace, and where Pods are made in it the account that a controller makes for them."""
        self._ask("", "POST", "/api/v1/namespaces", {"metadata": {"name": place}}, {"Content-Type": JSON})
        until = time.monotonic() + _PATIENCE
        path = f"/api/v1/namespaces/{place}/serviceaccounts/default"
        while accounts and self._ask("", "GET", path, None, {}).code == 404:
            if time.monotonic() > until:
                raise AssertionError(f"no controller has made {path}")
            time.sleep(0.02)

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self._server.port, timeout=_PATIENCE, context=self._server.admin_tls
        )

    def _ask(self, title: str, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
        for attempt in range(2):
            try:
                response = _sent(self._connection, method, path, body, headers)
                content = response.read()
            except (OSError, http.client.HTTPException):
                self._connection.close()  # it was closed while idle, or in the midst of a body that was too large
                if attempt:
                    raise
            else:
                if response.will_close:
                    self._connection.close()
                return _answer(title, response, content)
        raise AssertionError("unreachable")


def _needs_account(path: str) -> bool:
    return "/pods" in path or "/serviceaccounts" in path


def _sent(
    connection: http.client.HTTPSConnection, method: str, path: str, body: Any, headers: Mapping[str, str]
) -> http.client.HTTPResponse:
    content = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
    content = content.encode() if isinstance(content, str) else content
    connection.request(method, path, content, {"User-Agent": AGENT, **headers})
    return connection.getresponse()


def _answer(title: str, response: http.client.HTTPResponse, content: bytes) -> Answer:
    body: Any = content.decode()
    kind = response.headers.get("Content-Type", "")
    if kind.startswith(JSON) and body:
        body = json.loads(body)
    elif kind.startswith("application/yaml"):
        body = yaml.load(body, Loader=yaml.BaseLoader)
    return Answer(
        title=title,
        code=response.status,
        body=body,
        warnings=tuple(response.headers.get_all("Warning") or ()),
        headers={name: response.headers[name] for name in _HELD_HEADERS if name in response.headers},
    )


def _read_events(title: str, response: http.client.HTTPResponse, count: int | None) -> Answer:
    if response.status != 200:
        return _answer(title, response, response.read())
    events: list[Any] = []
    while count is None or len(events) < count:
        try:
            line = response.readline()
        except TimeoutError:
            events.append("nothing more came")
            break
        if not line:
            break
        events.append(json.loads(line))
    return Answer(
        title=title,
        code=response.status,
        body=events,
        warnings=tuple(response.headers.get_all("Warning") or ()),
        headers={"Content-Type": response.headers.get("Content-Type", "")},
    )


def _object_path(path: str, answer: Answer) -> str:
    """Where the object is that a write was about; empty for what is not stored."""
    parts = path.split("?", maxsplit=1)[0].strip("/").split("/")
    head = 2 if parts[0] == "api" else 3
    rest = parts[head:]
    namespaced = len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in {"status", "finalize"}
    head += 2 if namespaced else 0
    rest = parts[head:]
    if len(rest) >= 2:
        return "/" + "/".join(parts[: head + 2])
    about = answer.body.get("metadata") if isinstance(answer.body, dict) else None
    if answer.code != 201 or not about or not about.get("name") or not about.get("uid"):
        return ""
    return "/" + "/".join([*parts[: head + 1], about["name"]])


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """A path or body with what stands in braces replaced by what it stands for."""
    if isinstance(value, str):
        for name, stands_for in names.items():
            value = value.replace(f"{{{name}}}", stands_for)
        return value
    if isinstance(value, Mapping):
        return {filled(name, names): filled(child, names) for name, child in value.items()}
    if isinstance(value, list):
        return [filled(child, names) for child in value]
    return value


def picked(value: Any, path: str) -> Any:
    """What a dotted path leads to; a number is a place in a list."""
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value
