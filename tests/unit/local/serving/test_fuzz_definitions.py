"""Whatever a CustomResourceDefinition says, it is refused or its kind can be used, and none of it is slow."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.local.serving import malformed
from tests.unit.local.serving.fuzzing import DEFINITIONS, Fuzzed, fuzzed

GROUP = "wild.example.com"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    yield from fuzzed(tmp_path_factory.mktemp("definitions"))


RULES = (
    "self.size > 0",
    "self == oldSelf",
    "has(self.name) && self.name.matches('(a+)+$')",
    "self.items.all(x, self.items.all(y, self.items.all(z, x == y || z == x)))",
    "self.items.exists(",
    "1/0 == 1",
    "self.nothing",
    "[1, 2, 3][self.size] == 1",
    "'a' * 5",
    "duration(self.name) > duration('1h')",
    "timestamp(self.name) > timestamp('x')",
    "quantity(self.name).isGreaterThan(quantity('1'))",
    "self.name.split('').size() < 10",
    "url(self.name).getHost() == ''",
    "cidr(self.name).containsIP('1.2.3.4')",
    "ip(self.name).family() == 4",
    "self.name.find('[') == ''",
    "self.name.format(['%s'])",
    "'%d'.format([self.name]) == ''",
    "self.name.replace('a', 'aaaaaaaaaa').replace('a', 'aaaaaaaaaa') == ''",
    "optional.none().hasValue()",
    "self.?name.orValue('') == ''",
    "type(self) == int",
    "self.metadata.name == 'x'",
    "\u0000",
    "",
    " ",
    "(" * 300 + "1" + ")" * 300 + " == 1",
    "!" * 2000 + "true",
    " || ".join(["self.size == 1"] * 500),
    "cel.bind(x, self, x.size == 1)",
    "self.transformMap(k, v, v).size() == 0",
    "9223372036854775807 + self.size > 0",
    "string(bytes(self.name)) == self.name",
    "self.name < 5",
    "dyn(self.name) < 5",
    "math.greatest(self.size, 'a') == 1",
    "sets.contains(self.items, ['a'])",
    "isSorted(self.items) && self.items.sum() == 1",
    "semver(self.name).major() == 1",
    "format.dns1123Label().validate(self.name).hasValue()",
)
PATTERNS = (
    "(a+)+$",
    "^(a|a)*$",
    "(a|aa)+$",
    "[",
    "(?P<x>a)",
    "\\1",
    "(?=a)",
    "a{1000}{1000}",
    "\\p{Greek}",
    "(?i)A$",
    "x" * 5000,
    "",
)
PATHS = (
    ".spec.size",
    ".spec.items[*]",
    ".spec.items[0]",
    ".spec.items[?(@.a=='b')].c",
    ".",
    "",
    "spec",
    ".spec..size",
    ".spec[",
    ".spec.items[-1:]",
    ".spec.items[0:9999999999999999999]",
    "..",
    ".spec['size']",
    ".metadata.labels['a\\.b']",
    "{.spec}",
    ".spec.items[?(@.a",
    ".spec." + "a." * 500 + "b",
    ".metadata.creationTimestamp",
    ".status.x",
)
rules = st.fixed_dictionaries(
    {"rule": st.one_of(st.sampled_from(RULES), st.text(max_size=15))},
    optional={
        "message": st.sampled_from(malformed.WORDS),
        "messageExpression": st.one_of(st.sampled_from(RULES), st.just("'x' + self.name")),
        "reason": st.sampled_from(["FieldValueInvalid", "FieldValueRequired", "x", ""]),
        "fieldPath": st.sampled_from([".size", ".name", ".items[0]", "size", "", ".nothing", "[", ".x[']"]),
        "optionalOldSelf": st.booleans(),
    },
)
columns = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["A", "", "a b", "Age"]),
        "type": st.sampled_from(["string", "integer", "number", "boolean", "date", "x", ""]),
        "jsonPath": st.sampled_from(PATHS),
    },
    optional={
        "format": st.sampled_from(["int32", "date", "password", "x"]),
        "priority": st.sampled_from([0, 1, -1, 2**31 - 1]),
        "description": st.text(max_size=5),
    },
)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 0) -> dict[str, Any]:
    """A schema that is nearly one."""
    kind = draw(
        st.sampled_from(["object", "object", "array", "string", "integer", "number", "boolean", "", "null", "x"])
    )
    schema: dict[str, Any] = {"type": kind}
    if depth < 2 and kind == "object":
        names = draw(
            st.sets(st.sampled_from(["size", "name", "items", "a.b", "", "x-y", "metadata", "_", "if"]), max_size=3)
        )
        schema["properties"] = {name: draw(schemas(depth + 1)) for name in sorted(names)}
    if depth < 2 and kind == "array":
        schema["items"] = draw(st.one_of(schemas(depth + 1), malformed.junk))
    for name, values in draw(
        st.lists(st.sampled_from(sorted(_KEYWORDS.items(), key=lambda each: each[0])), max_size=3)
    ):
        schema[name] = draw(values)
    return schema


_KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "x-kubernetes-validations": st.lists(rules, max_size=2),
    "pattern": st.sampled_from(PATTERNS),
    "default": malformed.junk,
    "enum": st.lists(malformed.junk, max_size=3),
    "format": st.sampled_from(
        [
            "int32",
            "int64",
            "date-time",
            "date",
            "byte",
            "ipv4",
            "uuid",
            "x",
            "duration",
            "uri",
            "email",
            "hostname",
            "isbn",
            "creditcard",
            "hexcolor",
            "rgbcolor",
            "mac",
            "cidr",
            "float",
            "double",
        ]
    ),
    "nullable": st.booleans(),
    "minimum": st.sampled_from([0, -1, 1.5, 1e300]),
    "maximum": st.sampled_from([0, -1, 1.5, 1e300]),
    "multipleOf": st.sampled_from([0, -1, 0.1, 1e-300, 3]),
    "exclusiveMinimum": st.booleans(),
    "minLength": st.sampled_from([0, -1, 2**62]),
    "maxLength": st.sampled_from([0, -1, 2**62]),
    "maxItems": st.sampled_from([0, -1, 3]),
    "uniqueItems": st.booleans(),
    "maxProperties": st.sampled_from([0, -1, 3]),
    "required": st.lists(st.sampled_from(["size", "", "a"]), max_size=2),
    "additionalProperties": st.one_of(st.booleans(), st.just({"type": "string"}), malformed.junk),
    "x-kubernetes-preserve-unknown-fields": st.booleans(),
    "x-kubernetes-int-or-string": st.booleans(),
    "x-kubernetes-embedded-resource": st.booleans(),
    "x-kubernetes-list-type": st.sampled_from(["map", "set", "atomic", "x"]),
    "x-kubernetes-list-map-keys": st.lists(st.sampled_from(["size", "name", ""]), max_size=2),
    "x-kubernetes-map-type": st.sampled_from(["atomic", "granular", "x"]),
    "anyOf": st.lists(st.just({"type": "integer"}) | malformed.junk, max_size=2),
    "allOf": st.lists(st.just({"required": ["x"]}), max_size=2),
    "not": st.just({"type": "string"}) | malformed.junk,
    "$ref": st.just("#/definitions/x"),
    "oneOf": st.lists(st.just({"minimum": 1}), max_size=2),
    "title": st.text(max_size=5),
}


def definition(name: str, spec: dict[str, Any], *, version: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": f"{name}s", "kind": name.capitalize()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                    **(version or {}),
                }
            ],
        },
    }


objects = st.one_of(
    malformed.junk,
    st.fixed_dictionaries(
        {},
        optional={
            "size": st.sampled_from([0, 1, -1, 2**63 - 1, 1.5]) | malformed.junk,
            "name": st.sampled_from(
                [
                    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!",
                    "x",
                    "",
                    "10.0.0.0/8",
                    "1h",
                    "1.2.3",
                    "9" * 5000,
                    "1" * 5000 + "h",
                ]
            ),
            "items": st.lists(malformed.junk, max_size=4),
            "a.b": malformed.junk,
            "metadata": malformed.junk,
        },
    ),
)


@given(schemas(), st.lists(columns, max_size=2), st.lists(objects, min_size=2, max_size=4))
def test_no_definition_is_answered_with_a_fault_of_the_server_nor_are_its_objects(
    server: Fuzzed, spec: dict[str, Any], printed: list[Any], wanted: list[Any]
) -> None:
    name = f"wild{next(_numbers)}"
    crd = definition(name, spec, version={"additionalPrinterColumns": printed, "subresources": {"status": {}}})
    if server.ask("POST", DEFINITIONS, crd).code != 201:
        return
    if server.settled(f"{name}s.{GROUP}"):
        path = f"/apis/{GROUP}/v1/namespaces/default/{name}s"
        for number, each in enumerate(wanted):
            obj = {
                "apiVersion": f"{GROUP}/v1",
                "kind": name.capitalize(),
                "metadata": {"name": f"o{number}"},
                "spec": each,
            }
            if server.ask("POST", path, obj).code == 201:
                server.readable(path, f"o{number}")
                server.ask(
                    "PATCH", f"{path}/o{number}?fieldManager=x&force=true", obj, media="application/apply-patch+yaml"
                )
                server.ask("PATCH", f"{path}/o0", {"spec": each}, media="application/merge-patch+json")
        assert server.ask("GET", f"/openapi/v3/apis/{GROUP}/v1").code == 200
    server.gone(f"{name}s.{GROUP}")


@given(st.data())
def test_no_part_of_a_definition_is_answered_with_a_fault_of_the_server(server: Fuzzed, data: st.DataObject) -> None:
    crd = definition(f"part{next(_numbers)}", {"type": "object", "properties": {"size": {"type": "integer"}}})
    crd["spec"]["versions"][0] |= {
        "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
        "selectableFields": [{"jsonPath": ".spec.size"}],
        "additionalPrinterColumns": [{"name": "A", "type": "integer", "jsonPath": ".spec.size"}],
    }
    place = data.draw(st.sampled_from([each for each in malformed.places(crd) if each[0] == "spec"]), label="place")
    crd = malformed.put(
        crd, place, data.draw(st.one_of(malformed.junk, st.sampled_from(malformed.WORDS)), label="value")
    )
    if server.ask("POST", DEFINITIONS, crd).code == 201:
        server.settled(crd["metadata"]["name"])
        assert server.ask("GET", "/apis").code == 200
        assert server.ask("GET", "/openapi/v2").code == 200
        server.gone(crd["metadata"]["name"])


EVIL = "a" * 40 + "!"


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        pytest.param({"type": "string", "pattern": "^(a+)+$"}, EVIL, id="repeated repetition"),
        pytest.param({"type": "string", "pattern": "^(a|aa)+$"}, EVIL, id="alternatives that overlap"),
        pytest.param({"type": "string", "pattern": "^(a|a?)+$"}, EVIL, id="an empty alternative"),
        pytest.param({"type": "string", "pattern": "^([a-zA-Z]+)*$"}, EVIL, id="a class, repeated"),
        pytest.param({"type": "string", "pattern": "a*a*a*a*a*a*a*a*a*a*b"}, "a" * 400, id="many stars"),
        pytest.param({"type": "string", "pattern": "^(?:.*a){12}$"}, "a" * 60 + "!", id="a counted group"),
        pytest.param({"type": "string", "pattern": "(x+x+)+y"}, "x" * 400, id="two pluses"),
        pytest.param(
            {"type": "string", "pattern": "(.*)(.*)(.*)(.*)(.*)(.*)(.*)[^ -~]"}, "x" * 400, id="groups of all"
        ),
        pytest.param(
            {"type": "string", "x-kubernetes-validations": [{"rule": "self.matches('^(a+)+$')"}]}, EVIL, id="in a rule"
        ),
        pytest.param(
            {"type": "string", "x-kubernetes-validations": [{"rule": "self.find('^(a+)+$') != ''"}]},
            EVIL,
            id="found by a rule",
        ),
        pytest.param(
            {
                "type": "array",
                "items": {"type": "integer"},
                "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, self.all(c, a + b + c > 0)))"}],
            },
            list(range(1, 400)),
            id="loops in loops",
        ),
        pytest.param(
            {
                "type": "array",
                "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "uniqueItems": False,
                "x-kubernetes-list-type": "atomic",
            },
            [{"a": n} for n in range(10_000)],
            id="a long list",
        ),
    ],
)
def test_what_a_definition_asks_for_never_takes_long(server: Fuzzed, spec: dict[str, Any], value: Any) -> None:
    name = f"slow{next(_numbers)}"
    began = time.process_time()
    if server.ask("POST", DEFINITIONS, definition(name, spec)).code == 201:
        assert server.settled(f"{name}s.{GROUP}")
        path = f"/apis/{GROUP}/v1/namespaces/default/{name}s"
        obj = {"apiVersion": f"{GROUP}/v1", "kind": name.capitalize(), "metadata": {"name": "o"}, "spec": value}
        server.ask("POST", path, obj)
        server.gone(f"{name}s.{GROUP}")
    assert time.process_time() - began < 10
