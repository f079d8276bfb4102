"""Refusals become the Status bodies that kube-apiserver gives."""

from __future__ import annotations

import pytest

from edgewright.local import errors
from edgewright.local.errors import Cause, Refusal
from edgewright.local.go_format import compact, json_number, number, plain, quote
from edgewright.runtime.objects import Kind

GADGET = Kind(group="example.io", version="v1", kind="Gadget", plural="gadgets")
POD = Kind(group="", version="v1", kind="Pod", plural="pods")
DETAILS = {"name": "x", "group": "example.io", "kind": "gadgets"}


@pytest.mark.parametrize(
    ("refusal", "code", "reason", "message", "details"),
    [
        (errors.not_found(GADGET, "x"), 404, "NotFound", 'gadgets.example.io "x" not found', DETAILS),
        (errors.not_found(POD, "x"), 404, "NotFound", 'pods "x" not found', {"name": "x", "kind": "pods"}),
        (errors.no_such_path(), 404, "NotFound", "the server could not find the requested resource", {}),
        (errors.already_exists(GADGET, "x"), 409, "AlreadyExists", 'gadgets.example.io "x" already exists', DETAILS),
        (
            errors.no_generated_name(POD, "x"),
            409,
            "AlreadyExists",
            'pods "x" already exists, the server was not able to generate a unique name for the object',
            {"name": "x", "kind": "pods", "retryAfterSeconds": 1},
        ),
        (
            errors.conflict(GADGET, "x", "it moved"),
            409,
            "Conflict",
            'Operation cannot be fulfilled on gadgets.example.io "x": it moved',
            DETAILS,
        ),
        (errors.bad_request("what?"), 400, "BadRequest", "what?", None),
        (errors.unauthorized(), 401, "Unauthorized", "Unauthorized", None),
        (errors.forbidden(GADGET, "x", "no"), 403, "Forbidden", 'gadgets.example.io "x" is forbidden: no', DETAILS),
        (errors.forbidden(POD, "", "no"), 403, "Forbidden", "pods is forbidden: no", {"kind": "pods"}),
        (
            errors.method_not_allowed(POD, "patch"),
            405,
            "MethodNotAllowed",
            'patch is not supported on resources of kind "pods"',
            {"kind": "pods"},
        ),
        (
            errors.not_acceptable(["a/b", "c/d"]),
            406,
            "NotAcceptable",
            "only the following media types are accepted: a/b, c/d",
            None,
        ),
        (errors.expired("too old"), 410, "Expired", "too old", None),
        (errors.too_large("limit is 3"), 413, "RequestEntityTooLarge", "Request entity too large: limit is 3", None),
        (
            errors.unsupported_media_type(["a/b"]),
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: a/b",
            None,
        ),
        (
            errors.too_many_requests("later", retry_after_seconds=2),
            429,
            "TooManyRequests",
            "later",
            {"retryAfterSeconds": 2},
        ),
        (
            errors.internal_error("oops"),
            500,
            "InternalError",
            "Internal error occurred: oops",
            {"causes": [{"message": "oops"}]},
        ),
    ],
    ids=lambda value: value.reason if isinstance(value, Refusal) else "",
)
def test_a_refusal_says_what_the_real_server_says(
    refusal: Refusal, code: int, reason: str, message: str, details: object
) -> None:
    assert (refusal.code, refusal.reason, refusal.message, refusal.details) == (code, reason, message, details)
    body = refusal.status()
    assert body["status"] == "Failure"
    assert body["code"] == code
    assert ("details" in body) == (details is not None)


def test_an_invalid_object_is_described_by_its_causes() -> None:
    one = Cause(reason="FieldValueRequired", message="Required value", field="spec.title")
    two = Cause(reason="FieldValueInvalid", message="Invalid value: 3", field="spec.size")
    single = errors.invalid(GADGET, "x", [one, one])
    assert single.message == 'Gadget.example.io "x" is invalid: spec.title: Required value'
    several = errors.invalid(GADGET, "x", [one, two])
    assert several.message.endswith("is invalid: [spec.title: Required value, spec.size: Invalid value: 3]")
    assert several.details == {
        "name": "x",
        "group": "example.io",
        "kind": "Gadget",
        "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.title"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: 3", "field": "spec.size"},
        ],
    }
    assert errors.invalid(POD, "x", []).message == 'Pod "x" is invalid'


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1, "1"),
        (0.5, "0.5"),
        (2.0, "2"),
        (0.0, "0"),
        (-0.0, "-0"),
        (123456.5, "123456.5"),
        (1234567.5, "1.2345675e+06"),
        (-1000000.0, "-1e+06"),
        (1e20, "1e+20"),
        (10**20, "1e+20"),
        (2**53, "9007199254740992"),
        (1.5e-7, "1.5e-07"),
        (0.0001, "0.0001"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
        (123456789012345678.0, "1.2345678901234568e+17"),
    ],
)
def test_a_number_in_a_sentence_is_written_as_go_prints_it(value: float, written: str) -> None:
    assert number(value) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (3, "3"),
        (0.0, "0"),
        (-0.0, "-0"),
        (2.0, "2"),
        (1234567.5, "1234567.5"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (0.000001, "0.000001"),
        (1.5e-7, "1.5e-7"),
    ],
)
def test_a_number_in_json_has_an_exponent_only_where_it_is_very_large_or_small(value: float, written: str) -> None:
    assert json_number(value) == written


def test_values_are_written_as_go_writes_them() -> None:
    assert quote('a"b\\\n\x01\x7f\u00e4\u200b\U000e0001') == r'"a\"b\\\n\x01\x7f' + "\u00e4" + r'\u200b\U000e0001"'
    assert [plain(value) for value in ("a", True, False, 2, None)] == ['"a"', "true", "false", "2", "null"]
    assert compact({"b": [1, "<&>"], "a": None}) == r'{"a":null,"b":[1,"\u003c\u0026\u003e"]}'
