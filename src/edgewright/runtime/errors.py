"""What the API server answers when it refuses, as typed exceptions, and what can go wrong on the way to it.

`client` raises these once; controllers and the command line handle them by type. Every message is one sentence that a
person can act on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec


class Cause(msgspec.Struct, frozen=True, gc=False):
    """One reason of several why an object is invalid: the field and what is wrong with it."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The machine-readable part of a Status."""

    name: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] | None = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, gc=False):
    """The body of an answer that is not an object."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class KubernetesError(Exception):
    """Anything that keeps a request from being answered as asked."""


class Unreachable(KubernetesError):
    """The server could not be reached, or the connection broke before the answer was complete."""


class NoCredentials(KubernetesError):
    """The credentials for a request cannot be had at the moment: the request was not sent."""


class LeaseLost(KubernetesError):
    """This process is not, or no longer, the leader: the request was not sent, or its answer was not waited for."""


class Undecodable(KubernetesError):
    """The server's answer does not fit the type that was asked for."""


class ApiError(KubernetesError):
    """The server answered with a Status that is an error."""

    reason: ClassVar[str] = ""

    def __init__(self, status: Status, *, request: str = "", retry_after: float | None = None) -> None:
        self.status = status
        self.request = request
        self.retry_after = retry_after
        text = status.message or status.reason or "no reason given"
        super().__init__(f"{request}: {status.code} {text}" if request else f"{status.code} {text}")

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The single reasons, where the server named any."""
        return (self.status.details.causes or ()) if self.status.details else ()


class BadRequest(ApiError):
    """400: the request itself is wrong."""

    reason = "BadRequest"


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""

    reason = "Unauthorized"


class Forbidden(ApiError):
    """403: these credentials may not do that."""

    reason = "Forbidden"


class NotFound(ApiError):
    """404: no such object, or the kind is not served."""

    reason = "NotFound"


class MethodNotAllowed(ApiError):
    """405: the resource does not have that verb."""

    reason = "MethodNotAllowed"


class AlreadyExists(ApiError):
    """409: an object of that name is there already."""

    reason = "AlreadyExists"


class Conflict(ApiError):
    """409: the object has changed since it was read, or another manager owns a field."""

    reason = "Conflict"


class Expired(ApiError):
    """410: the resource version or continue token is too old; list again."""

    reason = "Expired"


class Invalid(ApiError):
    """422: the object breaks its schema or a rule; `causes` name the fields."""

    reason = "Invalid"


class TooManyRequests(ApiError):
    """429: the server asks to come back later."""

    reason = "TooManyRequests"


class InternalError(ApiError):
    """500: the server failed."""

    reason = "InternalError"


class ServiceUnavailable(ApiError):
    """503: the server, or the part of it that was asked, is not ready."""

    reason = "ServiceUnavailable"


class ServerTimeout(ApiError):
    """504: the server did not finish in time; what was asked may have happened."""

    reason = "Timeout"


_BY_REASON: Mapping[str, type[ApiError]] = {
    **{cls.reason: cls for cls in ApiError.__subclasses__()},
    "Gone": Expired,
    "ServerTimeout": ServerTimeout,
}
_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    503: ServiceUnavailable,
    504: ServerTimeout,
}


def error_for(status: Status, *, request: str = "", retry_after: float | None = None) -> ApiError:
    """The typed exception for a Status: by its reason, else by its code."""
    cls = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code) or ApiError
    return cls(status, request=request, retry_after=retry_after)


# What a decoder raises for a body that does not fit; one that is nested deeper than Python goes is one of them.
UNFIT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_decode_status = msgspec.json.Decoder(Status).decode


def status_from(code: int | None, body: bytes | msgspec.Raw) -> Status:
    """The Status in an answer's body, or one made up from a body that is none (a proxy's page, say).

    The code on the wire counts; in a watch there is none (None), and the Status must say it itself.
    """
    try:
        status = _decode_status(body)
    except UNFIT:
        text = bytes(body)[:200].decode("utf-8", "replace").strip()
        return Status(code=code or 0, message=text)
    # Some Status bodies carry no code.
    return status if code is None or status.code == code else msgspec.structs.replace(status, code=code)
