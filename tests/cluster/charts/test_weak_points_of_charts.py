"""What users of Helm operators have complained about for years, each complaint a test, on both API servers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from edgewright.cli.chart_schema import structural
from tests.cluster.charts import chart_stage
from tests.cluster.charts.chart_stage import LIMIT, MERGE, ChartStage, Weaks
from tests.harness import ApiServer, RequestError, wait_until


@pytest.fixture(scope="module")
def stage(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> ChartStage:
    """An API server on which the kinds are served."""
    return ChartStage(api_server, tmp_path_factory.mktemp("charts"))


@pytest.fixture(scope="module")
def operating(stage: ChartStage) -> Iterator[None]:
    """One operator for all tests of the module."""
    with stage.operator():
        yield


@pytest.fixture
def weaks(stage: ChartStage, operating: None, namespace: str) -> Weaks:
    """A namespace that the operator works in."""
    return stage.in_namespace(namespace)


def settled(weaks: Weaks, name: str) -> None:
    """Nothing more happens to a release: another object, made later, is done with and this one is as it was."""
    before = weaks.get(name), weaks.revisions(name)
    weaks.create(f"{name}-witness")
    weaks.until(f"{name}-witness", "Ready", "True")
    weaks.server.request("PATCH", weaks.path(name), {"metadata": {"labels": {"look": "again"}}}, content_type=MERGE)
    weaks.create(f"{name}-later")
    weaks.until(f"{name}-later", "Ready", "True")
    assert weaks.revisions(name) == before[1]
    assert weaks.get(name)["status"] == before[0]["status"]


def test_a_chart_with_random_text_settles(weaks: Weaks) -> None:
    weaks.create("random", random=True)
    weaks.until("random", "Ready", "True")
    text = weaks.config_map("random")["random"]
    settled(weaks, "random")
    assert weaks.config_map("random")["random"] == text
    weaks.edit("random", random="foreign")
    wait_until(lambda: weaks.config_map("random")["random"] == text, what="the random text is back", timeout=LIMIT)
    assert weaks.revisions("random") == [(1, "deployed")]


def test_a_chart_with_lookup_settles_and_keeps_its_password(weaks: Weaks) -> None:
    weaks.create("lookup", lookup=True)
    weaks.until("lookup", "Ready", "True")
    path = f"{weaks.core}/secrets/lookup-password"
    password = weaks.server.request("GET", path)["data"]
    settled(weaks, "lookup")
    weaks.change("lookup", greeting="two")
    weaks.until_greeting("lookup", "two")
    assert weaks.server.request("GET", path)["data"] == password


def test_an_upgrade_over_a_foreign_edit_does_not_conflict(weaks: Weaks) -> None:
    weaks.create("edited", annotations={"edgewright.dev/drift": "off"}, greeting="one")
    weaks.until("edited", "Ready", "True")
    weaks.edit("edited", greeting="foreign")
    weaks.change("edited", greeting="two")
    weaks.until("edited", "Deployed", "True", reason="UpgradeSuccessful")
    weaks.until_greeting("edited", "two")
    assert weaks.revisions("edited") == [(1, "superseded"), (2, "deployed")]


def test_a_subchart_goes_off_and_on(weaks: Weaks) -> None:
    weaks.create("side", side={"enabled": True})
    weaks.until("side", "Ready", "True")
    path = f"{weaks.core}/configmaps/side-side"
    assert weaks.server.exists(path)
    weaks.change("side", side={"enabled": False})
    wait_until(lambda: not weaks.server.exists(path), what="the subchart is off", timeout=LIMIT)
    weaks.change("side", side={"enabled": True})
    wait_until(lambda: weaks.server.exists(path), what="the subchart is on again", timeout=LIMIT)


def test_a_failed_upgrade_is_rolled_back_and_helm_agrees(weaks: Weaks) -> None:
    weaks.create("failing", greeting="one")
    weaks.until("failing", "Ready", "True")
    weaks.change("failing", greeting="two", port=99999)
    condition = weaks.until("failing", "ReleaseFailed", "True", reason="UpgradeError")
    assert "99999" in condition["message"]
    weaks.until("failing", "Remediated", "True", reason="RollbackSucceeded")
    weaks.until_greeting("failing", "one")
    assert weaks.revisions("failing") == [(1, "superseded"), (2, "failed"), (3, "deployed")]
    assert weaks.stored("failing", 3)["info"]["description"] == "Rollback to 1"
    assert weaks.get("failing")["status"]["failures"] == 1
    weaks.change("failing", port=81)
    weaks.until("failing", "Ready", "True")
    weaks.until_greeting("failing", "two")
    assert "Remediated" not in weaks.conditions("failing")
    assert weaks.revisions("failing")[-1] == (4, "deployed")


def test_a_failed_first_install_is_removed_and_tried_again(weaks: Weaks) -> None:
    weaks.create("first", port=99999)
    weaks.until("first", "Remediated", "True", reason="UninstallSucceeded")
    wait_until(lambda: not weaks.server.exists(f"{weaks.core}/configmaps/first"), what="nothing is left", timeout=LIMIT)
    assert weaks.revisions("first") == [(1, "uninstalled")]
    weaks.annotate("first", retry="now")
    wait_until(lambda: weaks.revisions("first")[-1] == (2, "uninstalled"), what="it is tried again", timeout=LIMIT)
    wait_until(lambda: weaks.get("first")["status"]["failures"] == 2, what="failures are counted", timeout=LIMIT)
    weaks.change("first", port=80)
    weaks.until("first", "Ready", "True")
    assert weaks.revisions("first")[-1][1] == "deployed"
    weaks.delete("first")
    assert weaks.revisions("first") == []


def test_a_release_of_more_than_a_mebibyte_is_refused_with_what_to_do(weaks: Weaks) -> None:
    weaks.create("heavy", kind="Heavy")
    condition = weaks.until("heavy", "Irreconcilable", "True", kind="Heavy")
    assert "leave big files out of the chart (.helmignore)" in condition["message"]
    assert not weaks.server.exists(f"{weaks.core}/configmaps/heavy")


def test_a_name_that_helm_would_refuse_is_shortened_with_a_hash(weaks: Weaks) -> None:
    names = [f"{'long-' * 12}{end}" for end in ("one", "two")]
    for name in names:
        weaks.create(name)
    for name in names:
        weaks.until(name, "Ready", "True")
    releases = [weaks.get(name)["status"]["deployedRelease"]["name"] for name in names]
    assert len(set(releases)) == 2
    assert all(len(release) <= 53 for release in releases)
    for name in names:
        weaks.delete(name)


def test_values_that_the_charts_schema_refuses_are_told(weaks: Weaks) -> None:
    weaks.create("schema", greeting=5)
    condition = weaks.until("schema", "Irreconcilable", "True")
    assert "greeting" in condition["message"]
    assert "string" in condition["message"]
    assert weaks.revisions("schema") == []


def test_drift_is_found_and_corrected_within_seconds(weaks: Weaks) -> None:
    weaks.create("drift")
    weaks.until("drift", "Ready", "True")
    began = time.monotonic()
    weaks.edit("drift", greeting="foreign")
    weaks.until_greeting("drift", "hello")
    print(f"corrected after {time.monotonic() - began:.2f} s")


def test_objects_restored_without_helms_secrets_are_adopted(weaks: Weaks, stage: ChartStage) -> None:
    weaks.create("adopted", annotations={"edgewright.dev/suspend": "false"}, greeting="one", random=True)
    weaks.until("adopted", "Ready", "True")
    before = weaks.config_map("adopted")
    weaks.annotate("adopted", suspend="true")
    weaks.until("adopted", "Suspended", "True")
    weaks.server.request("DELETE", f"{weaks.core}/secrets/sh.helm.release.v1.adopted.v1")
    weaks.annotate("adopted", suspend=None, drift="warn")
    wait_until(lambda: weaks.revisions("adopted") == [(1, "deployed")], what="it is adopted", timeout=LIMIT)
    assert weaks.stored("adopted", 1)["info"]["description"].startswith("adopted")
    assert weaks.config_map("adopted") == before, "nothing was applied"
    weaks.annotate("adopted", drift=None)
    weaks.change("adopted", greeting="two")
    weaks.until_greeting("adopted", "two")
    weaks.delete("adopted")
    assert not weaks.server.exists(f"{weaks.core}/configmaps/adopted")


def test_test_hooks_run_on_request(weaks: Weaks) -> None:
    weaks.create("tested", annotations={"edgewright.dev/test": "true"}, test=True)
    weaks.until("tested", "TestSuccess", "True", reason="TestsSucceeded")
    assert weaks.revisions("tested") == [(1, "deployed")]


def test_with_uninstall_wait_nothing_is_left_when_the_object_is_gone(weaks: Weaks) -> None:
    weaks.create("waits", annotations={"helm.sdk.operatorframework.io/uninstall-wait": "true"})
    weaks.until("waits", "Ready", "True")
    path = f"{weaks.core}/configmaps/waits"
    weaks.server.request("PATCH", path, {"metadata": {"finalizers": ["example.com/hold"]}}, content_type=MERGE)
    weaks.server.request("DELETE", weaks.path("waits"))
    weaks.until("waits", "Deployed", "False", reason="UninstallSuccessful")
    assert weaks.server.exists(weaks.path("waits"))
    weaks.server.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
    wait_until(lambda: not weaks.server.exists(weaks.path("waits")), what="it is gone", timeout=LIMIT)
    assert weaks.revisions("waits") == []


def test_a_forced_upgrade_replaces_objects(weaks: Weaks) -> None:
    weaks.create("forced", annotations={"helm.sdk.operatorframework.io/upgrade-force": "true"}, greeting="one")
    weaks.until("forced", "Ready", "True")
    weaks.change("forced", greeting="two")
    weaks.until_greeting("forced", "two")
    weaks.until("forced", "Ready", "True")


def test_a_definition_made_from_a_charts_schema_is_taken_and_refuses_what_does_not_fit(
    api_server: ApiServer, namespace: str
) -> None:
    definition = chart_stage.definition("Typed")
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": ["image"],
        "definitions": {"port": {"type": "integer", "exclusiveMinimum": 0, "maximum": 65535, "default": 80}},
        "properties": {
            "image": {"type": "object", "properties": {"tag": {"type": ["string", "null"], "pattern": "^v"}}},
            "port": {"$ref": "#/definitions/port"},
            "mode": {"enum": ["a", "b"], "type": "string", "default": "a"},
            "tags": {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
            "odd": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        },
    }
    properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"] = structural(schema)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api_server.request("POST", path, definition)
    objects = f"/apis/{chart_stage.GROUP}/v1alpha1/namespaces/{namespace}/typeds"
    try:
        wait_until(lambda: api_server.exists(objects), what="the kind is served", timeout=LIMIT)

        def create(name: str, **values: object) -> dict[str, object]:
            body = {"apiVersion": f"{chart_stage.GROUP}/v1alpha1", "kind": "Typed", "metadata": {"name": name}}
            found: dict[str, object] = api_server.request("POST", objects, {**body, "spec": values})["spec"]
            return found

        assert create("good", image={"tag": None, "more": 1}, odd=5) == {
            "image": {"tag": None, "more": 1},
            "odd": 5,
            "port": 80,
            "mode": "a",
        }
        for values in ({}, {"image": {}, "port": 0}, {"image": {"tag": "1"}}, {"image": {}, "mode": "c"}):
            with pytest.raises(RequestError) as refused:
                create("bad", **values)
            assert refused.value.code == 422
    finally:
        api_server.request("DELETE", f"{path}/{definition['metadata']['name']}")
