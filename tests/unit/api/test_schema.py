"""What each Python type and each annotation becomes in a structural schema, and what is refused."""

from __future__ import annotations

from datetime import date, datetime
from enum import IntEnum, StrEnum
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest

from edgewright.api import FlashJob
from edgewright.api.annotations import Rule, Schema
from edgewright.api.schema import SchemaError, _Place, _struct_schema, kind_schema
from edgewright.runtime.objects import Condition, ObjectMeta, Resource, Struct

FREE = {"x-kubernetes-preserve-unknown-fields": True}
STRING = {"type": "string"}
INTEGER = {"type": "integer", "format": "int64"}


class Mood(StrEnum):
    GOOD = "Good"
    BAD = "Bad"


class Digit(IntEnum):
    ONE = 1
    TWO = 2


class Point(Struct, frozen=True, kw_only=True):
    x: int
    y: int = 0


class Keyed(Struct, frozen=True, kw_only=True):
    name: str
    port: int = 80
    note: str = ""
    maybe: str | None = None


class Loop(Struct, frozen=True, kw_only=True):
    inner: tuple[Loop, ...] = ()


class Tagged(msgspec.Struct, tag="tagged"):
    x: int


class ArrayLike(msgspec.Struct, array_like=True):
    x: int


class Ruled(Struct, frozen=True, kw_only=True):
    object_schema: ClassVar[Schema] = Schema(rules=(Rule(rule="self.x > 0", message="x must be positive"),))

    x: int = 1


