"""The verbs on one custom resource: get, create, apply, patch, delete.

Each handler is one request to the API server with the caller's rights, rarely more (`PUT`), or none where the shared
cache has the answer. The body is the custom resource as kubectl shows it; there is no second model. What the API server
refuses is raised, and becomes a problem in `server`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import msgspec
from aiohttp import web

from edgewright.console.call import Call, answer, decoded, etag, segment, shown, warnings
from edgewright.console.operation import JSON, JSON_PATCH, MERGE_PATCH, field_error
from edgewright.console.problems import FieldError, Refusal
from edgewright.console.reviews import user_of
from edgewright.console.shared_cache import note_deletion, note_write
from edgewright.console.views import view_for
from edgewright.runtime.errors import AlreadyExists, Conflict
from edgewright.runtime.http_parser import Answer
from edgewright.runtime.objects import Key, Kind, RawObject
from edgewright.runtime.patches import conditional

IDEMPOTENCY_ANNOTATION: Final = "edgewright.dev/idempotency"
"""Annotation of an object that was made with an Idempotency-Key: the hash of the body."""
FIELD_MANAGER: Final = "edgewright-console"
"""Who owns the fields that a caller sets who names no manager of its own."""
_MAX_PREFIX: Final = 50

_APPLY: Final = "application/apply-patch+yaml"
_ETAG: Final = re.compile(r'"?([A-Za-z0-9._-]{1,64})"?')


async def get_object(call: Call) -> web.Response:
    """One object; 304 where the caller has it already."""
    kind = await call.kind()
    path = _path(call, kind)
    key = Key(call.part("namespace"), call.part("name"))
    view = await view_for(call, kind, "get", key.namespace)
    if view is not None and (here := view.kept.get(key)) is not None:
        tag = {"ETag": f'"{here.metadata.resource_version}"'}
        return _unless_known(call, tag) or web.Response(body=here.body, content_type=JSON, headers=tag)
    got = await call.exchange("GET", path)
    found = shown(got.body)
    tag = etag(found)
    return _unless_known(call, tag) or answer(found, headers=tag | warnings(got.headers))


def _unless_known(call: Call, tag: dict[str, str]) -> web.Response | None:
    """304 where the caller has the object in this state."""
    known = call.request.headers.get("If-None-Match", "").removeprefix("W/")
    return web.Response(status=304, headers=tag) if tag and known == tag["ETag"] else None


async def create_object(call: Call) -> web.Response:
    """Makes an object that is not there yet; with an Idempotency-Key the same request creates it once."""
    raw = await call.body()
    key = call.request.headers.get("Idempotency-Key", "")
    kind, obj, filled = await _object(call, raw, name="", nameless=bool(key))
    if key and not obj["metadata"].get("name"):
        obj, filled = repeatable(obj, caller=(await user_of(call)).name, key=key, body=raw), True
    body = msgspec.json.encode(obj) if filled else raw
    path = kind.path(segment(call.part("namespace")))
    replayed: dict[str, str] = {}
    try:
        got = await call.exchange("POST", path, query=_query(call), body=body)
    except AlreadyExists:
        said = obj["metadata"].get("annotations", {}).get(IDEMPOTENCY_ANNOTATION)
        if said is None:
            raise
        got = await call.exchange("GET", f"{path}/{obj['metadata']['name']}")
        if shown(got.body)["metadata"].get("annotations", {}).get(IDEMPOTENCY_ANNOTATION) != said:
            raise Refusal("invalid", "the Idempotency-Key was used with another body") from None
        replayed = {"Idempotency-Replayed": "true"}
    made = shown(got.body)
    _note(call, kind, made)
    headers = etag(made) | warnings(got.headers) | replayed
    if "dryRun" not in call.query:
        headers["Location"] = f"{call.request.path.rstrip('/')}/{made['metadata']['name']}"
    return answer(made, status=201, headers=headers)


def repeatable(obj: RawObject, *, caller: str, key: str, body: bytes) -> RawObject:
    """The object with the name that this caller's key gives it, and with the hash of the body that made it.

    So nothing has to be remembered: any console, also one that was restarted, finds the same object again.
    """
    metadata = obj["metadata"]
    prefix = metadata.get("generateName") or f"{obj['kind'].lower()}-"
    name = prefix[:_MAX_PREFIX] + hashlib.sha256(f"{caller}\0{key}".encode()).hexdigest()[:10]
    annotations = {**metadata.get("annotations", {}), IDEMPOTENCY_ANNOTATION: hashlib.sha256(body).hexdigest()}
    kept = {field: value for field, value in metadata.items() if field != "generateName"}
    return {**obj, "metadata": {**kept, "name": name, "annotations": annotations}}


async def apply_object(call: Call) -> web.Response:
    """Server-side apply: creates the object where it is missing, and sets these fields; to repeat it does no harm."""
    raw = await call.body()
    kind, obj, filled = await _object(call, raw, name=call.part("name"))
    path = _path(call, kind)
    if expected := if_match(call):
        await _expect(call, path, obj, expected)
        filled = True
    query = _query(call) | ({"force": call.query["force"]} if "force" in call.query else {})
    try:
        got = await _apply(call, path, query, msgspec.json.encode(obj) if filled else raw)
    except Conflict as conflict:
        if "force" in query or not only_with(conflict, query["fieldManager"]):
            raise
        got = await _take_over(call, path, query, obj)
    found = shown(got.body)
    _note(call, kind, found)
    return answer(found, status=201 if got.status == 201 else 200, headers=etag(found) | warnings(got.headers))


async def _expect(call: Call, path: str, obj: RawObject, version: str) -> None:
    """Makes an apply conditional: on the object that is there now and, unless any will do, on its state.

    With a resource version alone the API server would make an object again that was deleted.
    """
    found = shown((await call.exchange("GET", path)).body)["metadata"]
    if version not in {"*", found["resourceVersion"]}:
        raise Refusal("precondition-failed", "the object has been changed since it was read")
    obj["metadata"]["uid"] = found["uid"]
    if version != "*":
        obj["metadata"]["resourceVersion"] = version


async def _apply(call: Call, path: str, query: dict[str, str], body: bytes) -> Answer:
    return await call.exchange("PATCH", path, query=query, body=body, content_type=_APPLY)


async def _take_over(call: Call, path: str, query: dict[str, str], obj: RawObject) -> Answer:
    """Applies over fields that the same manager has set by a patch, which to the API server is another owner.

    All three requests are about one state of the object, or the last is refused: nobody else's field is taken over.
    """
    found = shown((await call.exchange("GET", path)).body)["metadata"]
    obj["metadata"] = {"uid": found["uid"], "resourceVersion": found["resourceVersion"], **obj["metadata"]}
    body = msgspec.json.encode(obj)
    try:
        return await _apply(call, path, query, body)
    except Conflict as conflict:
        if not only_with(conflict, query["fieldManager"]):
            raise
    return await _apply(call, path, query | {"force": "true"}, body)


def only_with(conflict: Conflict, manager: str) -> bool:
    """Whether all fields in conflict belong to this manager."""
    own = f'conflict with "{manager}"'
    return bool(conflict.causes) and all(cause.message.startswith(own) for cause in conflict.causes)


async def patch_object(call: Call) -> web.Response:
    """Changes some fields: a JSON merge patch (an object) or a JSON patch (a list)."""
    raw = await call.body()
    kind = await call.kind()
    change = decoded(raw)
    given = call.request.content_type
    wanted, media = (list, JSON_PATCH) if given == JSON_PATCH else (dict, MERGE_PATCH)
    if not isinstance(change, wanted):
        what = "a list of operations" if wanted is list else "an object"
        raise Refusal("invalid", f"the body must be {what}", field_error("#", f"must be {what}"))
    expected = if_match(call)
    if expected and expected != "*":
        if isinstance(change, dict) and not isinstance(change.get("metadata", {}), dict):
            raise Refusal("invalid", "metadata must be an object", field_error("#/metadata", "must be an object"))
        raw = msgspec.json.encode(conditional(change, resource_version=expected, uid=""))
    got = await call.exchange("PATCH", _path(call, kind), query=_query(call), body=raw, content_type=media)
    found = shown(got.body)
    _note(call, kind, found)
    return answer(found, headers=etag(found) | warnings(got.headers))


async def delete_object(call: Call) -> web.Response:
    """Asks for the deletion: 204 when the object is gone, 202 with the object while something holds it."""
    kind = await call.kind()
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    expected = if_match(call)
    if expected and expected != "*":
        options["preconditions"] = {"resourceVersion": expected}
    if "dryRun" in call.query:
        options["dryRun"] = ["All"]
    if "propagationPolicy" in call.query:
        options["propagationPolicy"] = call.query["propagationPolicy"]
    got = await call.exchange("DELETE", _path(call, kind), body=msgspec.json.encode(options))
    left = shown(got.body)
    note_deletion(call, kind, left)
    if left.get("kind") == "Status" or "deletionTimestamp" not in left.get("metadata", {}):
        return web.Response(status=204)
    return answer(left, status=202, headers=etag(left))


def _note(call: Call, kind: Kind, made: RawObject) -> None:
    """Remembers what was written: no read after it is older."""
    note_write(call, kind, made.get("metadata", {}).get("resourceVersion", ""))


def if_match(call: Call) -> str:
    """The resource version that the caller saw last; `*` for any; empty where the caller does not mind."""
    given = call.request.headers.get("If-Match", "").strip()
    if given in {"", "*"}:
        return given
    if given.startswith("W/"):
        raise Refusal("precondition-failed", "a weak ETag never matches: send the ETag as it came")
    found = _ETAG.fullmatch(given)
    if found is None:
        raise Refusal("bad-request", "the header If-Match must be one ETag, as it came")
    return found[1]


async def _object(call: Call, raw: bytes, *, name: str, nameless: bool = False) -> tuple[Kind, RawObject, bool]:
    """The object in a body, its kind, and whether something was filled in that the path says."""
    obj = decoded(raw)
    if not isinstance(obj, dict):
        raise Refusal("invalid", "the body must be an object", field_error("#", "must be an object"))
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    kind = await call.kind()
    if version and version != kind.version and group == kind.group:
        kind = await call.kind(version=version)
    said: dict[str, str] = {"name": name, "namespace": call.part("namespace")}
    metadata = obj.get("metadata", {})
    if not isinstance(metadata, dict):
        raise Refusal("invalid", "metadata must be an object", field_error("#/metadata", "must be an object"))
    faults = list(_contradictions(obj, {"apiVersion": kind.api_version, "kind": kind.kind}, "#/"))
    faults += _contradictions(metadata, said, "#/metadata/")
    if not nameless and not name and not metadata.get("name") and not metadata.get("generateName"):
        text = "an object needs metadata.name or metadata.generateName"
        faults.append(field_error("#/metadata/name", text, code="FieldValueRequired"))
    if faults:
        raise Refusal("invalid", faults[0].detail, *faults)
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
    whole["metadata"] = {**metadata, **{field: value for field, value in said.items() if value}}
    return kind, whole, whole != obj


def _contradictions(given: RawObject, said: dict[str, str], prefix: str) -> list[FieldError]:
    """What a body says otherwise than its path; what it leaves out is filled in."""
    return [
        field_error(f"{prefix}{field}", f"{field} must be {value!r}, as the path says")
        for field, value in said.items()
        if value and given.get(field, value) != value
    ]


def _query(call: Call) -> dict[str, str]:
    """What goes with every write: fields that the schema does not know are refused, never dropped."""
    query = {"fieldManager": call.query.get("fieldManager", FIELD_MANAGER), "fieldValidation": "Strict"}
    if "dryRun" in call.query:
        query["dryRun"] = call.query["dryRun"]
    return query


def _path(call: Call, kind: Kind) -> str:
    return kind.path(segment(call.part("namespace")), call.part("name"))
