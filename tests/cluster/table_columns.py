"""Custom kinds with columns of every type and paths of every form; `test_local_tables` shows them on both servers."""

from __future__ import annotations

from typing import Any

from edgewright.runtime.objects import Kind
from tests.cluster.table_shapes import LONG_AGO, Body

GROUP = "local-tables.example.io"
PATHS: dict[str, str] = {
    "plain": ".spec.name",
    "missing": ".spec.nowhere.deeper",
    "of a string": ".spec.name.deeper",
    "null": ".spec.nothing",
    "below null": ".spec.nothing.deeper",
    "true": ".spec.yes",
    "whole": ".spec.whole",
    "half": ".spec.half",
    "tiny": ".spec.tiny",
    "huge": ".spec.huge",
    "object": ".spec.object",
    "list": ".spec.list",
    "whole spec": ".spec.object.deep",
    "first": ".spec.list[0]",
    "last": ".spec.list[-1]",
    "last but one": ".spec.list[-2]",
    "too far": ".spec.list[9]",
    "too far back": ".spec.list[-9]",
    "slice": ".spec.list[1:3]",
    "open slice": ".spec.list[1:]",
    "slice from the start": ".spec.list[:2]",
    "empty slice": ".spec.list[1:1]",
    "backward slice": ".spec.list[2:1]",
    "slice with a step": ".spec.list[1::2]",
    "slice with a bad step": ".spec.list[0:2:0]",
    "no index": ".spec.list[]",
    "every": ".spec.list[*]",
    "every field": ".spec.single.*",
    "every byte": ".spec.name.*",
    "index of an object": ".spec.object[0]",
    "index of null": ".spec.nothing[0]",
    "key": ".spec['name']",
    "key with a dot": ".spec.labels['e.x/a']",
    "key with an escaped dot": r".spec.labels['e\.x/a']",
    "escaped dots": r".spec.labels.e\.x/a",
    "dashes": ".spec.with-dash",
    "union": ".spec['nowhere','name']",
    "union of indexes": ".spec.list[2,0]",
    "union with a fault": ".spec.list[0,9]",
    "condition": '.status.conditions[?(@.type=="Ready")].status',
    "condition with spaces": '.status.conditions[?( @.type == "Ready" )].status',
    "condition in single quotes": ".status.conditions[?(@.type=='Ready')].status",
    "other condition": '.status.conditions[?(@.type!="Ready")].status',
    "no condition": '.status.conditions[?(@.type=="None")].status',
    "existing field": ".status.conditions[?(@.reason)].type",
    "existing index": ".status.conditions[?(@.type[0])].type",
    "less": ".spec.rows[?(@.n<3)].n",
    "at most": ".spec.rows[?(@.n<=2)].n",
    "more": ".spec.rows[?(@.n>1)].n",
    "at least": ".spec.rows[?(@.n>=2)].n",
    "equal": ".spec.rows[?(@.n==2)].s",
    "whole against half": ".spec.rows[?(@.n==2.0)].s",
    "text against whole": ".spec.rows[?(@.s==2)].s",
    "truth": ".spec.rows[?(@.t==true)].n",
    "ordered truth": ".spec.rows[?(@.t<true)].n",
    "fields of a row": ".spec.rows[?(@.n==@.m)].n",
    "unknown operator": ".spec.rows[?(@.n=2)].n",
    "quoted bracket": '.spec.rows[?(@.s==")]")].n',
    "escaped quote": r'.spec.rows[?(@.s=="a\"b")].n',
    "filter of an object": '.spec.object[?(@.a=="b")]',
    "filter of nothing": '.spec.nowhere[?(@.a=="b")]',
    "filter of null": '.spec.nothing[?(@.a=="b")]',
    "descent": "..onlyhere",
    "descent below": ".spec..onlyhere",
    "descent to everything": ".spec.single..",
    "descent into text": ".spec.name..",
    "root": ".",
    "dollar": ".spec$.name",
    "literal": '.spec "text"',
    "quotes in a name": '.spec"text"',
    "parentheses in a name": ".spec.(name)",
    "escapes": r'.spec "\x41\102\u0043\U00000044\t\"\\z"',
    "bytes": r'.spec "\xc3\xa9"',
    "single quotes": r".spec 'it\'s'",
    "millions": ".spec.millions",
    "negative": ".spec.negative",
    "literal number": ".spec 5",
    "literal half": ".spec 5.5",
    "literal truth": ".spec true",
    "identifier": ".spec name",
    "range": ".spec.list range",
    "brace": ".spec.name}{.spec.whole",
    "text behind": ".spec.name}text",
    "name": ".metadata.name",
    "unicode": ".spec.ünder",
}
BAD_PATHS: dict[str, str] = {
    "unclosed bracket": ".spec.list[0",
    "unclosed filter": '.spec.list[?(@.a=="b"',
    "filter without bracket": '.spec.list[?(@.a=="b")x',
    "unclosed quote": '.spec "name',
    "two descents": ".spec....name",
    "bad index": ".spec.list[a]",
    "only a minus": ".spec.list[-]",
    "comma": ".spec,name",
    "parenthesis": ".spec (name)",
    "tabulator": ".spec\t.name",
    "newline": ".spec\n.name",
    "bad number": ".spec 1.2.3",
    "huge index": ".spec.list[99999999999999999999]",
    "bad escape": r'.spec "\q"',
    "unended escape": r'.spec "a\\"b"',
    "no character": r'.spec "\ud800"',
    "escape of the other quote": r""".spec '\"'""",
    "bad second path": ".spec.name}{.spec[",
    "escaped end": ".spec.name\\",
}
TYPES = ("string", "integer", "number", "boolean", "date")
VALUES: dict[str, Any] = {
    "text": "some text",
    "empty text": "",
    "quoted null": "null",
    "a time": LONG_AGO,
    "a time in a zone": "2020-01-01T02:00:00+02:00",
    "a time with a fraction": "2020-01-01T00:00:00.123456789Z",
    "a time with a comma": "2020-01-01T00:00:00,5Z",
    "a time with a short hour": "2020-01-01T1:00:00Z",
    "a time of the future": "2999-01-01T00:00:00Z",
    "a time long ago": "1000-01-01T00:00:00Z",
    "the zero time": "0001-01-01T00:00:00Z",
    "a date": "2020-01-01",
    "a wrong date": "2020-02-30T00:00:00Z",
    "a lower-case time": "2020-01-01t00:00:00z",
    "0": 0,
    "-5": -5,
    "2 to the 53 and 1": 2**53 + 1,
    "the most": 2**63 - 1,
    "1.5": 1.5,
    "-1.5": -1.5,
    "1.0": 1.0,
    "1e20": 1e20,
    "1e21": 1e21,
    "1e-7": 1e-7,
    "123456.789e3": 123456.789e3,
    "true": True,
    "false": False,
    "null": None,
    "an object": {"b": 1, "a": {"<": "&>", "é": "\x01\n"}, "c": [1.0, 1.5, 1e21, 1e-7, None, True]},
    "an empty object": {},
    "a list": ["a", 1],
    "an empty list": [],
}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SUBJECTS: dict[str, Body] = {
    "full": {
        "spec": {
            "name": "thing",
            "nothing": None,
            "yes": True,
            "whole": 7,
            "half": 7.5,
            "tiny": 1e-7,
            "millions": 1234567.5,
            "negative": -12345678.25,
            "huge": 1e21,
            "object": {"b": "<", "a": [1, {"c": None}], "deep": {"x": 1.0}},
            "list": ["l0", "l1", "l2", "l3"],
            "single": {"only": {"onlyhere": "found"}},
            "labels": {"e.x/a": "dotted", "e": {"x/a": "nested"}},
            "with-dash": "dashed",
            "rows": [
                {"n": 1, "m": 2, "s": "one", "t": True},
                {"n": 2, "m": 2, "s": 'a"b', "t": False},
                {"n": 3, "m": 2, "s": ")]"},
            ],
            "ünder": "unicode",
        },
        "status": {
            "conditions": [{"type": "Other", "status": "No"}, {"type": "Ready", "status": "Yes", "reason": "r"}]
        },
    },
    "bare": {},
    "wrong": {
        "spec": {"name": 5, "list": "text", "rows": {"n": 1}, "object": [1, 2]},
        "status": {"conditions": "none"},
    },
}


