"""Errors: a Status becomes the exception that a caller can handle by type."""

from __future__ import annotations

import msgspec
import pytest

from edgewright.runtime import errors
from edgewright.runtime.errors import ApiError, Status, error_for, status_from


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.MethodNotAllowed),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Expired),
        (410, "Gone", errors.Expired),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.InternalError),
        (500, "ServerTimeout", errors.ServerTimeout),
        (503, "ServiceUnavailable", errors.ServiceUnavailable),
        (504, "Timeout", errors.ServerTimeout),
        (409, "", errors.Conflict),
        (410, "", errors.Expired),
        (503, "SomethingNew", errors.ServiceUnavailable),
        (418, "Teapot", ApiError),
        (0, "", ApiError),
    ],
)
def test_the_type_follows_the_reason_and_then_the_code(code: int, reason: str, expected: type[ApiError]) -> None:
    assert type(error_for(Status(code=code, reason=reason))) is expected


def test_a_message_is_one_sentence_with_the_request_in_it() -> None:
    error = error_for(Status(code=403, reason="Forbidden", message="may not"), request="GET /x", retry_after=3.0)
    assert str(error) == "GET /x: 403 may not"
    assert (error.code, error.retry_after, error.causes) == (403, 3.0, ())
    assert str(error_for(Status(code=403, reason="Forbidden"))) == "403 Forbidden"
    assert str(error_for(Status(code=418))) == "418 no reason given"


@pytest.mark.parametrize("causes", [b"null", b"[]"], ids=["null", "empty"])
def test_an_error_without_causes_has_none(causes: bytes) -> None:
    assert error_for(status_from(422, b'{"details":{"causes":' + causes + b"}}")).causes == ()


def test_an_invalid_object_names_its_fields() -> None:
    body = {"code": 422, "reason": "Invalid", "details": {"causes": [{"field": "spec.x", "message": "too big"}]}}
    error = error_for(status_from(422, msgspec.json.encode(body)))
    assert [(cause.field, cause.message) for cause in error.causes] == [("spec.x", "too big")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>bad gateway</html>", "<html>bad gateway</html>"),
        (b"", ""),
        (b"[]", "[]"),
        (b"\xff\xfe", "��"),
        (b'{"message": 5}', '{"message": 5}'),
        (b"[" * 5000 + b"]" * 5000, "[" * 200),
    ],
    ids=["a page", "nothing", "a list", "not text", "wrong type", "nested without end"],
)
def test_a_body_that_is_no_status_still_gives_an_error(body: bytes, message: str) -> None:
    assert status_from(502, body) == Status(code=502, message=message)


def test_the_code_on_the_wire_counts() -> None:
    assert status_from(410, b'{"code": 500, "reason": "Expired"}').code == 410
    assert status_from(410, b'{"code": 410}').code == 410


def test_a_status_in_a_watch_says_its_code_itself() -> None:
    assert status_from(None, b'{"code": 410}').code == 410
    assert status_from(None, b"[]") == Status(code=0, message="[]")
