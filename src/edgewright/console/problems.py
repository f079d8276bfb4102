"""Problems: every answer of the REST API that is not 2xx, as RFC 9457 describes them, with the field at fault.

`server` turns what handlers raise into these; the reference page and OpenAPI list them. Pure: errors of the API server
go in, problems come out, and nothing here knows of HTTP connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from edgewright.runtime.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    KubernetesError,
    NoCredentials,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Undecodable,
    Unreachable,
)

MEDIA: Final = "application/problem+json"
PATH: Final = "/api/v1/problems/"


class FieldError(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong with one field of the body."""

    pointer: str
    """Where it stands in the body, as a JSON pointer in a URI fragment: `#/spec/version`."""
    detail: str
    """What is wrong with it."""
    code: str = ""
    """The same for programs, such as FieldValueRequired."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was not done (RFC 9457)."""

    type: str
    """The sort of problem: a path of this server that says what can be done about it."""
    title: str
    """The same in a few words."""
    status: int
    """The HTTP status."""
    detail: str
    """What happened this time."""
    errors: tuple[FieldError, ...] = ()
    """The fields at fault."""
    verb: str = ""
    """With 403: what was tried."""
    resource: str = ""
    """With 403: on which resource."""
    namespace: str = ""
    """With 403: in which namespace."""
    user: str = ""
    """With 403: as whom the API server knows the caller."""
    sign_in: str = msgspec.field(default="", name="signIn")
    """With 401: the path where a person signs in with a browser, where this console has one."""


@dataclass(frozen=True, kw_only=True)
class Sort:
    """A sort of problem."""

    status: int
    title: str
    advice: str


SORTS: Final[Mapping[str, Sort]] = {
    "bad-request": Sort(
        status=400,
        title="The request cannot be read",
        advice="Look at the parameter or the place in the body that the detail names. Tokens go into the header "
        "Authorization, never into the URL.",
    ),
    "unauthorized": Sort(
        status=401,
        title="The caller is not known",
        advice="Send the header `Authorization: Bearer TOKEN` with a token that the API server takes, for example "
        "that of a ServiceAccount (`kubectl create token NAME`). Tokens end: ask for a new one. Where the problem has "
        "`signIn`, people sign in there with a browser.",
    ),
    "forbidden": Sort(
        status=403,
        title="The caller may not do that",
        advice="A Role must allow the verb on the resource, and a RoleBinding must give it to the user; the problem "
        "names all three. `kubectl auth can-i VERB RESOURCE --as USER` asks the same question.",
    ),
    "not-found": Sort(
        status=404,
        title="There is no such object, kind or path",
        advice="Kinds of ours go by their plural (`flashjobs`), any other custom resource by plural and group "
        "(`minimarts.charts.example.com`); GET /api/v1/kinds lists them.",
    ),
    "method-not-allowed": Sort(
        status=405, title="The path does not have that method", advice="The header Allow names those that it has."
    ),
    "conflict": Sort(
        status=409,
        title="Somebody else changed the object or owns a field",
        advice="Read the object again and repeat the change. Where another manager owns a field, either leave the "
        "field out of the body or take it over with `?force=true`.",
    ),
    "already-exists": Sort(
        status=409,
        title="The name is taken",
        advice="PUT applies to an object that is there as well; POST only creates new ones.",
    ),
    "expired": Sort(
        status=410,
        title="The list has gone on",
        advice="A `continue` token lives for minutes: begin the list again without it.",
    ),
    "precondition-failed": Sort(
        status=412,
        title="The object is not the one that If-Match names",
        advice="It was changed or deleted after it was read: read it again, and use the new ETag.",
    ),
    "too-large": Sort(
        status=413, title="The body is too large", advice="A body may have 1 MiB; the API server takes little more."
    ),
    "unsupported-media-type": Sort(
        status=415,
        title="The body is not of a type that is taken",
        advice="application/json; PATCH also takes application/merge-patch+json and application/json-patch+json.",
    ),
    "invalid": Sort(
        status=422,
        title="The object is not valid",
        advice="Each entry of `errors` names a field by a JSON pointer and says what is wrong with it. "
        "`?dryRun=All` tries a body without changing anything.",
    ),
    "too-many-requests": Sort(
        status=429, title="Too many requests", advice="Come again after the seconds in the header Retry-After."
    ),
    "internal": Sort(
        status=500,
        title="The server failed",
        advice="Repeat the request; if it stays, look into the log of the console and of the API server.",
    ),
    "bad-gateway": Sort(
        status=502,
        title="The API server's answer cannot be read",
        advice="Something between the console and the API server answers in its place: look at the kubeconfig.",
    ),
    "unavailable": Sort(
        status=503,
        title="The API server cannot be reached",
        advice="Nothing is lost: repeat after the seconds in the header Retry-After. PUT and DELETE can be repeated "
        "without harm, also when the first one was carried out.",
    ),
    "timed-out": Sort(
        status=504,
        title="No answer in time",
        advice="What was asked may have happened: read the object, or repeat a PUT, which does no harm.",
    ),
}
"""Every sort of problem by its name, which is the last part of its `type`."""


def problem(sort: str, detail: str, *errors: FieldError) -> Problem:
    """A problem of this sort."""
    known = SORTS[sort]
    return Problem(type=PATH + sort, title=known.title, status=known.status, detail=detail, errors=errors)


