"""What requests about custom objects and about owners do that is told from the real server's answers alone."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from edgewright.local import custom
from tests.unit.local.custom.samples import GROUP, widgets
from tests.unit.local.serving.inprocess import Api, config_map, serving

MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TEXT = {"type": "string"}


def widget(name: str = "w", /, version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def managers(obj: dict[str, Any]) -> list[str]:
    return [each["manager"] for each in obj["metadata"].get("managedFields", [])]


@asynccontextmanager
async def with_widgets(directory: Path, versions: Sequence[dict[str, Any]] = ()) -> AsyncIterator[Api]:
    crd = copy.deepcopy(widgets())
    if versions:
        crd["spec"]["versions"] = list(versions)
    async with serving(directory) as api:
        api.kinds.set_custom(custom.served(crd))
        yield api


def version(name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    root = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": root}, **more}


async def test_a_refusal_of_a_deprecated_version_is_warned_of_too(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        answer = await api("GET", f"/apis/{GROUP}/v1beta1/namespaces/default/widgets/none")
        assert (answer.code, len(answer.warnings)) == (404, 1)


async def test_an_object_of_another_kind_is_refused_as_what_it_says_it_is(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        answer = await api("POST", WIDGETS, {**widget(size=1), "kind": "Other"})
        assert (answer.code, answer.body["details"]["kind"]) == (422, "Other")
        await api.made(WIDGETS, widget(size=1))
        answer = await api("PATCH", f"{WIDGETS}/w", {"apiVersion": "else.io/v1"}, media=MERGE)
        assert (answer.code, answer.body["details"]["group"]) == (422, "else.io")


async def test_a_list_of_custom_objects_says_that_it_does_not_go_on(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        assert (await api("GET", WIDGETS)).body["metadata"]["continue"] == ""
        assert "continue" not in (await api("GET", MAPS)).body["metadata"]


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/namespaces"])
async def test_a_namespace_of_an_object_that_is_in_none_is_dropped(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path) as api:
        made = await api.made(path, {"metadata": {"name": "n", "namespace": "default"}})
        assert "namespace" not in made["metadata"]


async def test_a_new_object_with_a_version_is_refused_unless_nothing_is_stored(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        body = config_map("a")
        body["metadata"]["resourceVersion"] = "5"
        assert (await api("POST", f"{MAPS}?dryRun=All", body)).code == 201
        answer = await api("POST", MAPS, body)
        assert answer.body["message"] == "resourceVersion should not be set on objects to be created"
        assert (await api("GET", f"{MAPS}/a")).code == 404


async def test_the_answer_to_a_change_that_lets_an_object_go_has_the_version_before(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        body = config_map("a")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await api.made(MAPS, body)
        held = (await api("DELETE", f"{MAPS}/a")).body
        gone = (await api("PATCH", f"{MAPS}/a", {"metadata": {"finalizers": None}}, media=MERGE)).body
        assert gone["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"]
        assert (await api("GET", f"{MAPS}/a")).code == 404


async def test_an_empty_list_of_managed_fields_forgets_all_owners(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api("PATCH", f"{MAPS}/a?fieldManager=one", config_map("a", x="1"), media=APPLY)
        cleared = [{"op": "replace", "path": "/metadata/managedFields", "value": []}]
        answer = await api("PATCH", f"{MAPS}/a", cleared, media=JSON_PATCH)
        assert "managedFields" not in answer.body["metadata"]


async def test_an_apply_must_name_a_new_object_and_need_not_name_one_that_is_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        body = {**config_map("a", x="1"), "metadata": {}}
        answer = await api("PATCH", f"{MAPS}/a?fieldManager=one", body, media=APPLY)
        assert (answer.code, "(a based on URL) was undeterminable" in answer.body["message"]) == (400, True)
        await api.made(MAPS, config_map("a"))
        assert (await api("PATCH", f"{MAPS}/a?fieldManager=one", body, media=APPLY)).code == 200


# Rules


async def test_an_object_without_a_name_is_not_shown_to_rules(tmp_path: Path) -> None:
    checked = version("v1", {"a": {**TEXT, "x-kubernetes-validations": [{"rule": "self == 'b'"}]}})
    async with with_widgets(tmp_path, [checked]) as api:
        answer = await api("POST", WIDGETS, {**widget(a="x"), "metadata": {}})
        assert [cause["field"] for cause in answer.body["details"]["causes"]] == ["metadata.name", "<nil>"]


async def test_a_rule_that_an_old_value_breaks_is_warned_of(tmp_path: Path) -> None:
    before = version("v1", {"a": TEXT})
    after = version("v1", {"a": {**TEXT, "x-kubernetes-validations": [{"rule": "self == 'b'", "message": "not b"}]}})
    async with with_widgets(tmp_path, [before]) as api:
        await api.made(WIDGETS, widget(a="x"))
        crd = widgets(metadata={"name": f"widgets.{GROUP}", "uid": "1", "generation": 2})
        crd["spec"]["versions"] = [after]
        api.kinds.set_custom(custom.served(crd))
        answer = await api("PATCH", f"{WIDGETS}/w", {"metadata": {"labels": {"l": "m"}}}, media=MERGE)
        assert (answer.code, answer.warnings) == (200, ['299 - "spec.a: Invalid value: \\"x\\": not b"'])
        assert (await api("PATCH", f"{WIDGETS}/w", {"spec": {"a": "y"}}, media=MERGE)).code == 422


# Versions of different fields


async def test_owners_in_a_version_that_lacks_a_field_are_forgotten(tmp_path: Path) -> None:
    async with with_widgets(tmp_path, [version("v1", {"a": TEXT}), version("v2", {"a": TEXT, "b": TEXT})]) as api:
        second = WIDGETS.replace("/v1/", "/v2/")
        await api.made(f"{WIDGETS}?fieldManager=one", widget(a="x"))
        kept = await api("PATCH", f"{second}/w?fieldManager=two", {"spec": {"a": "y"}}, media=MERGE)
        assert managers(kept.body) == ["one", "two"]
        await api("PATCH", f"{second}/w?fieldManager=two", {"spec": {"a": "y"}}, media=MERGE)
        lost = await api("PATCH", f"{second}/w?fieldManager=two", {"spec": {"b": "z"}}, media=MERGE)
        assert managers(lost.body) == []


async def test_an_apply_of_a_field_that_the_version_of_an_owner_lacks_is_refused(tmp_path: Path) -> None:
    async with with_widgets(tmp_path, [version("v1", {"a": TEXT}), version("v2", {"a": TEXT, "b": TEXT})]) as api:
        await api.made(f"{WIDGETS}?fieldManager=one", widget(a="x"))
        place = f"{WIDGETS.replace('/v1/', '/v2/')}/w?fieldManager=two"
        answer = await api("PATCH", place, widget(version="v2", b="z"), media=APPLY)
        assert answer.body["message"] == ".spec.b: field not declared in schema"
        assert managers((await api("GET", f"{WIDGETS}/w")).body) == ["one"]


async def test_owners_in_a_version_that_is_gone_are_forgotten(tmp_path: Path) -> None:
    async with with_widgets(tmp_path, [version("v1", {"a": TEXT}), version("v2", {"a": TEXT})]) as api:
        await api.made(f"{WIDGETS.replace('/v1/', '/v2/')}?fieldManager=one", widget(version="v2", a="x"))
        crd = widgets()
        crd["spec"]["versions"] = [version("v1", {"a": TEXT})]
        api.kinds.set_custom(custom.served(crd))
        answer = await api("PATCH", f"{WIDGETS}/w?fieldManager=two", {"spec": {"a": "y"}}, media=MERGE)
        assert managers(answer.body) == ["two"]


# The scale


async def test_a_scale_to_nothing_is_nobodys(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        await api.made(f"{WIDGETS}?fieldManager=one", widget(size=1, replicas=2))
        body = {"metadata": {"name": "w"}, "spec": {}}
        assert (await api("PUT", f"{WIDGETS}/w/scale?fieldManager=two", body)).body["spec"] == {}
        now = (await api("GET", f"{WIDGETS}/w")).body
        assert (now["spec"]["replicas"], managers(now)) == (0, ["one"])


async def test_a_scale_to_less_than_nothing_is_refused_as_a_change_of_the_object(tmp_path: Path) -> None:
    async with with_widgets(tmp_path) as api:
        await api.made(WIDGETS, widget(size=1, replicas=2))
        answer = await api("PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": -1}}, media=MERGE)
        (cause,) = answer.body["details"]["causes"]
        assert (answer.code, answer.body["details"]["kind"], cause["field"]) == (422, "Widget", ".spec.replicas")


@pytest.mark.parametrize(
    ("replicas", "code"), [pytest.param(5, 409, id="in conflict"), pytest.param(2, 400, id="even without a conflict")]
)
async def test_an_apply_of_a_scale_is_refused(tmp_path: Path, replicas: int, code: int) -> None:
    async with with_widgets(tmp_path) as api:
        made = await api.made(WIDGETS, widget(size=1, replicas=2))
        wanted = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}}
        body = {**wanted, "spec": {"replicas": replicas}}
        answer = await api("PATCH", f"{WIDGETS}/w/scale?fieldManager=two", body, media=APPLY)
        assert answer.code == code, answer.body
        assert (await api("GET", f"{WIDGETS}/w")).body == made


# Numbers


async def test_a_number_without_a_fraction_is_stored_without_a_point(tmp_path: Path) -> None:
    anything = version("v1", {"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}})
    async with with_widgets(tmp_path, [anything]) as api:
        await api.made(WIDGETS, widget(free={"a": 1.0, "b": [2e3, {"c": -0.0}], "d": 0.5, "e": 1e300}))
        (stored,) = api.store.list(f"widgets.{GROUP}").items
        assert b'"free":{"a":1,"b":[2000,{"c":0}],"d":0.5,"e":1e+300}' in stored.body.replace(b"1e300", b"1e+300")
