"""What a request to a custom kind does: versions, the scale, the status, and what its body must say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from edgewright.local import custom
from tests.unit.local.custom.samples import GROUP, widgets
from tests.unit.local.serving.inprocess import Api, serving

WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
OLDER = f"/apis/{GROUP}/v1beta1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


def widget(name: str = "w", /, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 3, **spec},
    }


@asynccontextmanager
async def with_widgets(directory: Path) -> AsyncIterator[Api]:
    async with serving(directory) as api:
        api.kinds.set_custom(custom.served(widgets()))
        yield api


async def test_an_object_is_shown_in_every_version_and_stored_in_one(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        made = await api.made(WIDGETS, widget(color="red"))
        older = await api("GET", f"{OLDER}/w")
        assert (older.body["apiVersion"], older.body["metadata"]["uid"]) == (
            f"{GROUP}/v1beta1",
            made["metadata"]["uid"],
        )
        assert older.warnings == [f'299 - "{GROUP}/v1beta1 Widget is deprecated; use {GROUP}/v1 Widget"']
        listed = await api("GET", OLDER)
        assert [each["apiVersion"] for each in listed.body["items"]] == [f"{GROUP}/v1beta1"]
        await api("PATCH", f"{OLDER}/w", {"spec": {"old": "x"}}, media=MERGE)
        (stored,) = api.store.list(f"widgets.{GROUP}").items
        assert f'"apiVersion":"{GROUP}/v1"'.encode() in stored.body


async def test_the_status_and_the_rest_are_written_apart(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        made = await api.made(WIDGETS, {**widget(), "status": {"replicas": 1}})
        assert ("status" in made, made["metadata"]["generation"]) == (False, 1)
        both = {"spec": {"size": 9}, "status": {"replicas": 2}}
        status = (await api("PATCH", f"{WIDGETS}/w/status", both, media=MERGE)).body
        assert (status["spec"]["size"], status["status"], status["metadata"]["generation"]) == (3, {"replicas": 2}, 1)
        spec = (await api("PATCH", f"{WIDGETS}/w", {**both, "status": {"replicas": 4}}, media=MERGE)).body
        assert (spec["spec"]["size"], spec["status"], spec["metadata"]["generation"]) == (9, {"replicas": 2}, 2)
        assert (await api("GET", f"{WIDGETS}/w/status")).body == spec


@pytest.mark.parametrize("left_out", ["kind", "apiVersion"])
async def test_a_body_must_say_what_it_is(tmp_path: Path, left_out: str) -> None:
    body = widget()
    del body[left_out]
    async with with_widgets(tmp_path) as api:
        before = api.store.revision
        answer = await api("POST", WIDGETS, body)
        assert (answer.code, answer.body["reason"], api.store.revision) == (400, "BadRequest", before)


async def test_an_update_must_say_which_state_it_is_of(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        await api.made(WIDGETS, widget())
        answer = await api("PUT", f"{WIDGETS}/w", widget())
        (cause,) = answer.body["details"]["causes"]
        assert (answer.code, cause["field"]) == (422, "metadata.resourceVersion")
        assert cause["message"].endswith("must be specified for an update")


async def test_an_unknown_field_is_dropped_with_a_warning(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        answer = await api("POST", WIDGETS, widget(unheard="of"))
        assert (answer.code, answer.warnings) == (201, ['299 - "unknown field \\"spec.unheard\\""'])
        assert "unheard" not in answer.body["spec"]


# The scale


async def test_the_scale_of_an_object_is_read_and_written(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        made = await api.made(WIDGETS, widget(replicas=2))
        status = {"status": {"replicas": 1, "selector": "a=b"}}
        assert (await api("PATCH", f"{WIDGETS}/w/status", status, media=MERGE)).code == 200
        scale = (await api("GET", f"{WIDGETS}/w/scale")).body
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
        assert scale["metadata"]["uid"] == made["metadata"]["uid"]
        scale["spec"]["replicas"] = 5
        put = await api("PUT", f"{WIDGETS}/w/scale?fieldManager=scaler", scale)
        assert (put.code, put.body["spec"]) == (200, {"replicas": 5})
        stale = await api("PUT", f"{WIDGETS}/w/scale", scale)
        assert (stale.code, stale.body["reason"]) == (409, "Conflict")
        patched = await api("PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": 7}}, media=MERGE)
        assert (patched.code, patched.body["spec"]) == (200, {"replicas": 7})
        now = (await api("GET", f"{WIDGETS}/w")).body
        assert (now["spec"]["replicas"], now["spec"]["size"]) == (7, 3)
        owners = [(each["manager"], each.get("subresource")) for each in now["metadata"]["managedFields"]]
        assert any(subresource == "scale" for _, subresource in owners), owners


@pytest.mark.parametrize(
    ("scale", "code"),
    [
        pytest.param([], 400, id="a list"),
        pytest.param({"kind": "Widget"}, 400, id="another kind"),
        pytest.param({"apiVersion": "autoscaling/v2"}, 400, id="another version"),
        pytest.param({"metadata": {"name": "other"}}, 400, id="another name"),
        pytest.param({"metadata": {"name": "w", "uid": "x"}}, 409, id="another object"),
        pytest.param({"metadata": {"name": "w", "resourceVersion": "1"}}, 409, id="another state"),
        pytest.param({"metadata": {"name": "w"}, "spec": {"replicas": -1}}, 422, id="less than none"),
        pytest.param({"metadata": {"name": "w"}, "spec": {"replicas": "2"}}, 400, id="replicas that are text"),
        pytest.param({"metadata": {"name": "w"}, "spec": {"replicas": True}}, 400, id="replicas that are a yes"),
    ],
)
async def test_a_scale_that_cannot_be_is_refused_and_changes_nothing(tmp_path: Path, scale: Any, code: int) -> None:
    async with with_widgets(tmp_path) as api:
        made = await api.made(WIDGETS, widget(replicas=2))
        answer = await api("PUT", f"{WIDGETS}/w/scale", scale)
        assert answer.code == code, answer.body
        assert (await api("GET", f"{WIDGETS}/w")).body == made


async def test_what_has_no_object_has_no_scale(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        assert (await api("GET", f"{WIDGETS}/w/scale")).code == 404
        assert (await api("PUT", f"{WIDGETS}/w/scale", {"metadata": {"name": "w"}})).code == 404
        assert (await api("GET", f"{OLDER}/w/scale")).code == 404


# Applying


@pytest.mark.parametrize(
    ("path", "metadata", "code", "message"),
    [
        pytest.param("/w/status", {"name": "w"}, 404, "not found", id="the status of what is not there"),
        pytest.param("/w", {"name": "other"}, 400, "does not match the name on the URL", id="another name"),
        pytest.param("/w", {"name": "w", "uid": "x"}, 409, "no existing object was found", id="one that is not there"),
    ],
)
async def test_what_cannot_be_applied_is_refused(
    tmp_path: Path, path: str, metadata: dict[str, str], code: int, message: str
) -> None:
    async with with_widgets(tmp_path) as api:
        answer = await api("PATCH", f"{WIDGETS}{path}?fieldManager=me", {**widget(), "metadata": metadata}, media=APPLY)
        assert (answer.code, message in answer.body["message"]) == (code, True), answer.body
        assert (await api("GET", f"{WIDGETS}/w")).code == 404


async def test_a_status_is_applied_by_its_own_path(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        await api.made(WIDGETS, widget())
        wanted = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Widget",
            "metadata": {"name": "w"},
            "status": {"replicas": 4},
        }
        answer = await api("PATCH", f"{WIDGETS}/w/status?fieldManager=me", wanted, media=APPLY)
        assert (answer.code, answer.body["status"]) == (200, {"replicas": 4})
        owner = next(each for each in answer.body["metadata"]["managedFields"] if each["manager"] == "me")
        assert (owner["operation"], owner["subresource"]) == ("Apply", "status")
        assert owner["fieldsV1"] == {"f:status": {"f:replicas": {}}}
