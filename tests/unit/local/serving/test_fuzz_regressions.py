"""What random requests have found, each once more by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.local import size_limits
from edgewright.local.errors import Refusal
from edgewright.local.serving import warning_headers
from tests.unit.local.serving.inprocess import serving

MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
APPLY = "application/apply-patch+yaml"


async def test_an_empty_kind_is_that_of_the_path(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        answer = await api("POST", MAPS, {"kind": "", "apiVersion": "", "metadata": {"name": "a"}})
        assert (answer.code, answer.body["kind"], answer.body["apiVersion"]) == (201, "ConfigMap", "v1")


async def test_an_apply_of_nothing_makes_an_object_that_nobody_owns_fields_of(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        answer = await api("PATCH", f"{MAPS}/a?fieldManager=me", body, media=APPLY)
        assert answer.code == 201
        assert "managedFields" not in answer.body["metadata"]


async def test_an_event_may_have_a_finalizer_of_any_name(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        event = {"metadata": {"name": "a", "finalizers": ["plain"]}, "involvedObject": {"namespace": "default"}}
        assert (await api("POST", EVENTS, event)).code == 201
        assert (await api("POST", MAPS, {"metadata": event["metadata"]})).code == 422


async def test_an_event_goes_at_once_whatever_is_asked_about_its_dependents(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(EVENTS, {"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}})
        answer = await api("DELETE", f"{EVENTS}/a?propagationPolicy=Orphan")
        assert (answer.code, answer.body["kind"]) == (200, "Status")


async def test_an_update_that_makes_an_object_must_say_a_version_that_is_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        bad = await api("PUT", f"{LEASES}/a", {"metadata": {"name": "a", "resourceVersion": "abc"}})
        assert (bad.code, bad.body["reason"]) == (400, "BadRequest")
        dry = await api("PUT", f"{LEASES}/a?dryRun=All", {"metadata": {"name": "a", "resourceVersion": "7"}})
        assert (dry.code, dry.body["metadata"]["resourceVersion"]) == (201, "7")


async def test_a_version_with_very_many_zeros_is_a_number(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        assert (await api("GET", f"{MAPS}?resourceVersion={'0' * 5000}")).code == 200


def test_a_few_warnings_are_all_written_and_each_once() -> None:
    assert warning_headers.headers(["a", "b", "a", ""]) == ['299 - "a"', '299 - "b"']


def test_many_warnings_are_cut_so_that_a_client_takes_the_answer() -> None:
    written = warning_headers.headers([f"unknown field {number}" for number in range(100_000)])
    assert 0 < len(written) <= 100
    long = warning_headers.headers(["x" * 3000, "y" * 3000])
    assert [len(each) for each in long] == [264, 264]


@pytest.mark.parametrize(("levels", "code"), [(size_limits.DEEPEST, 0), (size_limits.DEEPEST + 1, 400)])
def test_an_object_may_have_so_many_levels(levels: int, code: int) -> None:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    assert _refused(value) == code


@pytest.mark.parametrize(("values", "code"), [(size_limits.MAX_VALUES, 0), (size_limits.MAX_VALUES + 1, 413)])
def test_an_object_may_have_so_many_values(values: int, code: int) -> None:
    assert _refused({"list": [0] * (values - 1)}) == code


def _refused(value: object) -> int:
    try:
        size_limits.check(value)
    except Refusal as refusal:
        return refusal.code
    return 0