class Refusal(Exception):
    """A request that is not carried out; `server` answers with the problem."""

    def __init__(self, sort: str, detail: str, *errors: FieldError, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.problem = problem(sort, detail, *errors)
        self.headers: Mapping[str, str] = headers or {}


RETRY_AFTER: Final = 2
"""Seconds to wait where the API server named none."""

_SORT_OF: Final[tuple[tuple[type[KubernetesError], str], ...]] = (
    (AlreadyExists, "already-exists"),
    (Conflict, "conflict"),
    (Expired, "expired"),
    (NotFound, "not-found"),
    (TooManyRequests, "too-many-requests"),
    (Undecodable, "bad-gateway"),
    (Unreachable, "unavailable"),
)
_BY_STATUS: Final = {
    400: "bad-request",
    404: "not-found",
    405: "method-not-allowed",
    409: "conflict",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid",
    429: "too-many-requests",
    500: "internal",
    503: "unavailable",
    504: "timed-out",
}


def refusal_for(error: KubernetesError, *, conditional: bool = False) -> Refusal:
    """What to answer where the API server refused; `conditional` says that If-Match was given."""
    if isinstance(error, Unauthorized | NoCredentials):
        return unauthorized("the API server does not know the token")
    if isinstance(error, Forbidden):
        return _forbidden(error)
    if isinstance(error, ApiError):
        if conditional and any(cause.field == "metadata.uid" for cause in error.causes):
            return Refusal("precondition-failed", "the object was deleted and made again meanwhile")
        if found := tuple(_fields(error)):
            sort = "conflict" if isinstance(error, Conflict) else "invalid"
            return Refusal(sort, _without_object(error.status.message), *found)
        if conditional and isinstance(error, Conflict | NotFound):
            return Refusal("precondition-failed", f"{error.status.message}")
    sort = next((name for cls, name in _SORT_OF if isinstance(error, cls)), "")
    if not sort:
        sort = _BY_STATUS.get(error.code, "internal") if isinstance(error, ApiError) else "internal"
    detail = error.status.message if isinstance(error, ApiError) else "the API server cannot be reached"
    if isinstance(error, Undecodable):
        detail = "the API server's answer is not what Kubernetes answers"
    return Refusal(sort, detail or SORTS[sort].title, headers=_wait(sort, error))


def unauthorized(detail: str) -> Refusal:
    """The answer to somebody who is not known."""
    return Refusal("unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="edgewright"'})


def _wait(sort: str, error: KubernetesError) -> dict[str, str]:
    if sort not in {"too-many-requests", "unavailable"}:
        return {}
    seconds = error.retry_after if isinstance(error, ApiError) else None
    return {"Retry-After": str(max(1, round(seconds or RETRY_AFTER)))}


_CANNOT: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?:.* in the namespace "(?P<namespace>[^"]*)")?'
)


def _forbidden(error: Forbidden) -> Refusal:
    refusal = Refusal("forbidden", error.status.message or "the API server refused")
    if said := _CANNOT.search(error.status.message):
        group = said["group"]
        refusal.problem = msgspec.structs.replace(
            refusal.problem,
            user=said["user"],
            verb=said["verb"],
            resource=f"{said['resource']}.{group}" if group else said["resource"],
            namespace=said["namespace"] or "",
        )
    return refusal


_DECODING: Final = "strict decoding error"
_STRICT: Final = re.compile(r'(unknown|duplicate) field "((?:[^"\\]|\\.)*)"')
_TYPED: Final = re.compile(r"(?:^|[\s,\[])(\.[^\s:]+): ([^,\]\n]+)")


def _fields(error: ApiError) -> Iterator[FieldError]:
    """The fields that the API server named, in whichever of its ways."""
    refused = isinstance(error, BadRequest | Invalid)
    if refused and _DECODING in error.status.message:
        for how, path in _STRICT.findall(_without_object(error.status.message)):
            code = "FieldValueDuplicate" if how == "duplicate" else "FieldValueUnknown"
            yield FieldError(pointer=pointer(path), detail=f"{how} field", code=code)
    elif isinstance(error, BadRequest | InternalError | Invalid) and "typed patch object" in error.status.message:
        # A name that is empty or has spaces in it is not found: then it is the object as a whole.
        for path, said in _TYPED.findall(error.status.message) or [(".", error.status.message)]:
            unknown = "not declared in schema" in said
            code = "FieldValueUnknown" if unknown else "FieldValueTypeInvalid"
            yield FieldError(pointer=pointer(path), detail="unknown field" if unknown else said.strip(), code=code)
    else:
        for cause in error.causes:
            if cause.field:
                yield FieldError(pointer=pointer(cause.field), detail=cause.message, code=cause.reason)


def _without_object(message: str) -> str:
    """What was said, without the whole object that the API server puts before it where a patch was the fault."""
    before, found, after = message.partition(_DECODING)
    return found + after if found else before


_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_INDEX: Final = re.compile(r"\d+")


def pointer(path: str) -> str:
    """The JSON pointer of a field that the API server names as `spec.uuid[0]` or `metadata.labels[a/b]`.

    An item of a list that is named by a key in it (`[name="a"]`) has no pointer: the list's own is the nearest.
    """
    steps: list[str] = []
    for name, inside in _STEP.findall(path):
        step = name or inside.strip('"')
        if inside and not _INDEX.fullmatch(inside) and "=" in inside:
            break
        if step and step != "<nil>":
            steps.append(step)
    escaped = (step.replace("~", "~0").replace("/", "~1") for step in steps)
    return "#" + "".join("/" + quote(step, safe="~!$&'()*+,;=:@") for step in escaped)
