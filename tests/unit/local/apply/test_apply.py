"""Who owns what after a write, and what a server-side apply makes of an object."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given

from edgewright.local.apply import apply, managed, ownership, scale
from edgewright.local.errors import Refusal
from edgewright.runtime.objects import Kind
from tests.unit.local.apply import samples
from tests.unit.local.apply.samples import KIND, thing

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
UNTYPED = "failed to create typed patch object (/one; example.io/v1, Kind=Thing): "
CUSTOM, BUILTIN = samples.custom(), samples.builtin()


def record(live: Any, new: Any, manager: str = "m", **settings: Any) -> list[dict[str, Any]]:
    settings = {"fields": CUSTOM, "api_version": "example.io/v1", "now": NOW, **settings}
    before = copy.deepcopy((live, new))
    entries = apply.record(live, new, settings.pop("fields"), manager=manager, **settings)
    assert (live, new) == before
    return entries


def stored(obj: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "uid": "u", "managedFields": entries}}


def written(live: dict[str, Any] | None, new: dict[str, Any], manager: str = "m", **settings: Any) -> dict[str, Any]:
    return stored(new, record(live, new, manager, **settings))


def merge(live: Any, wanted: Any, manager: str = "m", **settings: Any) -> dict[str, Any]:
    settings = {"fields": CUSTOM, "now": NOW, "kind": KIND, **settings}
    before = copy.deepcopy((live, wanted))
    result = apply.merge(live, wanted, settings.pop("fields"), name="one", manager=manager, **settings)
    assert (live, wanted) == before
    return result


def owned(obj: dict[str, Any] | list[dict[str, Any]]) -> dict[str, list[str]]:
    """The paths of each manager."""
    entries = obj if isinstance(obj, list) else obj["metadata"].get("managedFields", [])
    found: dict[str, list[str]] = {}
    for entry in entries:
        paths = managed.paths(managed.decode(entry["fieldsV1"]))
        found.setdefault(entry["manager"], []).extend(managed.written(path) for path in paths)
    return found


def test_what_is_created_belongs_to_who_created_it() -> None:
    new = thing({"size": 1, "map": {"a": "1"}}, namespace="n", uid="u", labels={"l": "1"}, generation=1)
    (entry,) = record(None, new)
    assert list(entry) == ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"]
    assert (entry["operation"], entry["time"]) == ("Update", "2026-01-02T03:04:05Z")
    assert entry["fieldsV1"] == {
        "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
        "f:spec": {".": {}, "f:map": {".": {}, "f:a": {}}, "f:size": {}},
    }


def test_what_a_built_in_kind_always_has_belongs_to_nobody() -> None:
    new = thing({"parts": [{"name": "a"}], "text": None}) | {"note": ""}
    assert owned(record(None, new, fields=BUILTIN)) == {
        "m": ['.spec.parts[name="a",port=80]', '.spec.parts[name="a",port=80].name']
    }
    assert record(None, thing({"parts": None}), fields=BUILTIN) == []


def test_a_manager_without_a_name_is_unknown() -> None:
    assert record(None, thing({"size": 1}), "")[0]["manager"] == "unknown"


def test_a_changed_field_goes_to_who_changed_it() -> None:
    live = written(None, thing({"size": 1, "text": "x"}), "one")
    new = written(live, thing({"size": 2, "text": "x"}), "two", now=LATER)
    assert owned(new) == {"one": [".spec", ".spec.text"], "two": [".spec.size"]}
    assert [entry["time"] for entry in new["metadata"]["managedFields"]] == [
        ownership.stamp(NOW),
        ownership.stamp(LATER),
    ]


def test_a_removed_field_belongs_to_nobody_and_who_has_nothing_left_is_gone() -> None:
    live = written(None, thing({"size": 1}), "one")
    live = written(live, thing({"size": 1, "text": "x"}), "two")
    assert owned(written(live, thing({"size": 1}), "three")) == {"one": [".spec", ".spec.size"]}


def test_more_fields_of_a_manager_are_added_to_its_entry() -> None:
    live = written(None, thing({"size": 1}))
    assert owned(record(live, thing({"size": 1, "text": "x"}))) == {"m": [".spec", ".spec.size", ".spec.text"]}


def test_each_version_and_subresource_of_a_manager_has_an_entry_of_its_own() -> None:
    live = written(None, thing({"size": 1}))
    live = written(live, thing({"size": 1, "text": "x"}), api_version="example.io/v2")
    live = written(live, {**thing({"size": 1, "text": "x"}), "status": {"phase": "a"}}, subresource="status")
    found = [(e["apiVersion"], e.get("subresource")) for e in live["metadata"]["managedFields"]]
    assert found == [("example.io/v1", None), ("example.io/v1", "status"), ("example.io/v2", None)]


def test_a_write_that_changes_nothing_leaves_the_entries_alone() -> None:
    live = written(None, thing({"size": 1}))
    assert record(live, thing({"size": 1}), "other", now=LATER) == live["metadata"]["managedFields"]


def test_what_a_write_cannot_change_is_not_owned() -> None:
    new = {**thing({"size": 1}), "status": {"phase": "x"}}
    assert owned(record(None, new, reset=[("status",)])) == {"m": [".spec", ".spec.size"]}


def test_owners_of_an_object_that_has_none_are_not_made_up() -> None:
    live = thing({"size": 1}, uid="u")
    assert record(live, thing({"size": 2})) == []


@pytest.mark.parametrize("reset", [[], [{}]], ids=str)
def test_a_client_may_reset_the_owners(reset: list[Any]) -> None:
    live = written(None, thing({"size": 1}))
    assert record(live, thing({"size": 2}, managedFields=reset)) == []
    assert owned(record(None, thing({"size": 2}, managedFields=reset))) == {"m": [".spec", ".spec.size"]}
    kept = record(live, thing({"size": 1}, managedFields=reset), subresource="status")
    assert kept == live["metadata"]["managedFields"]


def test_a_client_may_set_the_owners() -> None:
    live = written(None, thing({"size": 1}))
    mine = [{**live["metadata"]["managedFields"][0], "manager": "renamed"}]
    assert owned(record(live, thing({"size": 1}, managedFields=mine))) == {"renamed": [".spec", ".spec.size"]}
    wrong = [{**mine[0], "operation": "Other"}]
    assert owned(record(live, thing({"size": 1}, managedFields=wrong))) == {"m": [".spec", ".spec.size"]}


def test_an_object_whose_lists_make_no_sense_has_no_owners() -> None:
    live = written(None, thing({"size": 1}))
    assert record(live, thing({"tags": [None]})) == []


def test_a_live_list_with_doubles_is_no_obstacle() -> None:
    live = written(None, thing({"tags": ["a", "a"], "parts": [{"name": "x"}, {"name": "x"}]}))
    new = written(live, thing({"tags": ["a", "b"], "parts": [{"name": "x", "value": "1"}]}), "two")
    assert '.spec.tags[="b"]' in owned(new)["two"]
    assert merge(new, thing({"tags": ["c"]}), "three")["spec"]["tags"] == ["a", "b", "c"]


def test_the_oldest_of_too_many_updaters_are_remembered_together() -> None:
    live = written(None, thing({"map": {}}))
    for n in range(12):
        spec = {"map": {f"k{i}": "1" for i in range(n + 1)}}
        live = written(live, thing(spec), f"m{n:02}", now=NOW + timedelta(minutes=n))
    entries = live["metadata"]["managedFields"]
    assert len(entries) == ownership.MAX_UPDATERS
    together = next(entry for entry in entries if entry["manager"] == "ancient-changes")
    assert owned([together])["ancient-changes"] == [".spec", ".spec.map", *(f".spec.map.k{n}" for n in range(3))]
    assert together["time"] == ownership.stamp(NOW + timedelta(minutes=2))
    live = written(live, thing({"map": {**live["spec"]["map"], "z": "1"}}), "next", subresource="status")
    assert len(live["metadata"]["managedFields"]) == ownership.MAX_UPDATERS
    assert ".spec.map.z" in owned(live)["ancient-changes"]


def test_updaters_of_several_versions_are_remembered_by_version() -> None:
    live = written(None, thing({"map": {}}))
    for n in range(11):
        spec = {"map": {f"k{i}": "1" for i in range(n + 1)}}
        live = written(live, thing(spec), f"m{n:02}", api_version=f"example.io/v{n % 2}")
    entries = live["metadata"]["managedFields"]
    together = [entry["apiVersion"] for entry in entries if entry["manager"] == "ancient-changes"]
    assert len(entries) == ownership.MAX_UPDATERS
    assert sorted(together) == ["example.io/v0", "example.io/v1"]


def test_a_field_that_became_one_value_is_owned_as_one() -> None:
    live = written(None, thing({"atom": {"a": "1"}}))
    live["metadata"]["managedFields"][0]["fieldsV1"] = {"f:spec": {"f:atom": {"f:a": {}}}}
    assert owned(record(live, thing({"atom": {"a": "1"}, "size": 1}), "two")) == {
        "m": [".spec.atom"],
        "two": [".spec.size"],
    }


def test_times_stay_where_nothing_else_changes() -> None:
    live = written(None, thing({"size": 1}))
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"][0]["time"] = ownership.stamp(LATER)
    apply.keep_times(live, new)
    assert new == live


@pytest.mark.parametrize("change", ["spec", "owner", "entry", "none"])
def test_times_are_new_where_something_else_changes(change: str) -> None:
    live = written(None, thing({"size": 1}))
    new = copy.deepcopy(live)
    entries = new["metadata"]["managedFields"]
    entries[0]["time"] = ownership.stamp(LATER)
    if change == "spec":
        new["spec"]["size"] = 2
    elif change == "owner":
        entries[0]["manager"] = "other"
    elif change == "entry":
        entries.append(entries[0])
    else:
        new = live
    before = copy.deepcopy(new)
    apply.keep_times(live, new)
    assert new == before


def test_what_is_applied_to_nothing_is_created_and_owned() -> None:
    result = merge(None, thing({"size": 1}))
    (entry,) = result["metadata"]["managedFields"]
    assert (entry["operation"], entry["fieldsV1"]) == ("Apply", {"f:spec": {"f:size": {}}})
    assert result["spec"] == {"size": 1}
    assert "note" in merge(None, thing({"size": 1}), fields=BUILTIN)


def test_a_field_that_is_no_longer_applied_goes() -> None:
    live = merge(None, thing({"size": 1, "map": {"a": "1", "b": "1"}, "parts": [{"name": "x"}]}))
    result = merge(live, thing({"map": {"a": "1"}}))
    assert result["spec"] == {"map": {"a": "1"}}


def test_a_field_that_another_owns_too_stays() -> None:
    live = merge(None, thing({"size": 1, "text": "x"}), "one")
    live = merge(live, thing({"size": 1}), "two")
    assert merge(live, thing({}), "one")["spec"] == {"size": 1}


def test_who_applies_what_is_there_already_owns_it_too_and_nothing_is_new() -> None:
    live = merge(None, thing({"size": 1}), "one")
    result = merge(live, thing({"size": 1}), "two", now=LATER)
    assert owned(result) == {"one": [".spec.size"], "two": [".spec.size"]}
    assert [entry.get("time") for entry in result["metadata"]["managedFields"]] == [None, ownership.stamp(NOW)]


def test_a_field_of_nobody_stays() -> None:
    live = merge(None, thing({"size": 1}))
    live["spec"]["text"] = "filled in"
    assert merge(live, thing({"size": 2}))["spec"] == {"size": 2, "text": "filled in"}


def test_items_of_a_list_are_added_next_to_those_of_others() -> None:
    live = merge(None, thing({"parts": [{"name": "a", "value": "1"}], "tags": ["x"]}), "one")
    live = merge(live, thing({"parts": [{"name": "a", "port": 81}], "tags": ["y"]}), "two")
    assert live["spec"] == {"parts": [{"name": "a", "value": "1"}, {"name": "a", "port": 81}], "tags": ["x", "y"]}
    assert merge(live, thing({"tags": ["z"]}), "one")["spec"] == {
        "parts": [{"name": "a", "port": 81}],
        "tags": ["y", "z"],
    }


def test_a_conflict_tells_who_owns_what() -> None:
    live = written(None, thing({"size": 1}), "updater")
    with pytest.raises(Refusal) as refused:
        merge(live, thing({"size": 2}))
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "updater" using example.io/v1: .spec.size'
    )
    assert refused.value.details == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "updater" using example.io/v1',
                "field": ".spec.size",
            }
        ]
    }


def test_conflicts_are_told_by_owner() -> None:
    live = merge(None, thing({"size": 1, "parts": [{"name": "a", "value": "1"}]}), "one")
    live = merge(live, thing({"text": "x"}), "two", subresource="status")
    with pytest.raises(Refusal) as refused:
        merge(live, thing({"size": 2, "text": "y", "parts": [{"name": "a", "value": "2"}]}), "three")
    assert refused.value.message == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .spec.size\n'
        '- .spec.parts[name="a",port=80].value\nconflicts with "two" with subresource "status":\n- .spec.text'
    )


def test_force_takes_fields_from_whoever_owns_them() -> None:
    live = merge(None, thing({"size": 1, "text": "x"}), "one")
    result = merge(live, thing({"size": 2}), "two", force=True)
    assert owned(result) == {"one": [".spec.text"], "two": [".spec.size"]}


def test_what_was_there_before_the_first_apply_is_not_silently_taken() -> None:
    live = thing({"size": 1, "text": "x"}, uid="u")
    with pytest.raises(Refusal, match="before-first-apply"):
        merge(live, thing({"size": 2}))
    assert owned(merge(live, thing({"size": 1}))) == {
        "m": [".spec.size"],
        "before-first-apply": [".spec", ".spec.size", ".spec.text"],
    }


def test_what_a_write_cannot_change_is_neither_owned_nor_in_conflict() -> None:
    live = written(None, {**thing({"size": 1}), "status": {"phase": "a"}})
    wanted = {**thing({"size": 1}), "status": {"phase": "b"}}
    assert owned(merge(live, wanted, "two", reset=[("status",)]))["two"] == [".spec.size"]


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        ({"kind": "Other"}, 400, "invalid object type: example.io/v1, Kind=Other"),
        ({"apiVersion": "v1"}, 400, "invalid object type: /v1, Kind=Thing"),
        ({"metadata": {"managedFields": []}}, 400, "metadata.managedFields must be nil"),
        (
            {"spec": {"no": 1}},
            500,
            f"{UNTYPED}.spec.no: field not declared in schema",
        ),
        (
            {"spec": {"on": 1}, "metadata": "odd"},
            500,
            f"{UNTYPED}errors:\n  .metadata: expected map, got &{{odd}}\n  .spec.on: expected boolean, got &{{1}}",
        ),
    ],
    ids=["kind", "version", "owners", "unknown", "several"],
)
def test_what_cannot_be_applied_is_refused(wanted: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        merge(None, {**thing(), **wanted})
    assert (refused.value.code, refused.value.message) == (code, message)


def test_a_live_list_that_makes_no_sense_is_told() -> None:
    live = stored(thing({"tags": [None]}), record(None, thing({"size": 1})))
    with pytest.raises(Refusal, match="failed to merge config") as refused:
        merge(live, thing({"tags": ["a"]}))
    assert refused.value.code == 500


def client_side(**spec: Any) -> dict[str, Any]:
    text = json.dumps(thing(spec))
    return written(None, thing(spec, annotations={apply.LAST_APPLIED: text}), "kubectl-client-side-apply")


def test_kubectl_takes_over_what_its_client_side_apply_owned() -> None:
    live = client_side(size=1, text="x")
    wanted = thing({"size": 2}, annotations={apply.LAST_APPLIED: "old", "note": "<b>"})
    assert merge(live, thing({"size": 2}), "kubectl")["spec"] == {"size": 2, "text": "x"}
    result = merge(live, wanted, "kubectl", force=True)
    assert owned(result)["kubectl"][-1] == ".spec.size"
    last = result["metadata"]["annotations"][apply.LAST_APPLIED]
    assert last.endswith("\n")
    assert json.loads(last) == thing({"size": 2}, annotations={"note": "<b>"})
    assert "\\u003cb\\u003e" in last


def test_kubectl_does_not_take_what_has_changed_since() -> None:
    live = client_side(size=1, text="x")
    live = written(live, thing({"size": 1, "text": "y"}, annotations=live["metadata"]["annotations"]), "other")
    with pytest.raises(Refusal) as refused:
        merge(live, thing({"size": 2, "text": "z"}), "kubectl")
    assert refused.value.details is not None
    assert [cause["field"] for cause in refused.value.details["causes"]] == [".spec.text"]


@pytest.mark.parametrize(
    "annotation",
    ["", "{", "[]", '{"apiVersion":"v0"}', '{"apiVersion":"example.io/v1","spec":{"no":1}}', "[" * 100_000],
    ids=["empty", "broken", "list", "version", "unknown", "deep"],
)
def test_an_annotation_that_tells_nothing_allows_nothing(annotation: str) -> None:
    live = written(None, thing({"size": 1}, annotations={apply.LAST_APPLIED: annotation}), "other")
    with pytest.raises(Refusal, match=r"\.spec\.size"):
        merge(live, thing({"size": 2}), "kubectl")


def test_another_manager_takes_over_nothing() -> None:
    with pytest.raises(Refusal, match="kubectl-client-side-apply"):
        merge(client_side(size=1), thing({"size": 2}), "someone")


def test_an_annotation_that_has_grown_too_large_goes() -> None:
    live = client_side(size=1)
    result = merge(live, thing({"size": 1, "text": "x" * 300_000}), "kubectl")
    assert apply.LAST_APPLIED not in result["metadata"]["annotations"]
    assert merge(None, thing({"size": 1}), "kubectl")["metadata"].get("annotations") is None


@given(samples.specs(), samples.specs(), samples.specs())
def test_applying_twice_is_applying_once(first: Any, other: Any, second: Any) -> None:
    live = merge(None, thing(first), "one")
    live = merge(live, thing(other), "two", force=True)
    once = merge(live, thing(second), "one", force=True)
    assert merge(once, thing(second), "one", now=LATER) == once


@given(samples.specs(), samples.specs())
def test_after_an_update_every_changed_field_has_one_owner(before: Any, after: Any) -> None:
    live = written(None, thing(before), "one")
    found = owned(record(live, thing(after), "two"))
    assert not set(found.get("one", [])) & set(found.get("two", []))


def entry(obj: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(e["manager"], e.get("subresource"), e.get("time") is not None, e["fieldsV1"]) for e in obj]


def test_who_scales_owns_the_replicas() -> None:
    live = written(None, thing({"size": 1, "text": "x"}), "maker")
    settings: dict[str, Any] = {"path": ("spec", "size"), "api_version": "example.io/v1", "now": NOW}
    entries = scale.record_scale(live["metadata"]["managedFields"], before=1, after=2, manager="hpa", **settings)
    assert entry(entries) == [
        ("hpa", "scale", False, {"f:spec": {"f:size": {}}}),
        ("maker", None, True, {"f:spec": {".": {}, "f:text": {}}}),
    ]
    again = scale.record_scale(entries, before=2, after=3, manager="hpa", **settings)
    assert entry(again) == entry(entries)


def test_an_applier_of_the_replicas_keeps_them_until_they_change() -> None:
    live = merge(None, thing({"size": 1}), "applier")["metadata"]["managedFields"]
    path = ("spec", "size")
    shown = scale.entries_of_scale(live, path=path)
    assert [(e["manager"], e["apiVersion"], e["fieldsV1"]) for e in shown] == [
        ("applier", "autoscaling/v1", {"f:spec": {"f:replicas": {}}})
    ]
    assert scale.entries_of_object(live, shown, path=path, api_version="example.io/v1") == live
    assert scale.entries_of_object(live, [], path=path, api_version="example.io/v1") == []
    first = scale.record_scale([], before=None, after=1, path=path, manager="x", api_version="v1", now=NOW)
    assert first == []
    assert scale.entries_of_scale([{"operation": "odd"}], path=path) == []
    other = [{**live[0], "fieldsV1": {"f:spec": {"f:text": {}}}}]
    assert scale.entries_of_object(live, other, path=path, api_version="example.io/v1") == live


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"a": 1}
    for _ in range(depth):
        found = {"a": found}
    return found


def test_an_object_that_is_nested_too_deeply_is_refused_and_has_no_owners() -> None:
    deep = thing({"free": nested(5000)})
    assert apply.record(None, deep, CUSTOM, manager="m", api_version="example.io/v1", now=NOW) == []
    with pytest.raises(Refusal, match="nested too deeply") as refused:
        apply.merge(None, deep, CUSTOM, kind=KIND, name="one", manager="m", now=NOW)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    "change",
    [{"manager": 1}, {"subresource": []}, {"time": {}}, {"apiVersion": ["v1"]}, {"fieldsV1": {"f:a": nested(5000)}}],
    ids=lambda change: next(iter(change)),
)
def test_entries_of_another_form_are_as_none(change: dict[str, Any]) -> None:
    live = written(None, thing({"size": 1}))
    live["metadata"]["managedFields"][0] |= change
    assert apply.record(live, thing({"size": 2}), CUSTOM, manager="m", api_version="example.io/v1", now=NOW) == []


def test_keys_that_are_no_plain_values_are_refused() -> None:
    with pytest.raises(Refusal, match="a key that is no plain value"):
        merge(None, thing({"parts": [{"name": {"a": 1}}]}))


def test_a_kind_of_the_core_group_is_named_without_a_group() -> None:
    pod = Kind(group="", version="v1", kind="Pod", plural="pods")
    with pytest.raises(Refusal, match=r"invalid object type: example\.io/v1, Kind=Thing"):
        merge(None, thing(), kind=pod)