def definition(name: str, columns: list[Body] | None, **more: Any) -> Body:
    """A CustomResourceDefinition whose objects may hold anything."""
    version: Body = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": OPEN}, **more}
    if columns is not None:
        version["additionalPrinterColumns"] = columns
    return {
        "metadata": {"name": f"{name}s.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": f"{name}s", "singular": name, "kind": name.capitalize()},
            "versions": [version],
        },
    }


def kind_of(body: Body) -> Kind:
    names = body["spec"]["names"]
    return Kind(group=GROUP, version="v1", kind=names["kind"], plural=names["plural"])


PATH_COLUMNS = [{"name": name, "type": "string", "jsonPath": path} for name, path in PATHS.items()]
TYPE_COLUMNS = [
    {"name": each, "type": each, "jsonPath": ".spec.value", "priority": at} for at, each in enumerate(TYPES)
]
PATHED = definition("pathed", PATH_COLUMNS)
TYPED = definition(
    "typed",
    [*TYPE_COLUMNS, {"name": "f", "type": "integer", "format": "int32", "jsonPath": ".x", "description": "Own."}],
)
PLAIN_KIND = definition(
    "plain",
    None,
    subresources={"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
)
BROKEN = {
    name: definition(
        f"broken{at}",
        [
            {"name": "before", "type": "string", "jsonPath": ".spec.name"},
            {"name": "bad", "type": "string", "jsonPath": path},
            {"name": "after", "type": "string", "jsonPath": ".spec.name"},
        ],
    )
    for at, (name, path) in enumerate(BAD_PATHS.items())
}
