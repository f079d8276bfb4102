"""What a definition brings to be served, and what its rules do to objects."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from edgewright.local import custom
from edgewright.local.custom.conditions import set_condition, terminating
from edgewright.local.errors import Refusal
from edgewright.local.served import VERBS, Served, Write
from tests.unit.local.custom import samples

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CREATE = Write(verb="create", now=NOW)
UPDATE = Write(verb="update", now=NOW)
STATUS = Write(verb="update", now=NOW, subresource="status")
API = f"{samples.GROUP}/v1"
NOT_A_TEXT = "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"


def served(version: str = "v1", **changed: Any) -> Served:
    return next(each for each in custom.served(samples.widgets(**changed)) if each.kind.version == version)


def widget(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}, **fields}


def test_each_version_that_is_served_is_a_kind() -> None:
    first, second = custom.served(samples.widgets())
    assert [each.kind.api_version for each in (first, second)] == [API, f"{samples.GROUP}/v1beta1"]
    assert (first.storage, first.storage_api_version) == (f"widgets.{samples.GROUP}", API)
    assert second.storage_api_version == API
    assert (first.singular, first.list_kind, first.short_names, first.categories) == (
        "widget",
        "WidgetList",
        ("wd",),
        ("all",),
    )
    assert [each.name for each in first.subresources] == ["status", "scale"]
    assert second.subresources == ()
    assert set(first.verbs) == set(VERBS)
    assert first.definition == "io.example.probe.v1.Widget"
    assert first.custom
    assert [column.name for column in first.columns] == ["Name", "Size"]
    assert first.row is not None
    assert list(first.row(widget(), NOW)) == ["a", 1]


def test_names_come_from_the_spec_until_some_are_accepted() -> None:
    crd = samples.widgets(status={"acceptedNames": {"plural": "", "kind": ""}})
    assert custom.served(crd)[0].kind.plural == "widgets"


def test_selectable_fields_are_texts() -> None:
    read = served().selectable
    obj = widget(spec={"size": 5, "flag": True, "color": "red"})
    assert {name: field(obj) for name, field in read.items()} == {
        "spec.color": "red",
        "spec.flag": "true",
        "spec.size": "5",
    }
    assert {field({"spec": {"flag": False}}) for field in read.values()} == {"", "false"}
    assert read["spec.color"]({"spec": "x"}) == ""


@pytest.mark.parametrize(
    ("version", "warning"),
    [
        ({"deprecated": True}, "probe.example.io/v1beta1 Widget is deprecated; use probe.example.io/v1 Widget"),
        ({"deprecated": True, "deprecationWarning": "go away"}, "go away"),
        ({"deprecated": False}, ""),
    ],
    ids=["ours", "the author's", "none"],
)
def test_a_deprecated_version_warns(version: dict[str, Any], warning: str) -> None:
    crd = samples.widgets()
    crd["spec"]["versions"][1] |= version
    assert custom.served(crd)[1].deprecation == warning


def test_a_deprecated_version_names_no_other_where_none_is_better() -> None:
    crd = samples.widgets()
    crd["spec"]["versions"][0]["deprecated"] = True
    assert custom.served(crd)[0].deprecation == "probe.example.io/v1 Widget is deprecated"


def test_unknown_fields_are_dropped_and_those_of_metadata_are_named_first() -> None:
    inner = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "odd": 1}, "free": 1}
    sent = widget(zzz=1, spec={"size": 1, "wrong": 1, "inners": [inner], "named": {"x": inner}, "inner": "text"})
    sent["metadata"] = {"name": "a", "odd": 1, "labels": {}}
    decoded, unknown = served().rules.decode(sent)
    assert unknown == [
        "metadata.odd",
        "spec.inners[0].free",
        "spec.wrong",
        "zzz",
        "spec.inners[0].metadata.odd",
        "spec.named[x].metadata.odd",
    ]
    assert decoded["metadata"] == {"name": "a"}
    assert decoded["spec"]["inners"] == [{"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}}]
    assert decoded["spec"]["inner"] == "text"


def test_an_object_without_metadata_is_left_to_validation() -> None:
    assert served("v1beta1").rules.decode({"kind": "Widget"}) == ({"kind": "Widget"}, [])


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"metadata": {"name": 1}},
            NOT_A_TEXT,
        ),
        ({"metadata": "x"}, "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
        ({"spec": {"inner": {"kind": 1}}}, "spec.inner.kind: Invalid value: 1: must be a string"),
        (
            {"spec": {"inner": {"metadata": {"name": 1}}}},
            f'spec.inner.metadata: Invalid value: {{"name":1}}: {NOT_A_TEXT}',
        ),
    ],
    ids=["a field", "all of it", "an embedded kind", "embedded metadata"],
)
def test_metadata_of_a_wrong_type_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(Refusal) as refused:
        served().rules.decode(widget(**fields))
    assert refused.value.message == f'Widget in version "v1" cannot be handled as a Widget: {why}'
    assert refused.value.code == 400


def test_defaults_are_filled_in() -> None:
    obj = widget(spec={})
    served().rules.default(obj)
    assert obj["spec"] == {"size": 3}


def test_objects_of_the_first_schema_are_read_as_they_are_stored() -> None:
    first, other, _ = samples.widgets()["spec"]["versions"]
    alike = {**samples.widgets()["spec"], "versions": [first, {**other, "schema": first["schema"]}]}
    assert served(spec=alike).rules.reads_as_stored
    assert not served("v1beta1", spec=alike).rules.reads_as_stored
    assert not served(spec=alike, metadata={"name": "w", "uid": "1", "generation": 2}).rules.reads_as_stored


def test_objects_that_may_lack_defaults_of_the_stored_version_get_them_when_they_are_read() -> None:
    assert not served().rules.reads_as_stored


def test_an_object_that_was_stored_before_is_read_by_the_schema_of_today() -> None:
    stored = widget(spec={"gone": 1})
    assert served().rules.read(stored)["spec"] == {"size": 3}
    assert stored["spec"] == {"gone": 1}


def test_an_object_is_read_in_another_version_with_the_defaults_of_the_stored_one() -> None:
    read = served("v1beta1").rules.read(widget(spec={"color": "red"}))
    assert (read["apiVersion"], read["spec"]) == (f"{samples.GROUP}/v1beta1", {"size": 3})


def test_an_object_of_a_version_that_is_gone_is_read_as_one_of_the_stored_version() -> None:
    read = served().rules.read({**widget(spec={"gone": 1}), "apiVersion": f"{samples.GROUP}/v0"})
    assert (read["apiVersion"], read["spec"]) == (API, {"size": 3})


def test_an_object_is_stored_in_the_storage_version() -> None:
    sent = {**widget(spec={"old": "x", "size": 1}), "apiVersion": f"{samples.GROUP}/v1beta1"}
    stored = served("v1beta1").rules.to_store(sent)
    assert (stored["apiVersion"], stored["spec"]) == (API, {"size": 1})
    assert served().rules.to_store(sent) is sent


def test_a_new_object_has_no_status() -> None:
    obj = widget(status={"replicas": 1})
    served().rules.prepare_create(obj, CREATE)
    assert "status" not in obj
    old = widget(status={"replicas": 1})
    served("v1beta1").rules.prepare_create(old, CREATE)
    assert old["status"] == {"replicas": 1}


def test_nothing_is_created_while_the_definition_goes() -> None:
    crd = samples.widgets()
    set_condition(crd, terminating("InstanceDeletionPending", "soon", going=True), NOW)
    with pytest.raises(Refusal, match="create not allowed while custom resource definition is terminating"):
        custom.served(crd)[0].rules.prepare_create(widget(), CREATE)


def test_a_write_of_the_status_keeps_all_metadata_but_the_managed_fields() -> None:
    old = {**widget(), "metadata": {"name": "a", "labels": {"a": "b"}, "managedFields": [{"manager": "old"}]}}
    new = widget(status={"x": 1}, spec={"size": 9}, other=1)
    new["metadata"] = {"name": "a", "labels": {"c": "d"}, "managedFields": [{"manager": "new"}]}
    served().rules.prepare_update(new, old, STATUS)
    assert new["metadata"] == {"name": "a", "labels": {"a": "b"}, "managedFields": [{"manager": "new"}]}
    assert (new["spec"], new["status"]) == ({"size": 1}, {"x": 1})
    assert "other" not in new
    unsaid = widget(status={})
    served().rules.prepare_update(unsaid, old, STATUS)
    assert unsaid["metadata"] == old["metadata"]


def test_any_other_write_keeps_the_status() -> None:
    new = widget(status={"x": 2})
    served().rules.prepare_update(new, widget(status={"x": 1}), UPDATE)
    assert new["status"] == {"x": 1}


def test_the_status_makes_no_generation_where_it_is_written_apart() -> None:
    obj = widget(status={"x": 1})
    assert "status" not in served().rules.desired(obj)
    assert "status" in served("v1beta1").rules.desired(obj)
    assert "metadata" not in served().rules.desired(obj)


def test_an_object_must_be_of_its_kind_and_version() -> None:
    causes = served().rules.validate({**widget(), "kind": "Other", "apiVersion": "v9"}, None, CREATE)
    assert [(cause.field, cause.message) for cause in causes] == [
        ("kind", 'Invalid value: "Other": must be Widget'),
        ("apiVersion", f'Invalid value: "v9": must be {API}'),
    ]


def test_values_are_checked_by_the_schema() -> None:
    assert served().rules.validate(widget(), None, CREATE) == []
    assert [cause.field for cause in served().rules.validate(widget(spec={"size": 0}), None, CREATE)] == ["spec.size"]


@pytest.mark.parametrize(
    ("obj", "causes"),
    [
        ({"replicas": -1}, [(".spec.replicas", "Invalid value: -1: should be a non-negative integer")]),
        (
            {"replicas": 2**31},
            [(".spec.replicas", "Invalid value: 2147483648: should be less than or equal to 2147483647")],
        ),
        ({}, []),
    ],
    ids=["negative", "too large", "none"],
)
def test_replicas_must_be_a_number_that_can_be_asked_for(obj: dict[str, Any], causes: list[tuple[str, str]]) -> None:
    found = served().rules.validate(widget(spec={"size": 1, **obj}), None, CREATE)
    assert [(cause.field, cause.message) for cause in found] == causes


def test_the_status_of_something_that_is_scaled_is_checked_as_well() -> None:
    status = {"replicas": "many", "selector": 5}
    found = served().rules.validate(widget(spec={"size": 1, "replicas": -1}, status=status), widget(), STATUS)
    wrong = {cause.field: cause.message for cause in found}
    kind = "is of the type string, expected int64"
    assert wrong[".status.replicas"] == f"Invalid value: 0: .status.replicas accessor error: many {kind}"
    assert wrong[".status.selector"].startswith('Invalid value: "": .status.selector accessor error: 5')
    assert ".spec.replicas" not in wrong
    nothing = served().rules.validate(widget(status=None), widget(), STATUS)
    assert any("<nil> is of the type <nil>" in cause.message for cause in nothing)


def test_finalizers_that_could_be_anybodys_are_warned_of() -> None:
    obj = widget()
    obj["metadata"]["finalizers"] = ["a.b/c", "mine", "example.com", "orphan"]
    rules = served().rules
    assert [each.split(": ")[1] for each in rules.warnings(obj, None, CREATE)] == ['"example.com"', '"mine"']
    assert rules.warnings(obj, copy.deepcopy(obj), UPDATE) == []
    assert rules.warnings(obj, None, STATUS) == []


def test_a_version_without_a_schema_takes_everything() -> None:
    crd = samples.gadgets()
    del crd["spec"]["versions"][0]["schema"]
    kind = custom.served(crd)[0]
    assert kind.schema["type"] == "object"
    assert "properties" not in kind.schema
    assert not kind.kind.namespaced


def test_what_the_scale_finds_wrong_is_told_before_the_rules_that_were_not_asked() -> None:
    spec = samples.widgets()["spec"]
    spec["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [{"rule": "has(self.spec)"}]
    obj = widget(spec={"size": 1, "replicas": "x"})
    causes = served(spec=spec).rules.validate(obj, None, CREATE)
    assert [cause.field for cause in causes] == ["spec.replicas", ".spec.replicas", "<nil>"]