def struct_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of one struct, wherever a kind has it."""
    return _struct_schema(struct, Schema(), _Place(struct))


def schema_of(annotation: Any, *default: Any) -> dict[str, Any]:
    """The schema of a field with this annotation, called `value`."""
    field = ("value", annotation, *default)
    schema: dict[str, Any] = struct_schema(msgspec.defstruct("Holder", [field]))["properties"]["value"]
    return schema


def a_list(items: dict[str, Any], list_type: str = "atomic", **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "x-kubernetes-list-type": list_type} | more


TYPES = {
    "string": (str, STRING),
    "integer": (int, INTEGER),
    "number": (float, {"type": "number", "format": "double"}),
    "boolean": (bool, {"type": "boolean"}),
    "moment": (datetime, {"type": "string", "format": "date-time"}),
    "day": (date, {"type": "string", "format": "date"}),
    "bytes": (bytes, {"type": "string", "format": "byte"}),
    "anything": (Any, FREE),
    "raw": (msgspec.Raw, FREE),
    "literal": (Literal["a", "b"], STRING | {"enum": ["a", "b"]}),
    "literal numbers": (Literal[1, 2], INTEGER | {"enum": [1, 2]}),
    "string enum": (Mood, STRING | {"enum": ["Good", "Bad"]}),
    "number enum": (Digit, INTEGER | {"enum": [1, 2]}),
    "nullable": (str | None, STRING | {"nullable": True}),
    "nullable inside": (Annotated[str, Schema(max_length=3)] | None, STRING | {"nullable": True, "maxLength": 3}),
    "nullable outside": (Annotated[str | None, Schema(max_length=3)], STRING | {"nullable": True, "maxLength": 3}),
    "tuple": (tuple[str, ...], a_list(STRING)),
    "list": (list[int], a_list(INTEGER)),
    "list of nullable": (list[str | None], a_list(STRING | {"nullable": True})),
    "set": (frozenset[str], a_list(STRING, "set")),
    "map": (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    "map of lists": (dict[str, list[str]], {"type": "object", "additionalProperties": a_list(STRING)}),
    "free-form object": (dict[str, Any], {"type": "object"} | FREE),
    "int or string": (
        int | str,
        {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    ),
    "nullable int or string": (
        str | int | None,
        {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True, "nullable": True},
    ),
    "struct": (
        Point,
        {"type": "object", "required": ["x"], "properties": {"x": INTEGER, "y": INTEGER}},
    ),
    "struct with a rule": (
        Ruled,
        {
            "type": "object",
            "properties": {"x": INTEGER | {"default": 1}},
            "x-kubernetes-validations": [{"rule": "self.x > 0", "message": "x must be positive"}],
        },
    ),
}


@pytest.mark.parametrize(("annotation", "expected"), TYPES.values(), ids=TYPES.keys())
def test_a_type_has_its_schema(annotation: Any, expected: dict[str, Any]) -> None:
    assert schema_of(annotation) == expected


SETTINGS = {
    "lengths": (str, Schema(min_length=1, max_length=9), {"minLength": 1, "maxLength": 9}),
    "pattern": (str, Schema(pattern="^a+$"), {"pattern": "^a+$"}),
    "format": (str, Schema(format="ipv4"), {"format": "ipv4"}),
    "narrower number": (int, Schema(format="int32"), {"format": "int32"}),
    "bounds": (int, Schema(minimum=0, maximum=9), {"minimum": 0, "maximum": 9}),
    "exclusive bounds": (
        float,
        Schema(minimum=0, maximum=1, exclusive_minimum=True, exclusive_maximum=True),
        {"minimum": 0, "maximum": 1, "exclusiveMinimum": True, "exclusiveMaximum": True},
    ),
    "multiple": (int, Schema(multiple_of=5), {"multipleOf": 5}),
    "enum of values": (str, Schema(enum=("a", "b")), {"enum": ["a", "b"]}),
    "enum of a class": (str, Schema(enum=Mood), {"enum": ["Good", "Bad"]}),
    "items": (tuple[str, ...], Schema(min_items=1, max_items=3), {"minItems": 1, "maxItems": 3}),
    "list as a set": (tuple[str, ...], Schema(list_type="set"), {"x-kubernetes-list-type": "set"}),
    "keyed list": (
        tuple[Keyed, ...],
        Schema(list_type="map", list_map_keys=("name", "port")),
        {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]},
    ),
    "properties": (
        dict[str, str],
        Schema(min_properties=1, max_properties=3),
        {"minProperties": 1, "maxProperties": 3},
    ),
    "map replaced as a whole": (dict[str, str], Schema(map_type="atomic"), {"x-kubernetes-map-type": "atomic"}),
    "struct replaced as a whole": (Point, Schema(map_type="atomic"), {"x-kubernetes-map-type": "atomic"}),
    "struct with more fields": (Point, Schema(preserve_unknown_fields=True), FREE),
    "embedded object": (dict[str, Any], Schema(embedded_resource=True), {"x-kubernetes-embedded-resource": True}),
    "bounded int or string": (int | str, Schema(pattern="%$", maximum=5), {"pattern": "%$", "maximum": 5}),
    "never null": (str | None, Schema(nullable=False), {}),
    "null all the same": (str, Schema(nullable=True), {"nullable": True}),
    "rule": (
        str,
        Schema(
            rules=(
                Rule(
                    rule="self != oldSelf.orValue('')",
                    message="no",
                    message_expression="'no'",
                    reason="FieldValueForbidden",
                    field_path=".x",
                    optional_old_self=True,
                ),
            )
        ),
        {
            "x-kubernetes-validations": [
                {
                    "rule": "self != oldSelf.orValue('')",
                    "message": "no",
                    "messageExpression": "'no'",
                    "reason": "FieldValueForbidden",
                    "fieldPath": ".x",
                    "optionalOldSelf": True,
                }
            ]
        },
    ),
}


@pytest.mark.parametrize(("annotation", "says", "expected"), SETTINGS.values(), ids=SETTINGS.keys())
def test_a_setting_is_added_to_the_schema_of_the_type(annotation: Any, says: Schema, expected: dict[str, Any]) -> None:
    plain = schema_of(annotation)
    if says.nullable is False:
        del plain["nullable"]
    assert schema_of(Annotated[annotation, says]) == plain | expected


def test_the_known_fields_of_a_free_form_object_are_checked_and_the_others_kept() -> None:
    known = schema_of(Annotated[dict[str, Any], Schema(known=Point)])
    assert known == schema_of(Point) | FREE


def test_string_or_list_follows_the_recipe_that_was_tried_on_a_real_server() -> None:
    name = Annotated[str, Schema(min_length=1, max_length=253)]
    assert schema_of(Annotated[tuple[name, ...] | name, Schema(min_items=1, max_items=5000)]) == {
        "x-kubernetes-preserve-unknown-fields": True,
        "minLength": 1,
        "maxLength": 253,
        "minItems": 1,
        "maxItems": 5000,
        "items": {"type": "string", "minLength": 1, "maxLength": 253},
        "minimum": 1,
        "maximum": 0,
        "minProperties": 1,
        "maxProperties": 0,
        "not": {"enum": [True, False]},
    }


def test_an_outer_annotation_refines_an_inner_one_and_rules_add_up() -> None:
    one, two = Rule(rule="true", message="one"), Rule(rule="true", message="two")
    short = Annotated[str, Schema(min_length=1, max_length=9, rules=(one,))]
    schema = schema_of(Annotated[short, Schema(max_length=5, rules=(two,))])
    assert (schema["minLength"], schema["maxLength"]) == (1, 5)
    assert [rule["message"] for rule in schema["x-kubernetes-validations"]] == ["one", "two"]
    on_field = schema_of(Annotated[Ruled, Schema(rules=(two,))])
    assert [rule["message"] for rule in on_field["x-kubernetes-validations"]] == ["x must be positive", "two"]


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        pytest.param(int, 20, 20, id="number"),
        pytest.param(str, "x", "x", id="string"),
        pytest.param(bool, True, True, id="true"),
        pytest.param(Mood, Mood.BAD, "Bad", id="enum"),
        pytest.param(tuple[str, ...], ("a",), ["a"], id="list"),
        pytest.param(frozenset[str], frozenset("cab"), ["a", "b", "c"], id="set, in order"),
        pytest.param(Annotated[bool, Schema(defaulted=True)], False, False, id="empty but asked for"),
        pytest.param(Annotated[Ruled, Schema(defaulted=True)], Ruled(), {"x": 1}, id="struct, spelled out"),
        pytest.param(Point, Point(x=3), {"x": 3}, id="struct with a value"),
    ],
)
def test_a_default_that_is_not_empty_is_filled_in_by_the_server(annotation: Any, default: Any, expected: Any) -> None:
    assert schema_of(annotation, default)["default"] == expected


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        pytest.param(int, 0, id="zero"),
        pytest.param(str, "", id="empty string"),
        pytest.param(bool, False, id="false"),
        pytest.param(str | None, None, id="none"),
        pytest.param(tuple[str, ...], (), id="empty list"),
        pytest.param(dict[str, str], {}, id="empty map"),
        pytest.param(Ruled, Ruled(), id="struct at its defaults"),
        pytest.param(Annotated[int, Schema(defaulted=False)], 20, id="not to be published"),
    ],
)
def test_a_default_that_reads_like_an_absent_field_is_not_published(annotation: Any, default: Any) -> None:
    assert "default" not in schema_of(annotation, default)


def test_a_default_made_by_a_function_is_published() -> None:
    assert schema_of(list[str], msgspec.field(default_factory=lambda: ["a"]))["default"] == ["a"]


@pytest.mark.parametrize(
    ("annotation", "default", "required"),
    [
        pytest.param(str, (), ["value"], id="no default"),
        pytest.param(str, ("",), [], id="a default"),
        pytest.param(Annotated[str, Schema(required=True)], ("",), ["value"], id="required for new objects only"),
        pytest.param(Annotated[str, Schema(required=False)], (), [], id="optional for the server only"),
    ],
)
def test_a_field_is_required_when_it_has_no_default_or_says_so(
    annotation: Any, default: tuple[Any, ...], required: list[str]
) -> None:
    struct = msgspec.defstruct("Holder", [("value", annotation, *default)])
    assert struct_schema(struct).get("required", []) == required


def test_a_field_goes_by_the_name_that_it_has_on_the_wire() -> None:
    class Wire(Struct, frozen=True, kw_only=True):
        external_ip: str = msgspec.field(default="", name="externalIP")
        pod_image: str

    schema = struct_schema(Wire)
    assert list(schema["properties"]) == ["externalIP", "podImage"]
    assert schema["required"] == ["podImage"]


def test_conditions_have_the_limits_of_kubernetes() -> None:
    schema = schema_of(Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))])
    assert schema["items"]["properties"]["status"]["enum"] == ["True", "False", "Unknown"]
    assert schema["items"]["required"] == ["type", "status", "reason", "lastTransitionTime"]


def test_every_key_stands_in_the_order_in_which_people_read() -> None:
    schema = schema_of(Annotated[str, Schema(max_length=5, min_length=1, pattern="a")] | None)
    assert list(schema) == ["type", "nullable", "pattern", "minLength", "maxLength"]


def test_a_kind_has_the_fields_of_every_object_first() -> None:
    schema = kind_schema(FlashJob)
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert schema["properties"]["metadata"] == {"type": "object"}


REFUSED = {
    "unknown type": (complex, "complex has no structural schema"),
    "union of structs": (Point | Keyed, "has no structural schema"),
    "int or list": (int | list[str], "has no structural schema"),
    "string or list of numbers": (str | list[int], "holds strings only"),
    "string or two lists": (str | list[str] | tuple[str, ...], "has no structural schema"),
    "rule on a string or list": (
        Annotated[str | list[str], Schema(rules=(Rule(rule="true", message="x"),))],
        "rules cannot be said of a string-or-list",
    ),
    "enum on a string or list": (Annotated[str, Schema(enum=("a",))] | list[str], "use a pattern"),
    "mixed literal": (Literal["a", 1], "enum value 1 is not str"),
    "null literal": (Literal[None], "an enum of NoneType has no structural schema"),
    "boolean literal": (Literal[True], "enum cannot be said of bool"),
    "enum of floats": (Annotated[float, Schema(enum=(1,))], "enum value 1 is not float"),
    "nullable enum": (Mood | None, "never takes null for an enum"),
    "tuple of fixed length": (tuple[str, int], "a list needs one item type"),
    "bare list": (list, "a list needs one item type"),
    "bare map": (dict, "the keys of a map are strings"),
    "map by number": (dict[int, str], "the keys of a map are strings"),
    "struct that holds itself": (Loop, "Loop.inner: Loop holds itself"),
    "tagged struct": (Tagged, "tagged or array-like"),
    "array-like struct": (ArrayLike, "tagged or array-like"),
    "metadata inside": (ObjectMeta, "the server prunes ObjectMeta"),
    "kind inside": (Resource, "the server prunes Resource"),
    "length of a number": (Annotated[int, Schema(min_length=1)], "min_length cannot be said of int"),
    "bounds of a string": (Annotated[str, Schema(minimum=1)], "minimum cannot be said of str"),
    "pattern of a moment": (Annotated[datetime, Schema(pattern="a")], "pattern cannot be said of datetime"),
    "items of a map": (Annotated[dict[str, str], Schema(min_items=1)], "min_items cannot be said of a map"),
    "known fields of a map": (Annotated[dict[str, str], Schema(known=Point)], "free-form objects are dict"),
    "length of a struct": (Annotated[Point, Schema(min_length=1)], "min_length cannot be said of an object"),
    "limits on anything": (Annotated[Any, Schema(min_length=1)], "min_length cannot be said of a free-form value"),
    "limits on a condition": (Annotated[Condition, Schema(map_type="atomic")], "cannot be said of a condition"),
    "embedded map of strings": (Annotated[dict[str, str], Schema(embedded_resource=True)], "dict[str, Any]"),
    "set of structs": (frozenset[Point], "items of a set"),
    "unknown key": (
        Annotated[list[Keyed], Schema(list_type="map", list_map_keys=("nope",))],
        "'nope', which its items do not have",
    ),
    "key that may be absent": (
        Annotated[list[Keyed], Schema(list_type="map", list_map_keys=("note",))],
        "must be required or have a default",
    ),
    "key that may be null": (
        Annotated[list[Keyed], Schema(list_type="map", list_map_keys=("maybe",))],
        "never null",
    ),
    "keyed list of nulls": (
        Annotated[list[Keyed | None], Schema(list_type="map", list_map_keys=("name",))],
        "cannot be null",
    ),
    "default that is not there": (Annotated[str, Schema(defaulted=True)], "needs a default"),
    "msgspec's own limits": (Annotated[str, msgspec.Meta(min_length=1)], "use Schema"),
    "rule outside of Schema": (Annotated[str, Rule(rule="true", message="x")], "put the rule into Schema"),
}


@pytest.mark.parametrize(("annotation", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_published_is_an_error(annotation: Any, message: str) -> None:
    with pytest.raises(SchemaError) as error:
        schema_of(annotation)
    assert message in str(error.value)


def test_an_error_names_the_class_and_the_field() -> None:
    with pytest.raises(SchemaError, match=r"^Holder\.value: complex has no structural schema$"):
        schema_of(dict[str, list[complex]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"min_length": 2, "max_length": 1}, "min_length 2 is above max_length 1", id="lengths"),
        pytest.param({"minimum": 2, "maximum": 1}, "minimum 2 is above maximum 1", id="bounds"),
        pytest.param({"exclusive_minimum": True}, "exclusive_minimum needs minimum", id="lower bound"),
        pytest.param({"exclusive_maximum": True}, "exclusive_maximum needs maximum", id="upper bound"),
        pytest.param({"list_type": "map"}, "go together", id="no keys"),
        pytest.param({"list_map_keys": ("a",)}, "go together", id="keys of no map"),
        pytest.param({"enum": ()}, "at least one value", id="empty enum"),
        pytest.param({"pattern": "("}, "unterminated", id="pattern"),
    ],
)
def test_a_contradiction_is_refused_where_it_is_written(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        Schema(**settings)


@pytest.mark.parametrize("settings", [{"rule": " ", "message": "x"}, {"rule": "true"}], ids=["no rule", "no message"])
def test_a_rule_says_what_it_checks_and_what_is_wrong(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="needs a"):
        Rule(**settings)  # type: ignore[arg-type]  # the table holds plain strings
