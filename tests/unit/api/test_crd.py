"""The document around a schema: names, versions, columns, subresources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from edgewright.api import CUSTOM_KINDS, FlashJob, Instance, custom_resource_definition, custom_resource_definitions
from edgewright.api.crd import AGE, Column, CustomResource, Definition, Scale
from edgewright.api.instance import instance_crd
from edgewright.api.schema import SchemaError
from edgewright.runtime.objects import Kind
from tests.unit.api.gadget import Gadget, OldGadget

THING = Kind(group="tests.edgewright.dev", version="v1", kind="Thing", plural="things")


def thing(kind: Kind = THING, definition: Definition = Definition()) -> type[CustomResource]:  # noqa: B008 - frozen
    """A kind with nothing in it."""
    made_kind, made_definition = kind, definition

    class Thing(CustomResource, frozen=True, kw_only=True):
        kind: ClassVar[Kind] = made_kind
        definition: ClassVar[Definition] = made_definition

    return Thing


def test_names_that_are_not_given_follow_from_the_kind() -> None:
    spec = custom_resource_definition(thing())["spec"]
    assert spec["names"] == {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"}


def test_names_that_are_given_are_used() -> None:
    assert custom_resource_definition(Gadget)["spec"]["names"] == {
        "kind": "Gadget",
        "listKind": "GadgetCollection",
        "plural": "gadgets",
        "singular": "gadget",
        "shortNames": ["gdt"],
        "categories": ["things"],
    }


@pytest.mark.parametrize(("namespaced", "scope"), [(True, "Namespaced"), (False, "Cluster")])
def test_the_scope_follows_from_the_kind(namespaced: bool, scope: str) -> None:
    kind = replace(THING, namespaced=namespaced)
    assert custom_resource_definition(thing(kind))["spec"]["scope"] == scope


def test_the_status_subresource_follows_from_a_status_field() -> None:
    assert "subresources" not in custom_resource_definition(thing())["spec"]["versions"][0]
    assert custom_resource_definition(FlashJob)["spec"]["versions"][0]["subresources"] == {"status": {}}


def test_scale_columns_and_selectable_fields_are_published() -> None:
    version = custom_resource_definition(Gadget)["spec"]["versions"][0]
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    assert version["selectableFields"] == [{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.title"}]
    assert version["additionalPrinterColumns"] == [
        {
            "name": "Replicas",
            "type": "integer",
            "format": "int32",
            "jsonPath": ".spec.replicas",
            "description": "How many.",
        },
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def test_versions_of_a_kind_share_one_document() -> None:
    documents = custom_resource_definitions([Gadget, FlashJob, OldGadget])
    assert [document["metadata"]["name"] for document in documents] == [
        "gadgets.tests.edgewright.dev",
        "flashjobs.application.flashjob.nbfc.io",
    ]
    stored, old = documents[0]["spec"]["versions"]
    assert (stored["name"], stored["storage"], "deprecated" in stored) == ("v1", True, False)
    assert (old["name"], old["storage"], old["served"], old["deprecated"]) == ("v1beta1", False, True, True)
    assert old["deprecationWarning"] == "tests.edgewright.dev/v1beta1 Gadget is old; use v1"


OLD = replace(THING, version="v1beta1")
REFUSED: dict[str, tuple[list[type[CustomResource]], str]] = {
    "no stored version": ([thing(definition=Definition(storage=False))], "exactly one version with storage"),
    "two stored versions": ([thing(), thing(OLD)], "exactly one version with storage"),
    "a version twice": ([thing(), thing(definition=Definition(storage=False))], "has a version twice"),
    "other names": ([thing(), thing(OLD, Definition(storage=False, short_names=("t",)))], "not versions of one kind"),
    "another scope": (
        [thing(), thing(replace(OLD, namespaced=False), Definition(storage=False))],
        "not versions of one kind",
    ),
    "another kind": ([thing(), FlashJob], "not versions of one kind"),
    "no group": ([thing(replace(THING, group=""))], "needs a group"),
    "lower-case kind": ([thing(replace(THING, kind="thing"))], "CamelCase"),
    "upper-case plural": ([thing(replace(THING, plural="Things"))], "lower case"),
    "scale without status": ([thing(definition=Definition(scale=Scale()))], "needs a status field"),
}


@pytest.mark.parametrize(("kinds", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_definition_that_the_server_would_refuse_is_an_error(kinds: list[Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        custom_resource_definition(*kinds)


@pytest.mark.parametrize(
    ("build", "settings"),
    [
        pytest.param(Column, {"name": "Phase", "path": "status.phase"}, id="column path"),
        pytest.param(Scale, {"spec_replicas": ".status.replicas"}, id="wanted replicas in status"),
        pytest.param(Scale, {"status_replicas": ".spec.replicas"}, id="observed replicas in spec"),
        pytest.param(Scale, {"label_selector": ".metadata.labels"}, id="selector in metadata"),
        pytest.param(Definition, {"deprecation_warning": "old"}, id="warning without deprecation"),
        pytest.param(Definition, {"selectable_fields": ("spec.x",)}, id="selectable path"),
        pytest.param(Definition, {"selectable_fields": (".spec.x",) * 9}, id="too many selectable fields"),
    ],
)
def test_a_wrong_setting_is_refused_where_it_is_written(build: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must begin with|needs deprecated|at most 8"):
        build(**settings)


def test_akris_crd_can_be_made_but_is_not_ours() -> None:
    crd = instance_crd()
    assert crd["metadata"]["name"] == "instances.akri.sh"
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert set(spec["required"]) == {"capacity", "cdiName", "configurationName"}
    assert set(spec["properties"]) == {
        "configurationName",
        "cdiName",
        "capacity",
        "shared",
        "nodes",
        "deviceUsage",
        "brokerProperties",
    }
    assert Instance not in CUSTOM_KINDS


def test_the_flashjob_list_is_for_people() -> None:
    columns = FlashJob.definition.columns
    assert [column.name for column in columns if not column.priority] == ["Phase", "Done", "Failed", "Version", "Age"]
    assert columns[-1] is AGE
