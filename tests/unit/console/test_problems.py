"""Problems: what the API server refused, as an application reads it."""

from __future__ import annotations

import pytest

from edgewright.console.operation import Parameter, check
from edgewright.console.problems import SORTS, Refusal, pointer, problem, refusal_for
from edgewright.runtime.errors import (
    Cause,
    KubernetesError,
    LeaseLost,
    NoCredentials,
    Status,
    StatusDetails,
    Undecodable,
    Unreachable,
    error_for,
)


def refused(
    code: int, reason: str = "", message: str = "", *causes: Cause, retry: float | None = None
) -> KubernetesError:
    return error_for(Status(code, reason, message, StatusDetails(causes=causes)), retry_after=retry)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("spec.version", "#/spec/version"),
        (".spec.foo", "#/spec/foo"),
        ("spec.uuid[0]", "#/spec/uuid/0"),
        ("spec.rows[2].name", "#/spec/rows/2/name"),
        ("metadata.labels[example.com/site]", "#/metadata/labels/example.com~1site"),
        ('metadata.annotations["a b"]', "#/metadata/annotations/a%20b"),
        ('.spec.rows[name="a"].size', "#/spec/rows"),
        ("spec.a~b", "#/spec/a~0b"),
        ("<nil>", "#"),
        ("", "#"),
    ],
)
def test_a_field_becomes_a_pointer(path: str, expected: str) -> None:
    assert pointer(path) == expected


@pytest.mark.parametrize(
    ("error", "conditional", "sort"),
    [
        (refused(400, "BadRequest", "no"), False, "bad-request"),
        (refused(401, "Unauthorized"), False, "unauthorized"),
        (NoCredentials("x"), False, "unauthorized"),
        (refused(403, "Forbidden", "no"), False, "forbidden"),
        (refused(404, "NotFound", "gone"), False, "not-found"),
        (refused(404, "NotFound", "gone"), True, "precondition-failed"),
        (refused(405, "MethodNotAllowed", "no"), False, "method-not-allowed"),
        (refused(409, "AlreadyExists", "there"), False, "already-exists"),
        (refused(409, "Conflict", "changed"), False, "conflict"),
        (refused(409, "Conflict", "changed"), True, "precondition-failed"),
        (refused(409, "Conflict", "owned", Cause("FieldManagerConflict", "c", ".spec.a")), True, "conflict"),
        (refused(410, "Expired", "old"), False, "expired"),
        (refused(413, "RequestEntityTooLarge", "big"), False, "too-large"),
        (refused(415, "UnsupportedMediaType", "what"), False, "unsupported-media-type"),
        (refused(422, "Invalid", "bad"), False, "invalid"),
        (refused(422, "Invalid", "uid", Cause("FieldValueInvalid", "u", "metadata.uid")), True, "precondition-failed"),
        (refused(422, "Invalid", "uid", Cause("FieldValueInvalid", "u", "metadata.uid")), False, "invalid"),
        (refused(429, "TooManyRequests", "slow"), False, "too-many-requests"),
        (refused(500, "InternalError", "broken"), False, "internal"),
        (refused(503, "ServiceUnavailable", "soon"), False, "unavailable"),
        (refused(504, "Timeout", "late"), False, "timed-out"),
        (refused(418, "Teapot", "tea"), False, "internal"),
        (Unreachable("refused"), False, "unavailable"),
        (Undecodable("html"), False, "bad-gateway"),
        (LeaseLost("odd"), False, "internal"),
    ],
)
def test_every_refusal_is_a_sort_of_problem(error: KubernetesError, conditional: bool, sort: str) -> None:
    found = refusal_for(error, conditional=conditional)
    assert found.problem.type == f"/api/v1/problems/{sort}"
    assert (found.problem.status, found.problem.title) == (SORTS[sort].status, SORTS[sort].title)
    assert found.problem.detail
    assert ("Retry-After" in found.headers) is (sort in {"too-many-requests", "unavailable"})


@pytest.mark.parametrize(("seconds", "said"), [(None, "2"), (7.0, "7"), (0.2, "1")])
def test_the_server_s_own_time_to_come_again_is_passed_on(seconds: float | None, said: str) -> None:
    assert refusal_for(refused(429, "TooManyRequests", "slow", retry=seconds)).headers == {"Retry-After": said}


def test_403_names_verb_resource_and_user() -> None:
    said = (
        'minimarts.charts.samutup.com "a" is forbidden: User "system:serviceaccount:n:portal" cannot patch resource '
        '"minimarts" in API group "charts.samutup.com" in the namespace "n"'
    )
    found = refusal_for(refused(403, "Forbidden", said)).problem
    assert (found.verb, found.user, found.namespace) == ("patch", "system:serviceaccount:n:portal", "n")
    assert found.resource == "minimarts.charts.samutup.com"
    cluster = 'devices is forbidden: User "u" cannot list resource "devices" in API group "" at the cluster scope'
    assert refusal_for(refused(403, "Forbidden", cluster)).problem.resource == "devices"


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (
            refused(422, "Invalid", "bad", Cause("FieldValueRequired", "Required", "spec.a"), Cause("X", "said", "")),
            [("#/spec/a", "FieldValueRequired")],
        ),
        (
            refused(400, "BadRequest", 'strict decoding error: unknown field "spec.a", duplicate field "spec.b[0].c"'),
            [("#/spec/a", "FieldValueUnknown"), ("#/spec/b/0/c", "FieldValueDuplicate")],
        ),
        (
            refused(
                422,
                "Invalid",
                'patch: Invalid value: "{\\"x\\": unknown field "no"}": strict decoding error: unknown field "spec.a"',
                Cause("FieldValueInvalid", "all of it", "patch"),
            ),
            [("#/spec/a", "FieldValueUnknown")],
        ),
        (
            refused(
                500,
                "InternalError",
                "failed to create typed patch object (n/a; g/v, Kind=K): .spec.a: field not declared in schema",
            ),
            [("#/spec/a", "FieldValueUnknown")],
        ),
        (
            refused(
                400,
                "BadRequest",
                "failed to create typed patch object (n/a; g/v, Kind=K): .spec.b: expected numeric, got string",
            ),
            [("#/spec/b", "FieldValueTypeInvalid")],
        ),
        (
            refused(
                500,
                "InternalError",
                "failed to create typed patch object (n/a; g/v, Kind=K): .: field not declared in schema",
            ),
            [("#", "FieldValueUnknown")],
        ),
        (
            refused(
                500,
                "InternalError",
                "failed to create typed patch object (n/a; g/v, Kind=K): .a\nb c: field not declared in schema",
            ),
            [("#", "FieldValueUnknown")],
        ),
    ],
)
def test_the_fields_at_fault_are_named_however_the_server_says_it(
    error: KubernetesError, fields: list[tuple[str, str]]
) -> None:
    found = refusal_for(error).problem
    assert (found.status, [(each.pointer, each.code) for each in found.errors]) == (422, fields)
    assert "Invalid value" not in found.detail


def test_a_problem_is_of_a_known_sort() -> None:
    assert problem("invalid", "why").type == "/api/v1/problems/invalid"
    with pytest.raises(KeyError):
        problem("odd", "why")


def test_a_parameter_without_a_limit_of_its_own_has_one() -> None:
    with pytest.raises(Refusal, match="q is too long"):
        check(Parameter(name="q", about="?"), "x" * 5000)
