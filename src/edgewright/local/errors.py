"""What the embedded API server refuses, as exceptions that become Status bodies.

Every module of `local` raises `Refusal` through the constructors here, and the request handler turns it into the answer
once. The codes, reasons, details and sentences are the ones that kube-apiserver gives; nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewright.local.go_format import quote
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import Kind, RawObject

__all__ = [
    "Cause",
    "Refusal",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "internal_error",
    "invalid",
    "method_not_allowed",
    "no_generated_name",
    "no_such_method",
    "no_such_path",
    "not_acceptable",
    "not_found",
    "too_large",
    "too_many_requests",
    "unauthorized",
    "unsupported_media_type",
]


class Refusal(Exception):
    """A request is not done as asked; carries everything that the Status of the answer says."""

    def __init__(
        self, code: int, reason: str, message: str, details: RawObject | None = None, *, token: str = ""
    ) -> None:
        """What the Status says; `token` is where a list whose page is too old may go on."""
        super().__init__(message)
        self.warnings: Sequence[str] = ()
        """What the answer warns of as well."""
        self.token = token
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> RawObject:
        """The body of the answer."""
        body: RawObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return {**body, "code": self.code}


def not_found(kind: Kind, name: str) -> Refusal:
    """There is no object of that name."""
    return Refusal(404, "NotFound", f"{kind.resource} {quote(name)} not found", _resource(kind, name))


def no_such_path() -> Refusal:
    """Nothing is served at that path."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def no_such_method() -> Refusal:
    """What is served at that path does not take that method."""
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, {})


def already_exists(kind: Kind, name: str) -> Refusal:
    """An object of that name is there already."""
    return Refusal(409, "AlreadyExists", f"{kind.resource} {quote(name)} already exists", _resource(kind, name))


def no_generated_name(kind: Kind, name: str, *, retry_after_seconds: int = 1) -> Refusal:
    """Every name that was generated for an object was taken."""
    why = "already exists, the server was not able to generate a unique name for the object"
    details = _resource(kind, name) | {"retryAfterSeconds": retry_after_seconds}
    return Refusal(409, "AlreadyExists", f"{kind.resource} {quote(name)} {why}", details)


def conflict(kind: Kind, name: str, why: str) -> Refusal:
    """The object is not, or no longer, as the request takes it to be."""
    message = f"Operation cannot be fulfilled on {kind.resource} {quote(name)}: {why}"
    return Refusal(409, "Conflict", message, _resource(kind, name))


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> Refusal:
    """The object is wrong in the fields that the causes name."""
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    sentences = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    message = f"{qualified} {quote(name)} is invalid"
    if len(sentences) == 1:
        message += f": {sentences[0]}"
    elif sentences:
        message += f": [{', '.join(sentences)}]"
    details = _described(name=name, group=kind.group, kind=kind.kind)
    if causes:
        details["causes"] = [_described(reason=c.reason, message=c.message, field=c.field) for c in causes]
    return Refusal(422, "Invalid", message, details)


def bad_request(message: str) -> Refusal:
    """The request cannot be understood."""
    return Refusal(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> Refusal:
    """The request carries no credentials that are known here."""
    return Refusal(401, "Unauthorized", message)


def forbidden(kind: Kind, name: str, why: str) -> Refusal:
    """The request is understood and not allowed."""
    subject = f"{kind.resource} {quote(name)}" if name else kind.resource
    return Refusal(403, "Forbidden", f"{subject} is forbidden: {why}", _resource(kind, name))


def method_not_allowed(kind: Kind, action: str) -> Refusal:
    """The resource is served, the verb on it is not."""
    message = f"{action} is not supported on resources of kind {quote(kind.resource)}"
    return Refusal(405, "MethodNotAllowed", message, _resource(kind, ""))


def not_acceptable(accepted: Sequence[str]) -> Refusal:
    """The client takes no format that can be answered in."""
    listed = ", ".join(accepted)
    return Refusal(406, "NotAcceptable", f"only the following media types are accepted: {listed}")


def expired(message: str, *, token: str = "") -> Refusal:
    """The version or continue token that was asked for is no longer in the history."""
    return Refusal(410, "Expired", message, token=token)


def too_large(message: str) -> Refusal:
    """The body is larger than is taken."""
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def unsupported_media_type(accepted: Sequence[str]) -> Refusal:
    """The body is in a format that is not read here."""
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return Refusal(415, "UnsupportedMediaType", message)


def too_many_requests(message: str, *, retry_after_seconds: int) -> Refusal:
    """The request is to be sent again later."""
    details = {"retryAfterSeconds": retry_after_seconds} if retry_after_seconds else {}
    return Refusal(429, "TooManyRequests", message, details)


def internal_error(message: str) -> Refusal:
    """Something is wrong here and not with the request."""
    return Refusal(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def _resource(kind: Kind, name: str) -> RawObject:
    """The details of a refusal that is about a resource: `kind` holds the plural there, as everywhere in Kubernetes."""
    return _described(name=name, group=kind.group, kind=kind.plural)


def _described(**fields: str) -> dict[str, Any]:
    """The fields that have a value, in the order of the real answer."""
    return {name: value for name, value in fields.items() if value}
